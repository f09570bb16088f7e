#include "batch.h"

#include <bit>
#include <cstring>
#include <span>

namespace anneal::vulkan {
namespace {

constexpr int kMaxTileRows = 8;          // of queries
constexpr int kSegmentPositions = 1024;  // of a segment of attention
constexpr int kManyGroups = 256;         // workgroups that keep a GPU busy
constexpr int kSegmentLanes = 17;        // floats of a waiting segment besides its output (shaders/segments.glsl)

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

// Turns of loops for a row of queries and a page, at most: of shaders/attention.comp and attention_dq.comp.
int64_t turns_of_page(int head_dim) { return 4 * head_dim + 3 + (head_dim + 63) / 64 * 260; }

// Rows of queries that a workgroup can have, of a layer and all that have as many heads: all pages up to
// `last_position` are visited for the gradients of queries, those of a segment forward.
int tile_rows(const GpuModel& m, int layer, int last_position) {
  int64_t turns = 0;  // for a row
  for (int l = 0; l < m.layers(); l++)
    if (!m.delta_rule(l) && m.attention(l).group() == m.attention(layer).group())
      turns = std::max(turns, (last_position / kPage + 1) * turns_of_page(m.attention(l).head_dim));
  int rows = kMaxTileRows;
  while (rows > 1 && !m.gpu->takes_turns(rows * turns)) rows /= 2;
  m.gpu->require_turns("a context of " + std::to_string(last_position + 1) + " tokens", rows * turns);
  return rows;
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

bool DeviceBatch::is_split(const GpuModel& m, const Queries& q, const AttentionSpec& a) {
  return q.segments > 1 && (m.gpu->ends_loops() || q.count * a.kv_heads < kManyGroups);
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

  turns.clear(), queries.clear();
  for (int l = 0; l < m.layers(); l++) {
    if (m.delta_rule(l)) continue;
    const size_t rope = size_t(m.rope_of[size_t(l)]);
    if (rope == turns.size()) {
      m.ropes[rope].reserve(b.last_position() + 1);
      turns.push_back(uint64_t(arrays.add(turns_of(m.ropes[rope], b, m.attention(l).rotary()))));
    }
    const int group = m.attention(l).group();
    if (std::any_of(queries.begin(), queries.end(), [&](const Queries& q) { return q.group == group; })) continue;
    const int most_rows = tile_rows(m, l, b.last_position());
    const int heads = std::min(group, most_rows), per_tile = std::max(1, most_rows / heads);
    std::vector<QueryTile> tiles;
    int most = 1, positions = 1;
    for (size_t s = 0; s < b.sequences.size(); s++) {
      const Sequence& sequence = b.sequences[s];
      for (int row = 0; row < sequence.rows; row += per_tile)
        for (int head = 0; head < group; head += heads) {
          const QueryTile tile{sequence.row0 + row,           std::min(per_tile, sequence.rows - row),
                               sequence.position + row,       head,
                               std::min(heads, group - head), table_of[s]};
          most = std::max(most, tile.tokens * tile.heads);
          positions = std::max(positions, tile.position + tile.tokens);
          tiles.push_back(tile);
        }
    }
    queries.push_back({group, uint64_t(arrays.add(tiles)), int(tiles.size()), int(std::bit_ceil(unsigned(most))),
                       (positions + kSegmentPositions - 1) / kSegmentPositions});
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
    if (const Queries& q = queries_of(a.group()); is_split(m, q, a))
      waiting = std::max(waiting, int64_t(q.count) * a.kv_heads * q.segments * q.rows * (kSegmentLanes + a.head_dim));
  }
  plan.add(segments_, waiting * 4);
}

void DeviceBatch::write() {
  std::memcpy(memory_.mapped<char>(), bytes_.data(), bytes_.size());
  segments = segments_.address();
  const auto place = [&](uint64_t& offset) { offset += memory_.address(); };
  for (uint64_t* offset : {&tokens, &logit_rows, &slots, &tables, &delta.before, &delta.scans, &delta.saves})
    place(*offset);
  for (uint64_t& offset : turns) place(offset);
  for (Queries& q : queries) place(q.tiles);
  if (is_adapted_) place(adapters);
}

void DeviceBatch::add_key(const GpuModel& m, RecordingKey& key) const {
  key.insert(key.end(), {uint64_t(rows), segments, tokens, slots, tables, adapters, logit_rows, uint64_t(rank),
                         delta.before, delta.scans, delta.saves});
  key.insert(key.end(), turns.begin(), turns.end());
  for (const Queries& q : queries)
    key.insert(key.end(), {uint64_t(q.group), q.tiles, uint64_t(q.count), uint64_t(q.rows), uint64_t(q.segments)});
  if (!adapters) return;
  for (int l = 0; l < m.layers(); l++) {
    uint64_t adapted = 0;
    for (int p = 0; p < kProjections; p++) adapted |= uint64_t(adapts(l, p)) << p;
    key.push_back(adapted);
  }
}

}  // namespace anneal::vulkan
