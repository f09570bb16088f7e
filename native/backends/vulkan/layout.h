// How numbers lie in a GPU's memory (shaders/buffers.glsl, weights.glsl, pages.glsl).
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "../../model/tensors.h"
#include "../page.h"
#include "gpu.h"

namespace anneal::vulkan {

using backends::kPage;
using namespace model;

inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

constexpr int kPanel = 32;  // outputs of a block of weights

// Bytes of W[n][k].
inline int64_t matrix_bytes(ElementType t, int n, int k) { return round_up(n, kPanel) * t.row_bytes(k); }

// What lies in a record of a quantised matrix: 32 k of 32 outputs (shaders/quantized.glsl).
constexpr int kGroup = 32;
struct Records {
  int bits, parts, zero;  // of a code as it lies; scales of a group; its zero point, below 0: its own
  bool minima;
  explicit Records(TensorFormat);
  int bytes() const { return kPanel * (kGroup * bits / 8 + 4 * (parts + has_extras())); }
  bool has_extras() const { return zero < 0 || minima; }
  // Of a matrix W[n][k].
  int64_t bytes_of(int n, int k) const { return round_up(n, kPanel) / kPanel * (k / kGroup) * bytes(); }
};

// Bytes of a row of activations as codes (shaders/activation_codes.comp).
inline int64_t code_bytes(int k) { return int64_t((k + kGroup - 1) / kGroup) * 48; }

// Blocks of a row of n logits, and workgroups that have some each (shaders/log_sum_exp.glsl, row_blocks.glsl).
inline int blocks_of_row(int n) { return (n + 511) / 512; }
inline int groups_of_row(int n) { return (blocks_of_row(n) + 3) / 4; }

// Bytes of the keys and values of a page of one layer.
inline int64_t page_bytes(ElementType t, KvCache cache, const AttentionSpec& a) {
  if (cache == KvCache::int8) return int64_t(a.kv_heads) * kPage * 2 * (round_up(a.head_dim, 16) + 4);
  return int64_t(a.kv_heads) * kPage * (t.row_bytes(a.head_dim) + int64_t(a.head_dim) * t.bytes());
}

// Of the layer where these are the most.
inline int64_t largest_page_bytes(const ModelSpec& m, ElementType t) {
  int64_t largest = 0;
  for (const LayerSpec& layer : m.layers) largest = std::max(largest, page_bytes(t, m.kv_cache, layer.attention));
  return largest;
}

inline float flushed(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return (bits & 0x7f800000u) == 0 ? std::bit_cast<float>(bits & 0x80000000u) : x;
}
// Bits of the nearest bfloat16, as the processor's kernels round.
inline uint16_t narrowed(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return uint16_t((u >> 16) | 0x40);
  if ((u & 0x7f800000u) == 0) return uint16_t((u >> 16) & 0x8000);
  return uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
inline float widened(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

// Rows [row, row + rows) of W[n][k], of which `from` is the first, into the blocks at `to`, which are zeros; row begins
// a block.
void pack_rows(ElementType, const float* from, int64_t ld, int rows, int k, char* to);
// The same of rows of blocks, `row_bytes` apart, at most 32, into their records.
void pack_records(TensorFormat, const uint8_t* from, int64_t row_bytes, int rows, int k, char* to);

}  // namespace anneal::vulkan
