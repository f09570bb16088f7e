#version 460
// Merges the segments that workgroups of attention.comp left, in ascending order: what one workgroup would have done.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "rows.glsl"
#include "weights.glsl"
#include "pages.glsl"
#include "segments.glsl"

layout(push_constant) uniform Parameters {
  Floats waiting;
  Tiles tiles;
  Elements attention;  // [rows][ld]
  Floats lse;          // [rows][kHeads], or null
  int ld, window, segments;
};

void main() {
  const int me = int(gl_LocalInvocationID.x), head = int(gl_WorkGroupID.y);
  const Tile tile = tiles.at[gl_WorkGroupID.x];
  const int first = (window > 0 ? max(0, tile.position - window + 1) : 0) / (kSegmentBlocks * kPage);
  const int last = (tile.position + tile.tokens - 1) / (kSegmentBlocks * kPage);
  for (int segment = first; segment <= last; segment++) {
    const int from = segment_at(int(gl_WorkGroupID.x), head, segment, segments);
    LOOP for (int r = 0; r < kRows; r++) {
      const int at = from + r * kSegmentFloats;
      if (me == 0) maximum[r] = waiting.at[at];
      if (me < kLanes) sums[r][me] = waiting.at[at + 1 + me];
      LOOP for (int p = 0; p < kParts; p++)
        outs[r][p] = p * 64 + me < kHeadDim ? waiting.at[at + 1 + kLanes + p * 64 + me] : 0.0;
    }
    barrier();
    merge_segment(segment == first);
  }
  finish(tile, head, tile.tokens * tile.heads, attention, ld, lse);
}
