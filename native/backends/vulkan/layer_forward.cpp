#include "layer_forward.h"

namespace anneal::vulkan {
namespace {

struct LayerForward {
  Commands& commands;
  const GpuModel& m;
  const DeviceBatch& b;
  const Pages& pages;
  int layer;
  const LayerActivations& a;
  Scratch& s;
  const vulkan::Layer& w = m.layer(layer);
  const LayerSpec& spec = m.spec.layers[size_t(layer)];
  const ElementType type = m.type;

  ProductParameters product(int p, uint64_t x, uint64_t out) const {
    const Linear& linear = w.projections[p];
    ProductParameters parameters{x,
                                 linear.weight,
                                 linear.bias,
                                 out,
                                 0,
                                 0,
                                 0,
                                 b.rows,
                                 linear.n,
                                 linear.k,
                                 type.granules(linear.k),
                                 0,
                                 type.ld(linear.n),
                                 layer * kProjections + p};
    if (b.adapters && b.adapts(layer, p)) {
      parameters.adapters = b.adapters;
      parameters.z = s.z[p].address(), parameters.ldz = type.granules(b.rank);
    }
    return parameters;
  }

  void rounded(int p, uint64_t x, uint64_t out) const {
    record_product(commands, m, ProductKind::rounded, w.projections[p], s.inputs, product(p, x, out));
  }

  // What these products take of their input x.
  void inputs(std::initializer_list<int> projections, uint64_t x) const {
    std::vector<const Linear*> weights;
    for (int p : projections) weights.push_back(&w.projections[p]);
    record_inputs(commands, m, weights, x, b.rows, s.inputs);
  }

  // What attention or the feed-forward put out, by product p, into the residual stream.
  void add_branch(int p, Norm norm, uint64_t x, uint64_t branch, uint64_t from, uint64_t to) const {
    if (w.norms[norm]) {
      rounded(p, x, branch);
      if (!to) return;
      commands.barrier();
      const struct {
        uint64_t branch, weight, from, to;
        int32_t n, ld;
        float eps, scale;
      } parameters{branch,        w.norms[norm],          from,           to,
                   m.spec.hidden, type.ld(m.spec.hidden), m.spec.rms_eps, m.residual_scale(layer)};
      commands.dispatch(m.pipeline(Shader::kAddNormed), parameters, b.rows);
    } else if (to) {
      ProductParameters parameters = product(p, x, to);
      parameters.from = from, parameters.ldo = m.spec.hidden, parameters.scale = m.residual_scale(layer);
      record_product(commands, m, ProductKind::residual, w.projections[p], s.inputs, parameters);
    }
  }

  // Heads of q, and of k and v after them.
  void turn(uint64_t q, int heads) const {
    const AttentionSpec& c = spec.attention;
    const struct {
      uint64_t q, k, v, q_norm, k_norm, turns, queries, pages, slots;
      int32_t ldq, ldkv;
      float eps;
      int32_t rows;
    } parameters{q,
                 a.k,
                 s.v.address(),
                 w.norms[kNormQ],
                 w.norms[kNormK],
                 b.turns[size_t(m.rope_of[size_t(layer)])],
                 s.queries.address(),
                 pages.of(layer).address(),
                 b.slots,
                 type.ld(c.heads * c.q_stride()),
                 type.ld(c.kv_width()),
                 m.spec.rms_eps,
                 b.rows};
    commands.dispatch(m.pipeline(Shader::kRope, shape_of(m.spec, c, c.rotary())), parameters, b.rows, heads);
  }

  void delta_rule(const RecurrentStates& states) const {
    record_norm(commands, m, a.x_in, w.norms[kNormIn], 0, 0, b.rows, m.spec.hidden, s.normed.address());
    commands.barrier();
    record_lora_down(commands, m, b, layer, {kInQkv, kInZ, kInB, kInA}, s.normed.address(), m.spec.hidden, s);
    inputs({kInQkv, kInZ, kInB, kInA}, s.normed.address());
    for (int p : {kInQkv, kInZ, kInB, kInA}) rounded(p, s.normed.address(), a.delta_in[p - kInQkv]);
    commands.barrier();
    record_delta_forward(commands, m, b, states.of(layer), layer, a, s);
  }

