// Products with quantised weights for x86 with AVX-512 VNNI; compiled with -mavx512f -mavx512bw -mavx512dq -mavx512vl
// -mavx512vnni -mfma.
#if defined(__x86_64__)
#include "quantized.h"

#if !(defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && \
      defined(__AVX512VNNI__))
#error "compile this file with -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma"
#endif

namespace anneal::cpu {

const QuantizedKernels* quantized_avx512vnni(DType type) {
  static constexpr auto f32 = all_quantized<float>(), bf = all_quantized<bf16>();
  return type == DType::f32 ? f32.of : bf.of;
}

}  // namespace anneal::cpu
#endif
