// Which instruction sets this machine can run, asked of the processor and the operating system once.
#include <cstdint>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernels.h"

namespace anneal::cpu {

const Kernels* kernels_portable(DType);
const Kernels* kernels_neon(DType);
const Kernels* kernels_avx2(DType);
const Kernels* kernels_avx512(DType);
const Kernels* kernels_avx512bf16(DType);

namespace {

struct Processor {
  bool avx2 = false, avx512 = false, avx512bf16 = false;
};

#if defined(__x86_64__)
// Asked of the processor itself: what compilers offer for it (__builtin_cpu_supports) says no to everything in programs
// that Zig links.
Processor ask_processor() {
  Processor has;
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return has;
  const bool fma = c & bit_FMA, avx = c & bit_AVX, xgetbv = c & bit_OSXSAVE;
  if (!fma || !avx || !xgetbv) return has;
  // Which registers the system saves when it switches threads: bits 1 and 2 the 256-bit ones, 5 to 7 masks and the
  // 512-bit ones.
  uint32_t saved, high;
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  if ((saved & 0x06) != 0x06 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return has;
  const uint32_t leaves = a;
  has.avx2 = b & bit_AVX2;
  has.avx512 = has.avx2 && (saved & 0xe0) == 0xe0 && (b & bit_AVX512F) && (b & bit_AVX512BW) && (b & bit_AVX512DQ) &&
               (b & bit_AVX512VL);
  has.avx512bf16 = has.avx512 && leaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & bit_AVX512BF16);
  return has;
}
#endif

}  // namespace

const Kernels* kernels(Isa isa, DType type) {
#if defined(__x86_64__)
  static const Processor has = ask_processor();
  if (isa == Isa::avx2) return has.avx2 ? kernels_avx2(type) : nullptr;
  if (isa == Isa::avx512) return has.avx512 ? kernels_avx512(type) : nullptr;
  if (isa == Isa::avx512bf16) return has.avx512bf16 ? kernels_avx512bf16(type) : nullptr;
#elif defined(__aarch64__)
  if (isa == Isa::neon) return kernels_neon(type);
#endif
  return isa == Isa::portable ? kernels_portable(type) : nullptr;
}

Isa best_isa() {
  Isa best = Isa::portable;
  for (Isa isa : kIsas)
    if (kernels(isa, DType::f32)) best = isa;
  return best;
}

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::neon: return "neon";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::avx512bf16: return "avx512bf16";
    default: return "portable";
  }
}

}  // namespace anneal::cpu
