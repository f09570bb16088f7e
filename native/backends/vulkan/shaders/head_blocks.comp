#version 460
// Of rows of logits [rows][n]: those at the entry's temperature, in their place, and what blocks of them add to their
// log-sum-exp.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "log_sum_exp.glsl"
#include "row_blocks.glsl"
#include "head_rows.glsl"

layout(push_constant) uniform Parameters {
  Floats logits;
  Entries entries;
  Pairs blocks;  // [rows][blocks]: maximum, mass
  int n;
};

void main() {
  const int me = int(gl_LocalInvocationID.x), row = int(gl_WorkGroupID.y);
  const float inverse_temperature = entries.at[row].inverse_temperature;
  read_columns(logits, row * n, n);
  if (inverse_temperature != 1.0)
    for (int j = 0; j < kLaneColumns; j++) {
      columns[j][me] = inverse_temperature * columns[j][me];
      if (column_here(j) < n) logits.at[row * n + column_here(j)] = columns[j][me];
    }
  const vec2 found = maximum_and_mass(1.0);
  if (me % kLanes == 0 && block_here() < blocks_of(n)) blocks.at[row * blocks_of(n) + block_here()] = found;
}
