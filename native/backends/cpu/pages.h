// Keys and values, in pages of 64 positions. A page id stands for one page in every layer and key-value head.
#pragma once
#include "memory.h"
#include "weights.h"

namespace anneal::cpu {

class Pages {
 public:
  Pages() = default;
  Pages(const Shape& c, const Kernels& k)
      : layers_(c.layers), kv_heads_(c.kv_heads), bytes_(k.page_bytes(c.head_dim)) {}
  // The same memory for another model or another pass.
  Pages(const Shape& c, const Kernels& k, Pages&& memory) : Pages(c, k) { memory_.swap(memory.memory_); }
  // Makes room for pages 0..count-1; what they held is lost when room has to grow.
  void reserve(int count) { memory_.reserve(size_t(count) * page_bytes()), count_ = count; }
  int count() const { return count_; }
  size_t page_bytes() const { return size_t(layers_) * kv_heads_ * 2 * bytes_; }
  char* page(int id) const { return memory_.data() + size_t(id) * page_bytes(); }
  // Panels of one head's keys [64][head_dim], and of its values transposed.
  char* keys(int id, int layer, int head) const { return page(id) + (size_t(layer) * kv_heads_ + head) * 2 * bytes_; }
  char* values(int id, int layer, int head) const { return keys(id, layer, head) + bytes_; }
  // Slots that no token has written must be zeros: their probability is 0, and 0 x NaN is not.
  void clear(int id) { std::memset(page(id), 0, page_bytes()); }
  void copy(int from, int to) { std::memcpy(page(to), page(from), page_bytes()); }

 private:
  Buffer memory_;
  int count_ = 0, layers_ = 0, kv_heads_ = 0;
  size_t bytes_ = 0;
};

}  // namespace anneal::cpu
