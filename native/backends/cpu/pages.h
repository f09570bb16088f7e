// Keys and values, in pages of 64 positions. A page id stands for one page in every layer of a group and every
// key-value head.
#pragma once
#include <vector>

#include "../page_groups.h"
#include "memory.h"
#include "weights.h"

namespace anneal::cpu {

class Pages {
 public:
  Pages() = default;
  Pages(const ModelSpec& m, const Kernels& k, backends::PageGroups groups = {}) : groups_(std::move(groups)) {
    std::vector<size_t> bytes(size_t(groups_.count()));
    for (size_t l = 0; l < m.layers.size(); l++) {
      if (const int of = m.keys_layer(int(l)); of != int(l)) {
        layers_.push_back(layers_[size_t(of)]), layers_.back().bytes = 0;
        continue;
      }
      const AttentionSpec& a = m.layers[l].attention;
      const size_t panel = k.attention_over(m.kv_cache).page_bytes(a.head_dim);
      size_t& offset = bytes[size_t(groups_.of(int(l)))];
      layers_.push_back({offset, panel, size_t(a.kv_heads) * 2 * panel});
      offset += layers_.back().bytes;
      page_bytes_ = std::max(page_bytes_, offset);
    }
  }
  // The same memory for another model or another pass.
  Pages(const ModelSpec& m, const Kernels& k, Pages&& memory) : Pages(m, k) { memory_.swap(memory.memory_); }
  // Makes room for pages 0..count-1; what they held is lost when room has to grow.
  void reserve(int count) { memory_.reserve(size_t(count) * page_bytes()), count_ = count; }
  int count() const { return count_; }
  const backends::PageGroups& groups() const { return groups_; }
  size_t page_bytes() const { return page_bytes_; }
  char* page(int id) const { return memory_.data() + size_t(id) * page_bytes(); }
  // One head's keys [64][head_dim], and its values transposed.
  char* keys(int id, int layer, int head) const {
    return page(id) + layers_[layer].offset + size_t(head) * head_bytes(layer);
  }
  char* values(int id, int layer, int head) const { return keys(id, layer, head) + layers_[layer].panel; }
  size_t head_bytes(int layer) const { return 2 * layers_[layer].panel; }
  // Slots that no token has written must be zeros: their probability is 0, and 0 x NaN is not.
  void clear(int id) { std::memset(page(id), 0, page_bytes()); }
  void clear(int id, int layer) { std::memset(page(id) + layers_[layer].offset, 0, layers_[layer].bytes); }
  void copy(int from, int to) { std::memcpy(page(to), page(from), page_bytes()); }

 private:
  // Bytes: where a layer begins in a page, one head's keys or values, and all that is the layer's own.
  struct Layer {
    size_t offset, panel, bytes;
  };
  backends::PageGroups groups_;
  Buffer memory_;
  int count_ = 0;
  size_t page_bytes_ = 0;
  std::vector<Layer> layers_;
};

}  // namespace anneal::cpu
