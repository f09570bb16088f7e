#include "attention_layer.h"

namespace anneal::cpu {
namespace {

// Queries [kv_heads][rows][group][head_dim] over pages to attention [rows][heads * head_dim]; lse
// [kv_heads][rows][group].
class Attend {
 public:
  Attend(int workers, const Model& m, const Batch& batch, int layer, const LayerActivations& a, Workspace& ws)
      : workers_(workers),
        m_(m),
        batch_(batch),
        layer_(layer),
        a_(a),
        ws_(ws),
        c_(m.attention(layer)),
        q_(ws.queries_of(c_)),
        queries_(batch.queries_of(c_.group())),
        tiles_(queries_.tiles) {
    if (a.read) {
      std::copy_if(tiles_.begin(), tiles_.end(), std::back_inserter(read_tiles_),
                   [&](const QueryTile& tile) { return a.reads(tile.row, tile.row + tile.rows); });
      tiles_ = read_tiles_;
    }
    list_parts();
  }

  // Takes memory for what is not done in one go.
  void reserve() {
    const int64_t rows = shares() ? int64_t(batch_.sharers.size()) * group() : int64_t(parts_.size()) * kAttentionRows;
    ws_.attention_states.reserve(size_t(c_.kv_heads * rows * attention_state_floats(c_.head_dim)) * sizeof(float));
  }

  void operator()(Team& team) {
    reserve();
    if (shares()) attend_shared(team);
    if (!parts_.empty()) return attend_parts(team);
    list_walks();
    const int64_t walks = int64_t(walks_.size());
    team.each(walks, [&](int64_t chunk, int worker) {
      const Walk& walk = walks_[chunk];
      const QueryTile& tile = tiles_[walk.tile];
      const int sharer = sharer_of(tile);
      AttentionTask t = task_of(tile, walk.head, worker);
      t.heads = walk.heads;
      const float* resumed = sharer < 0 ? nullptr : state_of(walk.head, sharer);
      if (resumed) t.resume = &resumed, t.resumed = 1, t.begin = batch_.alone_from[sharer];
      // Workers take chunks by turns.
      if (const int64_t next = chunk + workers_; next < walks) fetch(walks_[next], t);
      finish(t, tile, walk.head, worker);
    });
  }

 private:
  // Neighbouring heads of a tile that go through its blocks together.
  struct Walk {
    int tile, head, heads;
  };

  int group() const { return c_.group(); }
  int sharer_of(const QueryTile& tile) const { return shares() ? batch_.sharer_of[tile.sequence] : -1; }

  // As many heads together as leave every worker several walks; the last ones have a head each, so that workers end at
  // about the same time.
  void list_walks() {
    const int heads = c_.kv_heads, workers = workers_, tiles = int(tiles_.size());
    const int most = workers == 1 ? heads : std::clamp(tiles * heads / (kWalksPerWorker * workers), 1, heads);
    const int alone_from = workers == 1 ? tiles : tiles - (2 * workers + heads - 1) / heads;
    walks_.clear();
    for (int tile = 0; tile < tiles; tile++) {
      const QueryTile& q = tiles_[tile];
      const bool alone = tile >= alone_from || sharer_of(q) >= 0;
      const int together = alone ? 1 : std::clamp(kAttentionRows / (q.rows * group()), 1, most);
      for (int head = 0; head < heads; head += together)
        walks_.push_back({tile, head, std::min(together, heads - head)});
    }
  }

  AttentionTask task_of(const QueryTile& tile, int head, int worker) const {
    const Sequence& s = batch_.sequences[tile.sequence];
    const int64_t query = (int64_t(head) * batch_.rows + tile.row) * group();
    const AttentionSight sight = m_.sight(layer_, batch_.positions[tile.row]);
    AttentionTask t = blocks_of(s, sight.first, batch_.positions[tile.row + tile.rows - 1] / kPage + 1, head, worker);
    t.rows = tile.rows * group();
    t.q = q_.at(query), t.ldq = q_.ld;
    t.positions = queries_.positions.data() + int64_t(tile.row) * group();
    t.lse = a_.lse ? a_.lse + query : nullptr;
    t.sight = sight;
    t.head_lse = int64_t(batch_.rows) * group(), t.head_queries = t.head_lse * q_.ld;
    t.head_page = batch_.pages->head_bytes(layer_);
    if (c_.sinks) t.sinks = m_.weights->layers[layer_].sinks.data() + int64_t(head) * group(), t.group = group();
    return t;
  }

