// What both passes of attention's backward on cooperative matrices share: see attention_backward.glsl. Gradients are rounded to
// float16 by rows of the matrices that they are in, each by a power of two, so that none is infinite and few are lost.
#include "sight.glsl"

// p and ds of a query and a key it sees, given q.k and dout.v.
vec2 gradients(Sight sight, float score, float dp, float lse, float delta) {
  score = capped(sight, score);
  const float p = exp2(exponent_of(sight, score, lse) * kLog2e);
  return vec2(p, score_gradient(sight, score, p, dp, delta));
}

// The exponent that brings a row's largest element between 2^14 and 2^15, and 2^shift.
int shift_of(float largest) {
  const int exponent = int(as_bits(largest) >> 23);
  return exponent == 0 || exponent == 255 ? 0 : clamp(141 - exponent, -126, 126);
}
float power(int shift) { return as_float(uint(127 + shift) << 23); }
