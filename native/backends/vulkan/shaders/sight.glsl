// Which keys a query sees, and what the gradients of attention are of a pair of them (cpu/kernels/attention_backward.h).
struct Sight {
  int window;
  float scale, cap, scale_by_cap, inverse_cap;
};

bool seen(Sight sight, int key, int position) {
  return key <= position && (sight.window == 0 || key > position - sight.window);
}

// q.k with the cap; what p is the exponential of; and ds, given p and dout.v.
float capped(Sight sight, float score) {
  if (sight.cap > 0.0) score = tangent(score * sight.scale_by_cap) * sight.cap;
  return score;
}
float exponent_of(Sight sight, float capped, float lse) {
  const float factor = sight.cap > 0.0 ? 1.0 : sight.scale;
  return mad(capped, factor, -lse);
}
float score_gradient(Sight sight, float capped, float p, float dp, float delta) {
  float ds = p * (dp - delta) * sight.scale;
  if (sight.cap > 0.0) {
    const float t = capped * sight.inverse_cap;
    ds = ds * (1.0 - t * t);
  }
  return ds;
}
