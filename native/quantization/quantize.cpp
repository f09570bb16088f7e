#include <algorithm>

#include "../executor/processor.h"
#include "fit.h"

namespace anneal::quantization {

bool can_quantize(TensorFormat format) {
  switch (format) {
    case TensorFormat::q8_0:
    case TensorFormat::q4_0:
    case TensorFormat::q5_0:
    case TensorFormat::q4_1:
    case TensorFormat::q4_k:
    case TensorFormat::q6_k: return true;
    default: return false;
  }
}

FitBlocks fit_blocks_avx2();
FitBlocks fit_blocks_avx512();

std::vector<FitBlocks> all_fit_blocks() {
  std::vector<FitBlocks> all{fit_blocks};
#if defined(__x86_64__)
  if (executor::processor().avx2) all.push_back(fit_blocks_avx2());
  if (executor::processor().avx512) all.push_back(fit_blocks_avx512());
#endif
  return all;
}

void quantize_row(TensorFormat format, const float* x, int64_t numbers, uint8_t* out) {
  static const FitBlocks fastest = all_fit_blocks().back();
  quantize_row(format, x, numbers, out, fastest);
}

void quantize_row(TensorFormat format, const float* x, int64_t numbers, uint8_t* out, FitBlocks fit) {
  const model::QuantizedFormat& f = model::quantized_format(format);
  Block blocks[kMaxBlock / 32]{};
  for (; numbers > 0; numbers -= kMaxBlock, x += kMaxBlock) {
    float last[kMaxBlock] = {};
    if (numbers < kMaxBlock) std::copy_n(x, numbers, last);
    fit(format, numbers < kMaxBlock ? last : x, blocks);
    for (int64_t at = 0; at < std::min<int64_t>(numbers, kMaxBlock); at += f.numbers, out += f.bytes)
      put_together(format, blocks[at / f.numbers], out);
  }
}

}  // namespace anneal::quantization
