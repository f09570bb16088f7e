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
// Of products with quantised weights, kQuantizedCount of them.
const QuantizedKernels* quantized_avxvnni(DType);
const QuantizedKernels* quantized_avx512vnni(DType);

namespace {

struct Processor {
  bool avx2 = false, avxvnni = false, avx512 = false, avx512vnni = false, avx512bf16 = false;
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
  has.avx512vnni = has.avx512 && (c & bit_AVX512VNNI);
  if (leaves < 1 || !__get_cpuid_count(7, 1, &a, &b, &c, &d)) return has;
  has.avxvnni = has.avx2 && (a & (1u << 4));
  has.avx512bf16 = has.avx512vnni && (a & bit_AVX512BF16);
  return has;
}

// A set's kernels with other products of quantised weights.
Kernels with_quantized(Isa isa, const Kernels& set, const QuantizedKernels* quantized) {
  Kernels k = set;
  k.isa = isa;
  for (int i = 0; i < kQuantizedCount; i++) k.quantized[i] = quantized[i];
  return k;
}
template <Isa isa, auto set, auto quantized> const Kernels* with_vnni(DType type) {
  static const Kernels f32 = with_quantized(isa, *set(DType::f32), quantized(DType::f32)),
                       bf = with_quantized(isa, *set(DType::bf16), quantized(DType::bf16));
  return type == DType::f32 ? &f32 : &bf;
}
#endif

}  // namespace

const Kernels* kernels(Isa isa, DType type) {
#if defined(__x86_64__)
  static const Processor has = ask_processor();
  if (isa == Isa::avx2) return has.avx2 ? kernels_avx2(type) : nullptr;
  if (isa == Isa::avxvnni)
    return has.avxvnni ? with_vnni<Isa::avxvnni, kernels_avx2, quantized_avxvnni>(type) : nullptr;
  if (isa == Isa::avx512vnni)
    return has.avx512vnni ? with_vnni<Isa::avx512vnni, kernels_avx512, quantized_avx512vnni>(type) : nullptr;
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
    case Isa::avxvnni: return "avxvnni";
    case Isa::avx512: return "avx512";
    case Isa::avx512vnni: return "avx512vnni";
    case Isa::avx512bf16: return "avx512bf16";
    default: return "portable";
  }
}

}  // namespace anneal::cpu
