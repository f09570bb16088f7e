// Over one row of float32 logits: log-sum-exp, entropy, softmax and its gradient. Padded columns never enter.
#pragma once
#include "exp_log.h"

namespace anneal::cpu {
namespace {

constexpr float kLowest = -3.402823466e+38f;

// body(first column, columns) for each absolute block of kLogitBlock columns, in ascending order.
template <class Body> ANNEAL_INLINE void each_block(int n, Body&& body) {
  for (int b = 0; b < n; b += kLogitBlock) body(b, n - b < kLogitBlock ? n - b : kLogitBlock);
}

// (maximum, sum of e^(x - maximum)) of each block, combined in ascending order. -infinity is a logit like any other.
inline float log_sum_exp(const float* logits, int n) {
  float maximum = kLowest, sum = 0;
  each_block(n, [&](int b, int count) {
    const float* x = logits + b;
    F32x16 high = all(kLowest);
    each16(count, [&](int64_t i, auto lanes) { high = max(high, keep(load(x + i, lanes), lanes, kLowest)); });
    const float block_max = max_lanes(high);
    F32x16 total = zero();
    each16(count,
           [&](int64_t i, auto lanes) { total = total + keep(exp(load(x + i, lanes) - all(block_max)), lanes, 0.0f); });
    const float block_sum = sum_lanes(total);
    const float larger = block_max > maximum ? block_max : maximum;
    sum = sum * exp(maximum - larger) + block_sum * exp(block_max - larger);
    maximum = larger;
  });
  return maximum + log(sum);
}

// -p t of p = e^t. Where p is 0 it is 0, though t may be infinite.
ANNEAL_INLINE F32x16 entropy_term(F32x16 t, F32x16 p) {
  return select(less(t, all(kExpLowest)), zero(), negate(p * t));
}

// -sum p ln p with p = e^(x - lse).
inline float entropy(const float* logits, int n, float lse) {
  float result = 0;
  each_block(n, [&](int b, int count) {
    F32x16 total = zero();
    each16(count, [&](int64_t i, auto lanes) {
      const F32x16 t = load(logits + b + i, lanes) - all(lse);
      total = total + keep(entropy_term(t, exp(t)), lanes, 0.0f);
    });
    result = result + sum_lanes(total);
  });
  return result;
}

// Logits l = cap * tanh(x / cap) grow by 1 - (l / cap)^2 with x.
struct Uncapped {
  ANNEAL_INLINE F32x16 times_slope(F32x16 d, F32x16) const { return d; }
};
struct Capped {
  float inverse;
  ANNEAL_INLINE F32x16 times_slope(F32x16 d, F32x16 logit) const {
    const F32x16 t = logit * all(inverse);
    return d * (all(1.0f) - t * t);
  }
};

template <class T, class Cap>
float softmax_residual_with(const Cap& cap, const float* logits, int n, float lse, int target, float scale, T* to) {
  const F32x16 s = all(scale), shift = all(lse);
  const bool has_target = target >= 0 && target < n;
  const float of_target = has_target ? logits[target] : 0;
  float entropy = 0;
  each_block(n, [&](int b, int count) {
    F32x16 total = zero();
    each16(count, [&](int64_t i, auto lanes) {
      const F32x16 x = load(logits + b + i, lanes), t = x - shift, p = exp(t);
      total = total + keep(entropy_term(t, p), lanes, 0.0f);
      store(to + b + i, cap.times_slope(s * (zero() - p), x), lanes);
    });
    entropy = entropy + sum_lanes(total);
  });
  if (!has_target) return entropy;
  const float d = scale * (1.0f - exp(of_target - lse));
  narrow(lane0(cap.times_slope(all(d), all(of_target))), to[target]);
  return entropy;
}

// y (T, zero padded to ldy) = scale * (onehot(target) - softmax); returns the entropy. y may begin where the logits do.
template <class T>
float softmax_residual(const float* logits, int n, float lse, int target, float scale, float cap, void* y,
                       int64_t ldy) {
  const float entropy = cap > 0
                            ? softmax_residual_with(Capped{1 / cap}, logits, n, lse, target, scale, (T*)y)
                            : softmax_residual_with(Uncapped{}, logits, n, lse, target, scale, (T*)y);
  zero_fill((T*)y, n, ldy);
  return entropy;
}

template <class T, class Cap>
void policy_residual_with(const Cap& cap, const float* logits, int n, float lse, float entropy, int target,
                          float by_logprob, float by_entropy, T* to) {
  const F32x16 s = all(by_logprob), shift = all(lse), h = all(entropy), w = all(by_entropy);
  const bool has_target = target >= 0 && target < n;
  const float of_target = has_target ? logits[target] : 0;
  // Where p is 0 so is the entropy's part, though ln p may be infinite.
  const auto of_entropy = [&](F32x16 t, F32x16 p) {
    return select(less(t, all(kExpLowest)), zero(), w * negate(p * (t + h)));
  };
  each16(n, [&](int64_t i, auto lanes) {
    const F32x16 x = load(logits + i, lanes), t = x - shift, p = exp(t);
    store(to + i, cap.times_slope(s * (zero() - p) + of_entropy(t, p), x), lanes);
  });
  if (!has_target) return;
  const float t = of_target - lse, p = exp(t);
  const float d = by_logprob * (1.0f - p) + (t < kExpLowest ? 0.0f : by_entropy * -(p * (t + entropy)));
  narrow(lane0(cap.times_slope(all(d), all(of_target))), to[target]);
}

// y (T, zero padded to ldy) = by_logprob * d ln p[target] / d logits + by_entropy * dH / d logits
//                           = by_logprob * (onehot(target) - p) - by_entropy * p (ln p + H), with p = softmax. y may
// begin where the logits do.
template <class T>
void policy_residual(const float* logits, int n, float lse, float entropy, int target, float by_logprob,
                     float by_entropy, float cap, void* y, int64_t ldy) {
  if (cap > 0)
    policy_residual_with(Capped{1 / cap}, logits, n, lse, entropy, target, by_logprob, by_entropy, (T*)y);
  else
    policy_residual_with(Uncapped{}, logits, n, lse, entropy, target, by_logprob, by_entropy, (T*)y);
  zero_fill((T*)y, n, ldy);
}

// x = cap * tanh(x / cap).
inline void soft_cap(float* x, int n, float cap) {
  const F32x16 inward = all(1 / cap), outward = all(cap);
  each16(n, [&](int64_t i, auto lanes) { store(x + i, tanh(load(x + i, lanes) * inward) * outward, lanes); });
}

// y = s * x; y may be x.
inline void scale(const float* x, int n, float s, float* y) {
  each16(n, [&](int64_t i, auto lanes) { store(y + i, all(s) * load(x + i, lanes), lanes); });
}

}  // namespace
}  // namespace anneal::cpu
