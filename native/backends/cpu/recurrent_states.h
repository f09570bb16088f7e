// The recurrent states of sequences, float32: of every key head of every delta-rule layer the states of its value
// heads, and the last inputs of its convolution; of every short convolution, which counts as one head, its last inputs.
#pragma once
#include <vector>

#include "memory.h"
#include "weights.h"

namespace anneal::cpu {

// Floats of a key head's part.
struct KeyHeadState {
  int64_t states, tail;  // [group][delta_state_floats], [kernel - 1][width]
  explicit KeyHeadState(const DeltaRuleSpec& d)
      : states(d.group() * delta_state_floats(d.key_dim, d.value_dim)),
        tail(padded(int64_t(d.kernel - 1) * KeyHeadColumns(d, 0).width)) {}
  int64_t floats() const { return states + tail; }
};

// Floats of a short convolution: [kernel - 1][width].
inline int64_t convolution_state_floats(const ShortConvolutionSpec& c) {
  return padded(int64_t(c.kernel - 1) * c.width);
}

class RecurrentStates {
 public:
  RecurrentStates() = default;
  explicit RecurrentStates(const ModelSpec& m) {
    for (const LayerSpec& l : m.layers) {
      const int64_t convolution = l.short_convolution ? convolution_state_floats(*l.short_convolution) : 0;
      layers_.push_back({floats_, l.delta_rule ? KeyHeadState(*l.delta_rule).floats() : convolution});
      floats_ += convolution;
      if (l.delta_rule) floats_ += l.delta_rule->key_heads * layers_.back().head;
    }
  }
  void reserve(int count) { memory_.reserve(size_t(count) * bytes()), count_ = count; }
  int count() const { return count_; }
  size_t bytes() const { return size_t(floats_) * sizeof(float); }
  float* of(int id, int layer, int head) const {
    return memory_.floats() + id * floats_ + layers_[layer].offset + head * layers_[layer].head;
  }
  void copy(int from, int to) {
    if (bytes() > 0) std::memcpy(memory_.data() + to * bytes(), memory_.data() + from * bytes(), bytes());
  }

 private:
  struct Layer {
    int64_t offset, head;  // where a layer begins, and what one of its heads takes
  };
  Buffer memory_;
  int count_ = 0;
  int64_t floats_ = 0;
  std::vector<Layer> layers_;
};

}  // namespace anneal::cpu
