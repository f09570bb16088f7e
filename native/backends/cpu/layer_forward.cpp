#include "layer_forward.h"

#include <cmath>

#include "activation_probe.h"
#include "delta_layer.h"
#include "products.h"

namespace anneal::cpu {
namespace {

// Tile c [t.rows][t.panels * 16] of x W^T + bias + B z, where x is [rows][k] and z [rows][padded rank]: rows of a run,
// whose first is row0 of the batch.
struct ProjectionTile {
  const Model& m;
  const Batch& batch;
  int layer;

  // Rows with their codes, where the projections want them.
  Input input(Team& team, const Rows& x, int rows, const int* projections, int count, Span& span) const {
    const Linear* weights[kProjections];
    for (int i = 0; i < count; i++) weights[i] = &m.weights->layers[layer].projections[projections[i]];
    return with_codes(team, m.kernels, x, rows, weights, count, span.codes);
  }

  void operator()(int p, const Input& x, int row0, const Tile& t, const Rows& z, float* c, int64_t ldc,
                  bool accumulate) const {
    const Kernels& k = m.kernels;
    const Linear& w = m.weights->layers[layer].projections[p];
    if (m.probe) m.probe->compare(k, w, x, t);
    multiply(k, w, x, t, c, ldc, accumulate);
    if (!w.bias.empty())
      k.bias_add(c, ldc, t.rows, std::min(t.panels * kLanes, w.n - t.panel * kLanes), w.bias.data() + t.panel * kLanes);
    for (const Segment& s : batch.segments) {
      const LowRank& low = s.adapter->layers[layer][p];
      const int from = std::max(t.row, s.row0 - row0), to = std::min(t.row + t.rows, s.row0 + s.rows - row0);
      if (from >= to || !low) continue;
      const int rank = s.adapter->rank;
      k.gemm(z.at(from), z.ld, to - from, low.b.data() + t.panel * panel_bytes(k, rank), rank, t.panels,
             c + (from - t.row) * ldc, ldc, true);
    }
  }
};

// y [rows][hidden] = norm(x [rows][hidden]).
void norm_rows(Team& team, const Model& m, const Matrix& x, const NormWeight& weight, int rows, const Rows& y) {
  each_rows(team, rows, m.spec.hidden, [&](int row, int count, int) {
    m.kernels.rmsnorm(x.at(row), x.ld, weight.data(), m.spec.rms_eps, count, m.spec.hidden, y.at(row), y.ld);
  });
}

// to [rows][hidden] = from + residual scale * x [rows][k] W^T, in float32. x and z begin at row0 of from and to.
void add_product(Team& team, const ProjectionTile& tile, int p, const Input& x, int row0, int rows, const Rows& z,
                 const Matrix& from, const Matrix& to, Workspace& ws) {
  const int n = tile.m.spec.hidden;
  const float scale = tile.m.residual_scale(tile.layer);
  const Split split = split_product(team, rows, panels_of(n));
  team.each(split.chunks(), [&](int64_t chunk, int worker) {
    const Tile t = tile_of(split, chunk);
    const int64_t col = int64_t(t.panel) * kLanes;
    if (from.data != to.data)
      for (int i = 0; i < t.rows; i++)
        std::memcpy(to.at(row0 + t.row + i, col), from.at(row0 + t.row + i, col),
                    size_t(t.panels) * kLanes * sizeof(float));
    if (scale == 1) {
      tile(p, x, row0, t, z, to.at(row0 + t.row, col), to.ld, true);
      return;
    }
    const int cols = t.panels * kLanes;
    float* sums = ws.workers[worker].tile.floats();
    tile(p, x, row0, t, z, sums, cols, false);
    for (int i = 0; i < t.rows; i++)
      tile.m.kernels.add_scaled(to.at(row0 + t.row + i, col), sums + int64_t(i) * cols, scale, cols);
  });
}

// out[i] [rows][n] = x [rows][k] W^T of several projections of the same rows, rounded.
void round_products(Team& team, const ProjectionTile& tile, const int* projections, int count, const Input& x, int row0,
                    int rows, const Rows* z, const Rows* out, Workspace& ws) {
  Split splits[4];
  int64_t from[5] = {};
  const auto width = [&](int i) { return tile.m.weights->layers[tile.layer].projections[projections[i]].n; };
  for (int i = 0; i < count; i++) {
    splits[i] = split_product(team, rows, panels_of(width(i)));
    from[i + 1] = from[i] + splits[i].chunks();
  }
  team.each(from[count], [&](int64_t chunk, int worker) {
    int i = 0;
    while (chunk >= from[i + 1]) i++;
    const Tile t = tile_of(splits[i], chunk - from[i]);
    const int col = t.panel * kLanes, cols = std::min(t.panels * kLanes, width(i) - col);
    float* sums = ws.workers[worker].tile.floats();
    tile(projections[i], x, row0, t, z[i], sums, t.panels * kLanes, false);
    round_tile(tile.m.kernels, sums, t.panels * kLanes, t.rows, cols, out[i], t.row, col);
  });
}

// to [rows][hidden] = from + residual scale * norm(branch [rows][hidden]), in float32. branch begins at row0 of the
// others.
void add_normed(Team& team, const Model& m, int layer, Norm norm, const Rows& branch, int row0, int rows,
                const Matrix& from, const Matrix& to, Workspace& ws) {
  const Kernels& k = m.kernels;
  const int n = m.spec.hidden;
  const float* weight = m.weights->layers[layer].norms[norm].data();
  each_rows(team, rows, n, [&](int row, int count, int worker) {
    float* wide = ws.workers[worker].tile.floats();
    char* normed = reinterpret_cast<char*>(wide + padded(n));
    for (int i = row; i < row + count; i++) {
      k.widen_rows(branch.at(i), branch.ld, 1, n, wide, n);
      k.rmsnorm(wide, n, weight, m.spec.rms_eps, 1, n, normed, n);
      k.widen_rows(normed, n, 1, n, wide, n);
      if (from.data != to.data) std::memcpy(to.at(row0 + i), from.at(row0 + i), size_t(padded(n)) * sizeof(float));
      k.add_scaled(to.at(row0 + i), wide, m.residual_scale(layer), n);
    }
  });
}

// What attention or the feed-forward put out, by product p of x [rows][k], into the residual stream [rows][hidden];
// branch [rows][hidden]: kept where it is normed.
void add_branch(Team& team, const ProjectionTile& tile, int p, Norm norm, const Input& x, int row0, int rows,
                const Rows& z, const Rows& branch, const Matrix& from, const Matrix& to, Workspace& ws) {
  if (tile.m.weights->layers[tile.layer].norms[norm].data()) {
    round_products(team, tile, &p, 1, x, row0, rows, &z, &branch, ws);
    if (to) add_normed(team, tile.m, tile.layer, norm, branch, row0, rows, from, to, ws);
  } else if (to) {
    add_product(team, tile, p, x, row0, rows, z, from, to, ws);
  }
}

// x_in [rows][hidden] to roped queries [kv_heads][rows][group][head_dim] in the workspace, and keys and values in
// pages.
void queries_keys_values(Team& team, const Model& m, const Batch& batch, int layer, const LayerActivations& a,
                         Span& span, Workspace& ws, int row0, int rows) {
  const AttentionSpec& c = m.attention(layer);
  const Kernels& k = m.kernels;
  const Layer& w = m.weights->layers[layer];
  const ProjectionTile tile{m, batch, layer};
  norm_rows(team, m, a.x_in.from(row0), w.norms[kNormIn], rows, span.normed);

  static constexpr int projections[] = {kQ, kK, kV};
  Rows z[] = {span.z[kQ], span.z[kK], span.z[kV]};
  lora_down(team, m, batch, layer, projections, 3, span.normed, row0, rows, z, ws);
  const Input input = tile.input(team, span.normed, rows, projections, 3, span);

  const Rows out[] = {a.q ? a.q.from(row0) : span.q, a.k ? a.k.from(row0) : span.k, span.v};
  round_products(team, tile, projections, 3, input, row0, rows, z, out, ws);

  each_rows(team, rows, 4 * c.q_width(), [&](int row, int count, int worker) {
    float* heads = ws.workers[worker].head.floats();
    rope_queries(m, batch, layer, out[0], row0, row, count, ws.queries_of(c), heads);
    float* keys = heads;
    float* values = heads + padded(c.kv_width());
    for (int i = row; i < row + count; i++) {
      const int position = batch.positions[row0 + i];
      k.head_norm_rope(out[1].at(i), c.head_dim, c.kv_heads, c.head_dim, c.rotary(), w.norms[kNormK].data(),
                       m.spec.rms_eps, m.rope(layer).cos(position), m.rope(layer).sin(position), keys);
      k.widen_rows(out[2].at(i), out[2].ld, 1, c.kv_width(), values, c.kv_width());
      auto write = [&](Slot s) {
        for (int h = 0; h < c.kv_heads; h++)
          m.attention_kernels().kv_write(keys + h * c.head_dim, values + h * c.head_dim, s.slot, c.head_dim,
                                         batch.pages->keys(s.page, layer, h), batch.pages->values(s.page, layer, h));
      };
      write(batch.slot(row0 + i, layer));
      if (!batch.copies_from.empty())
        for (int j = batch.copies_from[row0 + i]; j < batch.copies_from[row0 + i + 1]; j++) write(batch.copies[j]);
    }
  });
}

// x_in [rows][hidden] to what the delta rule is made of.
void delta_inputs(Team& team, const Model& m, const Batch& batch, int layer, const LayerActivations& a, Span& span,
                  Workspace& ws, int row0, int rows) {
  const ProjectionTile tile{m, batch, layer};
  norm_rows(team, m, a.x_in.from(row0), m.weights->layers[layer].norms[kNormIn], rows, span.normed);
  static constexpr int projections[kDeltaInputs] = {kInQkv, kInZ, kInB, kInA};
  Rows z[kDeltaInputs], out[kDeltaInputs];
  for (int i = 0; i < kDeltaInputs; i++) z[i] = span.z[projections[i]], out[i] = a.delta_in[i].from(row0);
  lora_down(team, m, batch, layer, projections, kDeltaInputs, span.normed, row0, rows, z, ws);
  const Input input = tile.input(team, span.normed, rows, projections, kDeltaInputs, span);
  round_products(team, tile, projections, kDeltaInputs, input, row0, rows, z, out, ws);
}

// Queries [kv_heads][rows][group][head_dim] over pages to attention [rows][heads * head_dim]; lse
// [kv_heads][rows][group].
class Attend {
 public:
  Attend(Team& team, const Model& m, const Batch& batch, int layer, const LayerActivations& a, Workspace& ws)
      : team_(team),
        m_(m),
        batch_(batch),
        layer_(layer),
        a_(a),
        ws_(ws),
        c_(m.attention(layer)),
        q_(ws.queries_of(c_)),
        queries_(batch.queries_of(c_.group())) {}

