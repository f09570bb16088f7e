// Gated activations y = f(gate) * up, and their gradients: SiLU g / (1 + e^-g), GELU by its tanh approximation, and the
// logistic function alone; and one that is no such product.
#pragma once
#include "exp_log.h"

namespace anneal::cpu {
namespace {

// f(gate) * up of F's f.
template <class F> struct Product {
  ANNEAL_INLINE static F32x16 of(F32x16 g, F32x16 u) { return F::value(g) * u; }
  // Of d, what y takes.
  ANNEAL_INLINE static void gradients(F32x16 g, F32x16 u, F32x16 d, F32x16& of_gate, F32x16& of_up) {
    F32x16 value, slope;
    F::value_and_slope(g, value, slope);
    of_up = d * value, of_gate = d * u * slope;
  }
};

struct Silu : Product<Silu> {
  ANNEAL_INLINE static F32x16 value(F32x16 g) { return g / (all(1.0f) + exp(negate(g))); }
  // s (1 + g (1 - s)) with s = 1 / (1 + e^-g).
  ANNEAL_INLINE static void value_and_slope(F32x16 g, F32x16& value, F32x16& slope) {
    const F32x16 one = all(1.0f), s = one / (one + exp(negate(g)));
    value = g * s, slope = s * fma(g, one - s, one);
  }
};

// g / 2 (1 + tanh u) with u = c g + c a g^3, which is g / (1 + e^-2u).
struct GeluTanh : Product<GeluTanh> {
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

struct Logistic : Product<Logistic> {
  ANNEAL_INLINE static F32x16 value(F32x16 g) { return all(1.0f) / (all(1.0f) + exp(negate(g))); }
  ANNEAL_INLINE static void value_and_slope(F32x16 g, F32x16& s, F32x16& slope) {
    s = value(g), slope = s * (all(1.0f) - s);
  }
};

// g / (1 + e^-(1.702 g)) (u + 1) of g = min(gate, 7) and u, up within -7 and 7. What is beyond has no gradient.
struct ClampedSwiglu {
  static constexpr float kSlope = 1.702f, kMost = 7;
  ANNEAL_INLINE static F32x16 part(F32x16 g) { return all(1.0f) / (all(1.0f) + exp(g * all(-kSlope))); }
  ANNEAL_INLINE static F32x16 gate(F32x16 g) { return select(less(all(kMost), g), all(kMost), g); }
  ANNEAL_INLINE static F32x16 up(F32x16 u) {
    return select(less(u, all(-kMost)), all(-kMost), select(less(all(kMost), u), all(kMost), u));
  }
  ANNEAL_INLINE static F32x16 of(F32x16 g, F32x16 u) {
    g = gate(g);
    return g * part(g) * (up(u) + all(1.0f));
  }
  ANNEAL_INLINE static void gradients(F32x16 g, F32x16 u, F32x16 d, F32x16& of_gate, F32x16& of_up) {
    const F32x16 one = all(1.0f), within = gate(g), s = part(within);
    of_up = select(less(all(kMost), u), zero(), select(less(u, all(-kMost)), zero(), d * (within * s)));
    of_gate = d * (up(u) + one) * (s * fma(within * all(kSlope), one - s, one));
    of_gate = select(less(all(kMost), g), zero(), of_gate);
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
    each16(n,
           [&](int64_t i, auto lanes) { store(to + i, F::of(load(gates + i, lanes), load(ups + i, lanes)), lanes); });
    zero_fill(to, n, padded);
  }
}

// The same of sums [rows][lds] (float32), which are rounded to T as they would be in memory.
template <class T, class F>
void round_gated_mul(const float* gate_sums, const float* up_sums, int64_t lds, int rows, int n, void* gate, void* up,
                     int64_t ld, void* y, int64_t ldy) {
  const int64_t padded = round_to(n, kStep<T>) < ldy ? round_to(n, kStep<T>) : ldy;
  for (int r = 0; r < rows; r++) {
    const float *gates = gate_sums + r * lds, *ups = up_sums + r * lds;
    T *to_gate = gate ? (T*)gate + r * ld : nullptr, *to_up = gate ? (T*)up + r * ld : nullptr, *to = (T*)y + r * ldy;
    each16(n, [&](int64_t i, auto lanes) {
      const F32x16 g = round_into(to_gate ? to_gate + i : nullptr, load(gates + i, lanes), lanes),
                   u = round_into(to_up ? to_up + i : nullptr, load(ups + i, lanes), lanes);
      store(to + i, F::of(g, u), lanes);
    });
    zero_fill(to, n, padded);
  }
}

// dgate, dup [rows][ldd] (T) of dy [rows][lddy] (float32), and y [rows][ldy] again where it is wanted, n columns; they
// are overwritten, and padded likewise.
template <class T, class F>
void gated_mul_backward(const void* gate, const void* up, int64_t ld, const float* dy, int64_t lddy, int rows, int n,
                        void* dgate, void* dup, int64_t ldd, void* y, int64_t ldy) {
  const int64_t padded = round_to(n, kStep<T>), padded_d = padded < ldd ? padded : ldd,
                padded_y = padded < ldy ? padded : ldy;
  for (int r = 0; r < rows; r++) {
    const T *gates = (const T*)gate + r * ld, *ups = (const T*)up + r * ld;
    const float* grad = dy + r * lddy;
    T *to_gate = (T*)dgate + r * ldd, *to_up = (T*)dup + r * ldd, *to = y ? (T*)y + r * ldy : nullptr;
    each16(n, [&](int64_t i, auto lanes) {
      const F32x16 g = load(gates + i, lanes), u = load(ups + i, lanes), d = load(grad + i, lanes);
      F32x16 of_gate, of_up;
      F::gradients(g, u, d, of_gate, of_up);
      store(to_up + i, of_up, lanes);
      store(to_gate + i, of_gate, lanes);
      if (to) store(to + i, F::of(g, u), lanes);
    });
    zero_fill(to_gate, n, padded_d);
    zero_fill(to_up, n, padded_d);
    if (to) zero_fill(to, n, padded_y);
  }
}

template <class T, class F> constexpr GatedActivation gated_activation() {
  return {gated_mul<T, F>, round_gated_mul<T, F>, gated_mul_backward<T, F>};
}

}  // namespace
}  // namespace anneal::cpu
