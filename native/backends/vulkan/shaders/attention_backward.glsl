// What both passes of attention's backward share (cpu/kernels/attention_backward.h): with the probabilities recomputed
// from each row's log-sum-exp, ds = p (dout.v - delta) scale.
layout(constant_id = 1) const int kHeads = 1;
layout(constant_id = 2) const int kKvHeads = 1;
layout(constant_id = 3) const int kHeadDim = 64;
layout(constant_id = 4) const int kRows = 1;

const int kGroup = kHeads / kKvHeads;

struct Sight {
  int window;
  float scale, cap, scale_by_cap, inverse_cap;
};

// Elements, or codes.
float value_of(Granules pages, int at, int key, int d) {
  if (kCoded != 0) return value_code(pages, at, kHeadDim, key, d);
  return part(value_granule(pages, at, kHeadDim, key / kGranule, d), key % kGranule);
}
float key_of(Granules pages, int at, int key, int d) {
  return part(key_granule(pages, at, kHeadDim, d / kGranule, key), d % kGranule);
}

bool seen(Sight sight, int key, int position) {
  return key <= position && (sight.window == 0 || key > position - sight.window);
}

// p and ds of a query and a key it sees, given q.k and dout.v.
void gradients(Sight sight, float score, float dp, float lse, float delta, out float p, out float ds) {
  if (sight.cap > 0.0) score = tangent(score * sight.scale_by_cap) * sight.cap;
  const float factor = sight.cap > 0.0 ? 1.0 : sight.scale;
  p = exponential(mad(score, factor, -lse));
  ds = p * (dp - delta) * sight.scale;
  if (sight.cap > 0.0) {
    const float t = score * sight.inverse_cap;
    ds = ds * (1.0 - t * t);
  }
}
