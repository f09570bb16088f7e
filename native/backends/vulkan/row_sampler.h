// Answers what is asked of rows of logits on the GPU where they lie, with the processor's bits.
#pragma once
#include "gpu_model.h"
#include "recordings.h"

namespace anneal::vulkan {

class RowSampler {
 public:
  RowSampler(std::shared_ptr<Gpu> gpu, int vocab) : gpu_(std::move(gpu)), vocab_(vocab) {}

  // Makes ready what is asked of rows of logits; false if that is nothing. Requests for more than 64 of the likeliest
  // tokens are left out.
  bool write(std::span<const backends::RowRequest>);
  // Of logits [rows][vocab] at that address, what was written last.
  void record(Commands&, uint64_t logits) const;
  void add_key(RecordingKey&) const;
  // Once that has run: the results, but for the requests (by index) that the processor has to answer. These are those
  // left out, and those of rows with NaN or infinity.
  std::vector<size_t> read(std::span<const backends::RowRequest>, std::span<backends::RowResult>);

 private:
  std::shared_ptr<Gpu> gpu_;
  int vocab_;
  int64_t lists_at_ = 0;  // bytes behind given_
  Memory given_, temporaries_, blocks_, found_;
  std::vector<size_t> asked_;  // requests that were recorded
  std::vector<int> at_;        // where the results of each begin
};

}  // namespace anneal::vulkan
