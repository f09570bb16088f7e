// Element types, the two kinds of 16-lane access, and loops over a row in steps of 16 lanes.
//
// Everything in the kernel headers lives in an unnamed namespace: each instruction set's source file gets its own
// private copy, so that the linker can never hand code compiled for one instruction set to another.
#pragma once
#include "kernels.h"

#define ANNEAL_INLINE inline __attribute__((always_inline))

namespace anneal::cpu {
namespace {

struct bf16 {
  uint16_t bits;
};

template <class T> constexpr DType kType = DType::f32;
template <> constexpr DType kType<bf16> = DType::bf16;
// Consecutive k that a product consumes together.
template <class T> constexpr int kStep = 1;
template <> constexpr int kStep<bf16> = 2;

// All 16 lanes, or only the first n (the others read as zero and are not written).
struct Full {
  static constexpr int n = kLanes;
};
struct Part {
  int n;
};

// body(i, lanes) for i = 0, 16, 32, ... < n; lanes is Full, or Part in the last step.
template <class Body> ANNEAL_INLINE void each16(int64_t n, Body&& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, Full{});
  if (i < n) body(i, Part{int(n - i)});
}

ANNEAL_INLINE constexpr int round_to(int n, int to) { return (n + to - 1) / to * to; }

ANNEAL_INLINE float widen(float x) { return x; }
ANNEAL_INLINE float widen(bf16 x) {
  uint32_t u = uint32_t(x.bits) << 16;
  float f;
  __builtin_memcpy(&f, &u, 4);
  return f;
}

// Round to nearest even as vcvtneps2bf16 does: denormals become zero, a NaN keeps its upper bits and turns quiet.
ANNEAL_INLINE void narrow(float x, float& out) { out = x; }
ANNEAL_INLINE void narrow(float x, bf16& out) {
  uint32_t u;
  __builtin_memcpy(&u, &x, 4);
  if ((u & 0x7fffffffu) > 0x7f800000u)
    out.bits = uint16_t((u >> 16) | 0x40);
  else if ((u & 0x7f800000u) == 0)
    out.bits = uint16_t((u >> 16) & 0x8000);
  else
    out.bits = uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

}  // namespace
}  // namespace anneal::cpu
