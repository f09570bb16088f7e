// Rows of quantised weights as blocks. Of GGUF's formats as it stores them: 32 or 256 numbers, with their scales before
// or after their codes, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Of the integer formats a group: its
// scale as a float32, its zero point as a byte, its codes (of 4 bits two to a byte, the first in the low half).
#pragma once
#include <cstddef>
#include <cstdint>

#include "../model/tensor_format.h"

namespace anneal::quantization {

using model::TensorFormat;

constexpr int kMaxBlock = 256;

// Numbers and bytes of a block.
struct BlockSize {
  int numbers, bytes;
};
constexpr BlockSize block_size(TensorFormat format) {
  if (model::is_integer(format)) {
    const int group = model::integer_group(format);
    return {group, 5 + group * model::integer_bits(format) / 8};
  }
  switch (format) {
    case TensorFormat::f32: return {1, 4};
    case TensorFormat::bf16: return {1, 2};
    case TensorFormat::q8_0: return {32, 34};
    case TensorFormat::q4_0: return {32, 18};
    case TensorFormat::q4_1: return {32, 20};
    case TensorFormat::q5_0: return {32, 22};
    case TensorFormat::q5_1: return {32, 24};
    case TensorFormat::q4_k: return {256, 144};
    case TensorFormat::q5_k: return {256, 176};
    default: return {256, 210};
  }
}
// Bytes of a row of `numbers`, a multiple of the block.
constexpr int64_t row_bytes(TensorFormat format, int64_t numbers) {
  const BlockSize size = block_size(format);
  return numbers / size.numbers * size.bytes;
}

// A block taken apart. Number i of group g is scale[g] * (codes[i] - zero) + minimum of g, where scale[g] is d, or d
// times the group's own; the minimum m, or -dmin times the group's own, or none. Of integer formats it is scale *
// (codes[i] - zero).
struct Block {
  uint8_t codes[kMaxBlock];
  uint16_t d, m;      // float16; m: minimum or dmin
  int8_t scales[16];  // of the K formats: 8 groups of 32 (unsigned), or 16 of 16 (signed)
  uint8_t minima[8];
  float scale;   // of integer formats
  uint8_t zero;  // of integer formats
};
void take_apart(TensorFormat, const uint8_t* block, Block& out);
// The same the other way round.
void put_together(TensorFormat, const Block&, uint8_t* block);

float widen_half(uint16_t bits);
uint16_t narrow_half(float);  // to nearest, ties to even; beyond the largest: infinity

// Whether all scales of a row are finite numbers.
bool finite_scales(TensorFormat, const uint8_t* row, int64_t numbers);

// Each number is rounded to float32 after the product with its scale and after the minimum is added.
void dequantize_row(TensorFormat, const uint8_t* row, int64_t numbers, float* out);

// Blocks of finite numbers. q5_0, q5_1 and q5_k are read but not made.
constexpr bool can_quantize(TensorFormat f) {
  return f == TensorFormat::q8_0 || f == TensorFormat::q4_0 || f == TensorFormat::q4_1 || f == TensorFormat::q4_k ||
         f == TensorFormat::q6_k;
}
void quantize_row(TensorFormat, const float* row, int64_t numbers, uint8_t* out);

}  // namespace anneal::quantization
