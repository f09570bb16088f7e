// One token's heads: optional RMS norm of each head, then the rotary embedding (half rotation) of its first `rotary`
// elements, and the gradient of both. x is T [heads][ldx]; y, dy, dx are float32 [heads][head_dim]; cos, sin are
// [rotary / 2].
#pragma once
#include "rmsnorm.h"

namespace anneal::cpu {
namespace {

template <class T>
void head_norm_rope(const void* x, int64_t ldx, int heads, int head_dim, int rotary, const float* weight, float eps,
                    const float* cos, const float* sin, float* y) {
  const int half = rotary / 2;
  for (int h = 0; h < heads; h++) {
    const T* from = (const T*)x + h * ldx;
    float* to = y + int64_t(h) * head_dim;
    const F32x16 inverse = all(weight ? inverse_rms(from, head_dim, eps) : 1.0f);
    each16(half, [&](int64_t i, auto lanes) {
      F32x16 a = load(from + i, lanes), b = load(from + half + i, lanes), c = load(cos + i, lanes),
             s = load(sin + i, lanes);
      if (weight) {
        a = a * inverse * load(weight + i, lanes);
        b = b * inverse * load(weight + half + i, lanes);
      }
      store(to + i, fma(a, c, negate(b * s)), lanes);
      store(to + half + i, fma(b, c, a * s), lanes);
    });
    each16(head_dim - rotary, [&](int64_t i, auto lanes) {
      F32x16 a = load(from + rotary + i, lanes);
      if (weight) a = a * inverse * load(weight + rotary + i, lanes);
      store(to + rotary + i, a, lanes);
    });
  }
}

// dx is overwritten (and may be dy); dweight (or null) += over heads in order.
template <class T>
void head_norm_rope_backward(const void* x, int64_t ldx, int heads, int head_dim, int rotary, const float* weight,
                             float eps, const float* cos, const float* sin, const float* dy, float* dx,
                             float* dweight) {
  const int half = rotary / 2;
  for (int h = 0; h < heads; h++) {
    const T* from = (const T*)x + h * ldx;
    const float* grad = dy + int64_t(h) * head_dim;
    float* to = dx + int64_t(h) * head_dim;
    // The rotation's transpose.
    each16(half, [&](int64_t i, auto lanes) {
      F32x16 a = load(grad + i, lanes), b = load(grad + half + i, lanes), c = load(cos + i, lanes),
             s = load(sin + i, lanes);
      store(to + i, fma(a, c, b * s), lanes);
      store(to + half + i, fma(b, c, negate(a * s)), lanes);
    });
    if (to != grad)
      each16(head_dim - rotary,
             [&](int64_t i, auto lanes) { store(to + rotary + i, load(grad + rotary + i, lanes), lanes); });
    if (!weight) continue;
    // As in rmsnorm_backward.
    const F32x16 inv = all(inverse_rms(from, head_dim, eps));
    F32x16 dot = zero();
    each16(head_dim, [&](int64_t i, auto lanes) {
      F32x16 u = load(from + i, lanes) * inv, d = load(to + i, lanes);
      dot = fma(d * load(weight + i, lanes), u, dot);
      if (dweight) store(dweight + i, fma(d, u, load(dweight + i, lanes)), lanes);
    });
    const F32x16 mean = all(-(sum_lanes(dot) / float(head_dim)));
    each16(head_dim, [&](int64_t i, auto lanes) {
      F32x16 u = load(from + i, lanes) * inv, g = load(to + i, lanes) * load(weight + i, lanes);
      store(to + i, inv * fma(u, mean, g), lanes);
    });
  }
}

}  // namespace
}  // namespace anneal::cpu
