#version 460
// Causal attention over pages of 64 keys on cooperative matrices: a workgroup has queries of one key-value head and
// sequence, kM to each of its kBands bands. kAcross subgroups have a band together: each computes the scores of some keys,
// all of them the probabilities, and each some elements of the output. Queries, keys, values and probabilities are rounded
// to float16, the largest of which stands for what is larger; scores, sums and outputs are float32. An invocation has a part
// of one row of its band: kEach columns of every kN.
// Keys and values take turns in shared memory: while one is multiplied, the other is on its way from memory.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "pages.glsl"
#include "cooperative.glsl"
layout(constant_id = 4) const int kAcross = 1;
#include "attention_fast.glsl"

layout(push_constant) uniform Parameters {
  Granules queries;  // [rows][kHeads][kHeadDim]
  Granules pages;
  Ints tables;  // block tables
  Tiles tiles;
  Ints attention;  // [rows][ld] of T, two to a word
  Floats lse;      // [rows][kHeads], or null
  int ld, window;
  float scale, cap, scale_by_cap;  // cap 0: none
  int rows, units, padding;        // of a tile that waits
  Floats waiting;                  // a workgroup has one unit, which waits; null: it has all
};

const int kKeys = kUnit;
#include "attention_matrices.glsl"
#include "attention_rows.glsl"

const int kKeysSize = kKeys * kKeyLd, kValuesSize = kDim * kValueLd;
shared uvec4 halves_of[kKeysSize > kValuesSize ? kKeysSize : kValuesSize];  // keys, or values transposed
uvec4 next[kPer];
const int kAtOnce = 4;  // slices of outputs, whose chains of matrices do not wait for each other

void fetch_keys(int page, int head, int key) {
  Granules at = page_of(pages, page, kKvHeads, kHeadDim);
  [[unroll]] for (int i = 0; i < kPer; i++)
    next[i] = staged_key(at, head, key, int(gl_LocalInvocationID.x) + i * int(gl_WorkGroupSize.x));
}
void fetch_values(int page, int head, int key) {
  Granules at = page_of(pages, page, kKvHeads, kHeadDim);
  [[unroll]] for (int i = 0; i < kPer; i++)
    next[i] = staged_value(at, head, key, int(gl_LocalInvocationID.x) + i * int(gl_WorkGroupSize.x));
}
void put_keys() {
  [[unroll]] for (int i = 0; i < kPer; i++) {
    const int j = int(gl_LocalInvocationID.x) + i * int(gl_WorkGroupSize.x);
    if (j < kKeysGranules) halves_of[j % kKeys * kKeyLd + j / kKeys] = finite_halves(next[i]);
  }
}
void put_values(int written) {
  [[unroll]] for (int i = 0; i < kPer; i++) {
    const int j = int(gl_LocalInvocationID.x) + i * int(gl_WorkGroupSize.x);
    if (j < kKeysGranules)
      halves_of[j % kDim * kValueLd + j / kDim] = finite_halves(written_values(next[i], j / kDim, written));
  }
}

