#version 460
// Causal attention over pages of 64 keys (cpu/kernels/attention.h): online softmax over the pages in ascending order,
// segments of 1,024 positions merged in ascending order. A workgroup has up to kRows queries of one key-value head and
// sequence, and of these the pages of one segment where there would be few workgroups; an invocation a key of a page, and
// then elements of the outputs.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "rows.glsl"
#include "weights.glsl"
#include "pages.glsl"

#include "segments.glsl"

layout(push_constant) uniform Parameters {
  Elements queries;  // [rows][kHeads][kHeadDim]
  Granules pages;
  Ints tables;  // block tables
  Tiles tiles;
  Elements attention;  // [rows][ld]
  Floats lse;          // [rows][kHeads], or null
  int ld, window;
  float scale, cap, scale_by_cap;  // cap 0: none
  int padding;
  Floats waiting;  // segments, of which a workgroup has one; null: it has all
};

shared float qs[kRows][kHeadGranules * kGranule];
shared float ps[kRows][kPage];  // scores' maxima on the way, then probabilities
shared float shrink[kRows];
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
  const bool split = present(uvec2(waiting));
  const int segment = int(gl_WorkGroupID.z);
  const int from = split ? max(first_block, segment * kSegmentBlocks) : first_block;
  const int to_block = split ? min(last / kPage, segment * kSegmentBlocks + kSegmentBlocks - 1) : last / kPage;
  if (from > to_block) return;
  for (int block = from; block <= to_block; block++) {
    const bool fresh = block == from || block % kSegmentBlocks == 0;
    if (fresh) {
      for (int r = me; r < kRows; r += 64) maximum[r] = kLowest;
      for (int i = me; i < kRows * kLanes; i += 64) sums[i / kLanes][i % kLanes] = 0.0;
      barrier();
    }
    Granules page = page_of(pages, tables.at[tile.table + block], kKvHeads, kHeadDim);
    const int at = head * page_granules(kHeadDim);
    // Scores: this invocation's key with every query.
    float score[kRows];
    LOOP for (int r = 0; r < kRows; r++) score[r] = 0.0;
    LOOP for (int g = 0; g < kHeadGranules; g++) {
      const uvec4 key = key_granule(page, at, kHeadDim, g, me);
      for (int step = 0; step < kGranule; step += kStep)
        for (int i = step + kStep - 1; i >= step; i--)
          if (g * kGranule + i < kHeadDim)
            LOOP for (int r = 0; r < kRows; r++) score[r] = mad(qs[r][g * kGranule + i], part(key, i), score[r]);
    }
    const float by_key = key_scale(page, at, kHeadDim, me), by_value = value_scale(page, at, kHeadDim, me);
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
        const uvec4 value = value_granule(page, at, kHeadDim, g, d);
        for (int step = 0; step < kGranule; step += kStep)
          for (int i = step + kStep - 1; i >= step; i--)
            if (g * kGranule + i < written)
              LOOP for (int r = 0; r < kRows; r++)
                outs[r][p] = mad(ps[r][g * kGranule + i], part(value, i), outs[r][p]);
      }
    }
    barrier();
    if (!split && (block == last / kPage || (block + 1) % kSegmentBlocks == 0))
      merge_segment(block / kSegmentBlocks == first_block / kSegmentBlocks);
  }

  if (split) {
    const int to = segment_at(int(gl_WorkGroupID.x), head, segment, int(gl_NumWorkGroups.z));
    LOOP for (int r = 0; r < kRows; r++) {
      const int at = to + r * kSegmentFloats;
      if (me == 0) waiting.at[at] = maximum[r];
      if (me < kLanes) waiting.at[at + 1 + me] = sums[r][me];
      LOOP for (int p = 0; p < kParts; p++)
        if (p * 64 + me < kHeadDim) waiting.at[at + 1 + kLanes + p * 64 + me] = outs[r][p];
    }
  } else {
    finish(tile, head, count, attention, ld, lse);
  }
}
