#version 460
// Causal attention over pages of 64 keys (cpu/kernels/attention.h): online softmax over the pages in ascending order,
// segments of 1,024 positions merged in ascending order. A workgroup has up to kRows queries of one key-value head and
// sequence, and of these the pages of one segment where there would be few workgroups. It takes some pages at once: an
// invocation has two keys with up to 8 queries, and then elements of the outputs of up to 8. What it reads of pages it
// asks for a batch ahead, the first values before the softmax, and the next keys before the last values are used.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "pages.glsl"
#include "segments.glsl"

const int kInvocations = 128;
layout(local_size_x = 128) in;

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

const bool kMany = kRows > 8;                    // many queries share what is read; few wait for it
const int kVectors = kGranule / 4;               // of 4 elements in a granule
const int kAtOnce = kMany ? 32 / kRows : 4;      // pages
const int kKeys = kAtOnce * kPage, kKeyVectors = kKeys / 4, kPageVectors = kPage / 4;
const int kQuarters = 4;                         // of a page, each with a maximum

// Scores: an invocation's queries, and its keys, which are kKeyLanes apart.
const int kKeyGroups = kMany ? kRows / 8 : 1, kKeyRows = kRows / kKeyGroups;
const int kKeyLanes = kInvocations / kKeyGroups, kOwnKeys = 2;
const int kKeyBatch = kMany ? 2 : kRows > 4 ? 4 : 8;  // granules asked for at once, of each key

// Outputs: an invocation's queries, and its elements, which are kOutLanes apart.
const int kWide = kHeadDim > 64 ? kInvocations : kHeadDim > 32 ? 64 : 32;
const int kSpare = kInvocations / kWide < kRows ? kInvocations / kWide : kRows;
const int kOutGroups = kSpare > kKeyGroups ? kSpare : kKeyGroups, kOutRows = kRows / kOutGroups;
const int kOutLanes = kInvocations / kOutGroups, kParts = (kHeadDim + kOutLanes - 1) / kOutLanes;
const int kValueBatch = kParts > 2 ? 1 : kMany || kParts > 1 ? 2 : 8;  // granules asked for at once, of each element
const int kBatchesOfPage = kPage / kGranule / kValueBatch;

shared vec4 qs[kRows][kHeadGranules * kVectors];
shared vec4 ps[kRows][kKeyVectors];  // scores, then probabilities
shared vec4 highs[kRows][kAtOnce];   // the maxima of a page's quarters
shared float highest[kRows][kAtOnce], shrink[kRows][kAtOnce];  // the maximum after a page, and what it does to sums
shared float maximum[kRows], sums[kRows][kLanes];              // of the segment
shared float total_maximum[kRows];                             // of the segments before it
shared vec4 total_sums[kRows][kLanes / 4];
shared int positions[kRows], table[kSegmentBlocks];  // of queries; pages of the segment

float outs[kOutRows][kParts], total_outs[kOutRows][kParts];
uvec4 next_keys[kOwnKeys][kKeyBatch], next_values[kParts][kValueBatch];

int me() { return int(gl_LocalInvocationID.x); }
int head_at() { return int(gl_WorkGroupID.y) * page_granules(kHeadDim); }
Granules page_at(int block) { return page_of(pages, table[block % kSegmentBlocks], kKvHeads, kHeadDim); }

// Keys of the pages from `block` to `to`, of which those beyond are the last again; granules from `first` on.
void ask_for_keys(int block, int to, int first) {
  UNROLL for (int j = 0; j < kOwnKeys; j++) {
    const int key = me() % kKeyLanes + j * kKeyLanes;
    Granules page = page_at(min(block + key / kPage, to));
    UNROLL for (int b = 0; b < kKeyBatch; b++)
      next_keys[j][b] = key_granule(page, head_at(), kHeadDim, min(first + b, kHeadGranules - 1), key % kPage);
  }
}
void ask_for_values(int block, int batch) {
  Granules page = page_at(block);
  UNROLL for (int p = 0; p < kParts; p++) {
    const int d = min(p * kOutLanes + me() % kOutLanes, kHeadDim - 1);
    UNROLL for (int b = 0; b < kValueBatch; b++)
      next_values[p][b] = value_granule(page, head_at(), kHeadDim, batch * kValueBatch + b, d);
  }
}

