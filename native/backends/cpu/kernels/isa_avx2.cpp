// Kernels for x86 with AVX2 and FMA; compiled with -mavx2 -mfma -mf16c.
#if defined(__x86_64__)
#include "table.h"

#if !(defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && !defined(__AVX512F__))
#error "compile this file with -mavx2 -mfma -mf16c"
#endif

namespace anneal::cpu {

const Kernels* kernels_avx2(DType type) {
  static constexpr Kernels f32 = table<float>(Isa::avx2), bf = table<bf16>(Isa::avx2);
  return type == DType::f32 ? &f32 : &bf;
}

}  // namespace anneal::cpu
#endif