void main() {
  const int head = int(gl_WorkGroupID.y), subgroup = int(gl_SubgroupID), lane = int(gl_SubgroupInvocationID);
  const int band = subgroup / kAcross, across = subgroup % kAcross, row = lane / kSharers, part = lane % kSharers;
  const Tile tile = tiles.at[gl_WorkGroupID.x];
  const int count = tile.tokens * tile.heads, r = band * kM + row;
  const bool waits = present(uvec2(waiting));
  const int first = first_unit(tile, window) + (waits ? int(gl_WorkGroupID.z) : 0), end = last_unit(tile);
  if (first > end) return;
  const int last = waits ? first : end;
  // A matrix of one row after the other, in elements of the shared arrays; and this invocation's place in it.
  const int my_left = subgroup * kM * kK / 8, my_sum = subgroup * kM * kN / 4;
  const int left_at = left_place(row, part), sum_at = (row * kN + part * kEach) / 4;

  int page = tables.at[tile.table + first / kUnitsOfPage];
  fetch_keys(page, head, first * kUnit);
  Left query[kDim / kK];
  [[unroll]] for (int k = 0; k < kDim / kK; k++) {
    for (int i = lane; i < kM * kK / 8; i += kWidth) {
      const int of = band * kM + i / (kK / 8), g = k * (kK / 8) + i % (kK / 8);
      uvec4 granule = uvec4(0);
      if (of < count && g < kHeadGranules)
        granule = finite_halves(queries.at[((tile.row + of / tile.heads) * kHeads + head * kGroup + tile.head + of % tile.heads) *
                                               kHeadGranules + g]);
      lefts[my_left + i] = granule;
    }
    subgroupBarrier();
    coopMatLoadNV(query[k], lefts, my_left, kK / 8, false);
    subgroupBarrier();
  }

  const int position = tile.position + r / tile.heads;
  const float factor = cap > 0.0 ? 1.0 : scale, factor2 = factor * kLog2e;
  float maximum = kLowest, sum = 0.0, unit_maximum = kLowest, unit_sum = 0.0;
  float outs[kMySlices][kEach];
  [[unroll]] for (int s = 0; s < kMySlices; s++)
    [[unroll]] for (int e = 0; e < kEach; e++) outs[s][e] = 0.0;
  for (int unit = first; unit <= last; unit++) {
    const int key0 = unit * kUnit;
    put_keys();
    barrier();
    fetch_values(page, head, key0);
    if (unit < last) page = tables.at[tile.table + (unit + 1) / kUnitsOfPage];

    Sum scores[kMyColumns];
    if (across < kColumns) {
      [[unroll]] for (int c = 0; c < kMyColumns; c++) scores[c] = Sum(0.0);
      [[unroll]] for (int k = 0; k < kDim / kK; k++)
        [[unroll]] for (int c = 0; c < kMyColumns; c++) {
          Right key;
          coopMatLoadNV(key, halves_of, (across * kMyColumns + c) * kN * kKeyLd + k * (kK / 8), kKeyLd, true);
          scores[c] = coopMatMulAddNV(query[k], key, scores[c]);
        }
    }
    // This invocation's part of its row: scores, and then probabilities.
    float p[kColumns][kEach];
    if (kAcross == 1) {
      [[unroll]] for (int c = 0; c < kColumns; c++) {
        coopMatStoreNV(scores[c], sums, my_sum, kN / 4, false);
        subgroupBarrier();
        [[unroll]] for (int e = 0; e < kEach; e++) p[c][e] = as_float(sums[my_sum + sum_at + e / 4][e % 4]);
        subgroupBarrier();
      }
    } else {
      if (across < kColumns)
        [[unroll]] for (int c = 0; c < kMyColumns; c++)
          coopMatStoreNV(scores[c], sums, (band * kColumns + across * kMyColumns + c) * kM * kN / 4, kN / 4, false);
      barrier();
      [[unroll]] for (int c = 0; c < kColumns; c++)
        [[unroll]] for (int e = 0; e < kEach; e++) p[c][e] = as_float(sums[(band * kColumns + c) * kM * kN / 4 + sum_at + e / 4][e % 4]);
    }
    if (cap > 0.0)
      [[unroll]] for (int c = 0; c < kColumns; c++)
        [[unroll]] for (int e = 0; e < kEach; e++) p[c][e] = tangent(p[c][e] * scale_by_cap) * cap;
    // Whether each row sees all of it.
    const bool whole = key0 + kUnit - 1 <= tile.position && (window == 0 || key0 > tile.position + tile.tokens - 1 - window);
    if (!whole)
      [[unroll]] for (int c = 0; c < kColumns; c++)
        [[unroll]] for (int e = 0; e < kEach; e++) {
          const int key = key0 + c * kN + part * kEach + e;
          if (key > position || (window != 0 && key <= position - window)) p[c][e] = kLowest;
        }
    float high = kLowest;
    [[unroll]] for (int c = 0; c < kColumns; c++)
      [[unroll]] for (int e = 0; e < kEach; e++) high = high > p[c][e] ? high : p[c][e];
    high = largest_of_row(high);
    unit_maximum = high == kLowest ? kLowest : high * factor, unit_sum = 0.0;
    const float lifted = kLift - high * factor2;
    [[unroll]] for (int c = 0; c < kColumns; c++)
      [[unroll]] for (int e = 0; e < kEach; e++) {
        const float x = p[c][e];
        p[c][e] = x == kLowest ? 0.0 : exp2(mad(x, factor2, lifted));
        unit_sum = unit_sum + p[c][e];
      }
    unit_sum = sum_of_row(unit_sum);
    const vec2 share = shares(maximum, unit_maximum);
    sum = taken_up(sum, unit_sum, share);
    Left probabilities[kUnit / kK];
    [[unroll]] for (int k = 0; k < kUnit / kK; k++) {
      [[unroll]] for (int c = 0; c < kK / kN; c++)
        [[unroll]] for (int e = 0; e < kEach; e += 4) {
          const int of = k * (kK / kN) + c;
          put_left(my_left, left_at + (c * kN + e) / 4, vec4(p[of][e], p[of][e + 1], p[of][e + 2], p[of][e + 3]));
        }
      subgroupBarrier();
      coopMatLoadNV(probabilities[k], lefts, my_left, kK / 8, false);
      subgroupBarrier();
    }
    barrier();
    put_values(tile.position + tile.tokens - key0);
    barrier();
    if (unit < last) fetch_keys(page, head, key0 + kUnit);

    [[unroll]] for (int s0 = 0; s0 < kMySlices; s0 += kAtOnce) {
      Sum unit_outs[kAtOnce];
      [[unroll]] for (int i = 0; i < kAtOnce; i++) {
        const int slice = across * kMySlices + s0 + i;
        unit_outs[i] = Sum(0.0);
        if (s0 + i < kMySlices && slice < kSlices)
          [[unroll]] for (int k = 0; k < kUnit / kK; k++) {
            Right value;
            coopMatLoadNV(value, halves_of, slice * kN * kValueLd + k * (kK / 8), kValueLd, true);
            unit_outs[i] = coopMatMulAddNV(probabilities[k], value, unit_outs[i]);
          }
      }
      [[unroll]] for (int i = 0; i < kAtOnce; i++) {
        const int s = s0 + i;
        if (s >= kMySlices) continue;
        coopMatStoreNV(unit_outs[i], sums, my_sum, kN / 4, false);
        subgroupBarrier();
        [[unroll]] for (int e = 0; e < kEach; e++) {
          const float next_out = as_float(sums[my_sum + sum_at + e / 4][e % 4]);
          outs[s][e] = waits ? next_out : taken_up(outs[s][e], next_out, share);
        }
        subgroupBarrier();
      }
    }
    barrier();
  }

  if (r >= count) return;
  const int token = tile.row + r / tile.heads, q_head = head * kGroup + tile.head + r % tile.heads;
  const int to = waits ? waiting_at(int(gl_WorkGroupID.x), head, rows, r, units) + int(gl_WorkGroupID.z) * kWaitingFloats
                       : (token * ld + q_head * kHeadDim) / 2;
  if (waits) {
    if (across == 0 && part == 0) waiting.at[to] = unit_maximum, waiting.at[to + 1] = unit_sum;
  } else if (across == 0 && part == 0 && present(uvec2(lse))) {
    lse.at[token * kHeads + q_head] = maximum + logarithm(sum * kLowered);
  }
  const float inverse = quotient(1.0, sum);
  [[unroll]] for (int s = 0; s < kMySlices; s++)
    [[unroll]] for (int e = 0; e < kEach; e += 2) {
      const int d = (across * kMySlices + s) * kN + part * kEach + e;
      if (d >= kHeadDim) continue;
      if (waits)
        waiting.at[to + 2 + d] = outs[s][e], waiting.at[to + 3 + d] = outs[s][e + 1];
      else
        attention.at[to + d / 2] = int(narrowed(mad(outs[s][e], inverse, 0.0)) | narrowed(mad(outs[s][e + 1], inverse, 0.0)) << 16);
    }
}