// Four elements of a granule as numbers.
vec4 vector_of(uvec4 g, int vector) {
  if (!kBf16) return uintBitsToFloat(g);
  const uvec2 pairs = vector == 0 ? g.xy : g.zw;
  return uintBitsToFloat(uvec4(pairs.x << 16, pairs.x & 0xffff0000u, pairs.y << 16, pairs.y & 0xffff0000u));
}
// The first `count` of four elements of chain().
float chain_of_first(float c, vec4 x, vec4 y, int count) {
  if (kBf16) {
    if (count > 1) c = mad(x[1], y[1], c);
    if (count > 0) c = mad(x[0], y[0], c);
    if (count > 3) c = mad(x[3], y[3], c);
    return count > 2 ? mad(x[2], y[2], c) : c;
  }
  for (int i = 0; i < 4; i++)
    if (i < count) c = mad(x[i], y[i], c);
  return c;
}
// With zeros from element `count` on.
uvec4 first_of(uvec4 g, int count) {
  for (int i = 0; i < 4; i++) {
    if (i * kVectors >= count) g[i] = 0u;
    if (i * kVectors + 1 == count && kBf16) g[i] = g[i] & 0xffffu;
  }
  return g;
}

uvec4 query_granule(int row, int q_head, int g) {
  const int from = (row * kHeads + q_head) * kHeadDim;
  if (kHeadDim % kGranule == 0) return Granules(uvec2(queries)).at[from / kGranule + g];
  uvec4 found = uvec4(0u);
  for (int i = 0; i < kGranule; i++) {
    if (g * kGranule + i >= kHeadDim) break;
    if (kBf16)
      found[i / 2] |= uint(queries.bf16[from + g * kGranule + i]) << (i % 2 * 16);
    else
      found[i] = as_bits(element(queries, from + g * kGranule + i));
  }
  return found;
}

bool seen(int row, int key) {
  const int position = positions[row];
  return key <= position && (window == 0 || key > position - window);
}
float highest_of(vec4 x) {
  const float a = x[0] > x[1] ? x[0] : x[1], b = x[2] > x[3] ? x[2] : x[3];
  return a > b ? a : b;
}

// A segment onto those before it; the first is what they are.
void merge_segment(bool first) {
  const int row0 = me() / kOutLanes * kOutRows;
  UNROLL for (int r = 0; r < kOutRows; r++) {
    const float other = maximum[row0 + r];
    const vec2 w = first ? vec2(0.0, 1.0) : merged(total_maximum[row0 + r], other);
    const bool changes = first || other != kLowest;  // else the row sees nothing of it
    UNROLL for (int p = 0; p < kParts; p++)
      if (changes) total_outs[r][p] = first ? outs[r][p] : mad(outs[r][p], w.y, total_outs[r][p] * w.x);
  }
  LOOP for (int at = me(); at < kRows * kLanes; at += kInvocations) {
    const int r = at / kLanes, lane = at % kLanes;
    const float other = maximum[r], total = total_sums[r][lane / 4][lane % 4];
    const vec2 w = first ? vec2(0.0, 1.0) : merged(total_maximum[r], other);
    if (first || other != kLowest)
      total_sums[r][lane / 4][lane % 4] = first ? sums[r][lane] : mad(sums[r][lane], w.y, total * w.x);
  }
  barrier();
  if (me() < kRows && (first || maximum[me()] > total_maximum[me()])) total_maximum[me()] = maximum[me()];
  barrier();
}

