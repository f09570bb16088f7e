#include "batch.h"

#include <bit>
#include <climits>
#include <cstring>
#include <numeric>
#include <span>

namespace anneal::vulkan {
namespace {

constexpr int kMaxTileRows = 8;          // of queries, where these are few
constexpr int kMaxManyRows = 32;         // of many queries forward, whose elements are no more than
constexpr int kMaxTileElements = 4096;   // these
constexpr int kSegmentPositions = 1024;  // of a segment of attention
constexpr int kManyGroups = 256;         // workgroups that keep a GPU busy,
constexpr int kManyGroupsOfCpu = 16;     // and a device in software
constexpr int kSegmentLanes = 17;        // floats of a waiting segment besides its output (shaders/segments.glsl)
// Of units that wait (shaders/attention_fast.glsl): floats besides the output, bytes of all of them at most, and how
// many are counted as one, so that recorded commands hold for as long.
constexpr int kUnitFloats = 2, kMaxWaitingBytes = 64 << 20, kUnitsAtOnce = 4;

// Arrays one after the other, to be moved as one.
class Arrays {
 public:
  template <class T> int64_t add(const std::vector<T>& values) {
    bytes_.resize(size_t(round_up(int64_t(bytes_.size()), 16)));
    const int64_t at = int64_t(bytes_.size());
    const char* from = reinterpret_cast<const char*>(values.data());
    bytes_.insert(bytes_.end(), from, from + values.size() * sizeof(T));
    return at;
  }
  std::vector<char>& bytes() { return bytes_; }

