#include "processor.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstdint>
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
#else
Processor ask_processor() { return {}; }
#endif

}  // namespace

const Processor& processor() {
  static const Processor has = ask_processor();
  return has;
}

}  // namespace anneal::executor