  // Those before `first` may have no page any more.
  AttentionTask blocks_of(const Sequence& s, int first, int blocks, int head, int worker) const {
    WorkerScratch& w = ws_.workers[worker];
    const int32_t* pages = s.blocks_of(batch_.groups.of(layer_));
    w.k_pages.resize(blocks), w.v_pages.resize(blocks);
    for (int b = first; b < blocks; b++) {
      w.k_pages[b] = batch_.pages->keys(pages[b], layer_, head);
      w.v_pages[b] = batch_.pages->values(pages[b], layer_, head);
    }
    AttentionTask t{};
    t.head_dim = c_.head_dim, t.scale = m_.attention_scale(layer_);
    t.blocks = blocks, t.k_pages = w.k_pages.data(), t.v_pages = w.v_pages.data();
    t.out = w.head.floats(), t.ldo = padded(c_.head_dim), t.scratch = w.attention.data();
    return t;
  }

  // Has a task fetch the first block of another walk: the pages of sequences lie apart in memory.
  void fetch(const Walk& walk, AttentionTask& t) const {
    const QueryTile& tile = tiles_[walk.tile];
    const int sharer = sharer_of(tile);
    const int block = sharer < 0 ? m_.sight(layer_, batch_.positions[tile.row]).first : batch_.alone_from[sharer];
    const int32_t page = batch_.sequences[tile.sequence].blocks_of(batch_.groups.of(layer_))[block];
    t.next_k = batch_.pages->keys(page, layer_, walk.head), t.next_v = batch_.pages->values(page, layer_, walk.head);
  }

  // Of `head` and those that go with it.
  void finish(const AttentionTask& t, const QueryTile& tile, int head, int worker) const {
    m_.attention_kernels().attention(t);
    for (int i = 0; i < t.heads * t.rows; i++) {
      const int row = i % t.rows, query_head = (head + i / t.rows) * group() + row % group();
      m_.kernels.round_rows(t.out + i * t.ldo, t.ldo, 1, c_.head_dim, 1.0f,
                            a_.attention.at(tile.row + row / group(), int64_t(query_head) * c_.head_dim), c_.head_dim);
    }
  }

  // Whether every sharer sees all that it shares; none has then given up a page of it.
  bool shares() const { return !batch_.shared.empty() && (c_.window == 0 || batch_.last_shared < c_.window); }
  float* state_of(int head, int sharer) const {
    const int64_t row = (int64_t(head) * int64_t(batch_.sharers.size()) + sharer) * group();
    return ws_.attention_states.floats() + row * attention_state_floats(c_.head_dim);
  }

  // The blocks that sequences have in common, each with the queries of all of them.
  void attend_shared(Team& team) {
    const int heads = c_.kv_heads;
    const int most = std::max(1, kAttentionRows / group());
    for (const std::vector<SharedRun>& runs : batch_.shared) {
      // As few tiles as keep the workers busy and have them end together: each reads the run's blocks once.
      const int whole = heads * int(runs.size());  // pieces of work, were no run cut
      int wanted = (2 * workers_ + whole - 1) / whole;
      while (wanted * whole % workers_ != 0 && wanted * whole < 4 * workers_) wanted++;
      shared_tiles_.clear();
      for (const SharedRun& run : runs) {
        const int per = std::max(std::min(most, kMinSharedRows), std::min(most, (run.count + wanted - 1) / wanted));
        for (int i = 0; i < run.count; i += per)
          shared_tiles_.push_back({run.begin, run.end, run.first + i, std::min(per, run.count - i)});
      }
      team.each(int64_t(shared_tiles_.size()) * heads, [&](int64_t chunk, int worker) {
        attend_run(shared_tiles_[chunk / heads], int(chunk % heads), worker);
      });
    }
  }

