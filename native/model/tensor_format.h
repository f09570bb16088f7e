// How the numbers of a tensor are stored and computed with.
#pragma once
#include <cstdint>
#include <string_view>

namespace anneal::model {

// f32 and bf16 are compute types as well. The others are weights in groups along a row. q...: as GGUF's formats of the
// same names have them: codes of 4, 5, 6 or 8 bits and scales of a group, some with a minimum. int4_64: codes of 4 bits
// that, less the zero point of their group of 64, are multiplied with its scale, as AWQ, GPTQ and compressed-tensors
// have them.
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
};

// How attention keeps keys and values: in the compute type, or rounded to codes of 8 bits, each position of a head by a
// scale of its own.
enum class KvCache : uint8_t { exact, int8 };

// Every quantised format, in the order of TensorFormat, by the name that files and callers give it.
struct QuantizedFormat {
  TensorFormat format;
  std::string_view name;
};
inline constexpr QuantizedFormat kQuantizedFormats[] = {
    {TensorFormat::q8_0, "Q8_0"},       {TensorFormat::q4_0, "Q4_0"},         {TensorFormat::q4_1, "Q4_1"},
    {TensorFormat::q5_0, "Q5_0"},       {TensorFormat::q5_1, "Q5_1"},         {TensorFormat::q4_k, "Q4_K"},
    {TensorFormat::q5_k, "Q5_K"},       {TensorFormat::q6_k, "Q6_K"},         {TensorFormat::int4_32, "INT4_32"},
    {TensorFormat::int4_64, "INT4_64"}, {TensorFormat::int4_128, "INT4_128"}, {TensorFormat::int8_32, "INT8_32"},
    {TensorFormat::int8_64, "INT8_64"}, {TensorFormat::int8_128, "INT8_128"},
};

constexpr bool is_quantized(TensorFormat format) { return format > TensorFormat::bf16; }
// Of those with zero points.
constexpr bool is_integer(TensorFormat format) { return format >= TensorFormat::int4_32; }
constexpr int integer_bits(TensorFormat format) { return format >= TensorFormat::int8_32 ? 8 : 4; }
constexpr int integer_group(TensorFormat format) { return 32 << (int(format) - int(TensorFormat::int4_32)) % 3; }

}  // namespace anneal::model
