// Passes of the sampler over a row of n logits or probabilities. Blocks of kLogitBlock columns that cannot matter are
// not looked at: those whose maxima are too small, and those whose mass is 0 (their probabilities are never written).
#pragma once
#include "exp_log.h"
#include "logits.h"

namespace anneal::cpu {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();

ANNEAL_INLINE float block_maximum(const float* maxima, int block) { return max_lanes(load(maxima + block * kLanes)); }

// maxima[block][16]: of each block's columns in each lane, -infinity where there are none. Passes over NaN; whether it
// saw any.
bool lane_maxima(const float* x, int n, float* maxima) {
  F32x16 numbers = all(1);
  each_block(n, [&](int b, int count) {
    F32x16 high = all(kMinusInfinity);
    each16(count, [&](int64_t i, auto lanes) {
      const F32x16 v = keep(load(x + b + i, lanes), lanes, kMinusInfinity);
      high = max(v, high);
      numbers = select(at_least(v, v), numbers, zero());
    });
    store(maxima + b / kLogitBlock * kLanes, high);
  });
  return max_lanes(zero() - numbers) == 0;
}

// y = x where the bit of the column is set (bit i % 32 of word i / 32), else -infinity.
void keep_permitted(const float* x, int n, const uint32_t* bits, float* y) {
  each16(n, [&](int64_t i, auto lanes) {
    store(y + i, select(mask_of_bits(bits[i >> 5] >> (i & 16) & 0xffff), load(x + i, lanes), all(kMinusInfinity)),
          lanes);
  });
}

// y as Probabilities says (y may be x); masses[block] = their sum, exact where `coarse` leaves multiples of 2^-31 or
// more. maxima: of x. A block whose mass is 0 may be left unwritten.
void probabilities(const float* x, int n, const float* maxima, const Probabilities& how, float* y, double* masses) {
  const F32x16 shift = all(how.shift), divisor = all(how.divisor), least = all(how.least), floor = all(how.floor),
               coarse = all(how.coarse);
  each_block(n, [&](int b, int count) {
    double& mass = masses[b / kLogitBlock];
    mass = 0;
    if ((block_maximum(maxima, b / kLogitBlock) - how.shift) / how.divisor < how.least) return;
    D16 sum = widen(zero());
    each16(count, [&](int64_t i, auto lanes) {
      const F32x16 t = (load(x + b + i, lanes) - shift) / divisor;
      const F32x16 p = select(less(t, least), zero(), exp(t));
      const F32x16 high = select(less(p, floor), zero(), p);
      const F32x16 kept = select(less(high, coarse), (high + coarse) - coarse, high);
      store(y + b + i, kept, lanes);
      sum = sum + widen(keep(kept, lanes, 0.0f));
    });
    mass = sum_lanes(sum);
  });
}

// sums[j] = the sum of what is below limits[j], j < kLimits, within 2^-18 of itself: float32 within a block.
void sums_below(const float* p, int n, const double* masses, const float* limits, double* sums) {
  F32x16 limit[kLimits];
  D16 total[kLimits];
  for (int j = 0; j < kLimits; j++) limit[j] = all(limits[j]), total[j] = widen(zero());
  each_block(n, [&](int b, int count) {
    if (masses[b / kLogitBlock] == 0) return;
    F32x16 sum[kLimits];
    for (int j = 0; j < kLimits; j++) sum[j] = zero();
    each16(count, [&](int64_t i, auto lanes) {
      const F32x16 v = load(p + b + i, lanes);
      for (int j = 0; j < kLimits; j++) sum[j] = sum[j] + select(less(v, limit[j]), v, zero());
    });
    for (int j = 0; j < kLimits; j++) total[j] = total[j] + widen(sum[j]);
  });
  for (int j = 0; j < kLimits; j++) sums[j] = sum_lanes(total[j]);
}

// Probabilities below `least` become 0; masses are brought up to date.
void drop_below(float* p, int n, float least, double* masses) {
  each_block(n, [&](int b, int count) {
    double& mass = masses[b / kLogitBlock];
    if (mass == 0) return;
    D16 sum = widen(zero());
    each16(count, [&](int64_t i, auto lanes) {
      const F32x16 v = load(p + b + i, lanes), kept = select(less(v, all(least)), zero(), v);
      store(p + b + i, kept, lanes);
      sum = sum + widen(kept);
    });
    mass = sum_lanes(sum);
  });
}

// Ascending ids of the columns in the mask from column i, appended.
ANNEAL_INLINE int append_ids(Mask16 mask, int64_t i, int limit, int32_t* ids, int count) {
  uint32_t bits = bits_of(mask) & ((1u << limit) - 1);
  for (; bits; bits &= bits - 1) ids[count++] = int32_t(i) + __builtin_ctz(bits);
  return count;
}

// Ascending ids of the columns with x >= least; how many. maxima: of x.
int ids_at_least(const float* x, int n, const float* maxima, float least, int32_t* ids) {
  int found = 0;
  each_block(n, [&](int b, int count) {
    if (block_maximum(maxima, b / kLogitBlock) < least) return;
    each16(count, [&](int64_t i, auto lanes) {
      found = append_ids(at_least(load(x + b + i, lanes), all(least)), b + i, lanes.n, ids, found);
    });
  });
  return found;
}

// Ascending ids of the columns with low <= p < high, how many, and the exact sum (in double) of what is below `low`.
int ids_between(const float* p, int n, const double* masses, float low, float high, int32_t* ids, double* below) {
  int found = 0;
  D16 sum = widen(zero());
  each_block(n, [&](int b, int count) {
    if (masses[b / kLogitBlock] == 0) return;
    each16(count, [&](int64_t i, auto lanes) {
      const F32x16 v = load(p + b + i, lanes);
      const Mask16 under = less(v, all(low));
      sum = sum + widen(select(under, v, zero()));
      found = append_ids(less(select(under, all(high), v), all(high)), b + i, lanes.n, ids, found);
    });
  });
  *below = sum_lanes(sum);
  return found;
}

}  // namespace
}  // namespace anneal::cpu
