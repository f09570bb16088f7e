// Which instruction sets this machine can run, asked of the processor and the operating system once.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>
#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
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
// The fast family's kernels, in place of a set's of bfloat16.
void put_amx_avx2(Kernels&);
void put_amx_avx512(Kernels&);
void put_amx(Kernels&);

namespace {

struct Processor {
  bool avx2 = false, avxvnni = false, avx512 = false, avx512vnni = false, avx512bf16 = false, amx = false;
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
  constexpr uint32_t kTileState = 0x60000;  // of what the system saves
  const bool tiles = (saved & kTileState) == kTileState && (d & 1u << 24) && (d & 1u << 22);
  has.avx2 = b & bit_AVX2;
  has.avx512 = has.avx2 && (saved & 0xe0) == 0xe0 && (b & bit_AVX512F) && (b & bit_AVX512BW) && (b & bit_AVX512DQ) &&
               (b & bit_AVX512VL);
  has.avx512vnni = has.avx512 && (c & bit_AVX512VNNI);
  if (leaves < 1 || !__get_cpuid_count(7, 1, &a, &b, &c, &d)) return has;
  has.avxvnni = has.avx2 && (a & (1u << 4));
  has.avx512bf16 = has.avx512vnni && (a & bit_AVX512BF16);
  has.amx = has.avx512bf16 && tiles;
  return has;
}

// A set's kernels by another name, some of them replaced.
template <Isa isa, auto set, auto put> const Kernels* with(DType type) {
  const auto changed = [](DType of) {
    Kernels k = *set(of);
    k.isa = isa;
    put(k);
    return k;
  };
  static const Kernels f32 = changed(DType::f32), bf = changed(DType::bf16);
  return type == DType::f32 ? &f32 : &bf;
}
template <auto quantized> void put_quantized(Kernels& k) {
  std::copy_n(quantized(k.type), kQuantizedCount, k.quantized);
}

// Linux lends a process the tiles' registers when it asks; to all of its threads.
bool ask_for_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

const Processor& processor() {
  static const Processor has = ask_processor();
  return has;
}
#endif

// Seconds of a product that the first-level caches hold, the least of some.
double seconds_of_product(const Kernels& kernels) {
  constexpr int m = 48, k = 128, panels = 6;
  std::vector<char> a(size_t(m) * k * kernels.elem), w(panels * panel_bytes(kernels, k));
  std::vector<float> c(size_t(m) * panels * kLanes);
  double least = 1;
  for (int i = 0; i < 8; i++) {
    const auto begun = std::chrono::steady_clock::now();
    kernels.gemm(a.data(), k, m, w.data(), k, panels, c.data(), panels * kLanes, false);
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  }
  return least;
}

}  // namespace

bool has_matrix_unit() {
#if defined(__x86_64__)
  static const bool has = processor().amx && ask_for_tiles();
  return has;
#else
  return false;
#endif
}

const Kernels* kernels(Isa isa, DType type) {
#if defined(__x86_64__)
  const Processor& has = processor();
  if (isa == Isa::avx2) return has.avx2 ? kernels_avx2(type) : nullptr;
  if (isa == Isa::avxvnni)
    return has.avxvnni ? with<Isa::avxvnni, kernels_avx2, put_quantized<quantized_avxvnni>>(type) : nullptr;
  if (isa == Isa::avx512vnni)
    return has.avx512vnni ? with<Isa::avx512vnni, kernels_avx512, put_quantized<quantized_avx512vnni>>(type) : nullptr;
  if (isa == Isa::avx512) return has.avx512 ? kernels_avx512(type) : nullptr;
  if (isa == Isa::avx512bf16) return has.avx512bf16 ? kernels_avx512bf16(type) : nullptr;
  if (isa == Isa::amx_avx2) return has.avx2 ? with<Isa::amx_avx2, kernels_avx2, put_amx_avx2>(type) : nullptr;
  if (isa == Isa::amx_avx512) return has.avx512 ? with<Isa::amx_avx512, kernels_avx512, put_amx_avx512>(type) : nullptr;
  if (isa == Isa::amx) return has_matrix_unit() ? with<Isa::amx, kernels_avx512bf16, put_amx>(type) : nullptr;
#elif defined(__aarch64__)
  if (isa == Isa::neon) return kernels_neon(type);
#endif
  return isa == Isa::portable ? kernels_portable(type) : nullptr;
}

// Pairs of bfloat16 take AMD's processors a multiplication's time, and Intel's four times that.
Isa best_isa() {
  static const Isa best = [] {
    Isa latest = Isa::portable;
    for (Isa isa : kIsas)
      if (kernels(isa, DType::f32)) latest = isa;
    if (latest != Isa::avx512bf16) return latest;
    const double widened = seconds_of_product(*kernels(Isa::avx512vnni, DType::bf16)),
                 pairs = seconds_of_product(*kernels(latest, DType::bf16));
    return widened < pairs ? Isa::avx512vnni : latest;
  }();
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
    case Isa::amx_avx2: return "amx-avx2";
    case Isa::amx_avx512: return "amx-avx512";
    case Isa::amx: return "amx";
    default: return "portable";
  }
}

}  // namespace anneal::cpu