  void operator()() {
    if (shares()) attend_shared();
    const int heads = c_.kv_heads;
    const int64_t tiles = int64_t(queries_.tiles.size());
    if (split_segments()) return;
    team_.each(tiles * heads, [&](int64_t chunk, int worker) {
      const QueryTile& tile = queries_.tiles[chunk / heads];
      const int head = int(chunk % heads), sharer = shares() ? batch_.sharer_of[tile.sequence] : -1;
      AttentionTask t = task_of(tile, head, worker);
      const float* resumed = sharer < 0 ? nullptr : state_of(head, sharer);
      if (resumed) t.resume = &resumed, t.resumed = 1, t.begin = batch_.alone_from[sharer];
      finish(t, tile, head, worker);
    });
  }

 private:
  int group() const { return c_.group(); }

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

  void finish(const AttentionTask& t, const QueryTile& tile, int head, int worker) const {
    const Kernels& k = m_.kernels;
    m_.attention_kernels().attention(t);
    for (int i = 0; i < t.rows; i++)
      k.round_rows(t.out + i * t.ldo, t.ldo, 1, c_.head_dim, 1.0f,
                   a_.attention.at(tile.row + i / group(), (int64_t(head) * group() + i % group()) * c_.head_dim),
                   c_.head_dim);
  }

