#version 460
// The delta rule over the tokens of sequences: for each S <- decay S; u = strength (v - S^T k); S <- S + k u^T; o = S^T q. A
// workgroup has a sequence, a value head and up to 32 columns of its state, an invocation a column: sums are chains over
// the keys.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "counts.glsl"
#include "delta.glsl"

layout(local_size_x = 32) in;
layout(constant_id = 6) const int kColumns = 32;

struct Scan {
  int row0, rows;
  int start, keep;  // states: that before the first token, and where that behind the last goes; -1: zeros, nowhere
  int first_save, saves;
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Scans { Scan at[]; };

layout(push_constant) uniform Parameters {
  Floats mixed, gates;
  Scans scans;
  Ints saves;  // pairs, by their first: behind how many tokens a state is kept, and as which
  Floats states;
  Elements heads;  // [rows][ldo], or null
  int ldo, padding;
};

shared float state[kKeyDim][kColumns], query[kKeyDim], key[kKeyDim];

void keep(int as, int head, int col) {
  Floats to = state_of(states, as);
  LOOP for (int i = 0; i < kKeyDim; i++) to.at[in_state(head, i, col)] = state[i][gl_LocalInvocationID.x];
}

void main() {
  const int me = int(gl_LocalInvocationID.x), head = int(gl_WorkGroupID.y), col = int(gl_WorkGroupID.z) * kColumns + me;
  const Scan scan = scans.at[gl_WorkGroupID.x];
  const bool is_column = me < kColumns && col < kValueDim;
  const int of_key = head / kValuesOfKey * kKeyDim;
  if (is_column) {
    Floats from = state_of(states, max(scan.start, 0));
    LOOP for (int i = 0; i < kKeyDim; i++) state[i][me] = scan.start < 0 ? 0.0 : from.at[in_state(head, i, col)];
  }
  int save = scan.first_save;
  for (int t = 0; t < scan.rows; t++) {
    const int row = scan.row0 + t;
    barrier();
    for (int i = me; i < kKeyDim; i += 32) {
      query[i] = mixed.at[row * kWidth + of_key + i];
      key[i] = mixed.at[row * kWidth + kKeys + of_key + i];
    }
    barrier();
    if (is_column) {
      const float decay = gates.at[row * 2 * kValueHeads + head], strength = gates.at[(row * 2 + 1) * kValueHeads + head];
      float known = 0.0, sum = 0.0;
      LOOP for (int i = 0; i < kKeyDim; i++) {
        const float s = flushed(state[i][me] * decay);
        state[i][me] = s;
        known = mad(s, key[i], known);
      }
      const float u = (mixed.at[row * kWidth + kValues + head * kValueDim + col] - known) * strength;
      LOOP for (int i = 0; i < kKeyDim; i++) {
        const float s = flushed(mad(key[i], u, state[i][me]));
        state[i][me] = s;
        sum = mad(s, query[i], sum);
      }
      if (present(uvec2(heads))) put(heads, row * ldo + head * kValueDim + col, sum);
      for (; save < scan.first_save + scan.saves && saves.at[2 * save] == t + 1; save++)
        keep(saves.at[2 * save + 1], head, col);
    }
  }
  if (is_column && scan.keep >= 0) keep(scan.keep, head, col);
}
