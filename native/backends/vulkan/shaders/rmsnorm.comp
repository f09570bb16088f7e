#version 460
// y[row] = weight * x / sqrt(mean(x^2) + eps), of the rows of float32 that `from` names, or of all; a workgroup to a row.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "rows.glsl"
#include "squares.glsl"

layout(push_constant) uniform Parameters {
  Floats x;
  Floats weight;
  Elements y;
  Ints from;  // or null
  int n, ldy;
  float eps;
  int first;  // of the rows
};

void main() {
  const int row = int(gl_WorkGroupID.x), me = int(gl_LocalInvocationID.x);
  const bool listed = present(uvec2(from));
  const int named = Ints(either(uvec2(from), uvec2(x))).at[listed ? row : 0], at = (listed ? named : first + row) * n;
  const float squares = sum_of_squares(x, at, n);
  const float inverse = quotient(1.0, root(quotient(squares, float(n)) + eps));
  for (int begin = 0; begin < n; begin += kAtOnce) {
    float values[kLoads], weights[kLoads];
    for (int i = 0; i < kLoads; i++) {
      const int j = min(begin + i * kInvocations + me, n - 1);
      values[i] = x.at[at + j], weights[i] = weight.at[j];
    }
    for (int i = 0; i < kLoads; i++) {
      const int j = begin + i * kInvocations + me;
      if (j < n) put(y, row * ldy + j, values[i] * inverse * weights[i]);
    }
  }
}
