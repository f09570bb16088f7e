#include "page_queries.h"

#include <algorithm>

namespace anneal::vulkan {
namespace {

constexpr int64_t kMaxPairBytes = int64_t(128) << 20;  // of a chunk, unless a single tile takes more
// Turns of loops that an invocation takes for a tile of queries and a block, at most: of shaders/attention_dq.comp and
// attention_dkv.comp.
constexpr int kTurnsOfPairs = 160;

// Tokens of a sequence whose queries a page's gradients take up together; their rows two by two, as the processor does
// (cpu/layer_backward.cpp).
int queries_per_tile(int group) { return std::max(1, 512 / group); }

// Tiles of a chunk at most, where loops end, and blocks of a tile.
int max_pair_tiles(const Gpu& gpu) { return std::min(gpu.max_groups(), gpu.arithmetic().max_turns / kTurnsOfPairs); }

// Of lists by window and group that of a layer; null: it has none.
template <class List> const List* of_layer(const std::vector<List>& lists, const LayerSpec& layer) {
  const AttentionSpec& a = layer.attention;
  const auto found = std::find_if(lists.begin(), lists.end(), [&](const List& list) {
    return !layer.delta_rule && list.window == a.window && list.group == a.group();
  });
  return found == lists.end() ? nullptr : &*found;
}

// One list after the other, and where each begins: [lists + 1].
template <class T> struct Joined {
  std::vector<int32_t> first;
  std::vector<T> all;
  explicit Joined(const std::vector<std::vector<T>>& lists) {
    for (const auto& list : lists) {
      first.push_back(int32_t(all.size()));
      all.insert(all.end(), list.begin(), list.end());
    }
    first.push_back(int32_t(all.size()));
  }
};

template <class T> std::span<const int32_t> ints(const std::vector<T>& structures) {
  return {reinterpret_cast<const int32_t*>(structures.data()), structures.size() * sizeof(T) / 4};
}

}  // namespace

int pair_arrays(const GpuModel& m) { return m.spec.kv_cache == KvCache::int8 ? 3 : 2; }

int64_t pair_slot_bytes(const GpuModel& m, const AttentionSpec& a) {
  return int64_t(a.kv_heads) * kPairRows * kPage * m.type.bytes() * pair_arrays(m);
}

void PageQueries::list(const GpuModel& m, const Batch& b, int pages, const Add& add) {
  for (const LayerSpec& layer : m.spec.layers) {
    if (layer.delta_rule) continue;
    const AttentionSpec& a = layer.attention;
    if (goes_back_on_matrices(m, a)) {
      if (!uses_of(layer)) list_uses(b, pages, a, add);
    } else if (!pairs_of(layer)) {
      list_pairs(m, b, pages, a, add);
    }
  }
}

void PageQueries::place(uint64_t at) {
  for (PagePairs& pairs : pairs_)
    for (PairChunk& chunk : pairs.chunks)
      for (uint64_t* list : {&chunk.tile_list, &chunk.first_use, &chunk.uses}) *list += at;
  for (PageUses& u : uses_) u.first_use += at, u.uses += at;
}

void PageQueries::require_turns(const Gpu& gpu) const {
  for (const PagePairs& pairs : pairs_)
    for (const PairChunk& chunk : pairs.chunks)
      if (chunk.blocks > max_pair_tiles(gpu))
        gpu.require_turns("the gradient of a context of " + std::to_string(chunk.blocks * kPage) + " tokens",
                          GpuArithmetic::kNoEnd);
}

const PagePairs* PageQueries::pairs_of(const LayerSpec& layer) const { return of_layer(pairs_, layer); }
const PageUses* PageQueries::uses_of(const LayerSpec& layer) const { return of_layer(uses_, layer); }

// The pairs of queries and keys of layers with the window and the group of this one.
void PageQueries::list_pairs(const GpuModel& m, const Batch& b, int pages, const AttentionSpec& a, const Add& add) {
  const int window = a.window, group = a.group(), tokens = queries_per_tile(group);
  int64_t slot_bytes = 0;
  for (const LayerSpec& layer : m.spec.layers)
    if (!layer.delta_rule && layer.attention.window == window && layer.attention.group() == group)
      slot_bytes = std::max(slot_bytes, pair_slot_bytes(m, layer.attention));
  PagePairs& found = pairs_.emplace_back(PagePairs{window, group, {}});
  const int max_tiles = max_pair_tiles(*m.gpu);
  std::vector<PairTile> tiles;
  std::vector<std::vector<PairUse>> by_page(static_cast<size_t>(pages));
  PairChunk chunk;
  const auto end_chunk = [&] {
    chunk.tiles = int(tiles.size());
    const Joined uses(by_page);
    for (auto& of_page : by_page) of_page.clear();
    chunk.tile_list = add(ints(tiles)), chunk.first_use = add(uses.first), chunk.uses = add(ints(uses.all));
    pair_bytes_ = std::max(pair_bytes_, chunk.slots * slot_bytes);
    found.chunks.push_back(chunk);
    chunk = {}, tiles.clear();
  };
  int table = 0;  // tables lie one after the other (DeviceBatch)
  for (const Sequence& s : b.sequences) {
    for (int token = 0; token < s.rows; token += tokens) {
      const int rows = std::min(tokens, s.rows - token) * group, position = s.position + token;
      for (int first = 0; first < rows; first += kPairRows) {
        const int count = std::min(kPairRows, rows - first), from = position + first / group,
                  block = window ? std::max(0, from - window + 1) / kPage : 0,
                  blocks = (position + (first + count - 1) / group) / kPage + 1 - block;
        if (chunk.slots > 0 && ((chunk.slots + blocks) * slot_bytes > kMaxPairBytes || int(tiles.size()) == max_tiles))
          end_chunk();
        tiles.push_back({s.row0 + token, position, first, count, table, block, blocks, chunk.slots});
        for (int i = 0; i < blocks; i++)
          by_page[size_t(s.blocks[block + i])].push_back({s.row0 + token, first, count, chunk.slots + i});
        chunk.blocks = std::max(chunk.blocks, blocks), chunk.slots += blocks;
      }
    }
    table += (s.position + s.rows - 1) / kPage + 1;
  }
  end_chunk();
}

// The same for layers that go back on cooperative matrices.
void PageQueries::list_uses(const Batch& b, int pages, const AttentionSpec& a, const Add& add) {
  std::vector<std::vector<PageUse>> by_page(static_cast<size_t>(pages));
  for (const Sequence& s : b.sequences)
    for (int block = 0; block <= (s.position + s.rows - 1) / kPage; block++) {
      const int first = std::max(0, block * kPage - s.position);
      const int end = a.window ? std::min(s.rows, (block + 1) * kPage + a.window - 1 - s.position) : s.rows;
      if (first < end)
        by_page[size_t(s.blocks[block])].push_back({s.row0 + first, s.position + first, s.row0 + end, block});
    }
  const Joined uses(by_page);
  uses_.push_back({a.window, a.group(), add(uses.first), add(ints(uses.all))});
}

}  // namespace anneal::vulkan
