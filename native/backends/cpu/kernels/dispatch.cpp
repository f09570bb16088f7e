// Which kernels this machine can run.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "../../../executor/processor.h"
#include "kernels.h"

namespace anneal::cpu {

const Kernels* kernels_portable(DType);
const Kernels* kernels_neon(DType);
const Kernels* kernels_avx2(DType);
const Kernels* kernels_avx512(DType);
const Kernels* kernels_avx512bf16(DType);
// Of products with quantised weights, kQuantizedCount of them.
const QuantizedKernels* quantized_neon_dotprod(DType);
const QuantizedKernels* quantized_neon_i8mm(DType);
const QuantizedKernels* quantized_avxvnni(DType);
const QuantizedKernels* quantized_avx512vnni(DType);
// The fast family's kernels, in place of a set's of bfloat16.
void put_amx_avx2(Kernels&);
void put_amx_avx512(Kernels&);
void put_amx(Kernels&);

namespace {

#if defined(__x86_64__) || defined(__aarch64__)
using executor::Processor;
using executor::processor;

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
#endif

#if defined(__x86_64__)
// Linux lends a process the tiles' registers when it asks; to all of its threads.
bool ask_for_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
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
  const Processor& has = processor();
  if (isa == Isa::neon) return kernels_neon(type);
  if (isa == Isa::neon_dotprod)
    return has.dotprod ? with<Isa::neon_dotprod, kernels_neon, put_quantized<quantized_neon_dotprod>>(type) : nullptr;
  if (isa == Isa::neon_i8mm)
    return has.i8mm ? with<Isa::neon_i8mm, kernels_neon, put_quantized<quantized_neon_i8mm>>(type) : nullptr;
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
    case Isa::neon_dotprod: return "neon-dotprod";
    case Isa::neon_i8mm: return "neon-i8mm";
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
