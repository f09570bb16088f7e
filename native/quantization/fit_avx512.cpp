// Blocks made of numbers, for x86 with AVX-512; compiled with -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma.
#if defined(__x86_64__)
#include "fit.h"

#if !defined(__AVX512F__)
#error "compile this file with -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma"
#endif

namespace anneal::quantization {

FitBlocks fit_blocks_avx512() { return fit_blocks; }

}  // namespace anneal::quantization
#endif
