#version 460
// Gradients of the convolution's inputs, rows of T: every row adds what it takes of the rows that read it, a chain for each
// stretch in the order in which stretches are gone through. An invocation to a column.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "counts.glsl"
#include "delta.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters {
  Floats d_mixed, taps;
  Ints readers;  // [rows + 1], then pairs: those of a row begin where its entry says. A row that reads it, and how many
                 // tokens it stands behind it; with kNext where another stretch begins
  Elements d_qkv;
  int rows, ld;
};

const int kNext = 1 << 16;

void main() {
  const int row = int(gl_WorkGroupID.x), col = int(gl_WorkGroupID.y) * 64 + int(gl_LocalInvocationID.x);
  if (col >= kWidth) return;
  float all = 0.0, sum = 0.0;
  for (int r = readers.at[row]; r < readers.at[row + 1]; r++) {
    const int reader = readers.at[rows + 1 + 2 * r], how = readers.at[rows + 2 + 2 * r], behind = how % kNext;
    if (how >= kNext) all = all + sum, sum = 0.0;
    if (behind < kKernel)
      sum = mad(d_mixed.at[reader * kWidth + col], taps.at[(kKernel - 1 - behind) * kWidth + col], sum);
  }
  put(d_qkv, row * ld + col, all + sum);
}
