#version 460
// The last inputs of the convolution of sequences, which they keep; an invocation to a column.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "counts.glsl"
#include "delta.glsl"

layout(local_size_x = 64) in;

struct Scan {
  int row0, rows, start, keep, first_save, saves;
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Scans { Scan at[]; };

layout(push_constant) uniform Parameters {
  Elements qkv;  // [rows][ld]
  Floats tails;  // [states][kKernel - 1][kWidth]
  Scans scans;
  int ld, padding;
};

void main() {
  const int col = int(gl_WorkGroupID.y) * 64 + int(gl_LocalInvocationID.x);
  const Scan scan = scans.at[gl_WorkGroupID.x];
  if (col >= kWidth) return;
  const int lead = kKernel - 1;
  for (int j = 0; j < lead; j++) {
    const int token = scan.rows - lead + j;  // from the sequence's first row on; below 0: one that it had kept
    float x = 0.0;
    if (token >= 0)
      x = element(qkv, (scan.row0 + token) * ld + col);
    else if (scan.start >= 0)
      x = tails.at[(scan.start * lead + lead + token) * kWidth + col];
    tails.at[(scan.keep * lead + j) * kWidth + col] = x;
  }
}
