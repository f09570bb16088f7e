// Products with quantised weights for x86 with AVX-VNNI; compiled with -mavx2 -mfma -mf16c -mavxvnni.
#if defined(__x86_64__)
#include "quantized.h"

#if !(defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && defined(__AVXVNNI__) && !defined(__AVX512F__))
#error "compile this file with -mavx2 -mfma -mf16c -mavxvnni"
#endif

namespace anneal::cpu {

const QuantizedKernels* quantized_avxvnni(DType type) {
  static constexpr auto f32 = all_quantized<float>(), bf = all_quantized<bf16>();
  return type == DType::f32 ? f32.of : bf.of;
}

}  // namespace anneal::cpu
#endif
