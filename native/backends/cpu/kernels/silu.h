// The gated activation y = silu(gate) * up, silu(g) = g / (1 + e^-g), and its gradient.
#pragma once
#include "exp_log.h"

namespace anneal::cpu {
namespace {

// y (T, padded with zeros to a whole step of k where ldy leaves room).
template <class T> void silu_mul(const void* gate, const void* up, int64_t ld, int rows, int n, void* y, int64_t ldy) {
  const int64_t padded = round_to(n, kStep<T>) < ldy ? round_to(n, kStep<T>) : ldy;
  for (int r = 0; r < rows; r++) {
    const T *gates = (const T*)gate + r * ld, *ups = (const T*)up + r * ld;
    T* to = (T*)y + r * ldy;
    each16(n, [&](int64_t i, auto lanes) {
      F32x16 g = load(gates + i, lanes);
      store(to + i, g / (all(1.0f) + exp(negate(g))) * load(ups + i, lanes), lanes);
    });
    zero_fill(to, n, padded);
  }
}

// d silu = s (1 + g (1 - s)) with s = 1 / (1 + e^-g). dgate and dup are overwritten.
template <class T>
void silu_mul_backward(const void* gate, const void* up, int64_t ld, const float* dy, int64_t lddy, int rows, int n,
                       float* dgate, float* dup, int64_t ldd) {
  const F32x16 one = all(1.0f);
  for (int r = 0; r < rows; r++) {
    const T *gates = (const T*)gate + r * ld, *ups = (const T*)up + r * ld;
    const float* grad = dy + r * lddy;
    float *to_gate = dgate + r * ldd, *to_up = dup + r * ldd;
    each16(n, [&](int64_t i, auto lanes) {
      F32x16 g = load(gates + i, lanes), u = load(ups + i, lanes), d = load(grad + i, lanes);
      F32x16 s = one / (one + exp(negate(g)));
      store(to_up + i, d * (g * s), lanes);
      store(to_gate + i, d * u * (s * fma(g, one - s, one)), lanes);
    });
  }
}

}  // namespace
}  // namespace anneal::cpu
