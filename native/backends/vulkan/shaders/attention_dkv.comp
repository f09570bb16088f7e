#version 460
// Gradients of a page's keys or values, dk = ds^T q and dv = p^T dout: a workgroup has a page, a key-value head and 64 elements
// of it, and visits the tiles of queries that see the page in order; those of keys come first.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "pages.glsl"

const int kTiles = 1;
#include "attention_backward.glsl"

// A tile of queries and the slot where their pairs with the page's keys lie.
struct Use {
  int row, first, count, slot;
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Uses { Use at[]; };

layout(push_constant) uniform Parameters {
  Elements queries, d_attention;  // [rows][kHeads][kHeadDim]
  Elements ps, ds;                // [slots][kKvHeads][64][64]
  Ints first_use;                 // [pages + 1]
  Uses uses;
  Floats d_keys, d_values;  // [pages][kKvHeads][kPage][kHeadDim]
  int goes_on;              // not 0: the sums so far are there
};

const int kHeadParts = (kHeadDim + kTile - 1) / kTile;
uvec4 left_next[kLoads], right_next[kLoads];

void main() {
  const int me = int(gl_LocalInvocationID.x), number = int(gl_WorkGroupID.x), head = int(gl_WorkGroupID.y);
  const bool is_keys = int(gl_WorkGroupID.z) < kHeadParts;
  const int d0 = int(gl_WorkGroupID.z) % kHeadParts * kTile, key8 = me / 16, d = d0 + me % 16 * 4;
  int u = first_use.at[number];
  const int end = first_use.at[number + 1];
  if (goes_on != 0 && u == end) return;
  Floats to = gradients_of(is_keys ? d_keys : d_values, number, kKvHeads, kHeadDim);
  Granules pairs = Granules(is_keys ? uvec2(ds) : uvec2(ps));
  Elements rows = is_keys ? queries : d_attention;
  const int first_out = head * kPage + key8 * 8;
  vec4 sums[8];
#define BEGIN(i) sums[i] = vec4(0.0);
  EACH_ROW(BEGIN)
#define GO_ON(i) sums[i] = head_part(to, first_out + i, d);
  if (goes_on != 0) { EACH_ROW(GO_ON) }
  if (u < end) {
    Use use = uses.at[u], coming = use;
    bool is_more = true, is_staged = false;
    for (int row0 = 0, turn = 1; is_more || is_staged; turn ^= 1) {
      if (is_more) {
        if (row0 == 0) coming = uses.at[min(u + 1, end - 1)];
        for (int load = 0; load < kLoads; load++) {
          const int n = me + load * kInvocations, r = row0 + n / kAcross, across = n % kAcross * kGranule;
          left_next[load] = pairs.at[(pair_at(use.slot, head, r) + across) / kGranule];
          right_next[load] =
              r < use.count ? head_granule(rows, head_row(use.row, use.first, head, r), d0 + across) : uvec4(0u);
        }
      }
      if (is_staged && d < kHeadDim) {
        LOOP for (int step = 0; step < kDepth; step++) TAKE_UP(sums, 0, turn, step, key8, me % 16)
      }
      is_staged = is_more;
      if (is_more) {
        for (int load = 0; load < kLoads; load++) {
          const int n = me + load * kInvocations;
          stage_along(0, turn ^ 1, n / kAcross, n % kAcross * kGranule, left_next[load]);
          stage_along(1, turn ^ 1, n / kAcross, n % kAcross * kGranule, right_next[load]);
        }
        row0 += kDepth;
        if (row0 >= use.count) row0 = 0, u++, use = coming;
        is_more = u < end;
      }
      barrier();
    }
  }
#define END(i) put_head_part(to, first_out + i, d, sums[i]);
  EACH_ROW(END)
}
