#include <algorithm>
#include <cmath>

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
    case TensorFormat::q6_k:
    case TensorFormat::int16_64: return true;
    default: return false;
  }
}

namespace {

// The scale is the power of two by which the largest number of the group takes 13 bits, so that a number of bfloat16 is
// kept as it is, unless it is less than 1/32 of that one.
void quantize_wide(const float* x, uint8_t* out) {
  Block block{};
  float most = 0;
  for (int i = 0; i < kWideBlock; i++) most = std::max(most, std::fabs(x[i]));
  int exponent = 0;
  std::frexp(most, &exponent);
  exponent = std::max(exponent - 13, -126);
  if (std::ldexp(most, -exponent) >= kMostWord + 0.5f) exponent++;  // which would be rounded up to a code too many
  constexpr float kToNearest = 12582912.0f;                         // ties to even
  const float inverse = std::ldexp(1.0f, -exponent);
  block.exponent = uint8_t(most > 0 ? exponent + 127 : 0);
  for (int i = 0; i < kWideBlock && most > 0; i++)
    block.words[i] = int16_t(int32_t((x[i] * inverse + kToNearest) - kToNearest));
  put_together(TensorFormat::int16_64, block, out);
}

}  // namespace

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
  if (model::is_wide(format)) {
    for (; numbers > 0; numbers -= f.numbers, x += f.numbers, out += f.bytes) quantize_wide(x, out);
    return;
  }
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
