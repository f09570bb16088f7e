// Products of codes by instructions that multiply a matrix of 2 rows by one of 2 outputs, 8 k deep: what they sum is
// [2 rows][2 outputs] in a register, and stays so until a tile ends. See code_products.h for what is computed.
#pragma once
#include "code_sums.h"
#include "quantized_panel.h"

namespace anneal::cpu {
namespace {

#define ANNEAL_CODE_PAIRS

constexpr int kOutputPairs = kLanes / 2, kPairedRows = 4;  // of a register tile

ANNEAL_INLINE int8x16_t as_bytes(uint32x4_t x) { return vreinterpretq_s8_u32(x); }

// Two quads of 16 outputs as [8 pairs][2 outputs][8 k], bytes made signed on the way.
template <bool byte_codes> ANNEAL_INLINE void pair_quads(const uint8_t* from, uint8_t* to) {
  I32x16 first = load_int(from), second = load_int(from + kQuadBytes);
  if constexpr (byte_codes) first = signed_bytes(first), second = signed_bytes(second);
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    vst1q_s8((int8_t*)to + 32 * i, as_bytes(vzip1q_u32(first.v[i], second.v[i])));
    vst1q_s8((int8_t*)to + 32 * i + 16, as_bytes(vzip2q_u32(first.v[i], second.v[i])));
  }
}

// A number of each row of a pair, or of each output of one, in the lanes that are theirs.
ANNEAL_INLINE float32x4_t of_rows(float first, float second) {
  return vcombine_f32(vdup_n_f32(first), vdup_n_f32(second));
}
ANNEAL_INLINE float32x4_t of_outputs(const float* two) {
  const float32x2_t both = vld1_f32(two);
  return vcombine_f32(both, both);
}

// Rows of 16 outputs as pairs, and back.
ANNEAL_INLINE void load_pairs(const float* first, const float* second, float32x4_t* pairs) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    const uint32x4_t x = vreinterpretq_u32_f32(vld1q_f32(first + 4 * i)),
                     y = vreinterpretq_u32_f32(vld1q_f32(second + 4 * i));
    pairs[2 * i] = vreinterpretq_f32_u32(even_groups(x, y));
    pairs[2 * i + 1] = vreinterpretq_f32_u32(odd_groups(x, y));
  }
}
ANNEAL_INLINE void store_pairs(const float32x4_t* pairs, float* first, float* second) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    const uint32x4_t x = vreinterpretq_u32_f32(pairs[2 * i]), y = vreinterpretq_u32_f32(pairs[2 * i + 1]);
    vst1q_f32(second + 4 * i, vreinterpretq_f32_u32(odd_groups(x, y)));
    vst1q_f32(first + 4 * i, vreinterpretq_f32_u32(even_groups(x, y)));
  }
}

