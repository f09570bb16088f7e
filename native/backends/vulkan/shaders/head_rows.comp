#version 460
// Of rows of logits [rows][n]: those at the entry's temperature, their log-sum-exp by absolute blocks of 512 columns, the
// target's log-probability and the entropy; and the gradient, by the head's product, of either. A workgroup to a row.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "log_sum_exp.glsl"

layout(local_size_x = 256) in;

struct Entry {
  int target;
  float inverse_temperature;
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Entries { Entry at[]; };

layout(push_constant) uniform Parameters {
  Floats logits;
  Entries entries;
  Floats results;     // [rows]: log-probability, entropy, log-sum-exp
  Elements residual;  // [rows][ld], or null
  int n, ld;
  int by_entropy;  // 0: of the log-probability, and everything else; 1: the gradient of the entropy alone
  float logit_scale, logit_cap;
};

shared float total;

void main() {
  const int row = int(gl_WorkGroupID.x), me = int(gl_LocalInvocationID.x), b = me / kLanes, lane = me % kLanes;
  const int at = row * n;
  const Entry entry = entries.at[row];
  if (by_entropy == 0) {
    if (entry.inverse_temperature != 1.0) {
      for (int i = me; i < n; i += 256) logits.at[at + i] = entry.inverse_temperature * logits.at[at + i];
      memoryBarrierBuffer();
    }
    if (me == 0) total = 0.0;
    const float lse = log_sum_exp(logits, at, n, 1.0);
    for (int begin = 0; begin < n; begin += kBlock * kAtOnce) {
      const int from = begin + b * kBlock, to = min(n, from + kBlock);
      float part = 0.0;
      for (int i = from + lane; i < to; i += kLanes) {
        const float t = logits.at[at + i] - lse, p = exponential(t);
        part = part + (t < kExpLowest ? 0.0 : -(p * t));
      }
      lanes[b][lane] = part;
      barrier();
      if (me == 0)
        for (int i = 0; i < kAtOnce && begin + i * kBlock < n; i++) total = total + tree(i);
      barrier();
    }
    if (me == 0) {
      results.at[3 * row] = logits.at[at + entry.target] - lse;
      results.at[3 * row + 1] = total;
      results.at[3 * row + 2] = lse;
    }
    barrier();
  }
  if (!present(uvec2(residual))) return;
  const float scale = entry.inverse_temperature * logit_scale, cap = entry.inverse_temperature * logit_cap;
  const float inverse_cap = cap > 0.0 ? quotient(1.0, cap) : 0.0;
  const float lse = results.at[3 * row + 2], entropy = results.at[3 * row + 1];
  for (int i = me; i < n; i += 256) {
    const float x = logits.at[at + i], t = x - lse, p = exponential(t);
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
}
