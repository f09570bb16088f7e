#version 460
// p and ds of pairs of a query and a key, rounded, from which attention_dq.comp and attention_dkv.comp make the gradients:
// zeros where the query does not see the key. A workgroup has a tile of queries and a block of keys.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "pages.glsl"

const int kTiles = 2;  // q.k and dout.v
#include "attention_backward.glsl"
#include "sight.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) buffer Words { uvec2 at[]; };

layout(push_constant) uniform Parameters {
  Elements queries, d_attention;  // [rows][kHeads][kHeadDim]
  Granules pages;
  Ints tables;
  Tiles tiles;
  Floats lse, delta;          // [rows][kHeads]
  Elements ps, ds, ds_coded;  // [slots][kKvHeads][64][64]; ds_coded: times the scale of a key's codes, or null
  Sight sight;
};

void put4(Elements to, int at, vec4 x) {
  if (kBf16)
    Words(uvec2(to)).at[at / 4] =
        uvec2(narrowed(x.x) | narrowed(x.y) << 16, narrowed(x.z) | narrowed(x.w) << 16);
  else
    Granules(uvec2(to)).at[at / 4] =
        uvec4(as_bits(flushed(x.x)), as_bits(flushed(x.y)), as_bits(flushed(x.z)), as_bits(flushed(x.w)));
}

uvec4 q_next[kLoads], k_next[kLoads], dout_next[kLoads], v_next[kLoads];

void main() {
  const int me = int(gl_LocalInvocationID.x), head = int(gl_WorkGroupID.z);
  const Tile tile = tiles.at[gl_WorkGroupID.y];
  if (int(gl_WorkGroupID.x) >= tile.blocks) return;
  const int block = tile.block + int(gl_WorkGroupID.x), row8 = me / 16, key4 = me % 16;
  Granules page = page_of(pages, tables.at[tile.table + block], kKvHeads, kHeadDim);
  const int at = head * page_granules(kHeadDim);
  // Half of the invocations fetch log-sum-exps, the others deltas.
  const int mine = head_row(tile.row, tile.first, head, min(me % kTile, tile.count - 1));
  const float of_row = me < kTile ? lse.at[mine] : delta.at[mine];

  vec4 scores[8], dps[8];
#define BEGIN(i) scores[i] = dps[i] = vec4(0.0);
  EACH_ROW(BEGIN)
  for (int d0 = -kDepth, turn = 1; d0 < kHeadDim; d0 += kDepth, turn ^= 1) {
    const int next = d0 + kDepth;
    if (next < kHeadDim) {
      for (int load = 0; load < kLoads; load++) {
        const int n = me + load * kInvocations, one = n % kTile, d = next + n / kTile * kGranule;
        const bool is_row = one < tile.count;
        const int row = head_row(tile.row, tile.first, head, one);
        q_next[load] = is_row ? head_granule(queries, row, d) : uvec4(0u);
        dout_next[load] = is_row ? head_granule(d_attention, row, d) : uvec4(0u);
        k_next[load] = d < kHeadDim ? key_granule(page, at, kHeadDim, d / kGranule, one) : uvec4(0u);
        const int v_d = next + n / kAcross;
        v_next[load] = v_d < kHeadDim ? value_granule(page, at, kHeadDim, n % kAcross, v_d) : uvec4(0u);
      }
    }
    if (d0 >= 0 && row8 * 8 < tile.count) {
      LOOP for (int step = 0; step < kDepth; step++) {
        TAKE_UP(scores, 0, turn, step, row8, key4)
        TAKE_UP(dps, 1, turn, step, row8, key4)
      }
    }
    if (next < kHeadDim) {
      for (int load = 0; load < kLoads; load++) {
        const int n = me + load * kInvocations;
        stage_steps(0, turn ^ 1, n / kTile * kGranule, n % kTile, q_next[load]);
        stage_steps(1, turn ^ 1, n / kTile * kGranule, n % kTile, k_next[load]);
        stage_steps(2, turn ^ 1, n / kTile * kGranule, n % kTile, dout_next[load]);
        stage_along(3, turn ^ 1, n / kAcross, n % kAcross * kGranule, v_next[load]);
      }
    }
    barrier();
  }

  staged[0][0][me / kTile][me % kTile / 4][me % 4] = of_row;
  barrier();
  vec4 by_key = vec4(1.0), by_value = vec4(1.0);
  if (kCoded != 0)
    for (int j = 0; j < 4; j++) {
      by_key[j] = key_scale(page, at, kHeadDim, key4 * 4 + j);
      by_value[j] = value_scale(page, at, kHeadDim, key4 * 4 + j);
    }
  LOOP for (int i = 0; i < 8; i++) {
    const int r = row8 * 8 + i, position = tile.position + (tile.first + r) / kGroup;
    const float row_lse = staged[0][0][0][r / 4][r % 4], row_delta = staged[0][0][1][r / 4][r % 4];
    const vec4 score4 = ROW_OF(scores, i), dp4 = ROW_OF(dps, i);
    vec4 p = vec4(0.0), ds4 = vec4(0.0);
    LOOP for (int j = 0; j < 4; j++) {
      if (r >= tile.count || !seen(sight, block * kPage + key4 * 4 + j, position)) continue;
      float score = score4[j], dp = dp4[j];
      if (kCoded != 0) score = score * by_key[j], dp = dp * by_value[j];
      score = capped(sight, score);
      p[j] = exponential(exponent_of(sight, score, row_lse));
      ds4[j] = score_gradient(sight, score, p[j], dp, row_delta);
    }
    const int to = pair_at(tile.slot + int(gl_WorkGroupID.x), head, r) + key4 * 4;
    put4(ps, to, p);
    put4(ds, to, ds4);
    // Of a slot that no token has written the scale may be anything.
    if (kCoded != 0)
      put4(ds_coded, to, vec4(ds4.x == 0.0 ? 0.0 : ds4.x * by_key.x, ds4.y == 0.0 ? 0.0 : ds4.y * by_key.y,
                              ds4.z == 0.0 ? 0.0 : ds4.z * by_key.z, ds4.w == 0.0 ? 0.0 : ds4.w * by_key.w));
  }
}
