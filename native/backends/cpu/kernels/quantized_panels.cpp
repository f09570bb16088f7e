#include "quantized_panels.h"

#include "quantized_panel.h"

namespace anneal::cpu {
namespace {

// Blocks of one group whose bytes of codes, halves of 16 bytes, are those of four quads, as a panel has them.
bool lies_in_quads(const QuantizedFormat& f) {
  return f.format == TensorFormat::q4_0 || f.format == TensorFormat::q4_1 || f.looked_up;
}

// A whole panel of these, with nothing taken apart.
void pack_quads(const QuantizedFormat& f, const uint8_t* rows, int64_t bytes, int k, uint8_t* panel) {
  const int64_t used = code_bytes(f, k) + scale_bytes(f, k);
  std::memset(panel + used, 0, size_t(quantized_panel_bytes(f.format, k) - used));
  // Bytes of a row's scale, and of its minimum behind it.
  const int each = f.minima ? f.scale_bytes() / 2 : f.scale_bytes();
  for (int lane = 0; lane < kLanes; lane++)
    for (int g = 0; g < k / kGroup; g++) {
      const uint8_t* const block = rows + lane * bytes + int64_t(g) * f.bytes;
      const PanelOffsets at = panel_offsets(f, k, g * kGroup);
      uint8_t *codes = panel + at.codes + 4 * lane, *scale = panel + at.scales + each * lane;
      for (int quad = 0; quad < 4; quad++)
        std::memcpy(codes + quad * kQuadBytes, block + f.scale_bytes() + 4 * quad, 4);
      std::memcpy(scale, block + f.scale_at, size_t(each));
      if (f.minima) std::memcpy(scale + each * kLanes, block + f.scale_at + each, size_t(each));
    }
}

}  // namespace

int64_t quantized_panel_bytes_of(TensorFormat format, int k) { return quantized_panel_bytes(format, k); }

int64_t quantized_back_panel_bytes(TensorFormat format, int n) {
  if (!model::is_wide(format)) return back_panel_bytes(n);
  const int group = quantized_format(format).group;
  return quantized_panel_bytes(format, (n + group - 1) / group * group);
}

void pack_quantized(TensorFormat format, const uint8_t* rows, int64_t bytes, int n, int k, uint8_t* panel) {
  const QuantizedFormat& f = quantized_format(format);
  if (n == kLanes && lies_in_quads(f)) return pack_quads(f, rows, bytes, k, panel);
  if (model::is_wide(format)) return pack_wide_panel(f, rows, bytes, n, k, panel);
  pack_panel(f, rows, bytes, n, k, panel);
}

}  // namespace anneal::cpu
