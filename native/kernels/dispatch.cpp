// Which instruction sets this machine can run, asked of the processor and the operating system once.
#include <initializer_list>

#include "kernels.h"

namespace anneal {

const Kernels* kernels_portable(DType);
const Kernels* kernels_avx2(DType);
const Kernels* kernels_avx512(DType);
const Kernels* kernels_avx512bf16(DType);

// __builtin_cpu_supports also asks whether the system saves the registers.
const Kernels* kernels(Isa isa, DType type) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (isa == Isa::avx2) return avx2 ? kernels_avx2(type) : nullptr;
  if (isa == Isa::avx512) return avx512 ? kernels_avx512(type) : nullptr;
  if (isa == Isa::avx512bf16) return avx512 && __builtin_cpu_supports("avx512bf16") ? kernels_avx512bf16(type) : nullptr;
#endif
  return isa == Isa::portable ? kernels_portable(type) : nullptr;
}

Isa best_isa() {
  for (Isa isa : {Isa::avx512bf16, Isa::avx512, Isa::avx2})
    if (kernels(isa, DType::f32)) return isa;
  return Isa::portable;
}

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::avx512bf16: return "avx512bf16";
    default: return "portable";
  }
}

}  // namespace anneal
