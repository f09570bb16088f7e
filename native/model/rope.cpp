// Rotary frequencies: default, linear interpolation, Llama 3 (piecewise by wavelength), YaRN
// (Peng et al. 2023, "YaRN: Efficient Context Window Extension of Large Language Models") and LongRoPE (Ding et al.
// 2024), with Hugging Face's rounding: frequencies and angles are float32, the trigonometry is not.
#include "rope.h"

#include <algorithm>
#include <cmath>

namespace anneal::model {
namespace {

constexpr double kPi = 3.14159265358979323846;

double yarn_mscale(double factor, double mscale) { return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1; }

void llama3(const RopeSpec& c, std::vector<double>& frequencies) {
  const double low = c.original_max_positions / c.low_freq_factor, high = c.original_max_positions / c.high_freq_factor;
  for (double& f : frequencies) {
    const double wavelength = 2 * kPi / f;
    if (wavelength > low) {
      f /= c.factor;
    } else if (wavelength >= high) {
      const double smooth =
          (c.original_max_positions / wavelength - c.low_freq_factor) / (c.high_freq_factor - c.low_freq_factor);
      f = (1 - smooth) * f / c.factor + smooth * f;
    }
  }
}

void yarn(const RopeSpec& c, int rotary, std::vector<double>& frequencies) {
  // The dimension that turns `rotations` times over the original context.
  auto dimension = [&](double rotations) {
    return rotary * std::log(c.original_max_positions / (rotations * 2 * kPi)) / (2 * std::log(c.theta));
  };
  double low = dimension(c.beta_fast), high = dimension(c.beta_slow);
  if (c.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, double(rotary - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); i++) {
    const double interpolated = std::min(std::max((double(i) - low) / (high - low), 0.0), 1.0);
    frequencies[i] = frequencies[i] / c.factor * interpolated + frequencies[i] * (1 - interpolated);
  }
}

}  // namespace

RopeTable::RopeTable(const RopeSpec& c, int rotary, int max_positions)
    : half_(rotary / 2),
      query_scale_(c.query_scale),
      original_max_positions_(c.original_max_positions),
      blocks_(max_positions / kBlock + 1) {
  std::vector<double> frequencies(half_);
  for (int i = 0; i < half_; i++) frequencies[i] = 1 / std::pow(c.theta, 2.0 * i / rotary);
  if (c.type == RopeType::none) {
    std::fill(frequencies.begin(), frequencies.end(), 0.0);
  } else if (c.type == RopeType::proportional) {
    const int turning = int(c.rotary_share * rotary / 2);
    for (int i = 0; i < half_; i++) frequencies[i] = i < turning ? frequencies[i] / c.factor : 0;
  } else if (c.type == RopeType::linear) {
    for (double& f : frequencies) f /= c.factor;
  } else if (c.type == RopeType::llama3) {
    llama3(c, frequencies);
  } else if (c.type == RopeType::yarn) {
    yarn(c, rotary, frequencies);
    double factor = c.attention_factor;
    if (factor == 0)
      factor = c.mscale && c.mscale_all_dim ? yarn_mscale(c.factor, c.mscale) / yarn_mscale(c.factor, c.mscale_all_dim)
                                            : yarn_mscale(c.factor, 1);
    attention_factor_ = float(factor);
  } else if (c.type == RopeType::longrope) {
    for (int i = 0; i < half_; i++) frequencies[i] /= c.factors(max_positions)[i];
    attention_factor_ = float(c.attention_factor);
  }
  inverse_frequencies_.assign(frequencies.begin(), frequencies.end());
}

float RopeTable::query_scale(int position) const {
  if (query_scale_ == 0) return 1;
  return float(1 + query_scale_ * std::log(1 + std::floor(position / original_max_positions_)));
}

void RopeTable::reserve(int count) {
  for (int b = 0; b * kBlock < count; b++) {
    if (blocks_[b]) continue;
    auto block = std::make_unique<float[]>(size_t(kBlock) * 2 * half_);
    for (int p = 0; p < kBlock; p++) {
      float* cos = block.get() + int64_t(p) * 2 * half_;
      for (int i = 0; i < half_; i++) {
        const float angle = float(b * kBlock + p) * inverse_frequencies_[i];
        cos[i] = float(std::cos(double(angle))) * attention_factor_;
        cos[half_ + i] = float(std::sin(double(angle))) * attention_factor_;
      }
    }
    blocks_[b] = std::move(block);
  }
}

}  // namespace anneal::model
