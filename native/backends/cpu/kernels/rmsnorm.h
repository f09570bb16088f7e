// RMS norm over rows of n float32, y = weight * x / sqrt(mean(x^2) + eps) in the compute type, and its gradient.
#pragma once
#include "exp_log.h"

namespace anneal::cpu {
namespace {

template <class S> ANNEAL_INLINE float inverse_rms(const S* x, int n, float eps) {
  F32x16 sum = zero();
  each16(n, [&](int64_t i, auto lanes) {
    F32x16 v = load(x + i, lanes);
    sum = fma(v, v, sum);
  });
  return 1.0f / sqrt(sum_lanes(sum) / float(n) + eps);
}

// y [rows][ldy] (T) of x [rows][ldx] and weight [n]; y is padded with zeros to a whole step of k where ldy leaves room.
template <class T>
void rmsnorm(const float* x, int64_t ldx, const float* weight, float eps, int rows, int n, void* y, int64_t ldy) {
  const int64_t padded = round_to(n, kStep<T>) < ldy ? round_to(n, kStep<T>) : ldy;
  for (int r = 0; r < rows; r++) {
    const float* from = x + r * ldx;
    T* to = (T*)y + r * ldy;
    const F32x16 inverse = all(inverse_rms(from, n, eps));
    each16(n, [&](int64_t i, auto lanes) {
      store(to + i, load(from + i, lanes) * inverse * load(weight + i, lanes), lanes);
    });
    zero_fill(to, n, padded);
  }
}

// With u = x * inverse and g = dy * weight: dx [rows][lddx] += inverse * (g - u * mean(g u)); dweight [n] (or null) +=
// dy * u, rows in order.
void rmsnorm_backward(const float* x, int64_t ldx, const float* weight, float eps, const float* dy, int64_t lddy,
                      int rows, int n, float* dx, int64_t lddx, float* dweight) {
  for (int r = 0; r < rows; r++) {
    const float *from = x + r * ldx, *grad = dy + r * lddy;
    float* to = dx + r * lddx;
    const float inverse = inverse_rms(from, n, eps);
    const F32x16 inv = all(inverse);
    F32x16 dot = zero();
    each16(n, [&](int64_t i, auto lanes) {
      F32x16 u = load(from + i, lanes) * inv, d = load(grad + i, lanes);
      dot = fma(d * load(weight + i, lanes), u, dot);
      if (dweight) store(dweight + i, fma(d, u, load(dweight + i, lanes)), lanes);
    });
    const F32x16 mean = all(-(sum_lanes(dot) / float(n)));
    each16(n, [&](int64_t i, auto lanes) {
      F32x16 u = load(from + i, lanes) * inv, g = load(grad + i, lanes) * load(weight + i, lanes);
      store(to + i, fma(inv, fma(u, mean, g), load(to + i, lanes)), lanes);
    });
  }
}

}  // namespace
}  // namespace anneal::cpu
