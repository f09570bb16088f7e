#version 460
// Of rows of logits [rows][n] whose log-sum-exp is known: what blocks of them have of the entropy, and the gradient, by the
// head's product, of the log-probability; or that of the entropy, once it is known.
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
  Pairs blocks;       // [rows][blocks]: entropy, nothing
  Pairs rows;         // [rows]: log-sum-exp, entropy
  Elements residual;  // [rows][ld], or null
  int n, ld;
  int by_entropy;  // 0: of the log-probability, and everything else; 1: the gradient of the entropy alone
  float logit_scale, logit_cap;
};

void main() {
  const int me = int(gl_LocalInvocationID.x), row = int(gl_WorkGroupID.y);
  const Entry entry = entries.at[row];
  const float lse = rows.at[row].x, entropy = rows.at[row].y;
  read_columns(logits, row * n, n);
  const bool is_wanted = present(uvec2(residual));
  const float scale = entry.inverse_temperature * logit_scale, cap = entry.inverse_temperature * logit_cap;
  const float inverse_cap = cap > 0.0 ? quotient(1.0, cap) : 0.0;
  float part = 0.0;
  LOOP for (int j = 0; j < kLaneColumns; j++) {
    const int i = column_here(j);
    const float x = columns[j][me], t = x - lse, p = exponential(t);
    part = part + (t < kExpLowest ? 0.0 : -(p * t));
    if (!is_wanted || i >= n) continue;
    float d;
    if (by_entropy == 0) {
      d = i == entry.target ? scale * (1.0 - p) : scale * (0.0 - p);
    } else {
      d = t < kExpLowest ? 0.0 : scale * -(p * (t + entropy));
      d = (i == entry.target ? 0.0 * (1.0 - p) : 0.0 * (0.0 - p)) + d;
    }
    if (cap > 0.0) {
      const float ratio = x * inverse_cap;
      d = d * (1.0 - ratio * ratio);
    }
    put(residual, row * ld + i, d);
  }
  const float sum = tree_of_lanes(part);
  if (by_entropy == 0 && me % kLanes == 0 && block_here() < blocks_of(n))
    blocks.at[row * blocks_of(n) + block_here()] = vec2(sum, 0.0);
}
