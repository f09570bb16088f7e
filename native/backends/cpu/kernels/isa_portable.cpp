// Kernels for any machine; compiled with the baseline of the architecture.
#include "table.h"

#if !(!defined(__AVX2__) && !defined(__AVX512F__))
#error "compile this file with the baseline of the architecture"
#endif

namespace anneal::cpu {

const Kernels* kernels_portable(DType type) {
  static constexpr Kernels f32 = table<float>(Isa::portable), bf = table<bf16>(Isa::portable);
  return type == DType::f32 ? &f32 : &bf;
}

}  // namespace anneal::cpu