  void attend_run(const SharedRun& run, int head, int worker) const {
    WorkerScratch& w = ws_.workers[worker];
    AttentionTask t = blocks_of(batch_.sequences[batch_.sharers[run.first]], 0, run.end, head, worker);
    const size_t query_bytes = size_t(group()) * q_.ld * q_.elem;
    char* gathered = w.head.data();
    w.positions.clear();
    for (int i = run.first; i < run.first + run.count; i++) {
      const int row = batch_.sequences[batch_.sharers[i]].row0;
      std::memcpy(gathered, q_.at((int64_t(head) * batch_.rows + row) * group()), query_bytes);
      gathered += query_bytes;
      w.positions.insert(w.positions.end(), group(), batch_.positions[row]);
    }
    t.rows = run.count * group();
    t.q = w.head.data(), t.ldq = q_.ld;
    t.positions = w.positions.data();
    t.sight = {c_.window, 0, float(c_.soft_cap)};
    t.begin = run.begin;
    t.save = state_of(head, run.first);
    const float* resumed = t.save;
    if (run.begin > 0) t.resume = &resumed, t.resumed = 1;
    m_.attention_kernels().attention(t);
  }

  // One long sequence or few: their segments at the same time, where there are too few heads for the workers.
  void list_parts() {
    const int64_t tiles = int64_t(tiles_.size());
    constexpr int kSegmentBlocks = kSegment / kPage;
    if (c_.window > 0 || shares() || workers_ == 1 || tiles * c_.kv_heads >= 2 * workers_) return;
    part_from_.assign(1, 0);
    for (int tile = 0; tile < tiles; tile++) {
      const QueryTile& q = tiles_[tile];
      const int blocks = batch_.positions[q.row + q.rows - 1] / kPage + 1;
      for (int begin = 0; begin < blocks; begin += kSegmentBlocks)
        parts_.push_back({tile, begin, std::min(blocks, begin + kSegmentBlocks)});
      part_from_.push_back(int(parts_.size()));
    }
    if (int64_t(parts_.size()) == tiles) parts_.clear();
  }

  void attend_parts(Team& team) {
    const int heads = c_.kv_heads;
    const int64_t tiles = int64_t(tiles_.size()), parts = int64_t(parts_.size());
    const int64_t floats = kAttentionRows * attention_state_floats(c_.head_dim);
    const auto state = [&](int64_t part, int head) {
      return ws_.attention_states.floats() + (part * heads + head) * floats;
    };
    team.each(parts * heads, [&](int64_t chunk, int worker) {
      const Part& part = parts_[chunk / heads];
      const int head = int(chunk % heads);
      AttentionTask t = task_of(tiles_[part.tile], head, worker);
      t.begin = part.begin, t.blocks = part.end;
      t.save = state(chunk / heads, head);
      m_.attention_kernels().attention(t);
    });
    team.each(tiles * heads, [&](int64_t chunk, int worker) {
      const int tile = int(chunk / heads), head = int(chunk % heads);
      AttentionTask t = task_of(tiles_[tile], head, worker);
      std::vector<const float*>& states = ws_.workers[worker].states;
      states.clear();
      for (int part = part_from_[tile]; part < part_from_[tile + 1]; part++) states.push_back(state(part, head));
      t.begin = t.blocks;
      t.resume = states.data(), t.resumed = int(states.size());
      finish(t, tiles_[tile], head, worker);
    });
  }

  // A segment of a tile's blocks.
  struct Part {
    int tile, begin, end;
  };
  // Fewer sharers to a tile read blocks again for little.
  static constexpr int kMinSharedRows = 4;
  static constexpr int kWalksPerWorker = 4;

