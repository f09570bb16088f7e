// Samples rows of logits that lie in memory, on all workers.
#pragma once
#include "../../executor/pool.h"
#include "../backend.h"
#include "sampler.h"

namespace anneal::cpu {

class RowSampler {
 public:
  RowSampler(const Kernels& kernels, executor::Pool& pool, int vocab) : kernels_(kernels), pool_(pool), vocab_(vocab) {}
  // As Backend::sample: `row_at(i)` is row i, [vocab].
  template <class RowAt>
  bool sample(const RowAt& row_at, std::span<const backends::RowRequest> requests,
              std::span<backends::RowResult> results) {
    scratch_.resize(size_t(pool_.workers()));
    for (SamplerScratch& scratch : scratch_) scratch.size(vocab_);
    return pool_.each(int64_t(requests.size()), [&](int64_t index, int worker) {
      const backends::RowRequest& request = requests[size_t(index)];
      answer(request, row_at(request.row), results[size_t(index)], scratch_[size_t(worker)]);
    });
  }

 private:
  void answer(const backends::RowRequest&, const float* row, backends::RowResult&, SamplerScratch&) const;

  const Kernels& kernels_;
  executor::Pool& pool_;
  int vocab_;
  std::vector<SamplerScratch> scratch_;  // [worker]
};

}  // namespace anneal::cpu
