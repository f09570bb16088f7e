#version 460
// Causal attention over pages of 64 keys (cpu/kernels/attention.h): online softmax over the pages in ascending order,
// segments of 1,024 positions merged in ascending order. A workgroup has up to kRows queries of one key-value head and
// sequence; an invocation a key of a page, and then elements of the outputs.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "rows.glsl"
#include "weights.glsl"
#include "pages.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 1) const int kHeads = 1;
layout(constant_id = 2) const int kKvHeads = 1;
layout(constant_id = 3) const int kHeadDim = 64;
layout(constant_id = 4) const int kRows = 1;

// Tokens [row, row + tokens) of a sequence, at `position` and on, with heads [head, head + heads) of each group.
struct Tile {
  int row, tokens, position, head, heads, table;
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Tiles { Tile at[]; };

layout(push_constant) uniform Parameters {
  Elements queries;  // [rows][kHeads][kHeadDim]
  Granules pages;
  Ints tables;  // block tables
  Tiles tiles;
  Elements attention;  // [rows][ld]
  Floats lse;          // [rows][kHeads], or null
  int ld, window;
  float scale, cap, scale_by_cap;  // cap 0: none
};

const int kSegmentBlocks = 16, kGroup = kHeads / kKvHeads, kParts = (kHeadDim + 63) / 64;
const int kHeadGranules = (kHeadDim + kGranule - 1) / kGranule;

shared float qs[kRows][kHeadGranules * kGranule];
shared float ps[kRows][kPage];  // scores' maxima on the way, then probabilities
shared float shrink[kRows];
shared float maximum[kRows], sums[kRows][kLanes];              // of the segment
shared float total_maximum[kRows], total_sums[kRows][kLanes];  // of the segments before it

float outs[kRows][kParts], total_outs[kRows][kParts];

// A segment onto those before it; the first is what they are.
void merge_segment(bool first) {
  const int me = int(gl_LocalInvocationID.x);
  LOOP for (int r = 0; r < kRows; r++) {
    const float before = total_maximum[r], other = maximum[r];
    if (!first && other == kLowest) continue;  // the row sees nothing of it
    const float now = other > before ? other : before;
    const float a = exponential(before - now), b = exponential(other - now);
    if (me < kLanes) total_sums[r][me] = first ? sums[r][me] : mad(sums[r][me], b, total_sums[r][me] * a);
    LOOP for (int p = 0; p < kParts; p++)
      total_outs[r][p] = first ? outs[r][p] : mad(outs[r][p], b, total_outs[r][p] * a);
  }
  barrier();
  for (int r = me; r < kRows; r += 64)
    if (first || maximum[r] > total_maximum[r]) total_maximum[r] = maximum[r];
  barrier();
}

void main() {
  const int me = int(gl_LocalInvocationID.x), head = int(gl_WorkGroupID.y);
  const Tile tile = tiles.at[gl_WorkGroupID.x];
  const int count = tile.tokens * tile.heads;
  const float factor = cap > 0.0 ? 1.0 : scale;
  for (int at = me; at < kRows * kHeadGranules * kGranule; at += 64) {
    const int r = at / (kHeadGranules * kGranule), i = at % (kHeadGranules * kGranule);
    const int row = tile.row + r / tile.heads, q_head = head * kGroup + tile.head + r % tile.heads;
    qs[r][i] = r < count && i < kHeadDim ? element(queries, (row * kHeads + q_head) * kHeadDim + i) : 0.0;
  }
  const int last = tile.position + tile.tokens - 1;
  const int first_block = window > 0 ? max(0, tile.position - window + 1) / kPage : 0;
  for (int block = first_block; block <= last / kPage; block++) {
    const bool fresh = block == first_block || block % kSegmentBlocks == 0;
    if (fresh) {
      for (int r = me; r < kRows; r += 64) maximum[r] = kLowest;
      for (int i = me; i < kRows * kLanes; i += 64) sums[i / kLanes][i % kLanes] = 0.0;
      barrier();
    }
    const int at = (tables.at[tile.table + block] * kKvHeads + head) * page_granules(kHeadDim);
    // Scores: this invocation's key with every query.
    float score[kRows];
    LOOP for (int r = 0; r < kRows; r++) score[r] = 0.0;
    LOOP for (int g = 0; g < kHeadGranules; g++) {
      const uvec4 key = key_granule(pages, at, kHeadDim, g, me);
      for (int step = 0; step < kGranule; step += kStep)
        for (int i = step + kStep - 1; i >= step; i--)
          if (g * kGranule + i < kHeadDim)
            LOOP for (int r = 0; r < kRows; r++) score[r] = mad(qs[r][g * kGranule + i], part(key, i), score[r]);
    }
    const float by_key = key_scale(pages, at, kHeadDim, me), by_value = value_scale(pages, at, kHeadDim, me);
    LOOP for (int r = 0; r < kRows; r++) {
      if (kCoded != 0) score[r] = score[r] * by_key;
      if (cap > 0.0) score[r] = tangent(score[r] * scale_by_cap) * cap;
      const int position = tile.position + r / tile.heads, key = block * kPage + me;
      ps[r][me] = key <= position && (window == 0 || key > position - window) ? score[r] : kLowest;
    }
    barrier();
    for (int r = me; r < kRows; r += 64) {
      float largest = ps[r][0];
      for (int i = 1; i < kPage; i++) largest = largest > ps[r][i] ? largest : ps[r][i];
      const int position = tile.position + r / tile.heads;
      const bool any = block * kPage <= position && (window == 0 || block * kPage + kPage - 1 > position - window);
      const float high = any ? largest * factor : kLowest, before = maximum[r];
      const float now = before > high ? before : high;
      shrink[r] = exponential(before - now);
      maximum[r] = now;
    }
    barrier();
    LOOP for (int r = 0; r < kRows; r++) {
      const int position = tile.position + r / tile.heads, key = block * kPage + me;
      const bool seen = key <= position && (window == 0 || key > position - window);
      ps[r][me] = seen ? exponential(mad(score[r], factor, -maximum[r])) : 0.0;
    }
    barrier();
    for (int at = me; at < kRows * kLanes; at += 64) {
      const int r = at / kLanes, lane = at % kLanes;
      sums[r][lane] = mad(sums[r][lane], shrink[r],
                                 (ps[r][lane] + ps[r][lane + 16]) + (ps[r][lane + 32] + ps[r][lane + 48]));
    }
    barrier();
    LOOP for (int r = 0; r < kRows; r++) {
      const int position = tile.position + r / tile.heads, key = block * kPage + me;
      // Of a slot that no token has written the scale may be anything.
      const bool seen = key <= position && (window == 0 || key > position - window);
      ps[r][me] = rounded(kCoded != 0 && seen ? ps[r][me] * by_value : ps[r][me]);
    }
    barrier();
    // Outputs: this invocation's elements of every query. Slots that no token has written are not read.
    const int written = min(kPage, last + 1 - block * kPage);
    LOOP for (int p = 0; p < kParts; p++) {
      const int d = p * 64 + me;
      if (d >= kHeadDim) continue;
      LOOP for (int r = 0; r < kRows; r++) outs[r][p] = fresh ? 0.0 : outs[r][p] * shrink[r];
      LOOP for (int g = 0; g * kGranule < written; g++) {
        const uvec4 value = value_granule(pages, at, kHeadDim, g, d);
        for (int step = 0; step < kGranule; step += kStep)
          for (int i = step + kStep - 1; i >= step; i--)
            if (g * kGranule + i < written)
              LOOP for (int r = 0; r < kRows; r++)
                outs[r][p] = mad(ps[r][g * kGranule + i], part(value, i), outs[r][p]);
      }
    }
    barrier();
    if (block == last / kPage || (block + 1) % kSegmentBlocks == 0)
      merge_segment(block / kSegmentBlocks == first_block / kSegmentBlocks);
  }

  LOOP for (int r = 0; r < kRows; r++) {
    if (r >= count) break;
    if (me < kLanes) lane_sums[me] = total_sums[r][me];
    barrier();
    const float sum = sum_of_lanes(), inverse = quotient(1.0, sum);
    const int row = tile.row + r / tile.heads, q_head = head * kGroup + tile.head + r % tile.heads;
    LOOP for (int p = 0; p < kParts; p++)
      if (p * 64 + me < kHeadDim)
        put(attention, row * ld + q_head * kHeadDim + p * 64 + me, mad(total_outs[r][p], inverse, 0.0));
    if (me == 0 && present(uvec2(lse))) lse.at[row * kHeads + q_head] = total_maximum[r] + logarithm(sum);
    barrier();
  }
}
