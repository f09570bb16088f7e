#include "processor.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstdint>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(__aarch64__) && defined(_WIN32)
#include <windows.h>
#endif

namespace anneal::executor {
namespace {

#if defined(__x86_64__)
// Asked of the processor itself: what compilers offer for it (__builtin_cpu_supports) says no to everything in programs
// that Zig links.
Processor ask_processor() {
  Processor has;
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return has;
  const bool fma = c & bit_FMA, halves = c & bit_F16C, avx = c & bit_AVX, xgetbv = c & bit_OSXSAVE;
  if (!fma || !halves || !avx || !xgetbv) return has;
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
#elif defined(__aarch64__)
Processor ask_processor() {
  Processor has;
#if defined(__linux__)
  constexpr unsigned long kDotProducts = 1ul << 20, kMatrices = 1ul << 13;  // of AT_HWCAP and AT_HWCAP2
  has.dotprod = getauxval(AT_HWCAP) & kDotProducts;
  has.i8mm = getauxval(AT_HWCAP2) & kMatrices;
#elif defined(__APPLE__)
  const auto feature = [](const char* name) {
    int value = 0;
    size_t bytes = sizeof value;
    return sysctlbyname(name, &value, &bytes, nullptr, 0) == 0 && value != 0;
  };
  has.dotprod = feature("hw.optional.arm.FEAT_DotProd");
  has.i8mm = feature("hw.optional.arm.FEAT_I8MM");
#elif defined(_WIN32)
  constexpr DWORD kDotProducts = 43, kMatrices = 66;  // PF_ARM_V82_DP_..., PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE
  has.dotprod = IsProcessorFeaturePresent(kDotProducts);
  has.i8mm = IsProcessorFeaturePresent(kMatrices);
#endif
  has.i8mm = has.i8mm && has.dotprod;
  return has;
}
#else
Processor ask_processor() { return {}; }
#endif

}  // namespace

const Processor& processor() {
  static const Processor has = ask_processor();
  return has;
}

}  // namespace anneal::executor
