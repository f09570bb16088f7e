#version 460
// How many turns of a loop an invocation takes, of `wanted`.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"

layout(local_size_x = 1) in;
layout(push_constant) uniform Parameters {
  Ints taken;
  int wanted;
};

void main() {
  uint state = uint(wanted);
  int turns = 0;
  // No step of it can be foretold, or the loop would be done away with.
  LOOP for (int i = 0; i < wanted; i++) {
    state = state * 1664525u + 1013904223u;
    turns += state == 0u ? 2 : 1;
    if (state == 0u) turns--;
  }
  taken.at[0] = turns;
}