 private:
  std::vector<char> bytes_;
};

int many_groups(const GpuModel& m) { return m.gpu->facts().type == vk::kCpu ? kManyGroupsOfCpu : kManyGroups; }

// Tiles of up to `rows` queries of sequences.
std::vector<QueryTile> tiles_of(const Batch& b, const std::vector<int>& sequences, const std::vector<int32_t>& table_of,
                                int group, int rows) {
  const int heads = std::min(group, rows), per_tile = std::max(1, rows / heads);
  std::vector<QueryTile> tiles;
  for (int s : sequences) {
    const Sequence& sequence = b.sequences[size_t(s)];
    for (int row = 0; row < sequence.rows; row += per_tile)
      for (int head = 0; head < group; head += heads)
        tiles.push_back({sequence.row0 + row, std::min(per_tile, sequence.rows - row), sequence.position + row, head,
                         std::min(heads, group - head), table_of[size_t(s)]});
  }
  return tiles;
}

DeviceBatch::QueryTiles add_tiles(Arrays& arrays, const std::vector<QueryTile>& tiles) {
  if (tiles.empty()) return {};
  DeviceBatch::QueryTiles added{uint64_t(arrays.add(tiles)), int(tiles.size())};
  int rows = 1, positions = 1;
  for (const QueryTile& tile : tiles) {
    rows = std::max(rows, tile.tokens * tile.heads);
    added.tokens = std::max(added.tokens, tile.tokens);
    positions = std::max(positions, tile.position + tile.tokens);
  }
  added.rows = int(std::bit_ceil(unsigned(rows)));
  added.segments = (positions + kSegmentPositions - 1) / kSegmentPositions;
  return added;
}

// Of many queries: the most rows with which tiles still keep a GPU busy, in all layers of that group.
std::vector<QueryTile> many_tiles(const GpuModel& m, const Batch& b, const std::vector<int>& sequences,
                                  const std::vector<int32_t>& table_of, int group) {
  int head_dim = 1, kv_heads = INT_MAX;
  for (int l = 0; l < m.layers(); l++)
    if (const AttentionSpec& a = m.attention(l); !m.delta_rule(l) && a.group() == group)
      head_dim = std::max(head_dim, a.head_dim), kv_heads = std::min(kv_heads, a.kv_heads);
  int rows = kMaxManyRows;
  while (rows > kMaxTileRows && rows * round_up(head_dim, 8) > kMaxTileElements) rows /= 2;
  for (;; rows /= 2) {
    std::vector<QueryTile> tiles = tiles_of(b, sequences, table_of, group, rows);
    if (rows > kMaxTileRows && int64_t(tiles.size()) * kv_heads < many_groups(m)) continue;
    // Those that see most take longest, and so begin first.
    std::stable_sort(tiles.begin(), tiles.end(),
                     [](const QueryTile& a, const QueryTile& b) { return a.position > b.position; });
    return tiles;
  }
}

// Segments of the positions that a tile sees, the most: those of a window begin anywhere.
int segments_seen(const DeviceBatch::QueryTiles& q, const AttentionSpec& a) {
  const int seen = a.window + q.tokens - 1;
  return a.window ? std::min(q.segments, (seen + kSegmentPositions - 2) / kSegmentPositions + 1) : q.segments;
}

std::vector<float> turns_of(RopeTable& rope, const Batch& b, int rotary) {
  std::vector<float> turns(size_t(b.rows) * (rotary + 1));
  for (int i = 0; i < b.rows; i++) {
    float* to = turns.data() + int64_t(i) * (rotary + 1);
    std::memcpy(to, rope.cos(b.positions[size_t(i)]), size_t(rotary / 2) * 4);
    std::memcpy(to + rotary / 2, rope.sin(b.positions[size_t(i)]), size_t(rotary / 2) * 4);
    to[rotary] = rope.query_scale(b.positions[size_t(i)]);
  }
  return turns;
}

}  // namespace

int lead_of(const ModelSpec& m) {
  int lead = 0;
  for (const LayerSpec& layer : m.layers)
    if (layer.delta_rule) lead = std::max(lead, layer.delta_rule->kernel - 1);
  return lead;
}

void Batch::clear() { *this = {}; }

void Batch::add(const int32_t* ids, int count, int position, const int32_t* blocks, const AdapterVersion* adapter,
                int recurrent, int parent) {
  // Whose last token before `position` it is.
  while (parent >= 0 && position <= sequences[size_t(parent)].position) parent = sequences[size_t(parent)].parent;
  sequences.push_back({rows, count, position, blocks, recurrent, parent});
  tokens.insert(tokens.end(), ids, ids + count);
  for (int i = 0; i < count; i++) positions.push_back(position + i);
  adapters.insert(adapters.end(), size_t(count), adapter);
  rows += count;
}

int Batch::last_position() const {
  int last = -1;
  for (const Sequence& s : sequences) last = std::max(last, s.position + s.rows - 1);
  return last;
}

int Batch::longest() const {
  int rows = 0;
  for (const Sequence& s : sequences) rows = std::max(rows, s.rows);
  return rows;
}

int DeviceBatch::split(const GpuModel& m, const QueryTiles& q, const AttentionSpec& a) {
  const bool is_short = a.window && a.window + q.tokens <= kSegmentPositions;
  const bool splits = m.gpu->ends_loops() || (!is_short && q.count * a.kv_heads < many_groups(m));
  return splits ? segments_seen(q, a) : 1;
}

int64_t DeviceBatch::waiting_bytes(const GpuModel& m, const QueryTiles& q, const AttentionSpec& a) {
  const int segments = split(m, q, a);
  return segments > 1 ? int64_t(q.count) * a.kv_heads * segments * q.rows * (kSegmentLanes + a.head_dim) * 4 : 0;
}

// The largest tiles that are not mostly padding, and of which there are enough to keep a GPU busy.
DeviceBatch::MatrixQueries DeviceBatch::plan_matrices(const GpuModel& m, const Batch& b, const AttentionSpec& a,
                                                      const std::vector<int32_t>& table_of,
                                                      std::vector<QueryTile>& tiles) const {
  MatrixQueries q{a.group(), a.kv_heads, a.head_dim, 0, 0, 1, 0, 0};
  std::vector<int> all(b.sequences.size());
  std::iota(all.begin(), all.end(), 0);
  for (const int across : shared_bands(*m.gpu, a)) {
    const int rows = rows_of_bands(*m.gpu, across);
    q.across = across;
    tiles = tiles_of(b, all, table_of, q.group, rows);
    const int64_t count = int64_t(tiles.size()), room = count * rows;
    if (2 * int64_t(b.rows) * q.group >= room && count * a.kv_heads >= kManyGroups) break;
  }
  // Those that see most keys go first.
  std::stable_sort(tiles.begin(), tiles.end(), [](const QueryTile& x, const QueryTile& y) {
    return x.position + x.tokens > y.position + y.tokens;
  });
  q.count = int(tiles.size());
  for (const QueryTile& tile : tiles) q.rows = std::max(q.rows, tile.tokens * tile.heads);
  const int units = int(round_up(b.last_position() / keys_of_unit(a) + 1, kUnitsAtOnce));
  const bool few = int64_t(q.count) * a.kv_heads < kManyGroups && b.last_position() >= keys_of_unit(a);
  q.waiting_units = units;
  if (!few || waiting_bytes(q) > kMaxWaitingBytes) q.waiting_units = 0;
  return q;
}

int64_t DeviceBatch::waiting_bytes(const MatrixQueries& q) {
  return int64_t(q.count) * q.kv_heads * q.rows * q.waiting_units * (kUnitFloats + q.head_dim) * 4;
}

void DeviceBatch::plan(MemoryPlan& plan, GpuModel& m, const Batch& b) {
  Arrays arrays;
  rows = b.rows;
  tokens = uint64_t(arrays.add(b.tokens));
  logit_rows = uint64_t(arrays.add(b.logit_rows));

  std::vector<int32_t> starts, pairs, all_blocks, table_of;
  for (const Sequence& s : b.sequences) {
    table_of.push_back(int32_t(all_blocks.size()));
    all_blocks.insert(all_blocks.end(), s.blocks, s.blocks + (s.position + s.rows - 1) / kPage + 1);
    for (int i = 0; i < s.rows; i++) {
      starts.push_back(int32_t(pairs.size() / 2));
      const int position = s.position + i;
      pairs.insert(pairs.end(), {s.blocks[position / kPage], position % kPage});
      if (!b.copies.empty())
        for (const Slot& copy : b.copies[size_t(s.row0 + i)]) pairs.insert(pairs.end(), {copy.page, copy.slot});
    }
  }
  starts.push_back(int32_t(pairs.size() / 2));
  starts.insert(starts.end(), pairs.begin(), pairs.end());
  slots = uint64_t(arrays.add(starts));

  turns.clear(), queries.clear(), matrix_queries.clear();
  for (int l = 0; l < m.layers(); l++) {
    if (m.delta_rule(l)) continue;
    const size_t rope = size_t(m.rope_of[size_t(l)]);
    if (rope == turns.size()) {
      m.ropes[rope].reserve(b.last_position() + 1);
      turns.push_back(uint64_t(arrays.add(turns_of(m.ropes[rope], b, m.attention(l).rotary()))));
    }
    const int group = m.attention(l).group();
    if (const AttentionSpec& a = m.attention(l);
        attends_on_matrices(m, a) &&
        std::none_of(matrix_queries.begin(), matrix_queries.end(), [&](const MatrixQueries& q) { return q.of(a); })) {
      std::vector<QueryTile> tiles;
      matrix_queries.push_back(plan_matrices(m, b, a, table_of, tiles));
      matrix_queries.back().tiles = uint64_t(arrays.add(tiles));
    }
    if (std::any_of(queries.begin(), queries.end(), [&](const Queries& q) { return q.group == group; })) continue;
    std::vector<int> few, many;
    for (int s = 0; s < int(b.sequences.size()); s++)
      (b.sequences[size_t(s)].rows * group <= kMaxTileRows ? few : many).push_back(s);
    queries.push_back({group,
                       {add_tiles(arrays, tiles_of(b, few, table_of, group, kMaxTileRows)),
                        add_tiles(arrays, many_tiles(m, b, many, table_of, group))}});
  }

  delta = {};
  if (m.spec.recurrent()) {
    delta.lead = lead_of(m.spec);
    const int longest = b.longest();
    for (const LayerSpec& layer : m.spec.layers)
      if (layer.delta_rule)
        m.gpu->require_turns("the delta rule over " + std::to_string(longest) + " tokens at once",
                             (longest + 2) * delta_turns(*layer.delta_rule));
    const DeltaPlan scans(b.sequences, delta.lead, DeltaPlan::Way::forward);
    delta.before = uint64_t(arrays.add(scans.before)), delta.scans = uint64_t(arrays.add(scans.scans));
    delta.saves = uint64_t(arrays.add(scans.saves));
    delta.levels = scans.levels;
    states = scans.states;
  }

  versions_.clear();
  rank = 0;
  std::vector<uint64_t> row_tables;
  for (const AdapterVersion* version : b.adapters) {
    row_tables.push_back(version ? version->table() : 0);
    if (!version || std::find(versions_.begin(), versions_.end(), version) != versions_.end()) continue;
    versions_.push_back(version);
    rank = std::max(rank, version->rank);
  }
  is_adapted_ = !versions_.empty();
  adapters = is_adapted_ ? uint64_t(arrays.add(row_tables)) : 0;
  // Last: the others lie at the same places for another step of as many rows.
  tables = uint64_t(arrays.add(all_blocks));

  bytes_.swap(arrays.bytes());
  if (const auto bytes = int64_t(bytes_.size()); memory_.bytes() < bytes)
    plan.add(memory_, round_up(bytes + bytes / 2, 1 << 16), Memory::Place::upload);
  int64_t waiting = 0;
  for (int l = 0; l < m.layers(); l++) {
    const AttentionSpec& a = m.attention(l);
    if (m.delta_rule(l)) continue;
    if (attends_on_matrices(m, a)) {
      waiting = std::max(waiting, waiting_bytes(matrix_queries_of(a)));
      continue;
    }
    int64_t bytes = 0;
    for (const QueryTiles& tiles : queries_of(a.group()).tiles) bytes += waiting_bytes(m, tiles, a);
    waiting = std::max(waiting, bytes);
  }
  plan.add(segments_, waiting);
}

void DeviceBatch::write() {
  std::memcpy(memory_.mapped<char>(), bytes_.data(), bytes_.size());
  segments = segments_.address();
  const auto place = [&](uint64_t& offset) { offset += memory_.address(); };
  for (uint64_t* offset : {&tokens, &logit_rows, &slots, &tables, &delta.before, &delta.scans, &delta.saves})
    place(*offset);
  for (uint64_t& offset : turns) place(offset);
  for (Queries& q : queries)
    for (QueryTiles& tiles : q.tiles) place(tiles.at);
  for (MatrixQueries& q : matrix_queries) place(q.tiles);
  if (is_adapted_) place(adapters);
}

void DeviceBatch::add_key(const GpuModel& m, RecordingKey& key) const {
  key.insert(key.end(), {uint64_t(rows), segments, tokens, slots, tables, adapters, logit_rows, uint64_t(rank),
                         delta.before, delta.scans, delta.saves});
  key.insert(key.end(), turns.begin(), turns.end());
  for (const Queries& q : queries) {
    key.push_back(uint64_t(q.group));
    for (const QueryTiles& t : q.tiles)
      key.insert(key.end(), {t.at, uint64_t(t.count), uint64_t(t.rows), uint64_t(t.tokens), uint64_t(t.segments)});
  }
  for (const MatrixQueries& q : matrix_queries)
    key.insert(key.end(), {uint64_t(q.group), uint64_t(q.head_dim), q.tiles, uint64_t(q.count), uint64_t(q.rows),
                           uint64_t(q.across), uint64_t(q.waiting_units)});
  if (!adapters) return;
  for (int l = 0; l < m.layers(); l++) {
    uint64_t adapted = 0;
    for (int p = 0; p < kProjections; p++) adapted |= uint64_t(adapts(l, p)) << p;
    key.push_back(adapted);
  }
}

}  // namespace anneal::vulkan
