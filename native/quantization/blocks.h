// Rows of quantised weights as blocks. Of GGUF's formats as it stores them: 32 or 256 numbers, with their scales before
// or after their codes, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Of the integer formats a group: its
// scale as a float32, its zero point as a byte, its codes (of 4 bits two to a byte, the first in the low half).
// Scales of mxfp4 are 2^(exponent - 127); one below 2^-125 counts as 0. Of int16_64: the exponent of its scale, which
// is 2^(exponent - 127), or 0 where that is 0; its codes, as signed words.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../model/tensor_format.h"

namespace anneal::quantization {

using model::TensorFormat;

constexpr int kMaxBlock = 256, kWideBlock = model::quantized_format(TensorFormat::int16_64).numbers;
// The largest code of int16_64: that times one of activations (kMostWideCode in cpu/kernels), 64 times, is below 2^31.
constexpr int kMostWord = 8191;

// Bytes of a row of `numbers`, a multiple of the block.
constexpr int64_t row_bytes(TensorFormat format, int64_t numbers) {
  const model::QuantizedFormat& f = model::quantized_format(format);
  return numbers / f.numbers * f.bytes;
}

// A block taken apart. The scale of group g is d, or d times the group's own; its minimum m, or -m times the group's
// own. Of integer formats they are `scale` and `zero`.
struct Block {
  uint8_t codes[kMaxBlock];
  uint16_t d, m;      // float16
  int8_t scales[16];  // of blocks of several groups
  uint8_t minima[8];
  float scale;
  uint8_t zero;
  uint8_t exponent;  // of mxfp4, whose codes are twice the numbers that they stand for, and 16 more; of int16_64
  int16_t words[kWideBlock];  // codes of int16_64
};
void take_apart(TensorFormat, const uint8_t* block, Block& out);
// What the codes of a group of it are multiplied with, whatever the format; `minimum`: 0 where it has none.
struct GroupScale {
  float scale, minimum;
};
GroupScale group_scale(const model::QuantizedFormat&, const Block&, int group);
// The same the other way round.
void put_together(TensorFormat, const Block&, uint8_t* block);

// Of 16 codes of mxfp4 as they are stored, what they are multiplied as; and the other way round. Every object has its
// own: those of kernels share no symbol.
constexpr uint8_t kMicroCodes[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};
struct MicroCodes {
  uint8_t stored[32] = {};
  constexpr MicroCodes() {
    for (uint8_t i = 16; i-- > 0;) stored[kMicroCodes[i]] = i;
  }
};
inline constexpr uint8_t stored_micro_code(uint8_t code) {
  constexpr MicroCodes codes;
  return codes.stored[code & 31];
}

float widen_half(uint16_t bits);
uint16_t narrow_half(float);  // to nearest, ties to even; beyond the largest: infinity

// Whether all scales of a row are finite numbers.
bool finite_scales(TensorFormat, const uint8_t* row, int64_t numbers);

// Each number is rounded to float32 after the product with its scale and after the minimum is added.
void dequantize_row(TensorFormat, const uint8_t* row, int64_t numbers, float* out);

// Some formats are read but not made.
bool can_quantize(TensorFormat);
// Of finite numbers.
void quantize_row(TensorFormat, const float* row, int64_t numbers, uint8_t* out);

// Blocks of kMaxBlock numbers in a format that is made. Every one that this machine can run makes the same: the fastest
// last, which quantize_row takes.
using FitBlocks = void (*)(TensorFormat, const float* x, Block* out);
std::vector<FitBlocks> all_fit_blocks();
void quantize_row(TensorFormat, const float* row, int64_t numbers, uint8_t* out, FitBlocks);

}  // namespace anneal::quantization