  // Whether every sharer sees all that it shares.
  bool shares() const { return !batch_.shared.empty() && (c_.window == 0 || batch_.last_shared < c_.window); }
  float* state_of(int head, int sharer) const {
    const int64_t row = (int64_t(head) * int64_t(batch_.sharers.size()) + sharer) * group();
    return ws_.attention_states.floats() + row * attention_state_floats(c_.head_dim);
  }

  // The blocks that sequences have in common, each with the queries of all of them.
  void attend_shared() {
    const int heads = c_.kv_heads;
    ws_.attention_states.reserve(size_t(heads) * batch_.sharers.size() * group() * attention_state_floats(c_.head_dim) *
                                 sizeof(float));
    const int most = std::max(1, kAttentionRows / group());
    for (const std::vector<SharedRun>& runs : batch_.shared) {
      // As few tiles as keep the workers busy: each reads the run's blocks once.
      const int wanted = std::max(1, 2 * team_.workers() / (heads * int(runs.size())));
      shared_tiles_.clear();
      for (const SharedRun& run : runs) {
        const int per = std::max(std::min(most, kMinSharedRows), std::min(most, (run.count + wanted - 1) / wanted));
        for (int i = 0; i < run.count; i += per)
          shared_tiles_.push_back({run.begin, run.end, run.first + i, std::min(per, run.count - i)});
      }
      team_.each(int64_t(shared_tiles_.size()) * heads, [&](int64_t chunk, int worker) {
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
  bool split_segments() {
    const int heads = c_.kv_heads;
    const int64_t tiles = int64_t(queries_.tiles.size());
    constexpr int kSegmentBlocks = kSegment / kPage;
    if (c_.window > 0 || shares() || team_.workers() == 1 || tiles * heads >= 2 * team_.workers()) return false;
    parts_.clear();
    part_from_.assign(1, 0);
    for (int tile = 0; tile < tiles; tile++) {
      const QueryTile& q = queries_.tiles[tile];
      const int blocks = batch_.positions[q.row + q.rows - 1] / kPage + 1;
      for (int begin = 0; begin < blocks; begin += kSegmentBlocks)
        parts_.push_back({tile, begin, std::min(blocks, begin + kSegmentBlocks)});
      part_from_.push_back(int(parts_.size()));
    }
    const int64_t parts = int64_t(parts_.size());
    if (parts == tiles) return false;
    const int64_t floats = kAttentionRows * attention_state_floats(c_.head_dim);
    ws_.attention_states.reserve(size_t(parts * heads * floats) * sizeof(float));
    const auto state = [&](int64_t part, int head) {
      return ws_.attention_states.floats() + (part * heads + head) * floats;
    };
    team_.each(parts * heads, [&](int64_t chunk, int worker) {
      const Part& part = parts_[chunk / heads];
      const int head = int(chunk % heads);
      AttentionTask t = task_of(queries_.tiles[part.tile], head, worker);
      t.begin = part.begin, t.blocks = part.end;
      t.save = state(chunk / heads, head);
      m_.attention_kernels().attention(t);
    });
    team_.each(tiles * heads, [&](int64_t chunk, int worker) {
      const int tile = int(chunk / heads), head = int(chunk % heads);
      AttentionTask t = task_of(queries_.tiles[tile], head, worker);
      std::vector<const float*>& states = ws_.workers[worker].states;
      states.clear();
      for (int part = part_from_[tile]; part < part_from_[tile + 1]; part++) states.push_back(state(part, head));
      t.begin = t.blocks;
      t.resume = states.data(), t.resumed = int(states.size());
      finish(t, queries_.tiles[tile], head, worker);
    });
    return true;
  }

  // A segment of a tile's blocks.
  struct Part {
    int tile, begin, end;
  };
  // Fewer sharers to a tile read blocks again for little.
  static constexpr int kMinSharedRows = 4;

  Team& team_;
  const Model& m_;
  const Batch& batch_;
  const int layer_;
  const LayerActivations& a_;
  Workspace& ws_;
  const AttentionSpec& c_;
  const Rows q_;
  const Queries& queries_;
  std::vector<SharedRun> shared_tiles_;
  std::vector<Part> parts_;
  std::vector<int> part_from_;  // [tiles + 1]
};

// x_mid [rows][hidden] = x_in + attention, gated . o^T, then x_out = x_mid + (silu(gate) * up [rows][intermediate]) .
// down^T.
void feed_forward(Team& team, const Model& m, const Batch& batch, int layer, const LayerActivations& a, Span& span,
                  Workspace& ws, int row0, int rows) {
  const int intermediate = m.spec.layers[layer].feed_forward.intermediate;
  const Kernels& k = m.kernels;
  const Layer& w = m.weights->layers[layer];
  const ProjectionTile tile{m, batch, layer};

  const Rows attention = gated_heads(team, m, layer, a, span, row0, rows, ws);
  static constexpr int o[] = {kO};
  lora_down(team, m, batch, layer, o, 1, attention, row0, rows, &span.z[kO], ws);
  add_branch(team, tile, kO, kNormAttended, tile.input(team, attention, rows, o, 1, span), row0, rows, span.z[kO],
             a.attended ? a.attended.from(row0) : span.branch, a.x_in, a.x_mid, ws);

  norm_rows(team, m, a.x_mid.from(row0), w.norms[kNormMiddle], rows, span.normed);
  static constexpr int gate_up[] = {kGate, kUp};
  Rows z[] = {span.z[kGate], span.z[kUp]};
  lora_down(team, m, batch, layer, gate_up, 2, span.normed, row0, rows, z, ws);
  const Input input = tile.input(team, span.normed, rows, gate_up, 2, span);
  const Rows gate = a.gate ? a.gate.from(row0) : span.gate, up = a.up ? a.up.from(row0) : span.up;
  const Split split = split_product(team, rows, panels_of(intermediate), 2);
  team.each(split.chunks(), [&](int64_t chunk, int worker) {
    const Tile t = tile_of(split, chunk);
    const int col = t.panel * kLanes, cols = std::min(t.panels * kLanes, intermediate - col);
    float* sums = ws.workers[worker].tile.floats();
    tile(kGate, input, row0, t, z[0], sums, t.panels * kLanes, false);
    round_tile(k, sums, t.panels * kLanes, t.rows, cols, gate, t.row, col);
    tile(kUp, input, row0, t, z[1], sums, t.panels * kLanes, false);
    round_tile(k, sums, t.panels * kLanes, t.rows, cols, up, t.row, col);
    for (int i = t.row; i < t.row + t.rows; i++)
      m.activation(layer).mul(gate.at(i, col), up.at(i, col), gate.ld, 1, cols, span.act.at(i, col), t.panels * kLanes);
  });

  if (!a.x_out && !a.fed_forward) return;
  static constexpr int down[] = {kDown};
  lora_down(team, m, batch, layer, down, 1, span.act, row0, rows, &span.z[kDown], ws);
  add_branch(team, tile, kDown, kNormOut, tile.input(team, span.act, rows, down, 1, span), row0, rows, span.z[kDown],
             a.fed_forward ? a.fed_forward.from(row0) : span.branch, a.x_mid, a.x_out, ws);
}

}  // namespace

void rope_queries(const Model& m, const Batch& batch, int layer, const Rows& q, int row0, int row, int rows,
                  const Rows& queries, float* heads) {
  const AttentionSpec& c = m.attention(layer);
  const int group = c.group(), width = group * c.head_dim;
  for (int i = row; i < row + rows; i++) {
    const int position = batch.positions[row0 + i];
    m.kernels.head_norm_rope(q.at(i), c.q_stride(), c.heads, c.head_dim, c.rotary(),
                             m.weights->layers[layer].norms[kNormQ].data(), m.spec.rms_eps, m.rope(layer).cos(position),
                             m.rope(layer).sin(position), heads);
    const float scale = m.rope(layer).query_scale(position);
    for (int h = 0; h < c.kv_heads; h++)
      m.kernels.round_rows(heads + h * width, width, 1, width, scale,
                           queries.at((int64_t(h) * batch.rows + row0 + i) * group), width);
  }
}

void lora_down(Team& team, const Model& m, const Batch& batch, int layer, const int* projections, int count,
               const Rows& input, int row0, int rows, Rows* z, Workspace& ws) {
  bool adapted = false;
  for (const Segment& s : batch.segments)
    for (int p = 0; p < count; p++) adapted |= bool(s.adapter->layers[layer][projections[p]]);
  if (!adapted) return;
  const Kernels& k = m.kernels;
  constexpr int kBlock = 32;
  const int blocks = (rows + kBlock - 1) / kBlock;
  team.each(int64_t(blocks) * count, [&](int64_t chunk, int worker) {
    const int p = int(chunk % count), row = int(chunk / count) * kBlock, end = std::min(rows, row + kBlock);
    float* sums = ws.workers[worker].tile.floats();
    for (const Segment& s : batch.segments) {
      const LowRank& low = s.adapter->layers[layer][projections[p]];
      const int from = std::max(row, s.row0 - row0), to = std::min(end, s.row0 + s.rows - row0);
      if (from >= to || !low) continue;
      const int columns = s.adapter->padded_rank();
      k.gemm(input.at(from), input.ld, to - from, low.a.data(), m.weights->layers[layer].projections[projections[p]].k,
             columns / kLanes, sums, columns, false);
      k.round_rows(sums, columns, to - from, columns, s.adapter->scale, z[p].at(from), z[p].ld);
    }
  });
}

void embed_tokens(Team& team, const Model& m, const Batch& batch, const Matrix& x) {
  const int hidden = m.spec.hidden;
  const Linear& w = m.weights->embedding;
  const float scale = m.embedding_scale();
  each_rows(team, batch.rows, hidden, [&](int row, int n, int) {
    for (int i = row; i < row + n; i++) {
      if (w.quantized())
        m.kernels.quantized[quantized_index(w.format)].embed(w.panels.data(), w.k, batch.tokens[i], x.at(i));
      else
        m.kernels.embed(w.panels.data(), w.n, w.k, batch.tokens[i], x.at(i));
      if (scale != 1) m.kernels.scale(x.at(i), hidden, scale, x.at(i));
      if (m.spec.embedding_rounds) m.round(x.at(i), hidden);
    }
  });
}

Rows gated_heads(Team& team, const Model& m, int layer, const LayerActivations& a, Span& span, int row0, int rows,
                 Workspace& ws) {
  const Rows attention = a.attention.from(row0);
  const Kernels& k = m.kernels;
  if (const DeltaRuleSpec* d = m.delta_rule(layer)) {
    const Rows gate = a.delta_in[kInZ - kInQkv].from(row0);
    const float* weight = m.weights->layers[layer].norms[kNormDelta].data();
    each_rows(team, rows, d->value_width(), [&](int row, int n, int worker) {
      float* wide = ws.workers[worker].head.floats();
      for (int i = row; i < row + n; i++)
        for (int col = 0; col < d->value_width(); col += d->value_dim) {
          k.widen_rows(attention.at(i, col), d->value_dim, 1, d->value_dim, wide, d->value_dim);
          k.gated_norm(wide, gate.at(i, col), weight, m.spec.rms_eps, d->value_dim, span.gated.at(i, col));
        }
    });
    return span.gated;
  }
  const AttentionSpec& c = m.attention(layer);
  if (!c.output_gate) return attention;
  const Rows q = a.q.from(row0);
  each_rows(team, rows, c.q_width(), [&](int row, int n, int) {
    for (int i = row; i < row + n; i++)
      for (int h = 0; h < c.heads; h++)
        k.logistic.mul(q.at(i, h * c.q_stride() + c.head_dim), attention.at(i, h * c.head_dim), c.head_dim, 1,
                       c.head_dim, span.gated.at(i, h * c.head_dim), c.head_dim);
  });
  return span.gated;
}

void layer_forward(Team& team, const Model& m, const Batch& batch, int layer, const LayerActivations& given,
                   Workspace& ws) {
  LayerActivations a = given;
  if (m.delta_rule(layer)) {
    for (int i = 0; i < kDeltaInputs; i++)
      if (!a.delta_in[i]) a.delta_in[i] = ws.delta_in[i];
    ws.each_span(team, batch.rows, [&](Team& t, Span& span, int row0, int rows) {
      delta_inputs(t, m, batch, layer, a, span, ws, row0, rows);
    });
    delta_forward(team, m, batch, layer, a, ws);
  } else {
    if (m.attention(layer).output_gate && !a.q) a.q = ws.gated_q;
    ws.each_span(team, batch.rows, [&](Team& t, Span& span, int row0, int rows) {
      queries_keys_values(t, m, batch, layer, a, span, ws, row0, rows);
    });
    Attend(team, m, batch, layer, a, ws)();
  }
  ws.each_span(team, batch.rows, [&](Team& t, Span& span, int row0, int rows) {
    feed_forward(t, m, batch, layer, a, span, ws, row0, rows);
  });
}

}  // namespace anneal::cpu
