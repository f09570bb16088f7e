#version 460
// Multiply-adds as products have them and nothing else: 16 chains to an invocation.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"

layout(local_size_x = 256) in;
layout(push_constant) uniform Parameters {
  Floats numbers;  // [2]; what is written is never read
  int steps, padding;
};

void main() {
  const float a = numbers.at[0], b = numbers.at[1];
  float c[16];
  for (int i = 0; i < 16; i++) c[i] = float(int(gl_GlobalInvocationID.x) + i);
  LOOP for (int step = 0; step < steps; step++)
    LOOP for (int i = 0; i < 16; i++) c[i] = mad(c[i], a, b);
  float sum = 0.0;
  for (int i = 0; i < 16; i++) sum += c[i];
  if (sum == 0.123) numbers.at[0] = sum;
}
