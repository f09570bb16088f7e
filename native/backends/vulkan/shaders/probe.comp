#version 460
// What float32 arithmetic gives here, of n triples of numbers: a row of n results for every operation.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters {
  Floats a, b, c, results;
  int n;
};

void main() {
  const int i = int(gl_GlobalInvocationID.x);
  if (i >= n) return;
  const float x = a.at[i], y = b.at[i], z = c.at[i];
  const float found[] = float[](fma(x, y, z), mad(x, y, z), x + y, x - y, x * y, quotient(x, y), root(abs(x)),
                                exponential(x), logarithm(abs(x)), tangent(x), widened(narrowed(x)), x * y + z);
  for (int row = 0; row < found.length(); row++) results.at[row * n + i] = found[row];
}
