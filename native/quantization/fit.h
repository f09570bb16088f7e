// Numbers to blocks: for every group the scale (and minimum) of least squared error, found by trying a few around the
// range that the group has, each followed by the exact solution for the codes that it gives. Large numbers count more:
// they are what activations find.
//
// A group is in one lane of a vector, which takes up one number of it after the other: the bits are the same however
// many lanes the instructions have that this is compiled for. Whoever includes this has the code once more, under no
// name that others could link to.
#pragma once
#include <cmath>
#include <limits>

#include "blocks.h"

namespace anneal::quantization {
namespace {

// As many as registers hold in float64: of wider vectors compilers keep sums in memory.
#if defined(__AVX512F__)
constexpr int kLaneGroups = 8;
#elif defined(__AVX__)
constexpr int kLaneGroups = 4;
#else
constexpr int kLaneGroups = 2;
#endif

// Lanes are chosen by masks, which have all bits set or none.
using FloatLanes = float __attribute__((vector_size(kLaneGroups * 4)));
using IntLanes = int32_t __attribute__((vector_size(kLaneGroups * 4)));
using DoubleLanes = double __attribute__((vector_size(kLaneGroups * 8)));
using LongLanes = int64_t __attribute__((vector_size(kLaneGroups * 8)));

#define ANNEAL_LANES inline __attribute__((always_inline))

ANNEAL_LANES DoubleLanes wide(FloatLanes x) { return __builtin_convertvector(x, DoubleLanes); }
ANNEAL_LANES DoubleLanes wide(IntLanes x) { return __builtin_convertvector(x, DoubleLanes); }
ANNEAL_LANES FloatLanes to_floats(DoubleLanes x) { return __builtin_convertvector(x, FloatLanes); }
ANNEAL_LANES FloatLanes to_floats(IntLanes x) { return __builtin_convertvector(x, FloatLanes); }
ANNEAL_LANES IntLanes narrow(LongLanes mask) { return __builtin_convertvector(mask, IntLanes); }
ANNEAL_LANES FloatLanes all(float x) { return FloatLanes{} + x; }
ANNEAL_LANES IntLanes all(int x) { return IntLanes{} + x; }
ANNEAL_LANES FloatLanes absolute(FloatLanes x) { return (FloatLanes)((IntLanes)x & 0x7fffffff); }
ANNEAL_LANES FloatLanes largest(FloatLanes x, FloatLanes y) { return x < y ? y : x; }
ANNEAL_LANES FloatLanes least(FloatLanes x, FloatLanes y) { return y < x ? y : x; }
ANNEAL_LANES IntLanes clamp(IntLanes x, IntLanes low, IntLanes high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

// Ties to even; what is beyond 2^22, or no number, counts as that.
ANNEAL_LANES IntLanes nearest(FloatLanes x) {
  const FloatLanes to_nearest = all(12582912.0f), most = all(4194304.0f);
  return __builtin_convertvector((least(most, largest(-most, x)) + to_nearest) - to_nearest, IntLanes);
}

// 0 of scales that are 0, or so small that nothing of what they scale is left.
ANNEAL_LANES FloatLanes inverse_of(FloatLanes scale) {
  const FloatLanes inverse = 1.0f / scale;
  return absolute(inverse) <= all(std::numeric_limits<float>::max()) ? inverse : FloatLanes{};
}

ANNEAL_LANES IntLanes code_of(FloatLanes x, FloatLanes minimum, FloatLanes inverse, int low, int high) {
  return clamp(nearest((x - minimum) * inverse), all(low), all(high));
}

// As scale * code + minimum, codes from low to high.
struct Fits {
  FloatLanes scale{}, minimum{};
  DoubleLanes error{};

  ANNEAL_LANES void take_better(LongLanes where, FloatLanes other_scale, FloatLanes other_minimum,
                                DoubleLanes other_error) {
    where &= other_error < error;
    const IntLanes floats = narrow(where);
    scale = floats ? other_scale : scale;
    minimum = floats ? other_minimum : minimum;
    error = where ? other_error : error;
  }
};

// As many groups as there are lanes, of `size` numbers each.
template <int size> struct LaneGroups {
  FloatLanes x[size], weight[size];

  DoubleLanes error_of(FloatLanes scale, FloatLanes minimum, int low, int high) const {
    const FloatLanes inverse = inverse_of(scale);
    const DoubleLanes wide_scale = wide(scale), wide_minimum = wide(minimum);
    DoubleLanes error{};
    for (int i = 0; i < size; i++) {
      const DoubleLanes code = wide(code_of(x[i], minimum, inverse, low, high));
      const DoubleLanes off = wide_scale * code + wide_minimum - wide(x[i]);
      error += wide(weight[i]) * off * off;
    }
    return error;
  }

  // Symmetric: x = scale * code. The scale has the sign that lets the largest number have the code `low`, which has no
  // counterpart.
  Fits fit_scale(int low, int high) const {
    FloatLanes most{};
    for (int i = 0; i < size; i++) most = absolute(x[i]) > absolute(most) ? x[i] : most;
    Fits best;
    best.error += HUGE_VAL;
    for (int step = -8; step <= 8; step++) {
      const FloatLanes inverse = all(float(low) + 0.12f * float(step)) / most;
      DoubleLanes products{}, squares{};
      for (int i = 0; i < size; i++) {
        const DoubleLanes code = wide(code_of(x[i], FloatLanes{}, inverse, low, high)),
                          weighted = wide(weight[i]) * code;
        products += weighted * wide(x[i]), squares += weighted * code;
      }
      const FloatLanes scale = to_floats(products / squares);
      best.take_better(squares != 0, scale, FloatLanes{}, error_of(scale, FloatLanes{}, low, high));
    }
    const IntLanes none = most == 0;
    best.scale = none ? FloatLanes{} : best.scale;
    return best;
  }

  // x = scale * code + minimum, codes 0 to high.
  Fits fit_range(int high, bool minimum_below_zero) const {
    FloatLanes low = x[0], most = x[0];
    for (int i = 1; i < size; i++) low = least(low, x[i]), most = largest(most, x[i]);
    if (minimum_below_zero) low = least(low, FloatLanes{});
    Fits best;
    best.minimum = low;
    best.scale = (most - low) / float(high);
    best.error = error_of(best.scale, low, 0, high);
    for (int step = -6; step <= 12; step++) {
      const FloatLanes inverse = (float(high) + 0.12f * float(step)) / (most - low);
      DoubleLanes w{}, c{}, cc{}, wx{}, cx{};
      for (int i = 0; i < size; i++) {
        const DoubleLanes code = wide(code_of(x[i], low, inverse, 0, high)), each = wide(weight[i]),
                          weighted = each * code, number = wide(x[i]);
        w += each, c += weighted, cc += weighted * code, wx += each * number, cx += weighted * number;
      }
      const DoubleLanes determinant = w * cc - c * c;
      FloatLanes scale = to_floats((w * cx - c * wx) / determinant),
                 minimum = to_floats((cc * wx - c * cx) / determinant);
      if (minimum_below_zero) {
        const IntLanes above = minimum > 0;
        minimum = above ? FloatLanes{} : minimum;
        scale = above ? to_floats(cx / cc) : scale;
      }
      const LongLanes fits = (determinant > 0) & (wide(scale) > 0);
      best.take_better(fits, scale, minimum, error_of(scale, minimum, 0, high));
    }
    const IntLanes flat = most <= low;
    best.scale = flat ? FloatLanes{} : best.scale;
    best.minimum = flat ? low : best.minimum;
    return best;
  }

  // From 0 to high, a group's `apart` bytes behind those of the one before.
  void put_codes(FloatLanes scale, FloatLanes minimum, int zero, int high, uint8_t* codes, int64_t apart) const {
    const FloatLanes inverse = inverse_of(scale);
    for (int i = 0; i < size; i++) {
      const IntLanes code = clamp(nearest((x[i] - minimum) * inverse) + zero, all(0), all(high));
      for (int g = 0; g < kLaneGroups; g++) codes[g * apart + i] = uint8_t(code[g]);
    }
  }

  // Of neighbouring groups.
  void take(const float* numbers) {
    for (int i = 0; i < size; i++)
      for (int g = 0; g < kLaneGroups; g++) x[i][g] = numbers[g * size + i];
  }

  // How much an error of each number counts: by the spread of its block, which one group is, or all of these are.
  void weigh(FloatLanes spread) {
    for (int i = 0; i < size; i++) weight[i] = spread + absolute(x[i]);
  }
  void weigh_alone() {
    DoubleLanes squares{};
    for (int i = 0; i < size; i++) squares += wide(x[i]) * wide(x[i]);
    for (int g = 0; g < kLaneGroups; g++) squares[g] = std::sqrt(squares[g] / size);
    weigh(to_floats(squares));
  }
};

// As many blocks as there are lanes, of one group each.
void fit_q8_0(const float* x, Block* out) {
  LaneGroups<32> groups;
  groups.take(x);
  FloatLanes most{};
  for (const FloatLanes& each : groups.x) most = largest(most, absolute(each));
  for (int g = 0; g < kLaneGroups; g++) out[g].d = narrow_half(most[g] / 127);
  groups.put_codes(most / 127, FloatLanes{}, 128, 255, out->codes, sizeof(Block));
}

// zero: half of the codes.
void fit_symmetric(const float* x, int zero, Block* out) {
  LaneGroups<32> groups;
  groups.take(x), groups.weigh_alone();
  FloatLanes scale = groups.fit_scale(-zero, zero - 1).scale;
  for (int g = 0; g < kLaneGroups; g++) out[g].d = narrow_half(scale[g]), scale[g] = widen_half(out[g].d);
  groups.put_codes(scale, FloatLanes{}, zero, 2 * zero - 1, out->codes, sizeof(Block));
}

void fit_q4_1(const float* x, Block* out) {
  LaneGroups<32> groups;
  groups.take(x), groups.weigh_alone();
  Fits fits = groups.fit_range(15, false);
  for (int g = 0; g < kLaneGroups; g++) {
    out[g].d = narrow_half(fits.scale[g]), out[g].m = narrow_half(fits.minimum[g]);
    fits.scale[g] = widen_half(out[g].d), fits.minimum[g] = widen_half(out[g].m);
  }
  groups.put_codes(fits.scale, fits.minimum, 0, 15, out->codes, sizeof(Block));
}

// A block of several groups, which follow each other.
template <int size> struct GroupedBlock {
  static constexpr int kSets = kMaxBlock / size / kLaneGroups;
  LaneGroups<size> sets[kSets];
  Fits fits[kSets];

  explicit GroupedBlock(const float* x) {
    double squares = 0;
    for (int i = 0; i < kMaxBlock; i++) squares += double(x[i]) * x[i];
    const FloatLanes spread = all(float(std::sqrt(squares / kMaxBlock)));
    for (int s = 0; s < kSets; s++) sets[s].take(x + s * kLaneGroups * size), sets[s].weigh(spread);
  }
  void put_codes(int s, FloatLanes scale, FloatLanes minimum, int zero, int high, Block& out) const {
    sets[s].put_codes(scale, minimum, zero, high, out.codes + s * kLaneGroups * size, size);
  }
};

void fit_q4_k(const float* x, Block& out) {
  using Groups = GroupedBlock<32>;
  Groups block(x);
  float scale = 0, minimum = 0;
  for (int s = 0; s < Groups::kSets; s++) {
    const Fits& fits = block.fits[s] = block.sets[s].fit_range(15, true);
    for (int g = 0; g < kLaneGroups; g++) {
      scale = scale < fits.scale[g] ? fits.scale[g] : scale;
      minimum = minimum < -fits.minimum[g] ? -fits.minimum[g] : minimum;
    }
  }
  out.d = narrow_half(scale / 63), out.m = narrow_half(minimum / 63);
  const float d = widen_half(out.d), dmin = widen_half(out.m);
  const IntLanes none{}, most = all(63);
  for (int s = 0; s < Groups::kSets; s++) {
    const Fits& fits = block.fits[s];
    const IntLanes scale0 = d == 0 ? none : clamp(nearest(fits.scale / d), none, most),
                   minimum0 = dmin == 0 ? none : clamp(nearest(-fits.minimum / dmin), none, most);
    // The neighbours too: scale and minimum are rounded together.
    DoubleLanes error = DoubleLanes{} + HUGE_VAL;
    IntLanes scales = scale0, minima = minimum0;
    for (int i = -1; i <= 1; i++)
      for (int j = -1; j <= 1; j++) {
        const IntLanes by = scale0 + i, from = minimum0 + j,
                       allowed = (by >= 0) & (by <= 63) & (from >= 0) & (from <= 63);
        const DoubleLanes other = block.sets[s].error_of(d * to_floats(by), -dmin * to_floats(from), 0, 15);
        const LongLanes better = __builtin_convertvector(allowed, LongLanes) & (other < error);
        error = better ? other : error;
        scales = narrow(better) ? by : scales, minima = narrow(better) ? from : minima;
      }
    for (int g = 0; g < kLaneGroups; g++) {
      out.scales[s * kLaneGroups + g] = int8_t(scales[g]);
      out.minima[s * kLaneGroups + g] = uint8_t(minima[g]);
    }
    block.put_codes(s, d * to_floats(scales), -dmin * to_floats(minima), 0, 15, out);
  }
}

void fit_q6_k(const float* x, Block& out) {
  using Groups = GroupedBlock<16>;
  Groups block(x);
  float most = 0;
  for (int s = 0; s < Groups::kSets; s++) {
    block.fits[s] = block.sets[s].fit_scale(-32, 31);
    for (int g = 0; g < kLaneGroups; g++)
      if (const float scale = block.fits[s].scale[g]; std::fabs(scale) > std::fabs(most)) most = scale;
  }
  out.d = narrow_half(most / -128);
  const float d = widen_half(out.d);
  for (int s = 0; s < Groups::kSets; s++) {
    const IntLanes scales = d == 0 ? IntLanes{} : clamp(nearest(block.fits[s].scale / d), all(-128), all(127));
    for (int g = 0; g < kLaneGroups; g++) out.scales[s * kLaneGroups + g] = int8_t(scales[g]);
    block.put_codes(s, d * to_floats(scales), FloatLanes{}, 32, 63, out);
  }
}

// See FitBlocks.
void fit_blocks(TensorFormat format, const float* x, Block* out) {
  if (format == TensorFormat::q4_k) return fit_q4_k(x, *out);
  if (format == TensorFormat::q6_k) return fit_q6_k(x, *out);
  for (int b = 0; b < kMaxBlock / 32; b += kLaneGroups, x += 32 * kLaneGroups, out += kLaneGroups) {
    if (format == TensorFormat::q8_0) fit_q8_0(x, out);
    if (format == TensorFormat::q4_0) fit_symmetric(x, 8, out);
    if (format == TensorFormat::q5_0) fit_symmetric(x, 16, out);
    if (format == TensorFormat::q4_1) fit_q4_1(x, out);
  }
}

#undef ANNEAL_LANES

}  // namespace
}  // namespace anneal::quantization
