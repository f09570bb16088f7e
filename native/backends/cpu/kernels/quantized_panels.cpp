#include "quantized_panels.h"

#include <cstring>

#include "../../../quantization/blocks.h"
#include "kernels.h"
#include "quantized_layout.h"

namespace anneal::cpu {
namespace {

// Code of number i of a group of 32.
void put_code(int bits, uint8_t* group, int lane, int i, uint8_t code) {
  const int quad = i / 4, at = lane * 4 + i % 4;
  if (bits == 8) {
    group[quad * 64 + at] = code;
    return;
  }
  group[quad % 4 * 64 + at] |= uint8_t((code & 15) << (quad / 4 * 4));
  if (bits == 5) group[256 + at] |= uint8_t((code >> 4) << quad);
  if (bits == 6) group[256 + quad / 4 * 64 + at] |= uint8_t((code >> 4) << (quad % 4 * 2));
}

void put_half(uint8_t* at, int lane, uint16_t half) { std::memcpy(at + 2 * lane, &half, 2); }

void put_scales(TensorFormat format, const quantization::Block& b, int lane, uint8_t* scales) {
  if (layout_of(format).zeros) {
    std::memcpy(scales + 4 * lane, &b.scale, 4);
    scales[4 * kLanes + lane] = b.zero;
    return;
  }
  put_half(scales, lane, b.d);
  if (format == TensorFormat::q4_k || format == TensorFormat::q5_k) {
    put_half(scales + 32, lane, b.m);
    for (int g = 0; g < 8; g++) {
      scales[64 + g * kLanes + lane] = uint8_t((b.scales[g] & 15) | (b.minima[g] & 15) << 4);
      scales[192 + g / 2 * kLanes + lane] |= uint8_t((b.scales[g] >> 4 | (b.minima[g] >> 4) << 2) << (g % 2 * 4));
    }
  } else if (format == TensorFormat::q6_k) {
    for (int g = 0; g < 16; g++) scales[32 + g * kLanes + lane] = uint8_t(b.scales[g]);
  } else if (layout_of(format).minimum) {
    put_half(scales + 32, lane, b.m);
  }
}

}  // namespace

int64_t quantized_panel_bytes_of(TensorFormat format, int k) { return quantized_panel_bytes(format, k); }
int quantized_block(TensorFormat format) { return layout_of(format).block; }

void pack_quantized(TensorFormat format, const uint8_t* rows, int64_t bytes, int n, int k, uint8_t* panel) {
  const QuantizedLayout l = layout_of(format);
  std::memset(panel, 0, size_t(quantized_panel_bytes(format, k)));
  const int size = quantization::block_size(format).bytes;
  uint8_t* const scales = panel + code_bytes(format, k);
  quantization::Block b;
  // Of what is padded each number is zero, and not minus zero.
  for (int lane = n; lane < kLanes; lane++)
    for (int i = 0; i < k; i++)
      put_code(l.bits, panel + int64_t(i / kGroup) * l.group_codes, lane, i % kGroup, uint8_t(l.zero));
  for (int lane = 0; lane < n; lane++)
    for (int block = 0; block < k / l.block; block++) {
      quantization::take_apart(format, rows + lane * bytes + int64_t(block) * size, b);
      put_scales(format, b, lane, scales + int64_t(block) * l.block_scales);
      uint8_t* group = panel + int64_t(block) * (l.block / kGroup) * l.group_codes;
      for (int i = 0; i < l.block; i++)
        put_code(l.bits, group + int64_t(i / kGroup) * l.group_codes, lane, i % kGroup, b.codes[i]);
    }
}

}  // namespace anneal::cpu
