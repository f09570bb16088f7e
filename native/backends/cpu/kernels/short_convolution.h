// A gated short convolution over the tokens: y = gate * (bias + sum of x[t + j] taps[j]), where x are products of two
// parts of what a projection puts out, in float32, and the gate is the third. Sums are chains over the taps in
// ascending order: no cut of the tokens changes a bit.
#pragma once
#include "exp_log.h"

namespace anneal::cpu {
namespace {

// to = a * b, of T [n].
template <class T> void multiply(const void* a, const void* b, int n, float* to) {
  each16(n, [&](int64_t i, auto lanes) {
    store(to + i, load((const T*)a + i, lanes) * load((const T*)b + i, lanes), lanes);
  });
}

// da = d * b, db = d * a; either may be d.
template <class T> void multiply_backward(const void* a, const void* b, const float* d, int n, float* da, float* db) {
  each16(n, [&](int64_t i, auto lanes) {
    const F32x16 by = load(d + i, lanes);
    store(da + i, by * load((const T*)b + i, lanes), lanes);
    store(db + i, by * load((const T*)a + i, lanes), lanes);
  });
}

ANNEAL_INLINE F32x16 convolved(const float* x, int64_t ldx, const float* taps, int64_t ldt, const float* bias,
                               int kernel, auto lanes) {
  F32x16 sum = bias ? load(bias, lanes) : zero();
  for (int j = 0; j < kernel; j++) sum = fma(load(x + j * ldx, lanes), load(taps + j * ldt, lanes), sum);
  return sum;
}

// gate and y: T [rows][ld]; x has rows + kernel - 1 rows; bias may be null. y is padded with zeros to a whole step of k
// where its ld leaves room.
template <class T>
void gated_conv(const float* x, int64_t ldx, const float* taps, int64_t ldt, const float* bias, int kernel, int rows,
                int n, const void* gate, int64_t ldg, void* y, int64_t ldy) {
  const int64_t padded = round_to(n, kStep<T>) < ldy ? round_to(n, kStep<T>) : ldy;
  for (int t = 0; t < rows; t++) {
    each16(n, [&](int64_t i, auto lanes) {
      const F32x16 sum = convolved(x + t * ldx + i, ldx, taps + i, ldt, bias ? bias + i : nullptr, kernel, lanes);
      store((T*)y + t * ldy + i, load((const T*)gate + t * ldg + i, lanes) * sum, lanes);
    });
    zero_fill((T*)y + t * ldy, n, padded);
  }
}

// dgate [rows][lddg] is overwritten; dx, dtaps and dbias (or null) are added to.
template <class T>
void gated_conv_backward(const float* x, int64_t ldx, const float* taps, int64_t ldt, const float* bias, int kernel,
                         int rows, int n, const void* gate, int64_t ldg, const float* dy, int64_t lddy, float* dgate,
                         int64_t lddg, float* dx, int64_t lddx, float* dtaps, int64_t lddt, float* dbias) {
  for (int t = 0; t < rows; t++)
    each16(n, [&](int64_t i, auto lanes) {
      const F32x16 sum = convolved(x + t * ldx + i, ldx, taps + i, ldt, bias ? bias + i : nullptr, kernel, lanes),
                   by = load(dy + t * lddy + i, lanes), d = by * load((const T*)gate + t * ldg + i, lanes);
      store(dgate + t * lddg + i, by * sum, lanes);
      for (int j = 0; j < kernel; j++) {
        float* to = dx + (t + j) * lddx + i;
        store(to, fma(d, load(taps + j * ldt + i, lanes), load(to, lanes)), lanes);
        if (!dtaps) continue;
        float* tap = dtaps + j * lddt + i;
        store(tap, fma(d, load(x + (t + j) * ldx + i, lanes), load(tap, lanes)), lanes);
      }
      if (dbias) store(dbias + i, load(dbias + i, lanes) + d, lanes);
    });
}

}  // namespace
}  // namespace anneal::cpu
