// Quantised weights as panels of 16 outputs: how they lie, and how they are written and unpacked. A panel takes as many
// bytes as its 16 rows do in blocks. It is read from end to end: for every 256 k, or 512 where only their scales fill
// whole vectors of 64 bytes, the scales of their blocks and then the codes, each in ascending order of k.
//
// Codes, unsigned, for every group of 32 k, in quads of 4 neighbouring k: [16 outputs][4 k] bytes.
//   8 bits   8 vectors of 64 bytes: quad 0 .. 7
//   4 bits   4 vectors: the low halves of vector v are quad v, the high halves quad v + 4
//   5 bits   5 vectors: the low 5 bits of vector v are quad v. Above them lie bits 0 .. 2 of quads 5, 6, 7 in vectors
//            0, 1, 2; bits 3, 4 of quad 5 in vector 3 and of quad 6 in vector 4, at the top; bits 3 and 4 of quad 7
//            below those
//   6 bits   3 vectors for the first 16 k, and 3 for the rest: the low 6 bits of vector v are quad v, and above them
//            lie bits 2v, 2v + 1 of quad 3
//
// Scales, for every block.
//   d [16] float16, with minima m [16] float16 behind it; where a block has several groups, of each besides:
//   q4_k q5_k        [4 pairs of groups][3][16] bytes of which the low 6 bits are the first group's scale and minimum
//                    and the second's scale; above them lie bits 2v, 2v + 1 of the second's minimum
//   q6_k             [16 groups of 16 k][16] signed bytes
// With own zeros, scale [16] float32 and zero point [16] bytes instead; of mxfp4 the exponent [16] bytes.
//
// Codes of 16 bits lie apart from their scales: see wide_products.h.
#pragma once
#include <cstring>
#include <type_traits>

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
// Bytes of k numbers' codes and scales, and of a panel: padded to whole vectors.
constexpr int64_t code_bytes(const QuantizedFormat& f, int k) { return int64_t(k) / kGroup * group_bytes(f); }
constexpr int64_t scale_bytes(const QuantizedFormat& f, int k) { return int64_t(k) / f.numbers * block_scale_bytes(f); }
constexpr int64_t quantized_panel_bytes(TensorFormat format, int k) {
  const QuantizedFormat& f = quantized_format(format);
  return (code_bytes(f, k) + scale_bytes(f, k) + 63) / 64 * 64;
}

constexpr int kUnpackGroups = 8;  // groups of 32 k that are unpacked at a time: a block of the K formats
constexpr int kUnpackK = kUnpackGroups * kGroup;

// k whose scales lie together, and their codes behind these.
constexpr int span_of(const QuantizedFormat& f) { return scale_bytes(f, kUnpackK) % 64 ? 2 * kUnpackK : kUnpackK; }
// Of those, the bytes before `first`, a multiple of the block, in a panel of k.
struct PanelOffsets {
  int64_t scales, codes;
};
constexpr PanelOffsets panel_offsets(const QuantizedFormat& f, int k, int first) {
  const int span = span_of(f), begin = first / span * span, here = k - begin < span ? k - begin : span;
  const int64_t before = code_bytes(f, begin) + scale_bytes(f, begin);
  return {before + scale_bytes(f, first - begin), before + scale_bytes(f, here) + code_bytes(f, first - begin)};
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
  for (int i = 0; i < 4; i++) {
    uint8_t* const to = group + 4 * lane + i;
    const auto put = [&](int v, int byte) { to[v * kQuadBytes] = uint8_t(byte); };
    const auto code = [&](int quad) { return int(codes[4 * quad + i]); };
    for (int v = 0; bits == 8 && v < 8; v++) put(v, code(v));
    for (int v = 0; bits == 4 && v < 4; v++) put(v, code(v) | code(v + 4) << 4);
    for (int v = 0; bits == 5 && v < 5; v++) {
      const int above = v < 3 ? code(v + 5) & 7 : code(v + 2) >> 3 << 1 | (code(7) >> v & 1);
      put(v, code(v) | above << 5);
    }
    for (int v = 0; bits == 6 && v < 6; v++) {
      const int first = v / 3 * 4, at = v % 3;
      put(v, code(first + at) | (code(first + 3) >> 2 * at & 3) << 6);
    }
  }
}

ANNEAL_INLINE I32x16 quad_mask(int byte) { return all_int(byte * 0x01010101); }
// Of every byte the bits of `mask`, shifted down by n, which none of them passes the end of.
template <int n> ANNEAL_INLINE I32x16 bits_down(const uint8_t* from, int mask) {
  return shift_right<n>(load_int(from) & quad_mask(mask));
}
// Three vectors' upper two bits, the first's lowest.
ANNEAL_INLINE I32x16 upper_pairs(const uint8_t* from) {
  const I32x16 two = bits_down<2>(from, 0xc0) | (load_int(from + kQuadBytes) & quad_mask(0xc0));
  return shift_right<2>(shift_right<2>(two) | (load_int(from + 2 * kQuadBytes) & quad_mask(0xc0)));
}

template <int n> using Number = std::integral_constant<int, n>;

