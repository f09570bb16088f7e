#version 460
// Gradients of turned queries, dq = ds K: a workgroup has a tile of queries and 64 elements of their heads, and visits the
// blocks that they see in order.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "pages.glsl"

const int kTiles = 1;
#include "attention_backward.glsl"

layout(push_constant) uniform Parameters {
  Elements ds;  // [slots][kKvHeads][64][64]; where keys are codes, times their scales
  Granules pages;
  Ints tables;
  Tiles tiles;
  Floats d_queries;  // [rows][kHeads][kHeadDim]
};

const int kParts = kPage / kDepth;
uvec4 ds_next[kLoads], k_next[kLoads];

void main() {
  const int me = int(gl_LocalInvocationID.x), head = int(gl_WorkGroupID.y), d0 = int(gl_WorkGroupID.z) * kTile;
  const Tile tile = tiles.at[gl_WorkGroupID.x];
  const int row8 = me / 16, d = d0 + me % 16 * 4, at = head * page_granules(kHeadDim);
  const bool has_sums = row8 * 8 < tile.count && d < kHeadDim;
  vec4 sums[8];
#define BEGIN(i) sums[i] = vec4(0.0);
  EACH_ROW(BEGIN)
  int number = tables.at[tile.table + tile.block], coming = number;
  for (int part = -1, turn = 1; part < tile.blocks * kParts; part++, turn ^= 1) {
    const int next = part + 1, block = next / kParts, key0 = next % kParts * kDepth;
    const bool is_more = next < tile.blocks * kParts;
    if (is_more) {
      if (key0 == 0) number = coming, coming = tables.at[tile.table + tile.block + min(block + 1, tile.blocks - 1)];
      Granules page = page_of(pages, number, kKvHeads, kHeadDim);
      for (int load = 0; load < kLoads; load++) {
        const int n = me + load * kInvocations;
        const int from = pair_at(tile.slot + block, head, n % kTile) + key0 + n / kTile * kGranule;
        ds_next[load] = Granules(uvec2(ds)).at[from / kGranule];
        const int k_d = d0 + n % kAcross * kGranule;
        k_next[load] =
            k_d < kHeadDim ? key_granule(page, at, kHeadDim, k_d / kGranule, key0 + n / kAcross) : uvec4(0u);
      }
    }
    if (part >= 0 && has_sums) {
      LOOP for (int step = 0; step < kDepth; step++) TAKE_UP(sums, 0, turn, step, row8, me % 16)
    }
    if (is_more) {
      for (int load = 0; load < kLoads; load++) {
        const int n = me + load * kInvocations;
        stage_steps(0, turn ^ 1, n / kTile * kGranule, n % kTile, ds_next[load]);
        stage_along(1, turn ^ 1, n / kAcross, n % kAcross * kGranule, k_next[load]);
      }
    }
    barrier();
  }
#define END(i)                       \
  if (row8 * 8 + i < tile.count)     \
    put_head_part(d_queries, head_row(tile.row, tile.first, head, row8 * 8 + i), d, sums[i]);
  EACH_ROW(END)
}
