#version 460
// Gradients of turned queries on cooperative matrices: a workgroup has queries of one key-value head and sequence, and goes
// through the keys that they see in order, kKeys at a time (attention_matrices.glsl).
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "pages.glsl"
#include "cooperative.glsl"
layout(constant_id = 4) const int kAcross = 1;
#include "attention_fast.glsl"
const int kKeys = 32;
#include "attention_matrices.glsl"
#include "attention_rows.glsl"
#include "attention_fast_backward.glsl"

layout(push_constant) uniform Parameters {
  Granules queries;  // [rows][kHeads][kHeadDim]
  Granules pages;
  Ints tables;
  Tiles tiles;
  Granules d_attention;      // as attention_halves.comp writes it
  Floats units, lse, delta;  // [rows][kHeads]
  Floats d_queries;          // [rows][kHeads][kHeadDim]
  Sight sight;
};

shared uvec4 key_halves[kKeys * kKeyLd], value_halves[kDim * kValueLd];

// Scores, or gradients by probabilities: this invocation's part of its row of what a band's matrices have.
#define PART_OF_ROW(matrices, part_of_row)                                                                     \
  if (kAcross == 1) {                                                                                          \
    [[unroll]] for (int c = 0; c < kColumns; c++) {                                                                       \
      coopMatStoreNV(matrices[c], sums, my_sum, kN / 4, false);                                                \
      subgroupBarrier();                                                                                       \
      [[unroll]] for (int e = 0; e < kEach; e++) part_of_row[c][e] = as_float(sums[my_sum + sum_at + e / 4][e % 4]);      \
      subgroupBarrier();                                                                                       \
    }                                                                                                          \
  } else {                                                                                                     \
    if (across < kColumns)                                                                                     \
      [[unroll]] for (int c = 0; c < kMyColumns; c++)                                                                     \
        coopMatStoreNV(matrices[c], sums, (band * kColumns + across * kMyColumns + c) * kM * kN / 4, kN / 4, false); \
    barrier();                                                                                                 \
    [[unroll]] for (int c = 0; c < kColumns; c++)                                                                         \
      [[unroll]] for (int e = 0; e < kEach; e++)                                                                          \
        part_of_row[c][e] = as_float(sums[(band * kColumns + c) * kM * kN / 4 + sum_at + e / 4][e % 4]);       \
    barrier();                                                                                                 \
  }

