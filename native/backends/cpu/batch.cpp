#include "batch.h"

#include <numeric>

namespace anneal::cpu {

void Batch::clear() {
  rows = 0;
  tokens.clear(), positions.clear(), slots.clear();
  copies.clear(), copies_from.clear(), sequences.clear(), adapted.clear();
  sharers.clear(), shared.clear(), alone_from.clear(), sharer_of.clear(), last_shared = 0;
  roots.clear(), branches.clear();
}

void Batch::add(const int32_t* ids, int count, int position, const int32_t* blocks, int block_count, int state,
                int parent) {
  // Whose last token before `position` it is.
  while (parent >= 0 && position <= sequences[parent].position) parent = sequences[parent].parent;
  if (parent < 0)
    roots.push_back(int(sequences.size()));
  else
    branches[parent].push_back(int(sequences.size()));
  branches.emplace_back();
  sequences.push_back({rows, count, position, blocks, block_count, state, parent});
  for (int i = 0; i < count; i++) {
    const int p = position + i;
    tokens.push_back(ids[i]);
    positions.push_back(p);
    for (int g = 0; g < groups.count(); g++) slots.push_back({sequences.back().blocks_of(g)[p / kPage], p % kPage});
  }
  rows += count;
}

// Handing on a row's state costs about as much as reading a block of keys.
constexpr int kMinSharedBlocks = 2;

// Whole blocks before a sequence's first row, which it only reads.
static int blocks_before(const Sequence& s) { return s.position / kPage; }

// Blocks that two sequences begin with: by those of the first group, which hold the same tokens in the others.
static int blocks_in_common(const Sequence& a, const Sequence& b) {
  const int most = std::min(blocks_before(a), blocks_before(b));
  return int(std::mismatch(a.blocks, a.blocks + most, b.blocks).first - a.blocks);
}

// Runs among sharers [first, first + count), which have their blocks before `from` attended.
void Batch::share(int first, int count, int from, size_t depth) {
  const auto sequence = [&](int i) -> const Sequence& { return sequences[sharers[i]]; };
  const int end = blocks_in_common(sequence(first), sequence(first + count - 1));  // they are sorted
  if (end - from >= kMinSharedBlocks) {
    if (shared.size() <= depth) shared.resize(depth + 1);
    shared[depth++].push_back({from, end, first, count});
    std::fill_n(alone_from.begin() + first, count, from = end);
  }
  for (int i = first, next; i < first + count; i = next) {
    next = i + 1;
    while (next < first + count && blocks_in_common(sequence(i), sequence(next)) > end) next++;
    if (next - i > 1) share(i, next - i, from, depth);
  }
}

void Batch::list_shared() {
  for (size_t s = 0; s < sequences.size(); s++)
    if (sequences[s].rows == 1 && blocks_before(sequences[s]) >= kMinSharedBlocks) sharers.push_back(int(s));
  std::sort(sharers.begin(), sharers.end(), [&](int i, int j) {
    const Sequence &a = sequences[i], &b = sequences[j];
    return std::lexicographical_compare(a.blocks, a.blocks + blocks_before(a), b.blocks, b.blocks + blocks_before(b));
  });
  alone_from.assign(sharers.size(), 0);
  if (sharers.size() > 1) share(0, int(sharers.size()), 0, 0);
  sharer_of.assign(sequences.size(), -1);
  for (size_t i = 0; i < sharers.size(); i++)
    if (alone_from[i] > 0) {
      sharer_of[sharers[i]] = int(i);
      last_shared = std::max(last_shared, sequences[sharers[i]].position);
    }
}

void Batch::list_queries(const Model& m) {
  list_shared();
  for (std::vector<int>& list : branches)
    std::stable_sort(list.begin(), list.end(),
                     [&](int a, int b) { return sequences[a].position < sequences[b].position; });
  queries.resize(m.groups().size());
  for (size_t i = 0; i < queries.size(); i++) {
    Queries& q = queries[i];
    q.group = m.groups()[i];
    q.positions.clear(), q.tiles.clear();
    for (int32_t position : positions) q.positions.insert(q.positions.end(), q.group, position);
    int per_tile = std::max(1, kAttentionRows / q.group);
    // Whole tiles of the matrix unit, where that leaves any.
    const int whole = is_fast(m.kernels.isa) ? kLanes / std::gcd(kLanes, q.group) : 1;
    if (per_tile > whole) per_tile = per_tile / whole * whole;
    for (size_t s = 0; s < sequences.size(); s++)
      for (int row = 0; row < sequences[s].rows; row += per_tile)
        q.tiles.push_back({int(s), sequences[s].row0 + row, std::min(per_tile, sequences[s].rows - row)});
  }
}

}  // namespace anneal::cpu
