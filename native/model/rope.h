// Cosines and sines of the rotary embedding, by position; made on the processor for every device.
#pragma once
#include <memory>
#include <vector>

#include "spec.h"

namespace anneal::model {

class RopeTable {
 public:
  RopeTable(const RopeSpec&, int rotary, int max_positions);  // rotary: elements that turn
  // Makes positions 0..count-1 available. Addresses handed out before stay valid.
  void reserve(int count);
  // [rotary / 2], times the attention factor. The position must have been reserved.
  const float* cos(int position) const {
    return blocks_[position / kBlock].get() + int64_t(position % kBlock) * 2 * half_;
  }
  const float* sin(int position) const { return cos(position) + half_; }
  // Of queries that have been turned.
  float query_scale(int position) const;

 private:
  static constexpr int kBlock = 1024;
  int half_;
  float attention_factor_ = 1;
  double query_scale_, original_max_positions_;
  std::vector<float> inverse_frequencies_;
  std::vector<std::unique_ptr<float[]>> blocks_;
};

}  // namespace anneal::model
