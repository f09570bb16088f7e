// Quantised weights as panels of 16 outputs: how they lie, and how they are written and unpacked. A panel takes as many
// bytes as its 16 rows do in blocks, and lies in two parts, each in ascending order of k:
//
// Codes, unsigned, for every group of 32 k, in quads of 4 neighbouring k: [16 outputs][4 k] bytes.
//   8 bits   8 vectors of 64 bytes: quad 0 .. 7
//   4 bits   4 vectors: the low halves of vector v are quad v, the high halves quad v + 4
//   5 bits   and a vector of which bit j is the fifth of quad j
//   6 bits   and two vectors: bits 2i, 2i + 1 of vector p are the upper ones of quad 4p + i
//
// Scales, for every block.
//   d [16] float16, with minima m [16] float16 behind it; where a block has several groups, of each besides:
//   q4_k q5_k        [8 groups][16] bytes of which the low half is the lower 4 bits of the scale, the high half those
//   of
//                    the minimum; [4][16] bytes: bits 4h, 4h + 1 of byte j are the upper ones of the scale of group
//                    2j + h, and the two after them those of the minimum
//   q6_k             [16 groups of 16 k][16] signed bytes
// With own zeros, scale [16] float32 and zero point [16] bytes instead; of mxfp4 the exponent [16] bytes.
//
// Codes of 16 bits: see wide_products.h.
#pragma once
#include <cstring>

#include "../../../quantization/blocks.h"
#include "simd.h"

