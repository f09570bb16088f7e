#version 460
// x[rows][hidden] = the tokens' rows of the embedding, times its scale, rounded where the model rounds them.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "quantized.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters {
  Granules weight;
  Ints tokens;
  Floats x;
  int rows, hidden, rounds;
  float scale;
};

void main() {
  const int row = int(gl_WorkGroupID.x), token = tokens.at[row];
  for (int i = int(gl_LocalInvocationID.x); i < hidden; i += 64) {
    float value = weight_of(weight, hidden, token, i);
    if (scale != 1.0) value = scale * value;
    x.at[row * hidden + i] = rounds != 0 ? rounded(value) : value;
  }
}
