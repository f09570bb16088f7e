#version 460
// Merges the segments that workgroups of attention.comp left, in ascending order: what one workgroup would have done. A
// workgroup has a row of a tile.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "rows.glsl"
#include "pages.glsl"
#include "segments.glsl"

layout(local_size_x = 64) in;

layout(push_constant) uniform Parameters {
  Floats waiting;
  Tiles tiles;
  Elements attention;  // [rows][ld]
  Floats lse;          // [rows][kHeads], or null
  int ld, window, segments;
};

const int kParts = (kHeadDim + 63) / 64;

void main() {
  const int me = int(gl_LocalInvocationID.x), head = int(gl_WorkGroupID.y), r = int(gl_WorkGroupID.z);
  const Tile tile = tiles.at[gl_WorkGroupID.x];
  if (r >= tile.tokens * tile.heads) return;
  const int first = (window > 0 ? max(0, tile.position - window + 1) : 0) / (kSegmentBlocks * kPage);
  const int last = (tile.position + tile.tokens - 1) / (kSegmentBlocks * kPage);
  float maximum, sum, outs[kParts];
  LOOP for (int segment = 0; segment <= last - first; segment++) {
    const int at = segment_at(int(gl_WorkGroupID.x), head, segment, segments, r), lanes = at + 1, out_at = lanes + kLanes;
    const float other = waiting.at[at];
    if (segment > 0 && other == kLowest) continue;  // the row sees nothing of it
    const vec2 w = segment == 0 ? vec2(0.0, 1.0) : merged(maximum, other);
    const float lane = waiting.at[lanes + me % kLanes];
    sum = segment == 0 ? lane : mad(lane, w.y, sum * w.x);
    UNROLL for (int p = 0; p < kParts; p++) {
      const float x = waiting.at[out_at + min(p * 64 + me, kHeadDim - 1)];
      outs[p] = segment == 0 ? x : mad(x, w.y, outs[p] * w.x);
    }
    if (segment == 0 || other > maximum) maximum = other;
  }

  if (me < kLanes) lane_sums[me] = sum;
  barrier();
  const float total = sum_of_lanes(), inverse = quotient(1.0, total);
  const int row = tile.row + r / tile.heads, q_head = head * kGroup + tile.head + r % tile.heads;
  UNROLL for (int p = 0; p < kParts; p++)
    if (p * 64 + me < kHeadDim) put(attention, row * ld + q_head * kHeadDim + p * 64 + me, mad(outs[p], inverse, 0.0));
  if (me == 0 && present(uvec2(lse))) lse.at[row * kHeads + q_head] = maximum + logarithm(total);
}
