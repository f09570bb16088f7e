#include "quantized_panels.h"

#include "quantized_panel.h"

namespace anneal::cpu {

int64_t quantized_panel_bytes_of(TensorFormat format, int k) { return quantized_panel_bytes(format, k); }

void pack_quantized(TensorFormat format, const uint8_t* rows, int64_t bytes, int n, int k, uint8_t* panel) {
  pack_panel(quantized_format(format), rows, bytes, n, k, panel);
}

}  // namespace anneal::cpu
