#version 460
// x[rows][hidden] = the tokens' rows of the embedding, times its scale, rounded where the model rounds them; a workgroup to
// a row, and an invocation to four elements at once.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "quantized.glsl"

layout(local_size_x = 256) in;
layout(push_constant) uniform Parameters {
  Granules weight;
  Ints tokens;
  Floats x;
  int rows, hidden, rounds;
  float scale;
};

void main() {
  const int row = int(gl_WorkGroupID.x), token = tokens.at[row];
  for (int i = int(gl_LocalInvocationID.x) * 4; i < hidden; i += 256 * 4) {
    vec4 values = four_weights_of(weight, hidden, token, i);
    for (int j = 0; j < 4 && i + j < hidden; j++) {
      const float value = scale != 1.0 ? scale * values[j] : values[j];
      x.at[row * hidden + i + j] = rounds != 0 ? rounded(value) : value;
    }
  }
}
