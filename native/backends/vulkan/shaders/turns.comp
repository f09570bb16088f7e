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
  LOOP for (int i = 0; i < wanted; i++) {
    // Each depends on the one before, or the loop could be done away with.
    state = state * 1664525u + 1013904223u;
    turns++;
  }
  taken.at[0] = turns;
  taken.at[1] = int(state);
}
