// What the machine can do right now, on so many threads: `machineProbe THREADS` prints the bytes read from memory and the
// floating-point operations (bfloat16 pairs where the processor has them, else float32) per second, in units of 1e9.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace {

using Lanes = float __attribute__((vector_size(64)));

double seconds(int threads, const std::function<void(int)>& work) {
  std::vector<std::thread> others;
  const auto from = std::chrono::steady_clock::now();
  for (int t = 0; t < threads; t++) others.emplace_back(work, t);
  for (auto& thread : others) thread.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

float read_all(const Lanes* data, size_t n) {
  Lanes sum[8] = {};
  for (size_t i = 0; i + 8 <= n; i += 8)
    for (int j = 0; j < 8; j++) sum[j] += data[i + j];
  float total = 0;
  for (const Lanes& s : sum) total += s[0];
  return total;
}

#ifdef __AVX512BF16__
constexpr double kOperations = 64;  // of one instruction: 16 lanes, two products and two sums each
float compute(long rounds) {
  __m512 c[16];
  for (int i = 0; i < 16; i++) c[i] = _mm512_set1_ps(float(i));
  __m512bh a = (__m512bh)_mm512_set1_epi32(0x3c003c00), b = a;
  for (long r = 0; r < rounds; r++) {
    asm volatile("" : "+v"(a), "+v"(b));
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) c[i] = _mm512_dpbf16_ps(c[i], a, b);
  }
  float total = 0;
  for (const __m512& x : c) total += x[0];
  return total;
}
#else
constexpr double kOperations = 32;
float compute(long rounds) {
  Lanes c[16], a = Lanes{} + 1e-9f, b = a;
  for (int i = 0; i < 16; i++) c[i] = Lanes{} + float(i);
  for (long r = 0; r < rounds; r++) {
    asm volatile("" : "+v"(a), "+v"(b));
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) c[i] += a * b;
  }
  float total = 0;
  for (const Lanes& x : c) total += x[0];
  return total;
}
#endif

volatile float sink;

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : int(std::thread::hardware_concurrency());
  const size_t lanes = size_t(512) << 20 >> 6;
  Lanes* data = static_cast<Lanes*>(std::aligned_alloc(64, lanes * sizeof(Lanes) * threads));
  if (!data) return 1;
  const auto each = [&](int t) { return data + t * lanes; };
  seconds(threads, [&](int t) {
    for (size_t i = 0; i < lanes; i++) each(t)[i] = Lanes{} + 1.0f;
  });
  const double read = seconds(threads, [&](int t) { sink = read_all(each(t), lanes); });
  const long rounds = 20'000'000;
  const double computed = seconds(threads, [&](int) { sink = compute(rounds); });
  std::printf("%.1f %.0f\n", lanes * sizeof(Lanes) * threads / read / 1e9, rounds * 16 * kOperations * threads / computed / 1e9);
  std::free(data);
}
