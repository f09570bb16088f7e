// The fast family's bits by AVX-512; compiled with -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma.
#if defined(__x86_64__)
#include "tiled_table.h"

#if !(defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && \
      !defined(__AVX512BF16__))
#error "compile this file with -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma"
#endif

namespace anneal::cpu {

void put_amx_avx512(Kernels& k) { put_tiled(k); }

}  // namespace anneal::cpu
#endif
