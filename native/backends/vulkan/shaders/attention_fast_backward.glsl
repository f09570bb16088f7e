// What both passes of attention's backward on cooperative matrices share: see attention_backward.glsl. Gradients are rounded to
// float16 by rows of the matrices that they are in, each by a power of two, so that none is infinite and few are lost.
struct Sight {
  int window;
  float scale, cap, scale_by_cap, inverse_cap;
};

bool seen(Sight sight, int key, int position) {
  return key <= position && (sight.window == 0 || key > position - sight.window);
}

// p and ds of a query and a key it sees, given q.k and dout.v.
vec2 gradients(Sight sight, float score, float dp, float lse, float delta) {
  if (sight.cap > 0.0) score = tangent(score * sight.scale_by_cap) * sight.cap;
  const float factor = sight.cap > 0.0 ? 1.0 : sight.scale;
  const float p = exp2(mad(score, factor, -lse) * kLog2e);
  float ds = p * (dp - delta) * sight.scale;
  if (sight.cap > 0.0) {
    const float t = score * sight.inverse_cap;
    ds = ds * (1.0 - t * t);
  }
  return vec2(p, ds);
}

// The exponent that brings a row's largest element between 2^14 and 2^15, and 2^shift.
int shift_of(float largest) {
  const int exponent = int(as_bits(largest) >> 23);
  return exponent == 0 || exponent == 255 ? 0 : clamp(141 - exponent, -126, 126);
}
float power(int shift) { return as_float(uint(127 + shift) << 23); }