// c [rows][16] (+)= rows of `a` by the groups of a panel in pairs. An odd last row is multiplied twice.
template <TensorFormat F, int PAIRS>
void multiply_row_pairs(int rows, const ActivationGroup* a, int64_t lda, const CodePanel& w, int groups, float* c,
                        int64_t ldc, bool accumulate) {
  constexpr QuantizedFormat f = quantized_format(F);
  constexpr int parts = group_scales(f), steps = kQuads / 2 / parts;  // of 8 k
  constexpr bool byte_codes = f.bits == 8, own_zeros = f.zero == kOwnZeros;
  constexpr int zero_point = byte_codes || own_zeros ? 0 : f.zero;
  const ActivationGroup *upper[PAIRS], *lower[PAIRS];
  float *first[PAIRS], *second[PAIRS];
  float32x4_t totals[PAIRS][kOutputPairs];
#pragma GCC unroll 4
  for (int p = 0; p < PAIRS; p++) {
    const int other = 2 * p + 1 < rows ? 2 * p + 1 : 2 * p;
    upper[p] = a + 2 * p * lda, lower[p] = a + other * lda;
    first[p] = c + 2 * p * ldc, second[p] = c + other * ldc;
    if (accumulate)
      load_pairs(first[p], second[p], totals[p]);
    else
#pragma GCC unroll 8
      for (float32x4_t& total : totals[p]) total = vdupq_n_f32(0);
  }
  for (int g = 0; g < groups; g++) {
#pragma GCC unroll 2
    for (int part = 0; part < parts; part++) {
      int32x4_t sums[PAIRS][kOutputPairs];
#pragma GCC unroll 4
      for (int p = 0; p < PAIRS; p++) {
        const auto sum = [&](const int32_t* of) { return parts == 1 ? of[0] : part ? of[1] : of[0] - of[1]; };
        const int one = sum(upper[p][g].sums), other = sum(lower[p][g].sums);
        const int32x4_t start = vcombine_s32(vdup_n_s32(zero_point * one), vdup_n_s32(zero_point * other));
#pragma GCC unroll 8
        for (int n = 0; n < kOutputPairs; n++) sums[p][n] = start;
      }
#pragma GCC unroll 4
      for (int step = 0; step < steps; step++) {
        const int eight = part * steps + step;
        const uint8_t* const codes = w.codes + (g * kQuads + 2 * eight) * kQuadBytes;
        int8x16_t x[PAIRS];
#pragma GCC unroll 4
        for (int p = 0; p < PAIRS; p++)
          x[p] = vcombine_s8(vld1_s8(upper[p][g].codes + 8 * eight), vld1_s8(lower[p][g].codes + 8 * eight));
#pragma GCC unroll 8
        for (int n = 0; n < kOutputPairs; n++) {
          const int8x16_t two = vld1q_s8((const int8_t*)codes + 16 * n);
#pragma GCC unroll 4
          for (int p = 0; p < PAIRS; p++) sums[p][n] = vmmlaq_s32(sums[p][n], x[p], two);
        }
      }
      float32x4_t x_scales[PAIRS];
#pragma GCC unroll 4
      for (int p = 0; p < PAIRS; p++) x_scales[p] = of_rows(upper[p][g].scale, lower[p][g].scale);
#pragma GCC unroll 8
      for (int n = 0; n < kOutputPairs; n++) {
        const float32x4_t scale = of_outputs(w.scales + (g * parts + part) * kLanes + 2 * n);
#pragma GCC unroll 4
        for (int p = 0; p < PAIRS; p++) {
          float32x4_t exact = vcvtq_f32_s32(sums[p][n]);
          if constexpr (own_zeros) {
            const float32x4_t more =
                vsubq_f32(of_outputs(w.zeros + g * kLanes + 2 * n), vdupq_n_f32(byte_codes ? 128.0f : 0.0f));
            exact = vfmaq_f32(exact, of_rows(float(upper[p][g].sums[0]), float(lower[p][g].sums[0])), more);
          }
          totals[p][n] = vfmaq_f32(totals[p][n], exact, vmulq_f32(x_scales[p], scale));
        }
      }
    }
    if constexpr (f.minima) {
#pragma GCC unroll 4
      for (int p = 0; p < PAIRS; p++) {
        const float32x4_t sums = of_rows(upper[p][g].sum, lower[p][g].sum);
#pragma GCC unroll 8
        for (int n = 0; n < kOutputPairs; n++)
          totals[p][n] = vfmaq_f32(totals[p][n], sums, of_outputs(w.minima + g * kLanes + 2 * n));
      }
    }
  }
#pragma GCC unroll 4
  for (int p = 0; p < PAIRS; p++) store_pairs(totals[p], first[p], second[p]);
}

template <TensorFormat F>
ANNEAL_INLINE void multiply_code_pairs(int rows, const ActivationGroup* a, int64_t lda, const CodePanel& w, int groups,
                                       float* c, int64_t ldc, bool accumulate) {
  if (rows > 2)
    multiply_row_pairs<F, 2>(rows, a, lda, w, groups, c, ldc, accumulate);
  else
    multiply_row_pairs<F, 1>(rows, a, lda, w, groups, c, ldc, accumulate);
}

}  // namespace
}  // namespace anneal::cpu