  void attention() const {
    const AttentionSpec& c = spec.attention;
    record_norm(commands, m, a.x_in, w.norms[kNormIn], 0, 0, b.rows, m.spec.hidden, s.normed.address());
    commands.barrier();
    record_lora_down(commands, m, b, layer, {kQ, kK, kV}, s.normed.address(), m.spec.hidden, s);
    inputs({kQ, kK, kV}, s.normed.address());
    rounded(kQ, s.normed.address(), a.q);
    rounded(kK, s.normed.address(), a.k);
    rounded(kV, s.normed.address(), s.v.address());
    commands.barrier();

    turn(a.q, c.heads + 2 * c.kv_heads);
    commands.barrier();
    if (attends_on_matrices(m, c)) return attend_on_matrices(c);

    const float scale = c.score_scale(), cap = float(c.soft_cap);
    const auto& tiles = b.queries_of(c.group()).tiles;
    bool merges = false;
    uint64_t waiting = b.segments;
    for (const DeviceBatch::QueryTiles& q : tiles) {
      if (q.empty()) continue;
      const int split = DeviceBatch::split(m, q, c);
      const struct {
        uint64_t queries, pages, tables, tiles, attention, lse;
        int32_t ld, window;
        float scale, cap, scale_by_cap;
        int32_t padding;
        uint64_t waiting;
      } attend{s.queries.address(),
               pages.of(layer).address(),
               b.tables,
               q.at,
               a.attention,
               a.lse,
               type.ld(c.q_width()),
               c.window,
               scale,
               cap,
               cap > 0 ? scale / cap : 0,
               0,
               split > 1 ? waiting : 0};
      commands.dispatch(m.pipeline(Shader::kAttention, shape_of(m.spec, c, q.rows)), attend, q.count, c.kv_heads,
                        split);
      waiting += uint64_t(DeviceBatch::waiting_bytes(m, q, c));
      merges |= split > 1;
    }
    commands.barrier();
    if (!merges) return;
    waiting = b.segments;
    for (const DeviceBatch::QueryTiles& q : tiles) {
      const int split = DeviceBatch::split(m, q, c);
      if (q.empty() || split == 1) continue;
      const struct {
        uint64_t waiting, tiles, attention, lse;
        int32_t ld, window, segments, padding;
      } merge{waiting, q.at, a.attention, a.lse, type.ld(c.q_width()), c.window, split, 0};
      commands.dispatch(m.pipeline(Shader::kAttentionMerge, shape_of(m.spec, c, q.rows)), merge, q.count, c.kv_heads,
                        q.rows);
      waiting += uint64_t(DeviceBatch::waiting_bytes(m, q, c));
    }
    commands.barrier();
  }

  void attend_on_matrices(const AttentionSpec& c) const {
    const DeviceBatch::MatrixQueries& q = b.matrix_queries_of(c);
    const float scale = c.score_scale(), cap = float(c.soft_cap);
    const struct {
      uint64_t queries, pages, tables, tiles, attention, lse;
      int32_t ld, window;
      float scale, cap, scale_by_cap;
      int32_t rows, units, padding;
      uint64_t waiting;
    } attend{s.queries.address(),
             pages.of(layer).address(),
             b.tables,
             q.tiles,
             a.attention,
             a.lse,
             type.ld(c.q_width()),
             c.window,
             scale,
             cap,
             cap > 0 ? scale / cap : 0,
             q.rows,
             q.waiting_units,
             0,
             q.waiting_units ? b.segments : 0};
    commands.dispatch(m.gpu->matrix_pipeline(Shader::kAttentionFast, shape_of(m.spec, c, q.across)), attend, q.count,
                      c.kv_heads, std::max(1, q.waiting_units));
    commands.barrier();
    if (!q.waiting_units) return;
    const struct {
      uint64_t waiting, tiles, attention, lse;
      int32_t ld, window, rows, units;
    } merge{b.segments, q.tiles, a.attention, a.lse, type.ld(c.q_width()), c.window, q.rows, q.waiting_units};
    commands.dispatch(m.pipeline(Shader::kAttentionFastMerge, shape_of(m.spec, c, 0)), merge, int64_t(q.count) * q.rows,
                      c.kv_heads);
    commands.barrier();
  }

