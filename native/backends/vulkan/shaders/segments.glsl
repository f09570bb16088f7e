// What attention and the merging of its segments share: a workgroup's queries, and segments of 1,024 positions, each with
// a maximum, a sum and an output of its own, that are merged in ascending order.
#include "queries.glsl"
layout(constant_id = 4) const int kRows = 1;

const int kSegmentBlocks = 16;
const int kHeadGranules = (kHeadDim + kGranule - 1) / kGranule;

// What sums and outputs before a segment are multiplied with, and then its own, by the maxima of both.
vec2 merged(float before, float other) {
  const float now = other > before ? other : before;
  return vec2(exponential(before - now), exponential(other - now));
}

// Of 16 lanes, by the tree of all rows here.
float sum_of(vec4 a, vec4 b, vec4 c, vec4 d) {
  const vec4 s = (a + c) + (b + d);
  return (s[0] + s[2]) + (s[1] + s[3]);
}

// Where a segment of a row lies while it waits to be merged, floats: the maximum, the sums, the output.
const int kSegmentFloats = 1 + kLanes + kHeadDim;
int segment_at(int tile, int head, int segment, int segments, int row) {
  return (((tile * kKvHeads + head) * segments + segment) * kRows + row) * kSegmentFloats;
}