// use(how many come before it, quad, its codes as bytes) for the quads of a group; of 6 bits in ascending order.
template <int bits, bool looked_up, int v = 0, class Use>
ANNEAL_INLINE void each_packed_quad(const uint8_t* from, Use&& use) {
  static_assert(bits == 4 || ((bits == 5 || bits == 6 || bits == 8) && !looked_up));
  if constexpr (bits == 8 && v < 8) {
    use(Number<v>(), Number<v>(), load_int(from + v * kQuadBytes));
    each_packed_quad<bits, looked_up, v + 1>(from, use);
  } else if constexpr (bits == 4 && v < 4) {
    const auto code = [](I32x16 x) {
      if constexpr (looked_up) x = look_up(quantization::kMicroCodes, x);
      return x;
    };
    const uint8_t* const both = from + v * kQuadBytes;
    use(Number<2 * v>(), Number<v>(), code(load_int(both) & quad_mask(0x0f)));
    use(Number<2 * v + 1>(), Number<v + 4>(), code(bits_down<4>(both, 0xf0)));
    each_packed_quad<bits, looked_up, v + 1>(from, use);
  } else if constexpr (bits == 5 && v < 5) {
    use(Number<v>(), Number<v>(), load_int(from + v * kQuadBytes) & quad_mask(0x1f));
    each_packed_quad<bits, looked_up, v + 1>(from, use);
  } else if constexpr (bits == 5) {
    const uint8_t *const fourth = from + 3 * kQuadBytes, *const fifth = from + 4 * kQuadBytes;
    use(Number<5>(), Number<5>(), bits_down<5>(from, 0xe0) | bits_down<3>(fourth, 0xc0));
    use(Number<6>(), Number<6>(), bits_down<5>(from + kQuadBytes, 0xe0) | bits_down<3>(fifth, 0xc0));
    use(Number<7>(), Number<7>(),
        bits_down<5>(from + 2 * kQuadBytes, 0xe0) | bits_down<2>(fourth, 0x20) | bits_down<1>(fifth, 0x20));
  } else if constexpr (bits == 6 && v < 8) {
    const uint8_t* const three = from + v / 4 * 3 * kQuadBytes;
    if constexpr (v % 4 < 3)
      use(Number<v>(), Number<v>(), load_int(three + v % 4 * kQuadBytes) & quad_mask(0x3f));
    else
      use(Number<v>(), Number<v>(), upper_pairs(three));
    each_packed_quad<bits, looked_up, v + 1>(from, use);
  }
}

// Codes of a group to bytes, quad after quad.
template <int bits, bool looked_up> ANNEAL_INLINE void unpack_codes(const uint8_t* from, uint8_t* to) {
  each_packed_quad<bits, looked_up>(from,
                                    [&](auto, auto quad, I32x16 codes) { store_int(to + quad * kQuadBytes, codes); });
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
    for (int g = 0; g < 8; g += 2) {
      const uint8_t three[] = {uint8_t(b.scales[g]), b.minima[g], uint8_t(b.scales[g + 1])};
      for (int v = 0; v < 3; v++)
        scales[64 + (g / 2 * 3 + v) * kLanes + lane] = uint8_t(three[v] | (b.minima[g + 1] >> 2 * v & 3) << 6);
    }
  } else if (f.format == TensorFormat::q6_k) {
    for (int g = 0; g < 16; g++) scales[32 + g * kLanes + lane] = uint8_t(b.scales[g]);
  }
}

ANNEAL_INLINE F32x16 half_floats(const uint8_t* p) { return load_halves((const uint16_t*)p); }

// 16 bytes, shifted by fours of them: what is shifted has no bits that would pass from one to another.
typedef uint32_t Bytes __attribute__((vector_size(kLanes)));
ANNEAL_INLINE Bytes bytes_at(const uint8_t* p) {
  Bytes bytes;
  __builtin_memcpy(&bytes, p, sizeof bytes);
  return bytes;
}
ANNEAL_INLINE F32x16 to_float(Bytes bytes) { return to_float(load_bytes(&bytes)); }

// What a block has for all of its groups: the scale of 16 outputs, and the minimum, if it has them.
struct BlockScales {
  F32x16 scale, minimum;
};
template <TensorFormat F> ANNEAL_INLINE BlockScales block_scales_of(const uint8_t* from) {
  constexpr QuantizedFormat f = quantized_format(F);
  BlockScales block;
  if constexpr (f.zero == kOwnZeros) {
    block.scale = load((const float*)from);
  } else if constexpr (f.looked_up) {
    // Half of the power of two, which the codes are twice; what would have no exponent is 0.
    block.scale = as_float(shift_left<23>(load_bytes(from))) * all(0.5f);
  } else {
    block.scale = half_floats(from);
    if constexpr (f.minima) block.minimum = half_floats(from + 32);
    if constexpr (f.minima && f.groups() > 1) block.minimum = negate(block.minimum);
  }
  return block;
}