  void feed_forward() const {
    const FeedForwardSpec& f = spec.feed_forward;
    const uint64_t heads = record_gated_heads(commands, m, b, layer, a, s);
    record_lora_down(commands, m, b, layer, {kO}, heads, w.projections[kO].k, s);
    inputs({kO}, heads);
    add_branch(kO, kNormAttended, heads, a.attended, a.x_in, a.x_mid);
    commands.barrier();
    record_norm(commands, m, a.x_mid, w.norms[kNormMiddle], 0, 0, b.rows, m.spec.hidden, s.normed.address());
    commands.barrier();
    record_lora_down(commands, m, b, layer, {kGate, kUp}, s.normed.address(), m.spec.hidden, s);
    inputs({kGate, kUp}, s.normed.address());
    rounded(kGate, s.normed.address(), a.gate);
    rounded(kUp, s.normed.address(), a.up);
    commands.barrier();
    record_gated(commands, m, b, f, a.gate, a.up, s.act.address());
    commands.barrier();
    if (!a.x_out && !w.norms[kNormOut]) return;
    record_lora_down(commands, m, b, layer, {kDown}, s.act.address(), f.intermediate, s);
    inputs({kDown}, s.act.address());
    add_branch(kDown, kNormOut, s.act.address(), a.fed_forward, a.x_mid, a.x_out);
    commands.barrier();
  }
};

}  // namespace

Pages::Pages(const GpuModel& m, int count) {
  MemoryPlan memory(m.gpu, std::to_string(count) + " pages of KV cache");
  plan(memory, m, count);
  memory.take();
}

void Pages::plan(MemoryPlan& plan, const GpuModel& m, int count) {
  count_ = count;
  layers_.resize(m.spec.layers.size());
  for (size_t l = 0; l < layers_.size(); l++)  // none of the delta rule
    plan.add(layers_[l], count * vulkan::page_bytes(m.type, m.spec.kv_cache, m.spec.layers[l].attention),
             Memory::Place::device, Memory::Parts::addressed);
}

void record_queries(Commands& commands, const GpuModel& m, const DeviceBatch& b, const Pages& pages, int layer,
                    uint64_t q, Scratch& s) {
  LayerForward{commands, m, b, pages, layer, {}, s}.turn(q, m.attention(layer).heads);
}

void record_embedding(Commands& commands, const GpuModel& m, const DeviceBatch& b, uint64_t x) {
  const struct {
    uint64_t weight, tokens, x;
    int32_t rows, hidden, rounds;
    float scale;
  } parameters{m.weights->embedding.weight, b.tokens,           x, b.rows, m.spec.hidden,
               m.spec.embedding_rounds,     m.embedding_scale()};
  commands.dispatch(m.pipeline(Shader::kEmbed, m.weights->embedding.constants()), parameters, b.rows);
  commands.barrier();
}

void record_norm(Commands& commands, const GpuModel& m, uint64_t x, uint64_t weight, uint64_t from, int first, int rows,
                 int n, uint64_t y) {
  const struct {
    uint64_t x, weight, y, from;
    int32_t n, ldy;
    float eps;
    int32_t first;
  } parameters{x, weight, y, from, n, m.type.ld(n), m.spec.rms_eps, first};
  commands.dispatch(m.pipeline(Shader::kRmsnorm), parameters, rows);
}

void record_gated(Commands& commands, const GpuModel& m, const DeviceBatch& b, const FeedForwardSpec& f, uint64_t gate,
                  uint64_t up, uint64_t y) {
  const struct {
    uint64_t gate, up, y;
    int32_t n, ld;
  } parameters{gate, up, y, f.intermediate, m.type.ld(f.intermediate)};
  commands.dispatch(m.pipeline(Shader::kGated, {uint32_t(f.activation)}), parameters, (f.intermediate + 63) / 64,
                    b.rows);
}

uint64_t record_gated_heads(Commands& commands, const GpuModel& m, const DeviceBatch& b, int layer,
                            const LayerActivations& a, const Scratch& s) {
  const ElementType t = m.type;
  if (const DeltaRuleSpec* d = m.delta_rule(layer)) {
    const struct {
      uint64_t x, gate, y, weight;
      int32_t n, ld;
      float eps;
      int32_t padding;
    } norm{a.attention,  a.delta_in[kInZ - kInQkv], s.gated.address(), m.layer(layer).norms[kNormDelta],
           d->value_dim, t.ld(d->value_width()),    m.spec.rms_eps,    0};
    commands.dispatch(m.pipeline(Shader::kGatedNorm), norm, b.rows, d->value_heads);
  } else {
    const AttentionSpec& c = m.attention(layer);
    if (!c.output_gate) return a.attention;
    const struct {
      uint64_t q, x, y;
      int32_t n, head_dim, ldq, ld;
    } gate{
        a.q, a.attention, s.gated.address(), c.q_width(), c.head_dim, t.ld(c.heads * c.q_stride()), t.ld(c.q_width())};
    commands.dispatch(m.pipeline(Shader::kOutputGate), gate, (c.q_width() + 63) / 64, b.rows);
  }
  commands.barrier();
  return s.gated.address();
}

void record_layer(Commands& commands, const GpuModel& m, const DeviceBatch& b, const Pages& pages,
                  const RecurrentStates& states, int layer, const LayerActivations& a, Scratch& s) {
  const LayerForward forward{commands, m, b, pages, layer, a, s};
  if (m.delta_rule(layer))
    forward.delta_rule(states);
  else
    forward.attention();
  forward.feed_forward();
}

void record_logits(Commands& commands, const GpuModel& m, uint64_t normed, int rows, uint64_t logits,
                   const Scratch& s) {
  const Linear& head = m.weights->head;
  ProductParameters p{normed, head.weight, 0, logits, 0, 0, 0, rows, head.n, head.k, m.type.granules(head.k),
                      0,      head.n,      0};
  p.scale = float(m.spec.logit_scale), p.cap = float(m.spec.logit_soft_cap);
  p.inverse_cap = p.cap > 0 ? 1 / p.cap : 0;
  const Linear* const weights[] = {&head};
  record_inputs(commands, m, weights, normed, rows, s.inputs);
  record_product(commands, m, ProductKind::logits, head, s.inputs, p);
}

void record_lora_down(Commands& commands, const GpuModel& m, const DeviceBatch& b, int layer,
                      std::initializer_list<int> projections, uint64_t x, int k, Scratch& s) {
  // Of many rows most neighbours have the same adapter, and share what is read of it; others would wait for each other.
  constexpr int kManyRows = 128, kSharing = 8;
  const bool many = b.rows >= kManyRows && m.gpu->takes_turns(kSharing * turns_of_few(m.type, k, kSharing));
  const int at_once = many ? kSharing : 1;
  bool any = false;
  for (int p : projections) {
    if (!b.adapters || !b.adapts(layer, p)) continue;
    const struct {
      uint64_t x, adapters, z;
      int32_t rows, k, ldx, ldz, projection, padding;
    } parameters{x, b.adapters,         s.z[p].address(),        b.rows,
                 k, m.type.granules(k), m.type.granules(b.rank), layer * kProjections + p,
                 0};
    commands.dispatch(m.pipeline(Shader::kLoraDown, {0, uint32_t(at_once)}), parameters, (b.rank + kPanel - 1) / kPanel,
                      (b.rows + at_once - 1) / at_once);
    any = true;
  }
  if (any) commands.barrier();
}

}  // namespace anneal::vulkan
