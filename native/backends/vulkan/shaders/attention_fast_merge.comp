#version 460
// Merges the units that workgroups of attention_fast.comp left, in ascending order: what one workgroup would have done. A
// workgroup to a row of a tile and a key-value head, an invocation to elements of the output.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "pages.glsl"
#include "attention_fast.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters {
  Floats waiting;
  Tiles tiles;
  Elements attention;  // [rows][ld]
  Floats lse;          // [rows][kHeads], or null
  int ld, window, rows, units;
};

const int kParts = (kHeadDim + 63) / 64, kAtOnce = 64, kAhead = 8;
shared float maxima[kAtOnce], unit_sums[kAtOnce];
shared vec2 unit_shares[kAtOnce];

void main() {
  const int me = int(gl_LocalInvocationID.x), head = int(gl_WorkGroupID.y);
  const int number = int(gl_WorkGroupID.x) / rows, r = int(gl_WorkGroupID.x) % rows;
  const Tile tile = tiles.at[number];
  if (r >= tile.tokens * tile.heads) return;
  const int from = waiting_at(number, head, rows, r, units), count = last_unit(tile) - first_unit(tile, window) + 1;
  float maximum = kLowest, sum = 0.0, outs[kParts];
  for (int p = 0; p < kParts; p++) outs[p] = 0.0;
  for (int begin = 0; begin < count; begin += kAtOnce) {
    const int some = min(kAtOnce, count - begin);
    if (me < some) {
      maxima[me] = waiting.at[from + (begin + me) * kWaitingFloats];
      unit_sums[me] = waiting.at[from + (begin + me) * kWaitingFloats + 1];
    }
    barrier();
    for (int u = 0; u < some; u++) {
      const vec2 share = shares(maximum, maxima[u]);
      sum = taken_up(sum, unit_sums[u], share);
      if (me == 0) unit_shares[u] = share;
    }
    barrier();
    for (int u = 0; u < some; u += kAhead)
      for (int p = 0; p < kParts; p++) {
        const int d = min(p * 64 + me, kHeadDim - 1);
        float ahead[kAhead];
        for (int i = 0; i < kAhead; i++)
          ahead[i] = waiting.at[from + (begin + min(u + i, some - 1)) * kWaitingFloats + 2 + d];
        LOOP for (int i = 0; i < kAhead; i++)
          if (u + i < some) outs[p] = taken_up(outs[p], ahead[i], unit_shares[u + i]);
      }
    barrier();
  }
  const int token = tile.row + r / tile.heads, q_head = head * kGroup + tile.head + r % tile.heads;
  const float inverse = quotient(1.0, sum);
  LOOP for (int p = 0; p < kParts; p++)
    if (p * 64 + me < kHeadDim) put(attention, token * ld + q_head * kHeadDim + p * 64 + me, mad(outs[p], inverse, 0.0));
  if (me == 0 && present(uvec2(lse))) lse.at[token * kHeads + q_head] = maximum + logarithm(sum * kLowered);
}
