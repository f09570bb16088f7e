#version 460
// Gradients of q, k and v of T before norm and rotation, from those of turned heads: queries' [rows][kHeads][kHeadDim],
// keys' and values' by page, which are taken from all slots of a token. A workgroup to a row and head: the heads of q, then
// those of k, then those of v.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "rows.glsl"
#include "pages.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 1) const int kHeads = 1;
layout(constant_id = 2) const int kKvHeads = 1;
layout(constant_id = 3) const int kHeadDim = 64;
layout(constant_id = 4) const int kRotary = 64;
layout(constant_id = 6) const int kStride = 64;  // from head to head of q

layout(push_constant) uniform Parameters {
  Elements q, k;          // [rows][ld], before norm; of models that norm them
  Floats q_norm, k_norm;  // or null
  Floats turns;           // see rope.comp
  Floats d_queries, d_keys, d_values;
  Elements d_q, d_k, d_v;  // [rows][ld]
  Ints slots;              // see rope.comp
  int ldq, ldkv;
  float eps;
  int rows;
};

const int kHalf = kRotary / 2;
shared float d[kHeadDim], turned[kHeadDim];
shared float xs[kHeadDim], norms[kHeadDim], turn[kRotary + 1];  // what turn_back() reads

// Begins to fetch what turn_back() reads; a barrier stands before that.
void fetch(Elements x, int at, Floats norm, int row) {
  const int lane = int(gl_LocalInvocationID.x);
  for (int i = lane; i < kRotary; i += 64) turn[i] = turns.at[row * (kRotary + 1) + i];
  if (!present(uvec2(norm))) return;
  for (int i = lane; i < kHeadDim; i += 64) xs[i] = element(x, at + i), norms[i] = norm.at[i];
}

void gather(Floats from, int row, int head) {
  for (int i = int(gl_LocalInvocationID.x); i < kHeadDim; i += 64) {
    float sum = 0.0;
    for (int s = slots.at[row]; s < slots.at[row + 1]; s++) {
      const int page = slots.at[rows + 1 + 2 * s], slot = slots.at[rows + 2 + 2 * s];
      const float value = gradients_of(from, page, kKvHeads, kHeadDim).at[(head * kPage + slot) * kHeadDim + i];
      sum = s == slots.at[row] ? value : sum + value;
    }
    d[i] = sum;
  }
  barrier();
}

// d of a head that was normed and turned, to that of x.
void turn_back(int at, bool is_normed, Elements to) {
  const int lane = int(gl_LocalInvocationID.x);
  for (int i = lane; i < kHalf; i += 64) {
    const float a = d[i], b = d[kHalf + i], c = turn[i], s = turn[kHalf + i];
    turned[i] = mad(a, c, b * s);
    turned[kHalf + i] = mad(b, c, -(a * s));
  }
  for (int i = kRotary + lane; i < kHeadDim; i += 64) turned[i] = d[i];
  barrier();
  if (!is_normed) {
    for (int i = lane; i < kHeadDim; i += 64) put(to, at + i, turned[i]);
    return;
  }
  if (lane < kLanes) {
    float sum = 0.0;
    for (int i = lane; i < kHeadDim; i += kLanes) sum = mad(xs[i], xs[i], sum);
    lane_sums[lane] = sum;
  }
  barrier();
  const float inverse = quotient(1.0, root(quotient(sum_of_lanes(), float(kHeadDim)) + eps));
  barrier();
  if (lane < kLanes) {
    float sum = 0.0;
    for (int i = lane; i < kHeadDim; i += kLanes) sum = mad(turned[i] * norms[i], xs[i] * inverse, sum);
    lane_sums[lane] = sum;
  }
  barrier();
  const float mean = -quotient(sum_of_lanes(), float(kHeadDim));
  for (int i = lane; i < kHeadDim; i += 64)
    put(to, at + i, inverse * mad(xs[i] * inverse, mean, turned[i] * norms[i]));
}

void main() {
  const int row = int(gl_WorkGroupID.x), lane = int(gl_LocalInvocationID.x);
  int head = int(gl_WorkGroupID.y);
  if (head < kHeads) {
    const int at = row * ldq + head * kStride;
    fetch(q, at, q_norm, row);
    const float scale = turns.at[row * (kRotary + 1) + kRotary];
    for (int i = lane; i < kHeadDim; i += 64) {
      const float value = d_queries.at[(row * kHeads + head) * kHeadDim + i];
      d[i] = scale != 1.0 ? scale * value : value;
    }
    barrier();
    turn_back(at, present(uvec2(q_norm)), d_q);
    return;
  }
  head -= kHeads;
  if (head < kKvHeads) {
    const int at = row * ldkv + head * kHeadDim;
    fetch(k, at, k_norm, row);
    gather(d_keys, row, head);
    turn_back(at, present(uvec2(k_norm)), d_k);
    return;
  }
  head -= kKvHeads;
  gather(d_values, row, head);
  for (int i = lane; i < kHeadDim; i += 64) put(d_v, row * ldkv + head * kHeadDim + i, d[i]);
}