// What codes of 16 outputs are multiplied with, for 32 k: one scale, or one for each 16 k; what is added to the
// products, and the zero point, if a format has them.
struct GroupScales {
  F32x16 scales[2], minimum, zero;
};
// `group`: of 32 k, within the block.
template <TensorFormat F>
ANNEAL_INLINE GroupScales group_scales_of(const BlockScales& block, const uint8_t* from, int group) {
  constexpr QuantizedFormat f = quantized_format(F);
  GroupScales of;
  if constexpr (F == TensorFormat::q4_k || F == TensorFormat::q5_k) {
    constexpr uint32_t kLower = 0x3f3f3f3f, kUpper = 0xc0c0c0c0;
    const uint8_t* const pair = from + 64 + group / 2 * 3 * kLanes;
    if (group % 2 == 0) {
      of.scales[0] = block.scale * to_float(bytes_at(pair) & kLower);
      of.minimum = block.minimum * to_float(bytes_at(pair + kLanes) & kLower);
    } else {
      const Bytes scale = bytes_at(pair + 2 * kLanes);
      const Bytes two = (bytes_at(pair) & kUpper) >> 2 | (bytes_at(pair + kLanes) & kUpper);
      of.scales[0] = block.scale * to_float(scale & kLower);
      of.minimum = block.minimum * to_float((two >> 2 | (scale & kUpper)) >> 2);
    }
  } else if constexpr (F == TensorFormat::q6_k) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++)
      of.scales[h] = block.scale * to_float(load_signed_bytes((const int8_t*)from + 32 + (group * 2 + h) * kLanes));
  } else {
    static_assert(f.groups() == 1);
    of.scales[0] = block.scale;
    if constexpr (f.minima) of.minimum = block.minimum;
    if constexpr (f.zero == kOwnZeros) of.zero = to_float(load_bytes(from + 4 * kLanes));
  }
  return of;
}

// ---- panels

// Rows of blocks, `bytes` apart; what is padded has scales of zero, and numbers of zero, not minus zero.
inline void pack_panel(const QuantizedFormat& f, const uint8_t* rows, int64_t bytes, int n, int k, uint8_t* panel) {
  std::memset(panel, 0, size_t(quantized_panel_bytes(f.format, k)));
  const auto put = [&](int lane, int block, const uint8_t* codes) {
    uint8_t* const to = panel + panel_offsets(f, k, block * f.numbers).codes;
    for (int i = 0; i < f.numbers; i += kGroup) put_codes(f.bits, to + code_bytes(f, i), lane, codes + i);
  };
  quantization::Block b;
  std::memset(b.codes, f.zero, sizeof b.codes);
  for (int lane = n; lane < kLanes && f.zero != kOwnZeros; lane++)
    for (int block = 0; block < k / f.numbers; block++) put(lane, block, b.codes);
  for (int lane = 0; lane < n; lane++)
    for (int block = 0; block < k / f.numbers; block++) {
      quantization::take_apart(f.format, rows + lane * bytes + int64_t(block) * f.bytes, b);
      put_scales(f, b, lane, panel + panel_offsets(f, k, block * f.numbers).scales);
      for (int i = 0; f.looked_up && i < f.numbers; i++) b.codes[i] = quantization::stored_micro_code(b.codes[i]);
      put(lane, block, b.codes);
    }
}

// The same of codes of 16 bits: codes, then scales, zeros where anything is padded.
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

// How many of groups first .. end - 1 are unpacked at once.
constexpr int unpacked_together(int first, int end) {
  const int stop = first / kUnpackGroups * kUnpackGroups + kUnpackGroups;
  return (stop < end ? stop : end) - first;
}

// Groups first .. first + groups - 1 of a panel, of the same 256 k.
template <TensorFormat F>
ANNEAL_INLINE void unpack_panel(const uint8_t* panel, int k, int first, int groups, UnpackedPanel& to) {
  constexpr QuantizedFormat f = quantized_format(F);
  constexpr int group_size = group_bytes(f), block_groups = f.numbers / kGroup, block_bytes = block_scale_bytes(f);
  const PanelOffsets at = panel_offsets(f, k, first / block_groups * f.numbers);
  const uint8_t *codes = panel + at.codes + first % block_groups * group_size, *scales = panel + at.scales;
  to.codes = f.bits == 8 ? codes : to.code_bytes;
  for (int g = 0; g < groups; g++, codes += group_size) {
    const int group = first % block_groups + g, in_block = group % block_groups;
    const uint8_t* const of_block = scales + group / block_groups * block_bytes;
    if constexpr (f.bits != 8) unpack_codes<f.bits, f.looked_up>(codes, to.code_bytes + g * kQuads * kQuadBytes);
    const GroupScales of_group = group_scales_of<F>(block_scales_of<F>(of_block), of_block, in_block);
    float* const of_groups = to.scales + g * group_scales(f) * kLanes;
    store(of_groups, of_group.scales[0]);
    if constexpr (group_scales(f) == 2) store(of_groups + kLanes, of_group.scales[1]);
    if constexpr (f.minima) store(to.minima + g * kLanes, of_group.minimum);
    if constexpr (f.zero == kOwnZeros) store(to.zeros + g * kLanes, of_group.zero);
  }
}

}  // namespace
}  // namespace anneal::cpu
