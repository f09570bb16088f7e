// How the numbers of a tensor are stored and computed with.
#pragma once
#include <cstdint>

namespace anneal::model {

// f32 and bf16 are compute types as well. The others are weights in groups along a row, as GGUF's formats of the same
// names have them: codes of 4, 5, 6 or 8 bits and scales of a group, some with a minimum.
enum class TensorFormat : uint8_t { f32, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k };

// How attention keeps keys and values: in the compute type, or rounded to codes of 8 bits, each position of a head by a
// scale of its own.
enum class KvCache : uint8_t { exact, int8 };

constexpr bool is_quantized(TensorFormat format) { return format > TensorFormat::bf16; }

}  // namespace anneal::model
