// The fast family on x86 with AMX; compiled with -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512bf16
// -mfma -mamx-tile -mamx-bf16.
#if defined(__x86_64__)
#define ANNEAL_AMX 1
#include "tiled_table.h"

#if !(defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && \
      defined(__AVX512VNNI__) && defined(__AVX512BF16__) && defined(__AMX_TILE__) && defined(__AMX_BF16__))
#error "compile this file with the flags that its first comment names"
#endif

namespace anneal::cpu {

void put_amx(Kernels& k) { put_tiled(k); }

}  // namespace anneal::cpu
#endif
