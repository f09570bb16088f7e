// Kernels for x86 with AVX-512, its BF16 and its byte products; compiled with -mavx512f -mavx512bw -mavx512dq
// -mavx512vl -mavx512vnni -mavx512bf16 -mfma.
#if defined(__x86_64__)
#include "table.h"

#if !(defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && \
      defined(__AVX512VNNI__) && defined(__AVX512BF16__))
#error "compile this file with -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512bf16 -mfma"
#endif

namespace anneal::cpu {

const Kernels* kernels_avx512bf16(DType type) {
  static constexpr Kernels f32 = table<float>(Isa::avx512bf16), bf = table<bf16>(Isa::avx512bf16);
  return type == DType::f32 ? &f32 : &bf;
}

}  // namespace anneal::cpu
#endif