void main() {
  const int me = int(gl_LocalInvocationID.x), all = int(gl_WorkGroupSize.x), head = int(gl_WorkGroupID.y);
  const int subgroup = int(gl_SubgroupID), lane = int(gl_SubgroupInvocationID);
  const int band = subgroup / kAcross, across = subgroup % kAcross, row = lane / kSharers, part = lane % kSharers;
  const Tile tile = tiles.at[gl_WorkGroupID.x];
  const int count = tile.tokens * tile.heads, r = band * kM + row, last = tile.position + tile.tokens - 1;
  const int my_left = subgroup * kM * kK / 8, my_sum = subgroup * kM * kN / 4;
  const int left_at = left_place(row, part), sum_at = (row * kN + part * kEach) / 4;

  Left query[kDim / kK], d_out[kDim / kK];
  [[unroll]] for (int k = 0; k < 2 * (kDim / kK); k++) {
    const bool of_query = k < kDim / kK;
    const int step = of_query ? k : k - kDim / kK;
    for (int i = lane; i < kM * kK / 8; i += kWidth) {
      const int of = band * kM + i / (kK / 8), g = step * (kK / 8) + i % (kK / 8);
      uvec4 granule = uvec4(0);
      if (of < count && g < kHeadGranules) {
        const int at = ((tile.row + of / tile.heads) * kHeads + head * kGroup + tile.head + of % tile.heads) * kHeadGranules + g;
        granule = of_query ? finite_halves(queries.at[at]) : d_attention.at[at];
      }
      lefts[my_left + i] = granule;
    }
    subgroupBarrier();
    if (of_query)
      coopMatLoadNV(query[step], lefts, my_left, kK / 8, false);
    else
      coopMatLoadNV(d_out[step], lefts, my_left, kK / 8, false);
    subgroupBarrier();
  }
  const bool inside = r < count;
  const int position = tile.position + r / tile.heads;
  const int of_row = inside ? (tile.row + r / tile.heads) * kHeads + head * kGroup + tile.head + r % tile.heads : 0;
  const float my_lse = lse.at[of_row], my_delta = delta.at[of_row], unit = units.at[of_row];
  float outs[kMySlices][kEach];
  [[unroll]] for (int s = 0; s < kMySlices; s++)
    [[unroll]] for (int e = 0; e < kEach; e++) outs[s][e] = 0.0;

  const int first = sight.window > 0 ? max(0, tile.position - sight.window + 1) / kKeys * kKeys : 0;
  uvec4 next_keys[kPer], next_values[kPer];
  for (int key0 = first - kKeys; key0 <= last; key0 += kKeys) {
    if (key0 >= first) {
      [[unroll]] for (int i = 0; i < kPer; i++) {
        const int j = me + i * all;
        if (j < kKeysGranules) {
          key_halves[j % kKeys * kKeyLd + j / kKeys] = finite_halves(next_keys[i]);
          value_halves[j % kDim * kValueLd + j / kDim] = finite_halves(next_values[i]);
        }
      }
      barrier();
    }
    const int next0 = key0 + kKeys;
    if (next0 <= last) {
      Granules page = page_of(pages, tables.at[tile.table + next0 / kPage], kKvHeads, kHeadDim);
      [[unroll]] for (int i = 0; i < kPer; i++) {
        next_keys[i] = staged_key(page, head, next0, me + i * all);
        next_values[i] = staged_value(page, head, next0, me + i * all);
      }
    }
    if (key0 < first) continue;

    float ds[kColumns][kEach], dp[kColumns][kEach];
    Sum scores[kMyColumns];
    if (across < kColumns) {
      [[unroll]] for (int c = 0; c < kMyColumns; c++) scores[c] = Sum(0.0);
      [[unroll]] for (int k = 0; k < kDim / kK; k++)
        [[unroll]] for (int c = 0; c < kMyColumns; c++) {
          Right key;
          coopMatLoadNV(key, key_halves, (across * kMyColumns + c) * kN * kKeyLd + k * (kK / 8), kKeyLd, true);
          scores[c] = coopMatMulAddNV(query[k], key, scores[c]);
        }
    }
    PART_OF_ROW(scores, ds)
    if (across < kColumns) {
      [[unroll]] for (int c = 0; c < kMyColumns; c++) scores[c] = Sum(0.0);
      [[unroll]] for (int k = 0; k < kDim / kK; k++)
        [[unroll]] for (int c = 0; c < kMyColumns; c++) {
          Right value;
          coopMatLoadNV(value, value_halves, k * kK * kValueLd + (across * kMyColumns + c) * (kN / 8), kValueLd, false);
          scores[c] = coopMatMulAddNV(d_out[k], value, scores[c]);
        }
    }
    PART_OF_ROW(scores, dp)
    float most = 0.0;
    [[unroll]] for (int c = 0; c < kColumns; c++)
      [[unroll]] for (int e = 0; e < kEach; e++) {
        const int key = key0 + c * kN + part * kEach + e;
        ds[c][e] = inside && seen(sight, key, position) ? gradients(sight, ds[c][e], dp[c][e] * unit, my_lse, my_delta).y : 0.0;
        most = max(most, abs(ds[c][e]));
      }
    const int shift = shift_of(largest_of_row(most));
    const float factor = power(shift), back = power(-shift);
    Left left[kKeys / kK];
    [[unroll]] for (int k = 0; k < kKeys / kK; k++) {
      [[unroll]] for (int c = 0; c < kK / kN; c++)
        [[unroll]] for (int e = 0; e < kEach; e += 4) {
          const int of = k * (kK / kN) + c;
          put_left(my_left, left_at + (c * kN + e) / 4, vec4(ds[of][e], ds[of][e + 1], ds[of][e + 2], ds[of][e + 3]) * factor);
        }
      subgroupBarrier();
      coopMatLoadNV(left[k], lefts, my_left, kK / 8, false);
      subgroupBarrier();
    }
    [[unroll]] for (int s = 0; s < kMySlices; s++) {
      const int slice = across * kMySlices + s;
      if (slice < kSlices) {
        Sum products = Sum(0.0);
        [[unroll]] for (int k = 0; k < kKeys / kK; k++) {
          Right key;
          coopMatLoadNV(key, key_halves, k * kK * kKeyLd + slice * (kN / 8), kKeyLd, false);
          products = coopMatMulAddNV(left[k], key, products);
        }
        coopMatStoreNV(products, sums, my_sum, kN / 4, false);
      }
      subgroupBarrier();
      [[unroll]] for (int e = 0; e < kEach; e++) outs[s][e] = mad(as_float(sums[my_sum + sum_at + e / 4][e % 4]), back, outs[s][e]);
      subgroupBarrier();
    }
    barrier();
  }

  if (!inside) return;
  [[unroll]] for (int s = 0; s < kMySlices; s++)
    [[unroll]] for (int e = 0; e < kEach; e++) {
      const int d = (across * kMySlices + s) * kN + part * kEach + e;
      if (d < kHeadDim) d_queries.at[of_row * kHeadDim + d] = flushed(outs[s][e]);
    }
}
