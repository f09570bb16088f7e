// Kernels for 64-bit Arm: NEON and its fused multiply-add belong to the baseline of the architecture.
#if defined(__aarch64__)
#define ANNEAL_NEON
#include "table.h"

namespace anneal::cpu {

const Kernels* kernels_neon(DType type) {
  static constexpr Kernels f32 = table<float>(Isa::neon), bf = table<bf16>(Isa::neon);
  return type == DType::f32 ? &f32 : &bf;
}

}  // namespace anneal::cpu
#endif
