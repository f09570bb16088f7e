#version 460
// Heads of q, k and v of a token: norm and rotation (cpu/kernels/rope.h); queries to rows [rows][heads][head_dim] of T,
// keys and values to their pages. A workgroup to a row and head: the heads of q, then those of k, then those of v.
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

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words { uint at[]; };

layout(push_constant) uniform Parameters {
  Elements q, k, v;      // [rows][ld]
  Floats q_norm, k_norm;  // or null
  Floats turns;           // [rows][kRotary + 1]: cosines, sines, and the scale of the queries
  Elements queries;
  Granules pages;
  Ints slots;  // [rows + 1], then pairs of page and slot: those of a row begin where its entry says
  int ldq, ldkv;
  float eps;
  int rows;
};

const int kHalf = kRotary / 2;
shared float turned[kHeadDim];
shared uint most[kLanes];

void turn(Elements x, int at, Floats norm, int row) {
  const int lane = int(gl_LocalInvocationID.x);
  const bool normed = present(uvec2(norm));
  float inverse = 1.0;
  if (normed) {
    if (lane < kLanes) {
      float sum = 0.0;
      for (int i = lane; i < kHeadDim; i += kLanes) {
        const float value = element(x, at + i);
        sum = mad(value, value, sum);
      }
      lane_sums[lane] = sum;
    }
    barrier();
    inverse = quotient(1.0, root(quotient(sum_of_lanes(), float(kHeadDim)) + eps));
  }
  const int turn_at = row * (kRotary + 1);
  for (int i = lane; i < kHalf; i += 64) {
    float a = element(x, at + i), b = element(x, at + kHalf + i);
    const float c = turns.at[turn_at + i], s = turns.at[turn_at + kHalf + i];
    if (normed) a = a * inverse * norm.at[i], b = b * inverse * norm.at[kHalf + i];
    turned[i] = mad(a, c, -(b * s));
    turned[kHalf + i] = mad(b, c, a * s);
  }
  for (int i = kRotary + lane; i < kHeadDim; i += 64) {
    const float a = element(x, at + i);
    turned[i] = normed ? a * inverse * norm.at[i] : a;
  }
  barrier();
}

// Of the largest of `turned`, as codes are made (cpu/kernels/codes.h).
float largest() {
  const int lane = int(gl_LocalInvocationID.x);
  if (lane < kLanes) {
    most[lane] = 0u;
    for (int i = lane; i < kHeadDim; i += kLanes) most[lane] = max(most[lane], as_bits(turned[i]) & 0x7fffffffu);
  }
  barrier();
  uint all = 0u;
  for (int i = 0; i < kLanes; i++) all = max(all, most[i]);
  return as_float(all);
}

void write_codes(bool is_key, int head, int row) {
  const float kToNearest = 12582912.0;
  const int lane = int(gl_LocalInvocationID.x), granules = round_up(kHeadDim, 16) / 16;
  const float all = largest();
  const bool wrong = as_bits(all) >= kExponent, none = wrong || all < 1e-35;
  const float scale = wrong ? as_float(0x7fc00000u) : none ? 0.0 : quotient(all, 127.0);
  const float inverse = none ? 0.0 : quotient(127.0, all);
  for (int s = slots.at[row]; s < slots.at[row + 1]; s++) {
    const int page = slots.at[rows + 1 + 2 * s], slot = slots.at[rows + 2 + 2 * s];
    Granules of_page = page_of(pages, page, kKvHeads, kHeadDim);
    const int at = head * page_granules(kHeadDim);
    for (int word = lane; word < granules * 4; word += 64) {
      uint codes = 0u;
      for (int i = 0; i < 4; i++) {
        const int d = word * 4 + i;
        if (none || d >= kHeadDim) continue;
        codes |= (as_bits(turned[d] * inverse + kToNearest) & 255u) << (i * 8);
      }
      const int granule = is_key ? at + word / 4 * kPage + slot : at + code_granules(kHeadDim) + slot * granules + word / 4;
      Words(of_page).at[granule * 4 + word % 4] = codes;
    }
    if (lane == 0)
      Words(of_page).at[(at + 2 * code_granules(kHeadDim)) * 4 + (is_key ? slot : kPage + slot)] = as_bits(scale);
  }
}

void main() {
  const int row = int(gl_WorkGroupID.x), lane = int(gl_LocalInvocationID.x);
  int head = int(gl_WorkGroupID.y);
  if (head < kHeads) {
    turn(q, row * ldq + head * kStride, q_norm, row);
    const float scale = turns.at[row * (kRotary + 1) + kRotary];
    for (int i = lane; i < kHeadDim; i += 64) put(queries, (row * kHeads + head) * kHeadDim + i, turned[i] * scale);
    return;
  }
  head -= kHeads;
  const bool is_key = head < kKvHeads;
  if (is_key) {
    turn(k, row * ldkv + head * kHeadDim, k_norm, row);
  } else {
    head -= kKvHeads;
    for (int i = lane; i < kHeadDim; i += 64) turned[i] = element(v, row * ldkv + head * kHeadDim + i);
    barrier();
  }
  if (kCoded != 0) {
    write_codes(is_key, head, row);
    return;
  }
  for (int s = slots.at[row]; s < slots.at[row + 1]; s++) {
    const int page = slots.at[rows + 1 + 2 * s], slot = slots.at[rows + 2 + 2 * s];
    Granules of_page = page_of(pages, page, kKvHeads, kHeadDim);
    const int at = head * page_granules(kHeadDim);
    for (int i = lane; i < kHeadDim; i += 64) {
      const int granule = is_key ? at + i / kGranule * kPage + slot
                                 : at + key_granules(kHeadDim) + slot / kGranule * kHeadDim + i;
      put(Elements(of_page), granule * kGranule + (is_key ? i : slot) % kGranule, turned[i]);
    }
  }
}
