// Quantised weights as panels of 16 outputs. A panel takes as many bytes as its 16 rows do in blocks, and lies in two
// parts, each in ascending order of k:
//
// Codes, unsigned, for every group of 32 k, in quads of 4 neighbouring k: [16 outputs][4 k] bytes.
//   8 bits   8 vectors of 64 bytes: quad 0 .. 7
//   4 bits   4 vectors: the low halves of vector v are quad v, the high halves quad v + 4
//   5 bits   and a vector of which bit j is the fifth of quad j
//   6 bits   and two vectors: bits 2i, 2i + 1 of vector p are the upper ones of quad 4p + i
//
// Scales, for every block of 32 k, of 256 k (K), or of 32, 64 or 128 k (int).
//   q8_0 q4_0 q5_0   d [16] float16
//   q4_1 q5_1        d [16], m [16] float16
//   q4_k q5_k        d [16], dmin [16] float16; [8 groups][16] bytes of which the low half is the lower 4 bits of the
//                    scale, the high half those of the minimum; [4][16] bytes: bits 4h, 4h + 1 of byte j are the upper
//                    ones of the scale of group 2j + h, and the two after them those of the minimum
//   q6_k             d [16] float16; [16 groups of 16 k][16] signed bytes
//   int4 int8        scale [16] float32; zero point [16] bytes
#pragma once
#include <cstdint>

#include "../../../model/tensor_format.h"

namespace anneal::cpu {
namespace {

using model::TensorFormat;

constexpr int kGroup = 32;        // k that share a scale of activations
constexpr int kSuperBlock = 256;  // k of a block of the K formats

struct QuantizedLayout {
  int bits;
  int zero;                       // is subtracted from a code
  bool zeros;                     // every group has its own, and `zero` is none
  int block;                      // k
  bool minimum;                   // of every group is added
  int group_codes, block_scales;  // bytes of 16 outputs
};

constexpr QuantizedLayout layout_of(TensorFormat format) {
  if (model::is_integer(format)) {
    const int bits = model::integer_bits(format);
    return {bits, 0, true, model::integer_group(format), false, 64 * bits, 80};
  }
  switch (format) {
    case TensorFormat::q4_0: return {4, 8, false, kGroup, false, 256, 32};
    case TensorFormat::q4_1: return {4, 0, false, kGroup, true, 256, 64};
    case TensorFormat::q5_0: return {5, 16, false, kGroup, false, 320, 32};
    case TensorFormat::q5_1: return {5, 0, false, kGroup, true, 320, 64};
    case TensorFormat::q4_k: return {4, 0, false, kSuperBlock, true, 256, 256};
    case TensorFormat::q5_k: return {5, 0, false, kSuperBlock, true, 320, 256};
    case TensorFormat::q6_k: return {6, 32, false, kSuperBlock, false, 384, 288};
    default: return {8, 128, false, kGroup, false, 512, 32};
  }
}

// Bytes of a panel's codes, and of a panel: padded to whole vectors.
constexpr int64_t code_bytes(TensorFormat format, int k) { return int64_t(k) / kGroup * layout_of(format).group_codes; }
constexpr int64_t quantized_panel_bytes(TensorFormat format, int k) {
  const QuantizedLayout l = layout_of(format);
  return (code_bytes(format, k) + int64_t(k) / l.block * l.block_scales + 63) / 64 * 64;
}

}  // namespace
}  // namespace anneal::cpu
