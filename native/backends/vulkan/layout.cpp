#include "layout.h"

#include <cstring>

#include "../../quantization/blocks.h"

namespace anneal::vulkan {

void pack_rows(ElementType t, const float* from, int64_t ld, int rows, int k, char* to) {
  const int granule = t.granule(), granules = t.granules(k);
  for (int r = 0; r < rows; r++) {
    char* at = to + (int64_t(r / kPanel) * granules * kPanel + r % kPanel) * 16;
    const float* row = from + r * ld;
    for (int i = 0; i < k; i++) {
      char* element = at + int64_t(i / granule) * kPanel * 16 + i % granule * t.bytes();
      if (t.bf16) {
        const uint16_t bits = narrowed(row[i]);
        std::memcpy(element, &bits, 2);
      } else {
        const float value = flushed(row[i]);
        std::memcpy(element, &value, 4);
      }
    }
  }
}

Records::Records(TensorFormat format) {
  const QuantizedFormat& f = quantized_format(format);
  bits = f.bits == 4 && !f.looked_up ? 4 : 8, parts = f.group < kGroup ? kGroup / f.group : 1, zero = f.zero,
  minima = f.minima;
}

void pack_records(TensorFormat format, const uint8_t* from, int64_t row_bytes, int rows, int k, char* to) {
  const QuantizedFormat& f = quantized_format(format);
  const Records records(format);
  const int granules = records.bits == 4 ? 1 : 2, within = kGroup / records.parts;  // within: numbers of a scale
  std::memset(to, 0, size_t(k / kGroup) * size_t(records.bytes()));
  quantization::Block block;
  for (int lane = 0; lane < rows; lane++)
    for (int first = 0; first < k; first += f.numbers) {
      quantization::take_apart(format, from + lane * row_bytes + int64_t(first / f.numbers) * f.bytes, block);
      for (int i = 0; i < f.numbers; i += kGroup) {
        char* const record = to + int64_t((first + i) / kGroup) * records.bytes();
        for (int j = 0; j < kGroup; j++) {
          const int bit = j * records.bits;
          char& byte = record[(bit / 128 * kPanel + lane) * 16 + bit % 128 / 8];
          byte = char(uint8_t(byte) | uint8_t(block.codes[i + j] << (bit % 8)));
        }
        char* scales = record + granules * kPanel * 16;
        const auto put = [&](int row, float value) { std::memcpy(scales + (row * kPanel + lane) * 4, &value, 4); };
        for (int part = 0; part < records.parts; part++)
          put(part, quantization::group_scale(f, block, (i + part * within) / f.group).scale);
        if (records.zero < 0)
          put(records.parts, float(block.zero));
        else if (records.minima)
          put(records.parts, quantization::group_scale(f, block, i / f.group).minimum);
      }
    }
}

}  // namespace anneal::vulkan