  const int workers_;
  const Model& m_;
  const Batch& batch_;
  const int layer_;
  const LayerActivations& a_;
  Workspace& ws_;
  const AttentionSpec& c_;
  const Rows q_;
  const Queries& queries_;
  std::span<const QueryTile> tiles_;
  std::vector<QueryTile> read_tiles_;  // those of them that have rows which are read
  std::vector<Walk> walks_;
  std::vector<SharedRun> shared_tiles_;
  std::vector<Part> parts_;
  std::vector<int> part_from_;  // [tiles + 1]
};

// Key blocks of a cell: with its rows, a piece of work of about a millisecond.
constexpr int kCellBlocks = 4;

}  // namespace

void attention_forward(Team& team, const Model& m, const Batch& batch, int layer, const LayerActivations& a,
                       Workspace& ws) {
  Attend(team.workers(), m, batch, layer, a, ws)(team);
}

void reserve_attention_forward(const Model& m, const Batch& batch, const std::vector<int>* read, int workers,
                               Workspace& ws) {
  for (int layer = 0; layer < m.layers(); layer++) {
    LayerActivations a;
    if (layer + 1 == m.layers()) a.read = read;
    if (m.attends(layer)) Attend(workers, m, batch, layer, a, ws).reserve();
  }
}

// Training has one group of pages for all layers: blocks of a sequence name its pages.
AttentionCells attention_cells(const Batch& batch, int pages, int group) {
  AttentionCells levels;
  std::vector<int> next_of_page(pages);  // the first level that comes after all cells with the page so far
  int per_cell = std::max(1, kAttentionBackwardRows / group);
  if (per_cell > kFastDepth) per_cell = per_cell / kFastDepth * kFastDepth;
  for (size_t s = 0; s < batch.sequences.size(); s++) {
    const Sequence& sequence = batch.sequences[s];
    for (int row = 0; row < sequence.rows; row += per_cell) {
      const int rows = std::min(per_cell, sequence.rows - row),
                blocks = (sequence.position + row + rows - 1) / kPage + 1;
      int next = 0;  // likewise of the rows
      for (int block = 0; block < blocks; block += kCellBlocks) {
        const AttentionCell cell{int(s), sequence.row0 + row, rows, block, std::min(kCellBlocks, blocks - block)};
        for (int b = block; b < block + cell.blocks; b++) next = std::max(next, next_of_page[sequence.blocks[b]]);
        if (next == int(levels.size())) levels.emplace_back();
        levels[next++].push_back(cell);
        for (int b = block; b < block + cell.blocks; b++) next_of_page[sequence.blocks[b]] = next;
      }
    }
  }
  return levels;
}

void attention_backward(Team& team, const Model& m, const Batch& batch, int layer, const LayerActivations& a,
                        const AttentionGradients& d, Workspace& ws) {
  const AttentionSpec& c = m.attention(layer);
  const int heads = c.kv_heads, group = c.group();
  const Queries& queries = batch.queries_of(group);
  team.each(d.adds ? 0 : int64_t(d.pages) * heads, [&](int64_t chunk, int) {
    for (const Matrix& by : {d.k, d.v}) std::memset(by.at(chunk * kPage), 0, kPage * by.ld * sizeof(float));
  });
  for (const auto& level : d.cells)
    team.each(int64_t(level.size()) * heads, [&](int64_t chunk, int worker) {
      const AttentionCell& cell = level[chunk / heads];
      if (!a.reads(cell.row, cell.row + cell.rows)) return;
      const int head = int(chunk % heads);
      const int32_t* blocks = batch.sequences[cell.sequence].blocks + cell.block;
      WorkerScratch& scratch = ws.workers[worker];
      scratch.k_pages.resize(cell.blocks), scratch.v_pages.resize(cell.blocks);
      scratch.d_k.resize(cell.blocks), scratch.d_v.resize(cell.blocks);
      for (int b = 0; b < cell.blocks; b++) {
        scratch.k_pages[b] = batch.pages->keys(blocks[b], layer, head);
        scratch.v_pages[b] = batch.pages->values(blocks[b], layer, head);
        const int64_t key = (int64_t(blocks[b]) * heads + head) * kPage;
        scratch.d_k[b] = d.k.at(key), scratch.d_v[b] = d.v.at(key);
      }
      const int64_t query = (int64_t(head) * batch.rows + cell.row) * group;
      const Rows q = ws.queries_of(c);
      AttentionBackwardTask t{};
      t.rows = cell.rows * group, t.head_dim = c.head_dim, t.scale = m.attention_scale(layer);
      t.q = q.at(query), t.ldq = q.ld;
      t.dout = d.out.at(query), t.lddo = d.out.ld;
      t.delta = d.delta + query, t.lse = a.lse + query;
      t.positions = queries.positions.data() + int64_t(cell.row) * group;
      t.block = cell.block, t.blocks = cell.blocks;
      t.k_pages = scratch.k_pages.data(), t.v_pages = scratch.v_pages.data();
      t.dq = d.q.at(query), t.lddq = d.q.ld;
      t.dk = scratch.d_k.data(), t.dv = scratch.d_v.data(), t.lddkv = d.k.ld;
      t.scratch = scratch.attention_backward.data();
      t.sight = m.sight(layer, batch.positions[cell.row]);
      m.attention_kernels().attention_backward(t);
    });
}

}  // namespace anneal::cpu
