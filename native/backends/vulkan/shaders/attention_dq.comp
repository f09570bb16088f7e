#version 460
// Gradients of turned queries: a workgroup has up to kRows queries of one key-value head and visits the pages in order.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "pages.glsl"
#include "attention_backward.glsl"

layout(local_size_x = 64) in;

struct Tile {
  int row, tokens, position, head, heads, table;
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Tiles { Tile at[]; };

layout(push_constant) uniform Parameters {
  Elements queries;  // [rows][kHeads][kHeadDim]
  Granules pages;
  Ints tables;
  Tiles tiles;
  Floats d_attention, lse, delta;  // [rows][kHeads][kHeadDim], [rows][kHeads]
  Floats d_queries;                // [rows][kHeads][kHeadDim]
  Sight sight;
};

const int kParts = (kHeadDim + 63) / 64;
shared float qs[kRows][kHeadDim], ds[kRows][kPage];
shared float douts[kRows][kHeadDim];

void main() {
  const int me = int(gl_LocalInvocationID.x), head = int(gl_WorkGroupID.y);
  const Tile tile = tiles.at[gl_WorkGroupID.x];
  const int count = tile.tokens * tile.heads;
  for (int at = me; at < kRows * kHeadDim; at += 64) {
    const int r = at / kHeadDim, i = at % kHeadDim, row = tile.row + r / tile.heads;
    const int from = (row * kHeads + head * kGroup + tile.head + r % tile.heads) * kHeadDim + i;
    qs[r][i] = r < count ? element(queries, from) : 0.0;
    douts[r][i] = r < count ? rounded(d_attention.at[from]) : 0.0;
  }
  barrier();
  float sums[kRows][kParts];
  LOOP for (int r = 0; r < kRows; r++)
    LOOP for (int p = 0; p < kParts; p++) sums[r][p] = 0.0;
  const int last = tile.position + tile.tokens - 1;
  const int first_block = sight.window > 0 ? max(0, tile.position - sight.window + 1) / kPage : 0;
  for (int block = first_block; block <= last / kPage; block++) {
    Granules page = page_of(pages, tables.at[tile.table + block], kKvHeads, kHeadDim);
    const int at = head * page_granules(kHeadDim);
    LOOP for (int r = 0; r < kRows; r++) {
      const int position = tile.position + r / tile.heads, key = block * kPage + me;
      float gradient = 0.0;
      if (r < count && seen(sight, key, position)) {
        float score = 0.0, dp = 0.0, p;
        LOOP for (int step = 0; step < kHeadDim; step += kStep)
          LOOP for (int i = min(step + kStep, kHeadDim) - 1; i >= step; i--) {
            score = mad(qs[r][i], key_of(page, at, me, i), score);
            dp = mad(douts[r][i], value_of(page, at, me, i), dp);
          }
        if (kCoded != 0)
          score = score * key_scale(page, at, kHeadDim, me), dp = dp * value_scale(page, at, kHeadDim, me);
        const int from = (tile.row + r / tile.heads) * kHeads + head * kGroup + tile.head + r % tile.heads;
        gradients(sight, score, dp, lse.at[from], delta.at[from], p, gradient);
        if (kCoded != 0) gradient = gradient * key_scale(page, at, kHeadDim, me);
      }
      ds[r][me] = rounded(gradient);
    }
    barrier();
    LOOP for (int p = 0; p < kParts; p++) {
      const int d = p * 64 + me;
      if (d >= kHeadDim) continue;
      LOOP for (int r = 0; r < kRows; r++)
        LOOP for (int step = 0; step < kPage; step += kStep)
          LOOP for (int i = step + kStep - 1; i >= step; i--)
            sums[r][p] = mad(ds[r][i], key_of(page, at, i, d), sums[r][p]);
    }
    barrier();
  }
  LOOP for (int r = 0; r < kRows; r++) {
    if (r >= count) break;
    const int row = tile.row + r / tile.heads;
    LOOP for (int p = 0; p < kParts; p++)
      if (p * 64 + me < kHeadDim)
        d_queries.at[(row * kHeads + head * kGroup + tile.head + r % tile.heads) * kHeadDim + p * 64 + me] = flushed(sums[r][p]);
  }
}
