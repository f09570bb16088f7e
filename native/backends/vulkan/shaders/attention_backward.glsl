// What the passes of attention's backward share (cpu/kernels/attention_backward.h). With the probabilities recomputed from
// each row's log-sum-exp, ds = p (dout.v - delta) scale; dq += ds K, dk += ds^T q, dv += p^T dout. Each is a product of tiles
// of 64 by 64 by a workgroup: an invocation has 8 by 4 sums, and 16 steps of the reduction wait in shared memory while the
// next 16 are on their way. kTiles of them share a loop over the reduction.
layout(local_size_x = 128) in;
layout(constant_id = 1) const int kHeads = 1;
layout(constant_id = 2) const int kKvHeads = 1;
layout(constant_id = 3) const int kHeadDim = 64;

const int kGroup = kHeads / kKvHeads;
const int kTile = 64, kDepth = 16, kInvocations = 128;
// Granules of a tile's kDepth steps that an invocation fetches; a tile has so many of them to a step.
const int kLoads = kTile * kDepth / kGranule / kInvocations, kAcross = kTile / kGranule;

// Rows of queries of a sequence and key-value head, token by token and each token's heads: [first, first + count), counted
// from the first head of token `row`, which stands at `position`. They see `blocks` blocks of the sequence from `block` on;
// what is found of them and a block lies in slot `slot` and on.
struct Tile {
  int row, position, first, count, table, block, blocks, slot;
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Tiles { Tile at[]; };

// Where a row of a tile lies among [tokens][kHeads].
int head_row(int row, int first, int head, int r) {
  return (row + (first + r) / kGroup) * kHeads + head * kGroup + (first + r) % kGroup;
}
// p or ds of a slot: [slots][kKvHeads][64 rows][64 keys].
int pair_at(int slot, int head, int r) { return ((slot * kKvHeads + head) * kTile + r) * kTile; }

// Elements of a head from d on, of [head_rows][kHeadDim]; zeros beyond them.
uvec4 head_granule(Elements from, int head_row, int d) {
  if (kHeadDim % kGranule == 0)
    return d < kHeadDim ? Granules(uvec2(from)).at[(head_row * kHeadDim + d) / kGranule] : uvec4(0u);
  uvec4 found = uvec4(0u);
  for (int i = 0; i < kGranule; i++) {
    const uint bits = d + i < kHeadDim ? as_bits(element(from, head_row * kHeadDim + d + i)) : 0u;
    if (kBf16)
      found[i / 2] |= i % 2 == 0 ? bits >> 16 : bits;
    else
      found[i] = bits;
  }
  return found;
}

// [tiles, left and right][which of two][step][64]: steps stand in the order in which they are summed, the later of a pair first.
shared vec4 staged[kTiles * 2][2][kDepth][kTile / 4];
int step_at(int step) { return step ^ (kStep - 1); }

// A granule of steps, of one of the 64.
void stage_steps(int side, int turn, int step, int at, uvec4 granule) {
  for (int i = 0; i < kGranule; i++) staged[side][turn][step_at(step + i)][at / 4][at % 4] = part(granule, i);
}
// A granule of a step.
void stage_along(int side, int turn, int step, int at, uvec4 granule) {
  for (int i = 0; i < kGranule; i += 4)
    staged[side][turn][step_at(step)][(at + i) / 4] =
        vec4(part(granule, i), part(granule, i + 1), part(granule, i + 2), part(granule, i + 3));
}

vec4 mad(float a, vec4 b, vec4 c) {
  return vec4(mad(a, b.x, c.x), mad(a, b.y, c.y), mad(a, b.z, c.z), mad(a, b.w, c.w));
}

// Four elements of a head from d on; zeros beyond them.
vec4 head_part(Floats from, int head_row, int d) {
  const int at = head_row * kHeadDim + d;
  return vec4(d < kHeadDim ? from.at[at] : 0.0, d + 1 < kHeadDim ? from.at[at + 1] : 0.0,
              d + 2 < kHeadDim ? from.at[at + 2] : 0.0, d + 3 < kHeadDim ? from.at[at + 3] : 0.0);
}
void put_head_part(Floats to, int head_row, int d, vec4 x) {
  const int at = head_row * kHeadDim + d;
  if (d < kHeadDim) to.at[at] = flushed(x.x);
  if (d + 1 < kHeadDim) to.at[at + 1] = flushed(x.y);
  if (d + 2 < kHeadDim) to.at[at + 2] = flushed(x.z);
  if (d + 3 < kHeadDim) to.at[at + 3] = flushed(x.w);
}

// The 8 rows of an invocation, each a vec4 of sums. Written out: where a loop over them stays one, they lie in memory.
#define EACH_ROW(of) of(0) of(1) of(2) of(3) of(4) of(5) of(6) of(7)
#define ROW_OF(sums, i)                                                                                          \
  ((i) < 4 ? ((i) < 2 ? ((i) < 1 ? sums[0] : sums[1]) : (i) < 3 ? sums[2] : sums[3])                              \
           : ((i) < 6 ? ((i) < 5 ? sums[4] : sums[5]) : (i) < 7 ? sums[6] : sums[7]))

// Sums take up what is staged of a tile's step.
#define TAKE_UP(sums, tile, turn, step, row8, column4)                              \
  {                                                                                 \
    const vec4 low = staged[2 * tile][turn][step][2 * (row8)];                      \
    const vec4 high = staged[2 * tile][turn][step][2 * (row8) + 1];                 \
    const vec4 right = staged[2 * tile + 1][turn][step][column4];                   \
    sums[0] = mad(low.x, right, sums[0]), sums[1] = mad(low.y, right, sums[1]);     \
    sums[2] = mad(low.z, right, sums[2]), sums[3] = mad(low.w, right, sums[3]);     \
    sums[4] = mad(high.x, right, sums[4]), sums[5] = mad(high.y, right, sums[5]);   \
    sums[6] = mad(high.z, right, sums[6]), sums[7] = mad(high.w, right, sums[7]);   \
  }
