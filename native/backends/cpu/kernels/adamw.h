// AdamW with decoupled weight decay (Loshchilov and Hutter, 2019), element by element in float32.
#pragma once
#include "exp_log.h"

namespace anneal::cpu {
namespace {

// g' = g * grad_scale; w *= 1 - lr * decay; m += (1 - beta1)(g' - m); v = beta2 v + (1 - beta2) g'^2;
// w -= (lr / bias1) * m / (sqrt(v) / sqrt(bias2) + eps).
void adamw(float* w, const float* g, float* m, float* v, int64_t n, const AdamWStep& step) {
  // The scalars in double, rounded once: 1 - beta in float would lose five digits.
  const F32x16 scale = all(float(step.grad_scale)), decay = all(float(1 - step.lr * step.weight_decay)),
               eps = all(float(step.eps));
  const F32x16 toward = all(float(1 - step.beta1)), beta2 = all(float(step.beta2)), fresh = all(float(1 - step.beta2));
  const F32x16 rate = all(float(-step.lr / step.bias1)), inverse_root = all(float(1 / __builtin_sqrt(step.bias2)));
  each16(n, [&](int64_t i, auto lanes) {
    F32x16 gradient = load(g + i, lanes) * scale;
    F32x16 mean = load(m + i, lanes);
    mean = fma(toward, gradient - mean, mean);
    F32x16 square = fma(fresh * gradient, gradient, beta2 * load(v + i, lanes));
    store(m + i, mean, lanes);
    store(v + i, square, lanes);
    F32x16 change = mean / fma(sqrt(square), inverse_root, eps);
    store(w + i, fma(rate, change, load(w + i, lanes) * decay), lanes);
  });
}

}  // namespace
}  // namespace anneal::cpu
