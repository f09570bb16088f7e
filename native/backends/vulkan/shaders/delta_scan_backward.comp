#version 460
// Gradients of the delta rule: for the stretches of a sequence from the last to the first, states within one are computed
// again from the one before it, then its tokens are gone through from the last with the gradient of the state behind them.
// A workgroup has a sequence and a value head; states and gradients of a column are an invocation's own, and sums over
// columns are of 16 lanes, each a chain over panels of 16 columns.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "rows.glsl"
#include "counts.glsl"
#include "delta.glsl"

layout(local_size_x = 128) in;

struct Sequence {
  int gradient, first, stretches;  // which gradient of a state is its own; its stretches, the last first
};
struct Stretch {
  int row0, rows;
  int start;             // the state before it; -1: zeros
  int first_add, added;  // gradients by the states that go on from behind it
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Sequences { Sequence at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Stretches { Stretch at[]; };

layout(push_constant) uniform Parameters {
  Floats mixed, gates;
  Floats d_heads;  // [rows][kValueHeads][kValueDim]
  Sequences sequences;
  Stretches stretches;
  Ints adds;
  Floats states, gradients;  // of states
  Floats within;             // of a stretch: states [longest + 1][kKeyDim][kColumns], u and v - S^T k [longest][kColumns]
  Floats d_mixed;            // [rows][kWidth], of which values are written
  Floats d_keys;             // [rows][kValueHeads][2][kKeyDim], of queries and keys
  Floats d_gates;            // [rows][2][kValueHeads], by the decay's logarithm and by the strength
  int longest, padding;
};

const int kColumns = (kValueDim + kLanes - 1) / kLanes * kLanes;
const int kTile = kColumns < 512 ? 512 / kColumns : 1;  // keys at a time
shared float query[kKeyDim], key[kKeyDim];
shared float dout[kColumns], us[kColumns], by_known[kColumns], dus[kColumns], rests[kColumns];
shared float afters[kTile][kColumns], ds[kTile][kColumns], decayeds[kTile][kColumns];
shared float query_sums[kTile][kLanes], key_sums[kTile][kLanes], other_sums[kLanes];

float tree(float x[kLanes]) {
  float s[8];
  for (int i = 0; i < 8; i++) s[i] = x[i] + x[i + 8];
  for (int i = 0; i < 4; i++) s[i] = s[i] + s[i + 4];
  return (s[0] + s[2]) + (s[1] + s[3]);
}

void main() {
  const int me = int(gl_LocalInvocationID.x), head = int(gl_WorkGroupID.y), of_key = head / kValuesOfKey * kKeyDim;
  const Sequence sequence = sequences.at[gl_WorkGroupID.x];
  Floats gradient = state_of(gradients, sequence.gradient);
  const int state_size = kKeyDim * kColumns;
  const int states_at = (int(gl_WorkGroupID.x) * kValueHeads + head) * ((longest + 1) * state_size + 2 * longest * kColumns);
  const int us_at = states_at + (longest + 1) * state_size, rests_at = us_at + longest * kColumns;
  for (int n = 0; n < sequence.stretches; n++) {
    const Stretch stretch = stretches.at[sequence.first + n];
    Floats start = state_of(states, max(stretch.start, 0));
    for (int col = me; col < kColumns; col += 128)
      LOOP for (int i = 0; i < kKeyDim; i++) {
        const bool inside = col < kValueDim;
        const int at = in_state(head, i, col);
        within.at[states_at + i * kColumns + col] = inside && stretch.start >= 0 ? start.at[at] : 0.0;
        if (!inside) continue;
        float d = n == 0 ? 0.0 : gradient.at[at];
        for (int j = 0; j < stretch.added; j++) d = flushed(d + state_of(gradients, adds.at[stretch.first_add + j]).at[at]);
        if (n == 0 || stretch.added > 0) gradient.at[at] = d;
      }
    for (int t = 0; t < stretch.rows; t++) {
      const int row = stretch.row0 + t, before = states_at + t * state_size, after = before + state_size;
      barrier();
      for (int i = me; i < kKeyDim; i += 128) key[i] = mixed.at[row * kWidth + kKeys + of_key + i];
      barrier();
      const float decay = gates.at[row * 2 * kValueHeads + head], strength = gates.at[(row * 2 + 1) * kValueHeads + head];
      for (int col = me; col < kColumns; col += 128) {
        float known = 0.0;
        LOOP for (int i = 0; i < kKeyDim; i++) {
          const float s = flushed(within.at[before + i * kColumns + col] * decay);
          within.at[after + i * kColumns + col] = s;
          known = mad(s, key[i], known);
        }
        const float v = col < kValueDim ? mixed.at[row * kWidth + kValues + head * kValueDim + col] : 0.0;
        const float rest = v - known, u = rest * strength;
        within.at[rests_at + t * kColumns + col] = flushed(rest);
        within.at[us_at + t * kColumns + col] = flushed(u);
        LOOP for (int i = 0; i < kKeyDim; i++) {
          const int at = after + i * kColumns + col;
          within.at[at] = flushed(mad(key[i], u, within.at[at]));
        }
      }
    }
    for (int t = stretch.rows - 1; t >= 0; t--) {
      const int row = stretch.row0 + t, before = states_at + t * state_size, after = before + state_size;
      barrier();
      for (int i = me; i < kKeyDim; i += 128) {
        query[i] = mixed.at[row * kWidth + of_key + i];
        key[i] = mixed.at[row * kWidth + kKeys + of_key + i];
      }
      barrier();
      const float decay = gates.at[row * 2 * kValueHeads + head], strength = gates.at[(row * 2 + 1) * kValueHeads + head];
      for (int col = me; col < kColumns; col += 128) {
        const bool inside = col < kValueDim;
        const int value = head * kValueDim + col;
        dout[col] = inside ? d_heads.at[row * kValueHeads * kValueDim + value] : 0.0;
        us[col] = within.at[us_at + t * kColumns + col], rests[col] = within.at[rests_at + t * kColumns + col];
        float du = 0.0;
        LOOP for (int i = 0; i < kKeyDim && inside; i++) {
          const int at = in_state(head, i, col);
          const float d = flushed(mad(query[i], dout[col], gradient.at[at]));
          gradient.at[at] = d;
          du = mad(d, key[i], du);
        }
        const float dv = du * strength;
        dus[col] = du, by_known[col] = -dv;
        if (inside) d_mixed.at[row * kWidth + kValues + value] = flushed(dv);
      }
      barrier();
      float by_strength = 0.0, by_decay = 0.0;
      if (me < kLanes)
        LOOP for (int col = me; col < kColumns; col += kLanes) by_strength = mad(dus[col], rests[col], by_strength);
      for (int i0 = 0; i0 < kKeyDim; i0 += kTile) {
        const int count = min(kTile, kKeyDim - i0);
        for (int col = me; col < kColumns; col += 128)
          LOOP for (int j = 0; j < count; j++) {
            const int i = i0 + j, at = in_state(head, i, col);
            const float d = col < kValueDim ? gradient.at[at] : 0.0;
            afters[j][col] = within.at[after + i * kColumns + col];
            decayeds[j][col] = flushed(within.at[before + i * kColumns + col] * decay);
            ds[j][col] = d;
            if (col < kValueDim) gradient.at[at] = flushed(mad(key[i], by_known[col], d) * decay);
          }
        barrier();
        for (int at = me; at < count * kLanes; at += 128) {
          const int j = at / kLanes, lane = at % kLanes;
          float by_query = 0.0, by_key = 0.0;
          LOOP for (int col = lane; col < kColumns; col += kLanes) {
            by_query = mad(afters[j][col], dout[col], by_query);
            by_key = mad(ds[j][col], us[col], by_key);
            by_key = mad(decayeds[j][col], by_known[col], by_key);
          }
          query_sums[j][lane] = by_query, key_sums[j][lane] = by_key;
        }
        if (me < kLanes)
          LOOP for (int j = 0; j < count; j++)
            LOOP for (int col = me; col < kColumns; col += kLanes)
              by_decay = mad(mad(key[i0 + j], by_known[col], ds[j][col]), decayeds[j][col], by_decay);
        barrier();
        for (int j = me; j < count; j += 128) {
          const int to = (row * kValueHeads + head) * 2 * kKeyDim + i0 + j;
          d_keys.at[to] = flushed(tree(query_sums[j]));
          d_keys.at[to + kKeyDim] = flushed(tree(key_sums[j]));
        }
      }
      if (me < kLanes) lane_sums[me] = by_decay, other_sums[me] = by_strength;
      barrier();
      if (me == 0) {
        d_gates.at[row * 2 * kValueHeads + head] = flushed(tree(lane_sums));
        d_gates.at[(row * 2 + 1) * kValueHeads + head] = flushed(tree(other_sums));
      }
    }
  }
}