void main() {
  const int me = me(), head = int(gl_WorkGroupID.y);
  const Tile tile = tiles.at[gl_WorkGroupID.x];
  const int count = tile.tokens * tile.heads;
  const float factor = cap > 0.0 ? 1.0 : scale;
  const int last = tile.position + tile.tokens - 1, last_block = last / kPage;
  const int first_block = window > 0 ? max(0, tile.position - window + 1) / kPage : 0;
  const int first_segment = first_block / kSegmentBlocks;
  const bool split = present(uvec2(waiting));
  const int segment = first_segment + int(gl_WorkGroupID.z);
  const int from = split ? max(first_block, segment * kSegmentBlocks) : first_block;
  const int to = split ? min(last_block, segment * kSegmentBlocks + kSegmentBlocks - 1) : last_block;
  if (from > to) return;

  LOOP for (int at = me; at < kRows * kHeadGranules; at += kInvocations) {
    const int r = at / kHeadGranules, g = at % kHeadGranules, one = min(r, count - 1), token = one / tile.heads;
    uvec4 q = query_granule(tile.row + token, head * kGroup + tile.head + one - token * tile.heads, g);
    if (r >= count) q = uvec4(0u);
    for (int v = 0; v < kVectors; v++) qs[r][g * kVectors + v] = vector_of(q, v);
  }
  if (me < kRows) positions[me] = tile.position + me / tile.heads;

  const int key_row = me / kKeyLanes * kKeyRows, out_row = me / kOutLanes * kOutRows;
  const bool has_keys = key_row < count, has_outs = out_row < count;
  int at_once;
  for (int block = from; block <= to; block += at_once) {
    at_once = min(kAtOnce - block % kAtOnce, to - block + 1);
    const int next = block + at_once;
    if (block == from || block % kSegmentBlocks == 0) {
      if (me < kSegmentBlocks)
        table[me] = tables.at[tile.table + min(block / kSegmentBlocks * kSegmentBlocks + me, last_block)];
      if (me < kRows) maximum[me] = kLowest;
      LOOP for (int i = me; i < kRows * kLanes; i += kInvocations) sums[i / kLanes][i % kLanes] = 0.0;
      UNROLL for (int r = 0; r < kOutRows; r++)
        UNROLL for (int p = 0; p < kParts; p++) outs[r][p] = 0.0;
      barrier();
      if (has_keys) ask_for_keys(block, to, 0);
    }

    float score[kKeyRows][kOwnKeys];
    UNROLL for (int r = 0; r < kKeyRows; r++)
      UNROLL for (int j = 0; j < kOwnKeys; j++) score[r][j] = 0.0;
    if (has_keys)
      LOOP for (int first = 0; first < kHeadGranules; first += kKeyBatch) {
        uvec4 keys[kOwnKeys][kKeyBatch];
        UNROLL for (int j = 0; j < kOwnKeys; j++)
          UNROLL for (int b = 0; b < kKeyBatch; b++) keys[j][b] = next_keys[j][b];
        if (first + kKeyBatch < kHeadGranules) ask_for_keys(block, to, first + kKeyBatch);
        UNROLL for (int b = 0; b < kKeyBatch; b++) {
          if (kHeadGranules % kKeyBatch != 0 && first + b >= kHeadGranules) break;
          for (int v = 0; v < kVectors; v++) {
            vec4 key[kOwnKeys];
            for (int j = 0; j < kOwnKeys; j++) key[j] = vector_of(keys[j][b], v);
            const int at = (first + b) * kVectors + v;
            UNROLL for (int r = 0; r < kKeyRows; r++) {
              const vec4 q = qs[key_row + r][at];
              UNROLL for (int j = 0; j < kOwnKeys; j++)
                // What lies beyond a head in its last granule nobody has written: it may be anything.
                score[r][j] = kHeadDim % kGranule == 0 ? chain_of_four(score[r][j], q, key[j])
                                                       : chain_of_first(score[r][j], q, key[j], kHeadDim - at * 4);
            }
          }
        }
      }
    if (has_outs) ask_for_values(block, 0);

    float by_value[kOwnKeys];
    UNROLL for (int j = 0; j < kOwnKeys; j++) {
      const int i = me % kKeyLanes + j * kKeyLanes, key = block * kPage + i, first = key - key % kPage;
      Granules page = page_at(min(block + i / kPage, to));
      const float by_key = key_scale(page, head_at(), kHeadDim, i % kPage);
      by_value[j] = value_scale(page, head_at(), kHeadDim, i % kPage);
      const bool whole = first + kPage - 1 <= tile.position && (window == 0 || first > last - window);
      UNROLL for (int r = 0; r < kKeyRows; r++) {
        if (kCoded != 0) score[r][j] = score[r][j] * by_key;
        if (cap > 0.0) score[r][j] = tangent(score[r][j] * scale_by_cap) * cap;
        ps[key_row + r][i / 4][i % 4] = whole || seen(key_row + r, key) ? score[r][j] : kLowest;
      }
    }
    barrier();
    if (me < kRows * kAtOnce * kQuarters) {
      const int r = me / (kAtOnce * kQuarters), page = me / kQuarters % kAtOnce, quarter = me % kQuarters;
      float high = kLowest;
      for (int i = 0; i < kPageVectors / kQuarters; i++) {
        const float other = highest_of(ps[r][page * kPageVectors + i * kQuarters + quarter]);
        high = high > other ? high : other;
      }
      highs[r][page][quarter] = high;
    }
    barrier();
    if (me < kRows) {
      float before = maximum[me];
      LOOP for (int page = 0; page < kAtOnce; page++) {
        const int key = (block + page) * kPage, position = positions[me];
        const bool any = page < at_once && key <= position && (window == 0 || key + kPage - 1 > position - window);
        const float high = any ? highest_of(highs[me][page]) * factor : kLowest;
        const float now = before > high ? before : high;
        shrink[me][page] = exponential(before - now);
        highest[me][page] = now;
        before = now;
      }
      maximum[me] = before;
    }
    barrier();
    UNROLL for (int j = 0; j < kOwnKeys; j++) {
      const int i = me % kKeyLanes + j * kKeyLanes, key = block * kPage + i, first = key - key % kPage;
      const bool whole = first + kPage - 1 <= tile.position && (window == 0 || first > last - window);
      UNROLL for (int r = 0; r < kKeyRows; r++) {
        const float p = exponential(mad(score[r][j], factor, -highest[key_row + r][i / kPage]));
        const bool is_seen = whole || seen(key_row + r, key);
        ps[key_row + r][i / 4][i % 4] = is_seen ? p : 0.0;
        // Of a slot that no token has written the scale may be anything.
        score[r][j] = is_seen ? rounded(kCoded != 0 ? p * by_value[j] : p) : 0.0;
      }
    }
    barrier();
    LOOP for (int at = me; at < kRows * kLanes; at += kInvocations) {
      const int r = at / kLanes, lane = at % kLanes, v = lane / 4, i = lane % 4;
      float sum = sums[r][lane];
      LOOP for (int page = 0; page < at_once; page++) {
        const int from = page * kPageVectors + v;
        sum = mad(sum, shrink[r][page], (ps[r][from][i] + ps[r][from + 4][i]) + (ps[r][from + 8][i] + ps[r][from + 12][i]));
      }
      sums[r][lane] = sum;
    }
    barrier();
    UNROLL for (int j = 0; j < kOwnKeys; j++) {
      const int i = me % kKeyLanes + j * kKeyLanes;
      UNROLL for (int r = 0; r < kKeyRows; r++) ps[key_row + r][i / 4][i % 4] = score[r][j];
    }
    barrier();

    // Slots that no token has written are not looked at: they are the last.
    const int written = min(kPage, last + 1 - (next - 1) * kPage), in_batch = kValueBatch * kGranule;
    const int batches = (at_once - 1) * kBatchesOfPage + (written + in_batch - 1) / in_batch;
    const bool ends = next > to || next % kSegmentBlocks == 0, goes_on = !ends && has_keys;
    if (has_outs)
      LOOP for (int s = 0; s < batches; s++) {
        const int page = s / kBatchesOfPage, batch = s % kBatchesOfPage;
        uvec4 values[kParts][kValueBatch];
        UNROLL for (int p = 0; p < kParts; p++)
          UNROLL for (int b = 0; b < kValueBatch; b++) values[p][b] = next_values[p][b];
        if (s + 1 < batches)
          ask_for_values(block + (s + 1) / kBatchesOfPage, (s + 1) % kBatchesOfPage);
        else if (goes_on)
          ask_for_keys(next, to, 0);
        const int left = page == at_once - 1 ? written - batch * in_batch : in_batch;
        if (left < in_batch)
          LOOP for (int p = 0; p < kParts; p++)
            LOOP for (int b = 0; b < kValueBatch; b++) values[p][b] = first_of(values[p][b], left - b * kGranule);
        if (batch == 0)
          UNROLL for (int r = 0; r < kOutRows; r++)
            UNROLL for (int p = 0; p < kParts; p++) outs[r][p] = outs[r][p] * shrink[out_row + r][page];
        UNROLL for (int b = 0; b < kValueBatch; b++)
          for (int v = 0; v < kVectors; v++) {
            vec4 value[kParts];
            UNROLL for (int p = 0; p < kParts; p++) value[p] = vector_of(values[p][b], v);
            const int at = page * kPageVectors + (batch * kValueBatch + b) * kVectors + v;
            UNROLL for (int r = 0; r < kOutRows; r++) {
              const vec4 weights = ps[out_row + r][at];
              UNROLL for (int p = 0; p < kParts; p++) outs[r][p] = chain_of_four(outs[r][p], weights, value[p]);
            }
          }
      }
    if (!has_outs && goes_on) ask_for_keys(next, to, 0);
    barrier();
    if (!split && ends) merge_segment(block / kSegmentBlocks == first_segment);
  }

  UNROLL for (int r = 0; r < kOutRows; r++) {
    if (out_row + r >= count) break;
    const int row = out_row + r, token = row / tile.heads;
    const int q_head = head * kGroup + tile.head + row - token * tile.heads, d0 = me % kOutLanes;
    if (split) {
      const int at = segment_at(int(gl_WorkGroupID.x), head, int(gl_WorkGroupID.z), int(gl_NumWorkGroups.z), row);
      if (d0 == 0) waiting.at[at] = maximum[row];
      if (d0 < kLanes) waiting.at[at + 1 + d0] = sums[row][d0];
      UNROLL for (int p = 0; p < kParts; p++)
        if (p * kOutLanes + d0 < kHeadDim) waiting.at[at + 1 + kLanes + p * kOutLanes + d0] = outs[r][p];
    } else {
      const float sum = sum_of(total_sums[row][0], total_sums[row][1], total_sums[row][2], total_sums[row][3]);
      const float inverse = quotient(1.0, sum);
      UNROLL for (int p = 0; p < kParts; p++)
        if (p * kOutLanes + d0 < kHeadDim)
          put(attention, (tile.row + token) * ld + q_head * kHeadDim + p * kOutLanes + d0, mad(total_outs[r][p], inverse, 0.0));
      if (d0 == 0 && present(uvec2(lse)))
        lse.at[(tile.row + token) * kHeads + q_head] = total_maximum[row] + logarithm(sum);
    }
  }
}
