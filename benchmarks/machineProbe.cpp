// What the machine can do right now, on so many threads: `machineProbe THREADS`
// prints, line by line, a name and 1e9 per second: "memory", bytes read; then
// the floating-point operations of each instruction set that kernels are
// compiled for and the processor has: "avx2" and "avx512" in float32 ("neon" on
// 64-bit Arm), "avx512bf16" in pairs of bfloat16, "amx" in tiles of it. Of
// several moments the best: what runs beside takes some of them, and kernels
// may not be measured in those.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#ifdef __linux__
#include <sys/mman.h>
#endif
#if defined(__AMX_BF16__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#define ANNEAL_AMX
#endif

namespace {

constexpr int kMoments = 7;
constexpr size_t kLargePage = size_t(2) << 20;  // as weights and caches have, where the system gives them
constexpr size_t kBytes = size_t(384) << 20;    // of a thread, beyond any cache
constexpr long kRounds = 2'000'000;

double seconds(int threads, const std::function<void(int)>& work) {
  std::vector<std::thread> others;
  const auto from = std::chrono::steady_clock::now();
  for (int t = 0; t < threads; t++) others.emplace_back(work, t);
  for (auto& thread : others) thread.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

using Words = unsigned __attribute__((vector_size(64)));

// kAhead: bytes that are fetched ahead, as kernels do; 0: left to the
// processor.
template <size_t kAhead> unsigned read_all(const char* data) {
  Words sum[4] = {};
  for (size_t i = 0; i < kBytes; i += 4 * sizeof(Words))
    for (int j = 0; j < 4; j++) {
      const char* at = data + i + j * sizeof(Words);
      if (kAhead) __builtin_prefetch(at + kAhead, 0, 2);
      sum[j] |= *reinterpret_cast<const Words*>(at);
    }
  return sum[0][0] | sum[1][0] | sum[2][0] | sum[3][0];
}

#ifdef __x86_64__
#define REGISTER "+v"
#else
#define REGISTER "+w"
#endif

// Defines `name`: kRounds of so many chains of operations, more of them than latency hides.
#define CHAINS(name, Vector, chains, operand, step)                                      \
  float name() {                                                                         \
    Vector c[chains], a = operand, b = operand;                                          \
    for (int i = 0; i < chains; i++) c[i] = operand + float(i);                          \
    for (long r = 0; r < kRounds; r++) {                                                 \
      asm volatile("" : REGISTER(a), REGISTER(b));                                       \
      _Pragma("GCC unroll 16") for (int i = 0; i < chains; i++) c[i] = step(a, b, c[i]); \
    }                                                                                    \
    float total = 0;                                                                     \
    for (const Vector& x : c) total += x[0];                                             \
    return total;                                                                        \
  }

#ifdef __x86_64__
// clang-format off
#define PAIRS(a, b, c) _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b)
__attribute__((target("avx2,fma"))) CHAINS(with_avx2, __m256, 12, _mm256_set1_ps(1e-5f), _mm256_fmadd_ps)
__attribute__((target("avx512f"))) CHAINS(with_avx512, __m512, 16, _mm512_set1_ps(1e-5f), _mm512_fmadd_ps)
__attribute__((target("avx512f,avx512bf16"))) CHAINS(with_avx512bf16, __m512, 16, _mm512_set1_ps(1e-5f), PAIRS)
// clang-format on
#ifdef ANNEAL_AMX
constexpr int kTileProducts = 4, kTileOperations = 2 * 16 * 16 * 32;
// Four sums of tiles in registers.
float with_amx() {
  struct alignas(64) {
    unsigned char palette = 1, reserved[15] = {};
    unsigned short bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    unsigned char rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;
  asm volatile("ldtilecfg %0" ::"m"(config));
  for (long r = 0; r < kRounds; r++)
    asm volatile(
        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\ttdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\ttdpbf16ps %%tmm7, %%tmm5, %%tmm3" ::);
  asm volatile("tilerelease" ::);
  return 0;
}
bool has_amx() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif
#elif defined(__aarch64__)
using Four = float __attribute__((vector_size(16)));
#define FUSED(a, b, c) (c + a * b)
CHAINS(with_neon, Four, 16, Four{} + 1e-5f, FUSED)
#endif

            struct Set {
  const char* name;
  float (*compute)();
  double operations;  // of a round
};

std::vector<Set> sets() {
  std::vector<Set> list;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) list.push_back({"avx2", with_avx2, 12 * 16});
  if (__builtin_cpu_supports("avx512f")) list.push_back({"avx512", with_avx512, 16 * 32});
  if (__builtin_cpu_supports("avx512bf16")) list.push_back({"avx512bf16", with_avx512bf16, 16 * 64});
#ifdef ANNEAL_AMX
  if (has_amx()) list.push_back({"amx", with_amx, kTileProducts * kTileOperations});
#endif
#elif defined(__aarch64__)
  list.push_back({"neon", with_neon, 16 * 8});
#endif
  return list;
}

volatile unsigned sink;
volatile float sum;

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : int(std::thread::hardware_concurrency());
  char* const data = static_cast<char*>(std::aligned_alloc(kLargePage, kBytes * threads));
  if (!data) return 1;
#ifdef __linux__
  ::madvise(data, kBytes * threads, MADV_HUGEPAGE);
#endif
  const auto each = [&](int t) { return data + t * kBytes; };
  seconds(threads, [&](int t) {
    for (size_t i = 0; i < kBytes; i++) each(t)[i] = char(i >> 12);
  });
  const std::vector<Set> all = sets();
  double read = 1e9;
  std::vector<double> computed(all.size(), 1e9);
  for (int moment = 0; moment < kMoments; moment++) {
    read = std::min(read, seconds(threads, [&](int t) { sink = read_all<0>(each(t)); }));
    read = std::min(read, seconds(threads, [&](int t) { sink = read_all<2048>(each(t)); }));
    for (size_t s = 0; s < all.size(); s++)
      computed[s] = std::min(computed[s], seconds(threads, [&](int) { sum = all[s].compute(); }));
  }
  std::printf("memory %.1f\n", double(kBytes) * threads / read / 1e9);
  for (size_t s = 0; s < all.size(); s++)
    std::printf("%s %.0f\n", all[s].name, kRounds * all[s].operations * threads / computed[s] / 1e9);
  std::free(data);
}
