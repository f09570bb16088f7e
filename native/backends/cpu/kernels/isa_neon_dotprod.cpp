// Products with quantised weights for 64-bit Arm with dot products of bytes; compiled with -march=armv8.2-a+dotprod.
#if defined(__aarch64__)
#define ANNEAL_NEON
#include "quantized.h"

#if !defined(__ARM_FEATURE_DOTPROD)
#error "compile this file with -march=armv8.2-a+dotprod"
#endif

namespace anneal::cpu {

const QuantizedKernels* quantized_neon_dotprod(DType type) {
  static constexpr auto f32 = all_quantized<float>(), bf = all_quantized<bf16>();
  return type == DType::f32 ? f32.of : bf.of;
}

}  // namespace anneal::cpu
#endif
