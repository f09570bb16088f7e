#version 460
// AdamW (cpu/kernels/adamw.h) over n floats.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"

layout(local_size_x = 256) in;
layout(push_constant) uniform Parameters {
  Floats w, g, m, v;
  int n;
  float scale, decay, eps, toward, beta2, fresh, rate, inverse_root;
};

void main() {
  const int all = int(gl_NumWorkGroups.x) * 256;
  for (int i = int(gl_GlobalInvocationID.x); i < n; i += all) {
    const float gradient = flushed(g.at[i] * scale);
    const float mean = flushed(mad(toward, gradient - m.at[i], m.at[i]));
    const float square = flushed(mad(flushed(fresh * gradient), gradient, flushed(beta2 * v.at[i])));
    m.at[i] = mean;
    v.at[i] = square;
    const float change = quotient(mean, mad(root(square), inverse_root, eps));
    w.at[i] = flushed(mad(rate, change, flushed(w.at[i] * decay)));
  }
}
