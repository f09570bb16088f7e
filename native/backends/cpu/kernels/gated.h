// Gated activations y = f(gate) * up, and their gradients: SiLU g / (1 + e^-g), GELU by its tanh approximation, and the
// logistic function alone.
#pragma once
#include "exp_log.h"

namespace anneal::cpu {
namespace {

struct Silu {
  ANNEAL_INLINE static F32x16 value(F32x16 g) { return g / (all(1.0f) + exp(negate(g))); }
  // s (1 + g (1 - s)) with s = 1 / (1 + e^-g).
  ANNEAL_INLINE static void value_and_slope(F32x16 g, F32x16& value, F32x16& slope) {
    const F32x16 one = all(1.0f), s = one / (one + exp(negate(g)));
    value = g * s, slope = s * fma(g, one - s, one);
  }
};

// g / 2 (1 + tanh u) with u = c g + c a g^3, which is g / (1 + e^-2u).
struct GeluTanh {
  static constexpr float kC = 1.5957691216057308f, kA = 0.044715f;  // 2 sqrt(2 / pi)
  ANNEAL_INLINE static F32x16 part(F32x16 g) {
    return all(1.0f) / (all(1.0f) + exp(negate(g * fma(g * g, all(kC * kA), all(kC)))));
  }
  ANNEAL_INLINE static F32x16 value(F32x16 g) { return g * part(g); }
  // s (1 + g (1 - s) d 2u/dg)
  ANNEAL_INLINE static void value_and_slope(F32x16 g, F32x16& value, F32x16& slope) {
    const F32x16 one = all(1.0f), s = part(g);
    value = g * s, slope = s * fma(g * (one - s), fma(g * g, all(3 * kC * kA), all(kC)), one);
  }
};

struct Logistic {
  ANNEAL_INLINE static F32x16 value(F32x16 g) { return all(1.0f) / (all(1.0f) + exp(negate(g))); }
  ANNEAL_INLINE static void value_and_slope(F32x16 g, F32x16& s, F32x16& slope) {
    s = value(g), slope = s * (all(1.0f) - s);
  }
};

// y [rows][ldy] of gate, up [rows][ld], n columns, all T; y is padded with zeros to a whole step of k where ldy leaves
// room.
template <class T, class F>
void gated_mul(const void* gate, const void* up, int64_t ld, int rows, int n, void* y, int64_t ldy) {
  const int64_t padded = round_to(n, kStep<T>) < ldy ? round_to(n, kStep<T>) : ldy;
  for (int r = 0; r < rows; r++) {
    const T *gates = (const T*)gate + r * ld, *ups = (const T*)up + r * ld;
    T* to = (T*)y + r * ldy;
    each16(n, [&](int64_t i, auto lanes) {
      store(to + i, F::value(load(gates + i, lanes)) * load(ups + i, lanes), lanes);
    });
    zero_fill(to, n, padded);
  }
}

// dgate, dup [rows][ldd] of dy [rows][lddy] (float32), n columns; they are overwritten.
template <class T, class F>
void gated_mul_backward(const void* gate, const void* up, int64_t ld, const float* dy, int64_t lddy, int rows, int n,
                        float* dgate, float* dup, int64_t ldd) {
  for (int r = 0; r < rows; r++) {
    const T *gates = (const T*)gate + r * ld, *ups = (const T*)up + r * ld;
    const float* grad = dy + r * lddy;
    float *to_gate = dgate + r * ldd, *to_up = dup + r * ldd;
    each16(n, [&](int64_t i, auto lanes) {
      F32x16 u = load(ups + i, lanes), d = load(grad + i, lanes), value, slope;
      F::value_and_slope(load(gates + i, lanes), value, slope);
      store(to_up + i, d * value, lanes);
      store(to_gate + i, d * u * slope, lanes);
    });
  }
}

template <class T, class F> constexpr GatedActivation gated_activation() {
  return {gated_mul<T, F>, gated_mul_backward<T, F>};
}

}  // namespace
}  // namespace anneal::cpu
