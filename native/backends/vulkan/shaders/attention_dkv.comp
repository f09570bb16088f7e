#version 460
// Gradients of a page's keys and values: a workgroup has a page and a key-value head, and visits the queries that see it in
// order, `per_tile` tokens of a sequence at a time; an invocation a key and a fourth of the elements. Of all rows of queries
// those [rows_from, rows_to) are visited, counted in that order, and what they give is added to what those before have given.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "pages.glsl"
#include "attention_backward.glsl"

layout(local_size_x = 256) in;

// A sequence, from row `first` on, that sees a page as its block: tokens from `row`, which stands at `position`, up to
// before `end`.
struct Use {
  int first, row, position, end, block;
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Uses { Use at[]; };

layout(push_constant) uniform Parameters {
  Elements queries;  // [rows][kHeads][kHeadDim]
  Granules pages;
  Ints first_use;  // [pages + 1]
  Uses uses;
  Floats d_attention, lse, delta;
  Floats d_keys, d_values;  // [pages][kKvHeads][kPage][kHeadDim]
  Sight sight;
  int per_tile, rows_from, rows_to;
};

const int kPer = (kHeadDim + 3) / 4;
shared float qs[kRows][kHeadDim], douts[kRows][kHeadDim];
shared float ps[kRows][kPage], ds[kRows][kPage];

void main() {
  const int me = int(gl_LocalInvocationID.x), key = me % kPage, quarter = me / kPage;
  const int number = int(gl_WorkGroupID.x), head = int(gl_WorkGroupID.y);
  Granules page = page_of(pages, number, kKvHeads, kHeadDim);
  const int at = head * page_granules(kHeadDim);
  float dk[kPer], dv[kPer];
  Floats to_keys = gradients_of(d_keys, number, kKvHeads, kHeadDim), to_values = gradients_of(d_values, number, kKvHeads, kHeadDim);
  const int first_out = (head * kPage + key) * kHeadDim + quarter * kPer;
  LOOP for (int i = 0; i < kPer; i++) {
    const bool goes_on = rows_from > 0 && quarter * kPer + i < kHeadDim;
    dk[i] = goes_on ? to_keys.at[first_out + i] : 0.0;
    dv[i] = goes_on ? to_values.at[first_out + i] : 0.0;
  }
  int visited = 0;
  for (int u = first_use.at[number]; u < first_use.at[number + 1]; u++) {
    const Use use = uses.at[u];
    for (int token0 = use.row, next; token0 < use.end; token0 = next) {
      next = min(use.end, use.first + ((token0 - use.first) / per_tile + 1) * per_tile);
      const int rows = (next - token0) * kGroup;
      for (int row0 = 0; row0 < rows; row0 += kRows) {
        const int count = min(kRows, rows - row0), before = visited;
        visited += count;
        if (before < rows_from || before >= rows_to) continue;
        for (int j = me; j < count * kHeadDim; j += 256) {
          const int r = j / kHeadDim, i = j % kHeadDim, row = row0 + r;
          const int from = ((token0 + row / kGroup) * kHeads + head * kGroup + row % kGroup) * kHeadDim + i;
          qs[r][i] = element(queries, from);
          douts[r][i] = rounded(d_attention.at[from]);
        }
        barrier();
        LOOP for (int r = quarter; r < count; r += 4) {
          const int row = row0 + r, token = token0 + row / kGroup;
          float p = 0.0, gradient = 0.0;
          if (seen(sight, use.block * kPage + key, use.position + token - use.row)) {
            float score = 0.0, dp = 0.0;
            LOOP for (int step = 0; step < kHeadDim; step += kStep)
              LOOP for (int i = min(step + kStep, kHeadDim) - 1; i >= step; i--) {
                score = mad(qs[r][i], key_of(page, at, key, i), score);
                dp = mad(douts[r][i], value_of(page, at, key, i), dp);
              }
            if (kCoded != 0)
              score = score * key_scale(page, at, kHeadDim, key), dp = dp * value_scale(page, at, kHeadDim, key);
            const int from = token * kHeads + head * kGroup + row % kGroup;
            gradients(sight, score, dp, lse.at[from], delta.at[from], p, gradient);
          }
          ps[r][key] = rounded(p);
          ds[r][key] = rounded(gradient);
        }
        barrier();
        LOOP for (int i = 0; i < kPer; i++) {
          const int d = quarter * kPer + i;
          if (d >= kHeadDim) break;
          LOOP for (int step = 0; step < count; step += kStep)
            LOOP for (int r = min(step + kStep, count) - 1; r >= step; r--) {
              dv[i] = mad(ps[r][key], douts[r][d], dv[i]);
              dk[i] = mad(ds[r][key], qs[r][d], dk[i]);
            }
        }
        barrier();
      }
    }
  }
  LOOP for (int i = 0; i < kPer; i++) {
    if (quarter * kPer + i >= kHeadDim) break;
    to_keys.at[first_out + i] = flushed(dk[i]);
    to_values.at[first_out + i] = flushed(dv[i]);
  }
}