namespace anneal::cpu {
namespace {

using model::kOwnZeros;
using model::quantized_format;
using model::QuantizedFormat;
using model::TensorFormat;

constexpr int kGroup = 32;              // k that share a scale of activations
constexpr int kQuads = kGroup / 4;      // of a group
constexpr int kQuadBytes = 4 * kLanes;  // of 16 outputs

// Bytes of 16 outputs: of the codes of a group of 32 k, and of the scales of a block.
constexpr int group_bytes(const QuantizedFormat& f) { return kGroup / 8 * kLanes * f.bits; }
constexpr int block_scale_bytes(const QuantizedFormat& f) { return kLanes * f.scale_bytes(); }
// Scales that a group of 32 k has.
constexpr int group_scales(const QuantizedFormat& f) { return f.group < kGroup ? kGroup / f.group : 1; }
// Bytes of a panel's codes, and of a panel: padded to whole vectors.
constexpr int64_t code_bytes(const QuantizedFormat& f, int k) { return int64_t(k) / kGroup * group_bytes(f); }
constexpr int64_t quantized_panel_bytes(TensorFormat format, int k) {
  const QuantizedFormat& f = quantized_format(format);
  return (code_bytes(f, k) + int64_t(k) / f.numbers * block_scale_bytes(f) + 63) / 64 * 64;
}

// Groups, bytes of codes of one, and bytes of a panel of W^T over n outputs: see transposed_codes.h.
constexpr int back_groups(int n) { return (n + kGroup - 1) / kGroup; }
constexpr int64_t kBackCodeBytes = int64_t(kQuads) * kQuadBytes;
constexpr int64_t back_panel_bytes(int n) {
  return back_groups(n) * (kBackCodeBytes + kLanes * int64_t(sizeof(float)));
}

// ---- codes

// The 32 codes of a group of one output.
inline void put_codes(int bits, uint8_t* group, int lane, const uint8_t* codes) {
  uint8_t* const to = group + 4 * lane;
  const auto put = [&](const uint8_t* bytes, int quads, int first) {
    for (int q = 0; q < quads; q++) std::memcpy(to + (first + q) * kQuadBytes, bytes + 4 * q, 4);
  };
  if (bits == 8) return put(codes, 8, 0);
  uint8_t low[16], high[8] = {};
  for (int i = 0; i < 16; i++) low[i] = uint8_t((codes[i] & 15) | (codes[i + 16] & 15) << 4);
  put(low, 4, 0);
  if (bits == 5)
    for (int i = 0; i < 32; i++) high[i % 4] |= uint8_t((codes[i] >> 4) << (i / 4));
  if (bits == 6)
    for (int i = 0; i < 32; i++) high[i / 16 * 4 + i % 4] |= uint8_t((codes[i] >> 4) << (i / 4 % 4 * 2));
  put(high, bits - 4, 4);
}

ANNEAL_INLINE I32x16 quad_mask(int byte) { return all_int(byte * 0x01010101); }

template <bool looked_up> ANNEAL_INLINE void unpack_codes4(const uint8_t* from, uint8_t* to) {
  const auto codes = [](I32x16 x) {
    x = x & quad_mask(0x0f);
    if constexpr (looked_up) x = look_up(quantization::kMicroCodes, x);
    return x;
  };
#pragma GCC unroll 4
  for (int v = 0; v < 4; v++) {
    const I32x16 both = load_int(from + v * kQuadBytes);
    store_int(to + v * kQuadBytes, codes(both));
    store_int(to + (v + 4) * kQuadBytes, codes(shift_right<4>(both)));
  }
}
template <int n> ANNEAL_INLINE I32x16 shift_by(I32x16 x) {
  if constexpr (n > 0)
    return shift_left<n>(x);
  else if constexpr (n < 0)
    return shift_right<-n>(x);
  else
    return x;
}
template <int v = 0> ANNEAL_INLINE void unpack_codes5(const uint8_t* from, I32x16 fifth, uint8_t* to) {
  if constexpr (v < 4) {
    const I32x16 both = load_int(from + v * kQuadBytes);
    store_int(to + v * kQuadBytes, (both & quad_mask(0x0f)) | (shift_by<4 - v>(fifth) & quad_mask(0x10)));
    store_int(to + (v + 4) * kQuadBytes,
              (shift_right<4>(both) & quad_mask(0x0f)) | (shift_by<-v>(fifth) & quad_mask(0x10)));
    unpack_codes5<v + 1>(from, fifth, to);
  }
}
template <int v = 0> ANNEAL_INLINE void unpack_codes6(const uint8_t* from, I32x16 low, I32x16 high, uint8_t* to) {
  if constexpr (v < 4) {
    const I32x16 both = load_int(from + v * kQuadBytes);
    store_int(to + v * kQuadBytes, (both & quad_mask(0x0f)) | (shift_by<4 - 2 * v>(low) & quad_mask(0x30)));
    store_int(to + (v + 4) * kQuadBytes,
              (shift_right<4>(both) & quad_mask(0x0f)) | (shift_by<4 - 2 * v>(high) & quad_mask(0x30)));
    unpack_codes6<v + 1>(from, low, high, to);
  }
}

// Codes of a group to bytes, quad after quad.
template <int bits, bool looked_up> ANNEAL_INLINE void unpack_codes(const uint8_t* from, uint8_t* to) {
  static_assert(bits == 4 || ((bits == 5 || bits == 6) && !looked_up));
  if constexpr (bits == 4) unpack_codes4<looked_up>(from, to);
  if constexpr (bits == 5) unpack_codes5(from, load_int(from + 256), to);
  if constexpr (bits == 6) unpack_codes6(from, load_int(from + 256), load_int(from + 320), to);
}

// ---- scales

inline void put_half(uint8_t* at, int lane, uint16_t half) { std::memcpy(at + 2 * lane, &half, 2); }

inline void put_scales(const QuantizedFormat& f, const quantization::Block& b, int lane, uint8_t* scales) {
  if (f.zero == kOwnZeros) {
    std::memcpy(scales + 4 * lane, &b.scale, 4);
    scales[4 * kLanes + lane] = b.zero;
    return;
  }
  if (f.looked_up) {
    scales[lane] = b.exponent;
    return;
  }
  put_half(scales, lane, b.d);
  if (f.minima) put_half(scales + 32, lane, b.m);
  if (f.format == TensorFormat::q4_k || f.format == TensorFormat::q5_k) {
    for (int g = 0; g < 8; g++) {
      scales[64 + g * kLanes + lane] = uint8_t((b.scales[g] & 15) | (b.minima[g] & 15) << 4);
      scales[192 + g / 2 * kLanes + lane] |= uint8_t((b.scales[g] >> 4 | (b.minima[g] >> 4) << 2) << (g % 2 * 4));
    }
  } else if (f.format == TensorFormat::q6_k) {
    for (int g = 0; g < 16; g++) scales[32 + g * kLanes + lane] = uint8_t(b.scales[g]);
  }
}

ANNEAL_INLINE F32x16 half_floats(const uint8_t* p) { return load_halves((const uint16_t*)p); }

typedef uint8_t Bytes __attribute__((vector_size(kLanes)));

// Those of 16 outputs for 32 k: one vector, or one for every 16 k.
struct GroupScales {
  float *scales, *minima, *zeros;
};

// `group`: of 32 k, within the block.
template <TensorFormat F> ANNEAL_INLINE void unpack_scales(const uint8_t* from, int group, const GroupScales& to) {
  constexpr QuantizedFormat f = quantized_format(F);
  if constexpr (F == TensorFormat::q4_k || F == TensorFormat::q5_k) {
    Bytes lower, pairs;
    __builtin_memcpy(&lower, from + 64 + group * kLanes, sizeof lower);
    __builtin_memcpy(&pairs, from + 192 + group / 2 * kLanes, sizeof pairs);
    const Bytes upper = group % 2 ? pairs >> 4 : pairs;
    const Bytes s = (lower & 15) | (upper << 4 & 0x30), m = lower >> 4 | (upper << 2 & 0x30);
    store(to.scales, half_floats(from) * to_float(load_bytes(&s)));
    store(to.minima, negate(half_floats(from + 32) * to_float(load_bytes(&m))));
  } else if constexpr (F == TensorFormat::q6_k) {
    const F32x16 d = half_floats(from);
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
      // Sign-extended from 8 bits.
      const I32x16 s = load_bytes(from + 32 + (group * 2 + h) * kLanes);
      store(to.scales + h * kLanes, d * to_float((s ^ all_int(0x80)) + all_int(-0x80)));
    }
  } else if constexpr (f.zero == kOwnZeros) {
    store(to.scales, load((const float*)from));
    store(to.zeros, to_float(load_bytes(from + 4 * kLanes)));
  } else if constexpr (f.looked_up) {
    // Half of the power of two, which the codes are twice; what would have no exponent is 0.
    store(to.scales, as_float(shift_left<23>(load_bytes(from))) * all(0.5f));
  } else {
    static_assert(f.groups() == 1);
    store(to.scales, half_floats(from));
    if constexpr (f.minima) store(to.minima, half_floats(from + 32));
  }
}

// ---- panels

// The same of codes of 16 bits, zeros where anything is padded.
inline void pack_wide_panel(const QuantizedFormat& f, const uint8_t* rows, int64_t bytes, int n, int k,
                            uint8_t* panel) {
  std::memset(panel, 0, size_t(quantized_panel_bytes(f.format, k)));
  uint8_t* const exponents = panel + code_bytes(f, k);
  for (int lane = 0; lane < n; lane++)
    for (int block = 0; block < k / f.numbers; block++) {
      const uint8_t* const from = rows + lane * bytes + int64_t(block) * f.bytes;
      exponents[block * kLanes + lane] = from[0];
      for (int pair = 0; pair < f.numbers / 2; pair++)
        std::memcpy(panel + (int64_t(block) * f.numbers / 2 + pair) * kLanes * 4 + lane * 4, from + 1 + pair * 4, 4);
    }
}

// Rows of blocks, `bytes` apart; what is padded has scales of zero, and numbers of zero, not minus zero.
inline void pack_panel(const QuantizedFormat& f, const uint8_t* rows, int64_t bytes, int n, int k, uint8_t* panel) {
  std::memset(panel, 0, size_t(quantized_panel_bytes(f.format, k)));
  uint8_t* const scales = panel + code_bytes(f, k);
  const auto put = [&](int lane, int first, const uint8_t* codes) {
    put_codes(f.bits, panel + int64_t(first / kGroup) * group_bytes(f), lane, codes);
  };
  quantization::Block b;
  std::memset(b.codes, f.zero, sizeof b.codes);
  for (int lane = n; lane < kLanes && f.zero != kOwnZeros; lane++)
    for (int i = 0; i < k; i += kGroup) put(lane, i, b.codes);
  for (int lane = 0; lane < n; lane++)
    for (int block = 0; block < k / f.numbers; block++) {
      quantization::take_apart(f.format, rows + lane * bytes + int64_t(block) * f.bytes, b);
      put_scales(f, b, lane, scales + int64_t(block) * block_scale_bytes(f));
      for (int i = 0; f.looked_up && i < f.numbers; i++) b.codes[i] = quantization::stored_micro_code(b.codes[i]);
      for (int i = 0; i < f.numbers; i += kGroup) put(lane, block * f.numbers + i, b.codes + i);
    }
}

constexpr int kUnpackGroups = 8;  // groups of 32 k that are unpacked at a time: a block of the K formats

// Groups of 32 k as they are multiplied: codes [8 quads][16 outputs][4 k], scales (of 16 k each in q6_k), and minima
// and zero points where the format has them, [16 outputs] each.
struct CodePanel {
  const uint8_t* codes;
  const float *scales, *minima, *zeros;
};

// Codes of groups as bytes, scales and minima as float32. Codes of 8 bits stay where they are.
struct UnpackedPanel {
  const uint8_t* codes;
  alignas(64) uint8_t code_bytes[kUnpackGroups * kQuads * kQuadBytes];
  alignas(64) float scales[2 * kUnpackGroups * kLanes];
  alignas(64) float minima[kUnpackGroups * kLanes];
  alignas(64) float zeros[kUnpackGroups * kLanes];
  CodePanel groups() const { return {codes, scales, minima, zeros}; }
};

// Groups first .. first + groups - 1 of a panel. The same of what lies `ahead` bytes further is fetched: codes and
// scales are two streams, and no processor fetches ahead of both when they are this short.
template <TensorFormat F>
ANNEAL_INLINE void unpack_panel(const uint8_t* panel, int k, int first, int groups, UnpackedPanel& to,
                                int64_t ahead = 0) {
  constexpr QuantizedFormat f = quantized_format(F);
  constexpr int group_size = group_bytes(f), block_groups = f.numbers / kGroup;
  const uint8_t* codes = panel + int64_t(first) * group_size;
  const uint8_t* scales = panel + code_bytes(f, k);
  to.codes = f.bits == 8 ? codes : to.code_bytes;
  for (int g = 0; g < groups; g++, codes += group_size) {
    const int block = (first + g) / block_groups, in_block = (first + g) % block_groups;
    const uint8_t* block_scales = scales + int64_t(block) * block_scale_bytes(f);
    if (ahead) {
#pragma GCC unroll 8
      for (int at = 0; at < group_size; at += 64) prefetch(codes + at + ahead);
      if (in_block == 0)
        for (int at = 0; at < block_scale_bytes(f); at += 64) prefetch(block_scales + at + ahead);
    }
    if constexpr (f.bits != 8) unpack_codes<f.bits, f.looked_up>(codes, to.code_bytes + g * kQuads * kQuadBytes);
    unpack_scales<F>(block_scales, in_block,
                     {to.scales + g * group_scales(f) * kLanes, to.minima + g * kLanes, to.zeros + g * kLanes});
  }
}

}  // namespace
}  // namespace anneal::cpu
