// The fast family's bits by AVX2 and FMA; compiled with -mavx2 -mfma -mf16c.
#if defined(__x86_64__)
#include "tiled_table.h"

#if !(defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && !defined(__AVX512F__))
#error "compile this file with -mavx2 -mfma -mf16c"
#endif

namespace anneal::cpu {

void put_amx_avx2(Kernels& k) { put_tiled(k); }

}  // namespace anneal::cpu
#endif
