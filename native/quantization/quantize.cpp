// Numbers to blocks: for every group the scale (and minimum) of least squared error, found by trying a few around the
// range that the group has, each followed by the exact solution for the codes that it gives. Large numbers count more:
// they are what activations find.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "blocks.h"

namespace anneal::quantization {
namespace {

// Ties to even; what is beyond 2^22, or no number, counts as that. A call of std::nearbyint takes longer than all else
// here.
int nearest(float x) {
  constexpr float kToNearest = 12582912.0f, kMost = 4194304.0f;
  const float within = std::min(kMost, std::max(-kMost, x));
  return int((within + kToNearest) - kToNearest);
}

// 0 of scales that are 0, or so small that nothing of what they scale is left.
float inverse_of(float scale) {
  const float inverse = 1 / scale;
  return std::isfinite(inverse) ? inverse : 0;
}

// A group of n numbers as scale * code (+ minimum), codes from low to high.
struct Fit {
  float scale = 0, minimum = 0;
  double error = 0;
};

struct Group {
  const float* x;
  const float* weight;
  int n;
};

double error_of(const Group& g, float scale, float minimum, int low, int high) {
  const float inverse = inverse_of(scale);
  double error = 0;
  for (int i = 0; i < g.n; i++) {
    const int code = std::clamp(nearest((g.x[i] - minimum) * inverse), low, high);
    const double off = double(scale) * code + minimum - g.x[i];
    error += g.weight[i] * off * off;
  }
  return error;
}

// Symmetric: x = scale * code. The scale has the sign that lets the largest number have the code `low`, which has no
// counterpart.
Fit fit_scale(const Group& g, int low, int high) {
  float most = 0;
  for (int i = 0; i < g.n; i++)
    if (std::fabs(g.x[i]) > std::fabs(most)) most = g.x[i];
  Fit best;
  if (most == 0) return best;
  best.error = HUGE_VAL;
  for (int step = -8; step <= 8; step++) {
    const float range = float(low) + 0.12f * float(step), inverse = range / most;
    double products = 0, squares = 0;
    for (int i = 0; i < g.n; i++) {
      const int code = std::clamp(nearest(g.x[i] * inverse), low, high);
      products += double(g.weight[i]) * code * g.x[i], squares += double(g.weight[i]) * code * code;
    }
    if (squares == 0) continue;
    const float scale = float(products / squares);
    const double error = error_of(g, scale, 0, low, high);
    if (error < best.error) best = {scale, 0, error};
  }
  return best;
}

// x = scale * code + minimum with a minimum of at most zero, codes 0 to high.
Fit fit_range(const Group& g, int high, bool minimum_below_zero) {
  float least = g.x[0], most = g.x[0];
  for (int i = 1; i < g.n; i++) least = std::min(least, g.x[i]), most = std::max(most, g.x[i]);
  if (minimum_below_zero) least = std::min(least, 0.0f);
  Fit best;
  best.minimum = least;
  if (most <= least) return best;
  best.scale = (most - least) / float(high);
  best.error = error_of(g, best.scale, least, 0, high);
  for (int step = -6; step <= 12; step++) {
    const float inverse = (float(high) + 0.12f * float(step)) / (most - least);
    double w = 0, c = 0, cc = 0, x = 0, cx = 0;
    for (int i = 0; i < g.n; i++) {
      const int code = std::clamp(nearest((g.x[i] - least) * inverse), 0, high);
      const double weight = g.weight[i];
      w += weight, c += weight * code, cc += weight * code * code, x += weight * g.x[i], cx += weight * code * g.x[i];
    }
    const double determinant = w * cc - c * c;
    if (determinant <= 0) continue;
    float scale = float((w * cx - c * x) / determinant), minimum = float((cc * x - c * cx) / determinant);
    if (minimum_below_zero && minimum > 0) minimum = 0, scale = float(cx / cc);
    if (scale <= 0) continue;
    const double error = error_of(g, scale, minimum, 0, high);
    if (error < best.error) best = {scale, minimum, error};
  }
  return best;
}

void put_codes(const float* x, int n, float scale, float minimum, int zero, int high, uint8_t* codes) {
  const float inverse = inverse_of(scale);
  for (int i = 0; i < n; i++) codes[i] = uint8_t(std::clamp(nearest((x[i] - minimum) * inverse) + zero, 0, high));
}

// How much an error of each number counts.
void weigh(const float* x, int n, float* weight) {
  double squares = 0;
  for (int i = 0; i < n; i++) squares += double(x[i]) * x[i];
  const float spread = float(std::sqrt(squares / n));
  for (int i = 0; i < n; i++) weight[i] = spread + std::fabs(x[i]);
}

void quantize_q8_0(const float* x, const float*, Block& b) {
  float most = 0;
  for (int i = 0; i < 32; i++) most = std::max(most, std::fabs(x[i]));
  b.d = narrow_half(most / 127);
  put_codes(x, 32, most / 127, 0, 128, 255, b.codes);
}

// zero: half of the codes.
template <int zero> void quantize_symmetric(const float* x, const float* weight, Block& b) {
  b.d = narrow_half(fit_scale({x, weight, 32}, -zero, zero - 1).scale);
  put_codes(x, 32, widen_half(b.d), 0, zero, 2 * zero - 1, b.codes);
}

void quantize_q4_1(const float* x, const float* weight, Block& b) {
  const Fit fit = fit_range({x, weight, 32}, 15, false);
  b.d = narrow_half(fit.scale), b.m = narrow_half(fit.minimum);
  put_codes(x, 32, widen_half(b.d), widen_half(b.m), 0, 15, b.codes);
}

void quantize_q4_k(const float* x, const float* weight, Block& b) {
  Fit fits[8];
  float scale = 0, minimum = 0;
  for (int g = 0; g < 8; g++) {
    fits[g] = fit_range({x + 32 * g, weight + 32 * g, 32}, 15, true);
    scale = std::max(scale, fits[g].scale), minimum = std::max(minimum, -fits[g].minimum);
  }
  b.d = narrow_half(scale / 63), b.m = narrow_half(minimum / 63);
  const float d = widen_half(b.d), dmin = widen_half(b.m);
  for (int g = 0; g < 8; g++) {
    const Group group{x + 32 * g, weight + 32 * g, 32};
    const int s0 = d == 0 ? 0 : std::clamp(nearest(fits[g].scale / d), 0, 63),
              m0 = dmin == 0 ? 0 : std::clamp(nearest(-fits[g].minimum / dmin), 0, 63);
    // The neighbours too: scale and minimum are rounded together.
    double least = HUGE_VAL;
    for (int s = std::max(0, s0 - 1); s <= std::min(63, s0 + 1); s++)
      for (int m = std::max(0, m0 - 1); m <= std::min(63, m0 + 1); m++) {
        const double error = error_of(group, d * float(s), -dmin * float(m), 0, 15);
        if (error < least) least = error, b.scales[g] = int8_t(s), b.minima[g] = uint8_t(m);
      }
    put_codes(group.x, 32, d * float(b.scales[g]), -dmin * float(b.minima[g]), 0, 15, b.codes + 32 * g);
  }
}

void quantize_q6_k(const float* x, const float* weight, Block& b) {
  Fit fits[16];
  float most = 0;
  for (int g = 0; g < 16; g++) {
    fits[g] = fit_scale({x + 16 * g, weight + 16 * g, 16}, -32, 31);
    if (std::fabs(fits[g].scale) > std::fabs(most)) most = fits[g].scale;
  }
  b.d = narrow_half(most / -128);
  const float d = widen_half(b.d);
  for (int g = 0; g < 16; g++) {
    b.scales[g] = int8_t(d == 0 ? 0 : std::clamp(nearest(fits[g].scale / d), -128, 127));
    put_codes(x + 16 * g, 16, d * float(b.scales[g]), 0, 32, 63, b.codes + 16 * g);
  }
}

// Of a block, given how much each number counts.
using Quantize = void (*)(const float* x, const float* weight, Block&);

Quantize quantizer(TensorFormat format) {
  switch (format) {
    case TensorFormat::q8_0: return quantize_q8_0;
    case TensorFormat::q4_0: return quantize_symmetric<8>;
    case TensorFormat::q5_0: return quantize_symmetric<16>;
    case TensorFormat::q4_1: return quantize_q4_1;
    case TensorFormat::q4_k: return quantize_q4_k;
    case TensorFormat::q6_k: return quantize_q6_k;
    default: return nullptr;
  }
}

}  // namespace

bool can_quantize(TensorFormat format) { return quantizer(format) != nullptr; }

void quantize_row(TensorFormat format, const float* x, int64_t numbers, uint8_t* out) {
  const model::QuantizedFormat& f = model::quantized_format(format);
  const Quantize quantize = quantizer(format);
  float weight[kMaxBlock];
  Block b{};
  for (; numbers > 0; numbers -= f.numbers, x += f.numbers, out += f.bytes) {
    weigh(x, f.numbers, weight);
    quantize(x, weight, b);
    put_together(format, b, out);
  }
}

}  // namespace anneal::quantization
