// Blocks made of numbers, for x86 with AVX2; compiled with -mavx2 -mfma -mf16c.
#if defined(__x86_64__)
#include "fit.h"

#if !(defined(__AVX2__) && !defined(__AVX512F__))
#error "compile this file with -mavx2 -mfma -mf16c"
#endif

namespace anneal::quantization {

FitBlocks fit_blocks_avx2() { return fit_blocks; }

}  // namespace anneal::quantization
#endif
