// The floating-point mode that every kernel assumes, per architecture.
#include "float_mode.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace anneal::executor {

#if defined(__x86_64__)

FloatMode::FloatMode() : saved_(_mm_getcsr()) {
  constexpr unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x40,
                     all_exceptions_masked = 0x1f80;  // rounding bits 0: nearest
  _mm_setcsr(flush_to_zero | denormals_are_zero | all_exceptions_masked);
}
FloatMode::~FloatMode() { _mm_setcsr(unsigned(saved_)); }

#elif defined(__aarch64__)

// Arm judges whether a result is below 2^-126 before it rounds it, x86 after: a result that would round up to 2^-126 is
// 0 here.
FloatMode::FloatMode() {
  asm volatile("mrs %0, fpcr" : "=r"(saved_));
  constexpr unsigned long flush_to_zero = 1ul << 24;  // of inputs and results; rounding bits 0: nearest
  asm volatile("msr fpcr, %0" : : "r"(flush_to_zero));
}
FloatMode::~FloatMode() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }

#else

// Denormals stay as they are: same results but for numbers below 2^-126.
FloatMode::FloatMode() : saved_(0) {}
FloatMode::~FloatMode() = default;

#endif

}  // namespace anneal::executor
