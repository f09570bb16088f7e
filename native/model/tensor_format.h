// How the numbers of a tensor are stored and computed with.
#pragma once
#include <cstdint>
#include <string_view>

namespace anneal::model {

// f32 and bf16 are compute types as well. The others are weights in groups along a row. q...: as GGUF's formats of the
// same names have them: codes of 4, 5, 6 or 8 bits and scales of a group, some with a minimum. int4_64: codes of 4 bits
// that, less the zero point of their group of 64, are multiplied with its scale, as AWQ, GPTQ and compressed-tensors
// have them. mxfp4: codes of 4 bits that stand for 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, times a power of two
// of their group of 32 (Open Compute's microscaling formats), as GGUF's format of the name and GPT-OSS's folders have
// them. int16_64: signed codes of 14 bits in 16, times a power of two of their group of 64; made here, in no file.
enum class TensorFormat : uint8_t {
  f32,
  bf16,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q4_k,
  q5_k,
  q6_k,
  int4_32,
  int4_64,
  int4_128,
  int8_32,
  int8_64,
  int8_128,
  mxfp4,
  int16_64,
};

// How attention keeps keys and values: in the compute type, or rounded to codes of 8 bits, each position of a head by a
// scale of its own.
enum class KvCache : uint8_t { exact, int8 };

// A quantised format, told in one place: rows are blocks, blocks are groups, and number i of group g is
// scale[g] * (code[i] - zero) + minimum[g]. How a block's bytes lie is known by quantization/blocks.cpp, and what is
// made of them to be multiplied by the devices.
inline constexpr int kOwnZeros = -1;
struct QuantizedFormat {
  TensorFormat format;
  std::string_view name;   // in files, and for callers
  int numbers, bytes;      // of a block
  int bits;                // of a code
  int group;               // numbers that share a scale
  int zero;                // kOwnZeros: every group has its own
  bool minima;             // of groups; else there are none
  int scale_at;            // of a block's bytes: its float16, followed by that of the minima; with own zeros a float32
  bool looked_up = false;  // stored codes stand for others of 5 bits, and scales are exponents of 8 bits
  constexpr int groups() const { return numbers / group; }
  constexpr int scale_bytes() const { return bytes - numbers * bits / 8; }
};
// In the order of TensorFormat.
inline constexpr QuantizedFormat kQuantizedFormats[] = {
    {TensorFormat::q8_0, "Q8_0", 32, 34, 8, 32, 128, false, 0},
    {TensorFormat::q4_0, "Q4_0", 32, 18, 4, 32, 8, false, 0},
    {TensorFormat::q4_1, "Q4_1", 32, 20, 4, 32, 0, true, 0},
    {TensorFormat::q5_0, "Q5_0", 32, 22, 5, 32, 16, false, 0},
    {TensorFormat::q5_1, "Q5_1", 32, 24, 5, 32, 0, true, 0},
    {TensorFormat::q4_k, "Q4_K", 256, 144, 4, 32, 0, true, 0},
    {TensorFormat::q5_k, "Q5_K", 256, 176, 5, 32, 0, true, 0},
    {TensorFormat::q6_k, "Q6_K", 256, 210, 6, 16, 32, false, 208},
    {TensorFormat::int4_32, "INT4_32", 32, 21, 4, 32, kOwnZeros, false, 0},
    {TensorFormat::int4_64, "INT4_64", 64, 37, 4, 64, kOwnZeros, false, 0},
    {TensorFormat::int4_128, "INT4_128", 128, 69, 4, 128, kOwnZeros, false, 0},
    {TensorFormat::int8_32, "INT8_32", 32, 37, 8, 32, kOwnZeros, false, 0},
    {TensorFormat::int8_64, "INT8_64", 64, 69, 8, 64, kOwnZeros, false, 0},
    {TensorFormat::int8_128, "INT8_128", 128, 133, 8, 128, kOwnZeros, false, 0},
    {TensorFormat::mxfp4, "MXFP4", 32, 17, 4, 32, 16, false, 0, true},
    {TensorFormat::int16_64, "INT16_64", 64, 129, 16, 64, 0, false, 0},
};

static_assert([] {
  int next = int(TensorFormat::bf16);
  for (const QuantizedFormat& f : kQuantizedFormats)
    if (int(f.format) != ++next) return false;
  return true;
}());

constexpr bool is_quantized(TensorFormat format) { return format > TensorFormat::bf16; }
// Where a format stands in the table.
constexpr int quantized_index(TensorFormat format) { return int(format) - int(kQuantizedFormats[0].format); }
constexpr const QuantizedFormat& quantized_format(TensorFormat format) {
  return kQuantizedFormats[quantized_index(format)];
}
constexpr const QuantizedFormat* quantized_format(std::string_view name) {
  for (const QuantizedFormat& known : kQuantizedFormats)
    if (known.name == name) return &known;
  return nullptr;
}
// Of codes of 16 bits, which scales are exponents of 8 bits for, and whose products are those of 16 bits.
constexpr bool is_wide(TensorFormat format) { return is_quantized(format) && quantized_format(format).bits == 16; }
// Of those with zero points, which files have in tensors of their own.
constexpr bool is_integer(TensorFormat format) {
  return is_quantized(format) && quantized_format(format).zero == kOwnZeros;
}

}  // namespace anneal::model
