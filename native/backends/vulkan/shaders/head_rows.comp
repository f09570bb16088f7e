#version 460
// Of rows of logits [rows][n], a workgroup to a row: the log-sum-exp, merged of blocks, and the target's log-probability;
// or the entropy, which is the sum of what blocks have of it in ascending order.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#define MERGES_BLOCKS
#include "log_sum_exp.glsl"
#include "head_rows.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
  Floats logits;
  Entries entries;
  Pairs blocks;    // [rows][blocks]: maximum, mass (head_blocks.comp); or entropy, nothing (head_gradient.comp)
  Pairs rows;      // [rows]: log-sum-exp, entropy
  Floats results;  // [rows]: log-probability, entropy, log-sum-exp
  int n;
  int sums_entropy;
};

vec2 block_at(int block) { return blocks.at[int(gl_WorkGroupID.x) * blocks_of(n) + block]; }

void main() {
  const int row = int(gl_WorkGroupID.x), me = int(gl_LocalInvocationID.x), count = blocks_of(n);
  if (sums_entropy == 0) {
    const float lse = log_sum_exp(count);
    if (me == 0) {
      rows.at[row].x = lse;
      results.at[3 * row] = logits.at[row * n + entries.at[row].target] - lse;
      results.at[3 * row + 2] = lse;
    }
    return;
  }
  float total = 0.0;
  for (int first = 0; first < count; first += kMerged) {
    float part = 0.0;
    if (first + me < count) part = block_at(first + me).x;
    terms[me] = part;
    barrier();
    if (me == 0)
      for (int i = 0; i < min(kMerged, count - first); i += kLinks) {
        float term[kLinks];
        for (int j = 0; j < kLinks; j++) term[j] = terms[i + j];
        for (int j = 0; j < kLinks; j++) total = total + term[j];
      }
    barrier();
  }
  if (me == 0) rows.at[row].y = total, results.at[3 * row + 1] = total;
}
