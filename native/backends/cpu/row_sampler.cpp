#include "row_sampler.h"

#include <algorithm>

namespace anneal::cpu {

void RowSampler::answer(const backends::RowRequest& r, const float* row, backends::RowResult& out,
                        SamplerScratch& scratch) const {
  if (r.prompt_top >= 0) out.prompt = row_logprobs(kernels_, row, vocab_, r.prompt_token, r.prompt_top, scratch);
  if (!r.draw) return;
  if (r.given >= 0) {
    out.sampled = given(kernels_, *r.draw, row, r.given, scratch);
    return;
  }
  const uint32_t* mask = r.mask;
  if (r.other_mask &&
      !std::binary_search(r.likeliest.begin(), r.likeliest.end(), int32_t(std::max_element(row, row + vocab_) - row)))
    mask = r.other_mask;
  out.sampled = cpu::sample(kernels_, *r.draw, row, r.output, mask, scratch);
}

}  // namespace anneal::cpu
