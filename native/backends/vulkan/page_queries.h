// Which queries see which pages, as the backward pass of attention takes them up.
#pragma once
#include <functional>

#include "batch.h"

namespace anneal::vulkan {

constexpr int kPairRows = 64;  // of queries of a tile of the backward pass

// As shaders/attention_backward.glsl has them, and attention_dkv.comp.
struct PairTile {
  int32_t row, position, first, count, table, block, blocks, slot;
};
struct PairUse {
  int32_t row, first, count, slot;
};

// Tiles whose pairs with the blocks that they see lie in memory together: addresses.
struct PairChunk {
  int tiles = 0, blocks = 0, slots = 0;  // blocks: that a tile sees, the most
  uint64_t tile_list = 0, first_use = 0, uses = 0;
};

// Which queries see which pages, by the window and the group that a layer has: tiles in the order in which a page's
// gradients take them up, in chunks.
struct PagePairs {
  int window, group;
  std::vector<PairChunk> chunks;
};

// A sequence that sees a page as its block: tokens from `row`, which stands at `position`, up to before `end`
// (shaders/attention_dkv_fast.comp).
struct PageUse {
  int32_t row, position, end, block;
};
// Which sequences see which pages, where layers with a window and a group go back on cooperative matrices: addresses.
struct PageUses {
  int window, group;
  uint64_t first_use, uses;
};

// p and ds of a pair; where keys are codes ds times their scales besides.
int pair_arrays(const GpuModel&);
// Bytes of a slot.
int64_t pair_slot_bytes(const GpuModel&, const AttentionSpec&);

// Of all layers of a pass. What a shader reads is placed by `add`, which tells where; place() makes addresses of that.
class PageQueries {
 public:
  using Add = std::function<uint64_t(std::span<const int32_t>)>;
  void list(const GpuModel&, const Batch&, int pages, const Add& add);
  void place(uint64_t at);
  // Throws backends::UnusableDevice where an invocation may not take so many turns.
  void require_turns(const Gpu&) const;

  // Of a layer, in one way or the other; null: it has none.
  const PagePairs* pairs_of(const LayerSpec&) const;
  const PageUses* uses_of(const LayerSpec&) const;
  int64_t pair_bytes() const { return pair_bytes_; }  // of the largest chunk

 private:
  void list_pairs(const GpuModel&, const Batch&, int pages, const AttentionSpec&, const Add&);
  void list_uses(const Batch&, int pages, const AttentionSpec&, const Add&);

  std::vector<PagePairs> pairs_;
  std::vector<PageUses> uses_;
  int64_t pair_bytes_ = 0;
};

}  // namespace anneal::vulkan
