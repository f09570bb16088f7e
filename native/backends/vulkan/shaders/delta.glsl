// The gated delta rule (cpu/kernels/delta_rule.h): shapes, and what passes over it share. Between its stages tokens are rows
// of float32: `mixed`, queries and keys of unit length and values, after the convolution; `gates`, decays and then
// strengths of the value heads. A state is [kValueHeads][kKeyDim][kValueDim].
layout(constant_id = 1) const int kKeyHeads = 1;
layout(constant_id = 2) const int kValueHeads = 1;
layout(constant_id = 3) const int kKeyDim = 16;
layout(constant_id = 4) const int kValueDim = 16;
layout(constant_id = 5) const int kKernel = 4;  // tokens of the convolution

const int kValuesOfKey = kValueHeads / kKeyHeads;
const int kKeys = kKeyHeads * kKeyDim, kValues = 2 * kKeys;  // columns where keys begin, and values
const int kWidth = kValues + kValueHeads * kValueDim;
const float kL2Eps = 1e-6;

// Number `state` of those that lie at an address.
Floats state_of(Floats states, int state) {
  return Floats(plus(uvec2(states), times(uint(state), uint(kValueHeads * kKeyDim * kValueDim) * 4u)));
}
int in_state(int head, int key, int value) { return (head * kKeyDim + key) * kValueDim + value; }
