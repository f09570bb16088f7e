// What attention and the merging of its segments share: a workgroup's queries, and segments of 1,024 positions, each with
// a maximum, a sum and an output of its own, that are merged in ascending order.
layout(local_size_x = 64) in;
layout(constant_id = 1) const int kHeads = 1;
layout(constant_id = 2) const int kKvHeads = 1;
layout(constant_id = 3) const int kHeadDim = 64;
layout(constant_id = 4) const int kRows = 1;

// Tokens [row, row + tokens) of a sequence, at `position` and on, with heads [head, head + heads) of each group.
struct Tile {
  int row, tokens, position, head, heads, table;
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Tiles { Tile at[]; };

const int kSegmentBlocks = 16, kGroup = kHeads / kKvHeads, kParts = (kHeadDim + 63) / 64;
const int kHeadGranules = (kHeadDim + kGranule - 1) / kGranule;

shared float maximum[kRows], sums[kRows][kLanes];              // of the segment
shared float total_maximum[kRows], total_sums[kRows][kLanes];  // of the segments before it

float outs[kRows][kParts], total_outs[kRows][kParts];

// A segment onto those before it; the first is what they are.
void merge_segment(bool first) {
  const int me = int(gl_LocalInvocationID.x);
  LOOP for (int r = 0; r < kRows; r++) {
    const float before = total_maximum[r], other = maximum[r];
    if (!first && other == kLowest) continue;  // the row sees nothing of it
    const float now = other > before ? other : before;
    const float a = exponential(before - now), b = exponential(other - now);
    if (me < kLanes) total_sums[r][me] = first ? sums[r][me] : mad(sums[r][me], b, total_sums[r][me] * a);
    LOOP for (int p = 0; p < kParts; p++)
      total_outs[r][p] = first ? outs[r][p] : mad(outs[r][p], b, total_outs[r][p] * a);
  }
  barrier();
  for (int r = me; r < kRows; r += 64)
    if (first || maximum[r] > total_maximum[r]) total_maximum[r] = maximum[r];
  barrier();
}

// What heads put out, of all segments.
void finish(Tile tile, int head, int count, Elements attention, int ld, Floats lse) {
  const int me = int(gl_LocalInvocationID.x);
  LOOP for (int r = 0; r < kRows; r++) {
    if (r >= count) break;
    if (me < kLanes) lane_sums[me] = total_sums[r][me];
    barrier();
    const float sum = sum_of_lanes(), inverse = quotient(1.0, sum);
    const int row = tile.row + r / tile.heads, q_head = head * kGroup + tile.head + r % tile.heads;
    LOOP for (int p = 0; p < kParts; p++)
      if (p * 64 + me < kHeadDim)
        put(attention, row * ld + q_head * kHeadDim + p * 64 + me, mad(total_outs[r][p], inverse, 0.0));
    if (me == 0 && present(uvec2(lse))) lse.at[row * kHeads + q_head] = total_maximum[r] + logarithm(sum);
    barrier();
  }
}

// Where a segment lies while it waits to be merged, floats: the maximum, the sums, the output.
const int kSegmentFloats = 1 + kLanes + kHeadDim;
int segment_at(int tile, int head, int segment, int segments) {
  return ((tile * kKvHeads + head) * segments + segment) * kRows * kSegmentFloats;
}
