#version 460
// Gradients of a page's keys and values on cooperative matrices: a workgroup has a page and a key-value head, kM keys to each
// of its bands, and visits the queries that see it in order, kQueries rows at a time. Keys and values are the rows of the
// matrices, queries and gradients of outputs their columns. kAcross subgroups have a band together: each computes some
// columns of the scores, and some elements of the gradients.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "pages.glsl"
#include "cooperative.glsl"
#include "attention_fast.glsl"
#include "attention_fast_backward.glsl"

// A sequence that sees a page as its block: tokens from `row`, which stands at `position`, up to before `end`.
struct Use {
  int row, position, end, block;
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Uses { Use at[]; };

layout(push_constant) uniform Parameters {
  Granules queries;  // [rows][kHeads][kHeadDim]
  Granules pages;
  Ints first_use;  // [pages + 1]
  Uses uses;
  Granules d_attention;      // as attention_halves.comp writes it
  Floats units, lse, delta;  // [rows][kHeads]
  Floats d_keys, d_values;   // [pages][kKvHeads][kPage][kHeadDim]
  Sight sight;
};

const int kQueries = 32;
const int kAcross = kSubgroups * kM / kPage, kWidth = int(gl_WorkGroupSize.x) / kSubgroups;
const int kSharers = kWidth / kM, kEach = kN / kSharers;  // invocations of a key
const int kColumns = kQueries / kN, kMyColumns = kAcross < kColumns ? kColumns / kAcross : 1;
const int kSlices = kDim / kN, kMySlices = (kSlices + kAcross - 1) / kAcross;
const int kRowLd = kDim / 8 + 1;
const int kPer = (kQueries * kDim / 8 + int(gl_WorkGroupSize.x) - 1) / int(gl_WorkGroupSize.x);
const int kScoreSize = kPage * kQueries / 4, kOutSize = kSubgroups * kM * kN / 4;
#include "attention_rows.glsl"

// Of queries, and of gradients of outputs; before that, of the page's keys, and of its values transposed.
shared uvec4 halves_of[2 * kQueries * kRowLd];
shared uvec4 sums[kScoreSize > kOutSize ? kScoreSize : kOutSize];

shared float row_lse[kQueries], row_delta[kQueries], row_unit[kQueries];
shared int row_position[kQueries];
const int kOuts = kQueries * kRowLd;  // where those of gradients of outputs begin

void main() {
  const int me = int(gl_LocalInvocationID.x), all = int(gl_WorkGroupSize.x);
  const int number = int(gl_WorkGroupID.x), head = int(gl_WorkGroupID.y);
  const int subgroup = int(gl_SubgroupID), lane = int(gl_SubgroupInvocationID);
  const int band = subgroup / kAcross, across = subgroup % kAcross, row = lane / kSharers, part = lane % kSharers;
  // Where bands go their own ways, what one of them has to itself.
  const int my_left = subgroup * kM * kK / 8, my_sum = (kAcross == 1 ? band * kColumns : subgroup) * kM * kN / 4;
  const int left_at = left_place(row, part), sum_at = (row * kN + part * kEach) / 4;
  const int key = band * kM + row;

  Granules page = page_of(pages, number, kKvHeads, kHeadDim);
  const int at = head * page_granules(kHeadDim);
  Left keys[kDim / kK], values[kDim / kK];
  for (int j = me; j < kPage * kDim / 8; j += all) {
    const int g = j / kPage;
    halves_of[j % kPage * kRowLd + g] = g < kHeadGranules ? finite_halves(page.at[at + j]) : uvec4(0);
  }
  barrier();
  [[unroll]] for (int k = 0; k < kDim / kK; k++) coopMatLoadNV(keys[k], halves_of, band * kM * kRowLd + k * (kK / 8), kRowLd, false);
  barrier();
  for (int j = me; j < kPage * kDim / 8; j += all) {
    const int d = j % kDim, g = j / kDim;
    halves_of[d * (kPage / 8) + g] =
        d < kHeadDim ? finite_halves(page.at[at + key_granules(kHeadDim) + g * kHeadDim + d]) : uvec4(0);
  }
  barrier();
  [[unroll]] for (int k = 0; k < kDim / kK; k++)
    coopMatLoadNV(values[k], halves_of, k * kK * (kPage / 8) + band * kM / 8, kPage / 8, true);
  barrier();

  float dk[kMySlices][kEach], dv[kMySlices][kEach];
  [[unroll]] for (int s = 0; s < kMySlices; s++)
    [[unroll]] for (int e = 0; e < kEach; e++) dk[s][e] = 0.0, dv[s][e] = 0.0;
  for (int u = first_use.at[number]; u < first_use.at[number + 1]; u++) {
    const Use use = uses.at[u];
    const int rows = (use.end - use.row) * kGroup, my_key = use.block * kPage + key;
    uvec4 next_queries[kPer], next_outs[kPer];
    float next_lse = 0.0, next_delta = 0.0, next_unit = 0.0;
    for (int row0 = -kQueries; row0 < rows; row0 += kQueries) {
      if (row0 >= 0) {
        [[unroll]] for (int i = 0; i < kPer; i++) {
          const int j = me + i * all, to = j / (kDim / 8) * kRowLd + j % (kDim / 8);
          if (j < kQueries * kDim / 8) halves_of[to] = finite_halves(next_queries[i]), halves_of[kOuts + to] = next_outs[i];
        }
        if (me < kQueries) {
          row_lse[me] = next_lse, row_delta[me] = next_delta, row_unit[me] = next_unit;
          row_position[me] = row0 + me < rows ? use.position + (row0 + me) / kGroup : -1;
        }
        barrier();
      }
      const int next0 = row0 + kQueries;
      if (next0 < rows) {
        [[unroll]] for (int i = 0; i < kPer; i++) {
          const int j = me + i * all, r = next0 + j / (kDim / 8), g = j % (kDim / 8);
          next_queries[i] = next_outs[i] = uvec4(0);
          if (j < kQueries * kDim / 8 && r < rows && g < kHeadGranules) {
            const int from = ((use.row + r / kGroup) * kHeads + head * kGroup + r % kGroup) * kHeadGranules + g;
            next_queries[i] = queries.at[from], next_outs[i] = d_attention.at[from];
          }
        }
        if (me < kQueries && next0 + me < rows) {
          const int r = next0 + me, from = (use.row + r / kGroup) * kHeads + head * kGroup + r % kGroup;
          next_lse = lse.at[from], next_delta = delta.at[from], next_unit = units.at[from];
        }
      }
      if (row0 < 0) continue;

      // Of this invocation's part of a key's row: p and ds.
      float p[kColumns][kEach], ds[kColumns][kEach];
      [[unroll]] for (int pass = 0; pass < 2; pass++) {
        if (across < kColumns)
          [[unroll]] for (int c = 0; c < kMyColumns; c++) {
            const int column = across * kMyColumns + c;
            Sum products = Sum(0.0);
            [[unroll]] for (int k = 0; k < kDim / kK; k++) {
              Right right;
              coopMatLoadNV(right, halves_of, (pass == 0 ? 0 : kOuts) + column * kN * kRowLd + k * (kK / 8), kRowLd, true);
              if (pass == 0)
                products = coopMatMulAddNV(keys[k], right, products);
              else
                products = coopMatMulAddNV(values[k], right, products);
            }
            coopMatStoreNV(products, sums, (band * kColumns + column) * kM * kN / 4, kN / 4, false);
          }
        if (kAcross > 1) barrier();
        else subgroupBarrier();
        [[unroll]] for (int c = 0; c < kColumns; c++)
          [[unroll]] for (int e = 0; e < kEach; e++) {
            const float found = as_float(sums[(band * kColumns + c) * kM * kN / 4 + sum_at + e / 4][e % 4]);
            if (pass == 0)
              p[c][e] = found;
            else
              ds[c][e] = found;
          }
        if (kAcross > 1) barrier();
        else subgroupBarrier();
      }
      float most_p = 0.0, most_ds = 0.0;
      [[unroll]] for (int c = 0; c < kColumns; c++)
        [[unroll]] for (int e = 0; e < kEach; e++) {
          const int r = c * kN + part * kEach + e;
          vec2 found = vec2(0.0);
          // The gradient of an output comes by its unit: so goes the probability.
          if (seen(sight, my_key, row_position[r])) {
            found = gradients(sight, p[c][e], ds[c][e] * row_unit[r], row_lse[r], row_delta[r]);
            found.x = found.x * row_unit[r];
          }
          p[c][e] = found.x, ds[c][e] = found.y;
          most_p = max(most_p, found.x), most_ds = max(most_ds, abs(found.y));
        }
      const int shift_p = shift_of(largest_of_row(most_p)), shift_ds = shift_of(largest_of_row(most_ds));
      [[unroll]] for (int pass = 0; pass < 2; pass++) {
        const float factor = power(pass == 0 ? shift_p : shift_ds), back = power(pass == 0 ? -shift_p : -shift_ds);
        Left left[kQueries / kK];
        [[unroll]] for (int k = 0; k < kQueries / kK; k++) {
          [[unroll]] for (int c = 0; c < kK / kN; c++)
            [[unroll]] for (int e = 0; e < kEach; e += 4) {
              const int of = k * (kK / kN) + c;
              const vec4 four = pass == 0 ? vec4(p[of][e], p[of][e + 1], p[of][e + 2], p[of][e + 3])
                                          : vec4(ds[of][e], ds[of][e + 1], ds[of][e + 2], ds[of][e + 3]);
              put_left(my_left, left_at + (c * kN + e) / 4, four * factor);
            }
          subgroupBarrier();
          coopMatLoadNV(left[k], lefts, my_left, kK / 8, false);
          subgroupBarrier();
        }
        [[unroll]] for (int s = 0; s < kMySlices; s++) {
          const int slice = across * kMySlices + s;
          if (slice < kSlices) {
            Sum products = Sum(0.0);
            [[unroll]] for (int k = 0; k < kQueries / kK; k++) {
              Right right;
              coopMatLoadNV(right, halves_of, (pass == 0 ? kOuts : 0) + k * kK * kRowLd + slice * (kN / 8), kRowLd, false);
              products = coopMatMulAddNV(left[k], right, products);
            }
            coopMatStoreNV(products, sums, my_sum, kN / 4, false);
          }
          subgroupBarrier();
          [[unroll]] for (int e = 0; e < kEach; e++) {
            const float next = as_float(sums[my_sum + sum_at + e / 4][e % 4]);
            if (pass == 0)
              dv[s][e] = mad(next, back, dv[s][e]);
            else
              dk[s][e] = mad(next, back, dk[s][e]);
          }
          subgroupBarrier();
        }
      }
      barrier();
    }
  }

  Floats to_keys = gradients_of(d_keys, number, kKvHeads, kHeadDim), to_values = gradients_of(d_values, number, kKvHeads, kHeadDim);
  [[unroll]] for (int s = 0; s < kMySlices; s++)
    [[unroll]] for (int e = 0; e < kEach; e++) {
      const int d = (across * kMySlices + s) * kN + part * kEach + e, to = (head * kPage + key) * kHeadDim + d;
      if (d >= kHeadDim) continue;
      to_keys.at[to] = flushed(dk[s][e]);
      to_values.at[to] = flushed(dv[s][e]);
    }
}
