// The forward pass saved what products made; norms, rope and the gate's product are computed again. Every sum is a
// chain in the order of the processor's backward (cpu/layer_backward.cpp).
#include "layer_backward.h"

namespace anneal::vulkan {
namespace {

// Tokens of a block of the sums over tokens: products that share an A take turns block by block.
constexpr int kBlockRows = 128;

// As shaders/sight.glsl has it.
struct Sight {
  int32_t window;
  float scale, cap, scale_by_cap, inverse_cap;
};
Sight sight_of(const AttentionSpec& c) {
  const float scale = c.score_scale(), cap = float(c.soft_cap);
  return {c.window, scale, cap, cap > 0 ? scale / cap : 0, cap > 0 ? 1 / cap : 0};
}

}  // namespace

void LayerBackward::back_product(uint64_t x, int ldx, uint64_t weight, int n, int k, uint64_t to, bool accumulate) {
  record_transposed(commands, m, Linear(), {x, weight, to, b.rows, 0, n, k, ldx, k, accumulate});
}

// g = round(s dy B), of the adapted ones of the terms, (projection, gradient of its output); where there is any, with a
// barrier behind it.
void LayerBackward::lora_up(std::initializer_list<std::pair<int, uint64_t>> terms) {
  const int rank = adapter.rank;
  bool any = false;
  for (const auto& [p, dy] : terms) {
    if (!lora(p)) continue;
    const int n = weights().projections[p].n;
    const LowRank& low = adapter.layers[size_t(layer)][size_t(p)];
    back_product(dy, m.type.granules(n), low.b, n, rank, mem.low[p].address(), false);
    any = true;
  }
  if (!any) return;
  commands.barrier();
  for (const auto& [p, dy] : terms) {
    if (!lora(p)) continue;
    const struct {
      uint64_t x, y;
      int32_t n, ldx, ldy;
      float scale;
    } parameters{mem.low[p].address(), mem.g[p].address(), rank, rank, m.type.ld(rank), adapter.scale};
    commands.dispatch(m.pipeline(Shader::kRoundRows), parameters, b.rows);
  }
  commands.barrier();
}

// to = the sum over the terms, (projection, gradient of its output), of dy W + g A: one chain.
void LayerBackward::input_gradient_of(std::initializer_list<std::pair<int, uint64_t>> terms, uint64_t to) {
  bool accumulate = false;
  for (const auto& [p, dy] : terms) {
    const Linear& w = weights().projections[p];
    record_back_product(commands, m, w, dy, b.rows, to, accumulate, {s.inputs.halves, mem.codes, mem.transposed});
    commands.barrier();
    accumulate = true;
    if (!lora(p)) continue;
    back_product(mem.g[p].address(), m.type.granules(adapter.rank), adapter.layers[size_t(layer)][size_t(p)].a,
                 adapter.rank, w.k, to, true);
    commands.barrier();
  }
}

void LayerBackward::token_sum(uint64_t left, int ldl, uint64_t right, int ldr, const Gradient& to, int rows, int cols,
                              int first, int tokens) {
  record_token_sum(commands, m, {left, right, to.at, first, tokens, rows, cols, ldl, ldr, to.ld});
}

// Gradients of A and B of the adapted ones of the projections that share an input, (projection, gradient of its
// output), which lora_up() has seen.
void LayerBackward::sum_tokens(std::initializer_list<std::pair<int, uint64_t>> terms, uint64_t input) {
  const ElementType t = m.type;
  const int rank = adapter.rank;
  bool shared = false, any = false;
  uint64_t first_a = 0;
  for (const auto& [p, dy] : terms) {
    if (!lora(p)) continue;
    record_lora_down(commands, m, b, layer, {p}, input, weights().projections[p].k, s);
    const Gradient a = gradients.gradient(layer, p, false);
    shared |= any && a.at == first_a;
    if (!any) first_a = a.at;
    any = true;
  }
  if (!any) return;
  commands.barrier();
  const int at_once = m.gpu->arithmetic().max_turns / kTurnsOfTile / kBlockRows * kBlockRows;
  const int piece = shared ? kBlockRows : std::min(b.rows, at_once);
  for (int first = 0; first < b.rows; first += piece)
    for (const auto& [p, dy] : terms) {
      if (!lora(p)) continue;
      const Linear& w = weights().projections[p];
      const int tokens = std::min(piece, b.rows - first);
      token_sum(mem.g[p].address(), t.ld(rank), input, t.ld(w.k), gradients.gradient(layer, p, false), rank, w.k, first,
                tokens);
      token_sum(dy, t.ld(w.n), s.z[p].address(), t.ld(b.rank), gradients.gradient(layer, p, true), w.n, rank, first,
                tokens);
      if (shared || first + piece < b.rows) commands.barrier();
    }
  commands.barrier();
}

// What attention or the feed-forward put out takes of dx, in d_out.
void LayerBackward::branch_gradient(Norm norm, uint64_t branch) {
  const int hidden = m.spec.hidden;
  const float scale = m.residual_scale(layer);
  if (weights().norms[norm]) {
    const struct {
      uint64_t branch, weight, dx, d_out;
      int32_t n, ld;
      float eps, scale;
    } parameters{branch, weights().norms[norm], dx, mem.d_out.address(), hidden, m.type.ld(hidden), m.spec.rms_eps,
                 scale};
    commands.dispatch(m.pipeline(Shader::kBranchBackward), parameters, b.rows);
  } else {
    const struct {
      uint64_t x, y;
      int32_t n, ldx, ldy;
      float scale;
    } parameters{dx, mem.d_out.address(), hidden, hidden, m.type.ld(hidden), scale};
    commands.dispatch(m.pipeline(Shader::kRoundRows), parameters, b.rows);
  }
  commands.barrier();
}

void LayerBackward::norm_backward(uint64_t x, Norm norm) {
  const struct {
    uint64_t x, weight, dy, dx;
    int32_t n;
    float eps;
  } parameters{x, weights().norms[norm], mem.d_normed.address(), dx, m.spec.hidden, m.spec.rms_eps};
  commands.dispatch(m.pipeline(Shader::kRmsnormBackward), parameters, b.rows);
  commands.barrier();
}

void LayerBackward::feed_forward() {
  const FeedForwardSpec& f = spec().feed_forward;
  const ElementType t = m.type;
  branch_gradient(kNormOut, a.fed_forward);
  if (lora(kDown)) record_gated(commands, m, b, f, a.gate, a.up, s.act.address());
  lora_up({{kDown, mem.d_out.address()}});
  sum_tokens({{kDown, mem.d_out.address()}}, s.act.address());
  input_gradient_of({{kDown, mem.d_out.address()}}, mem.wide.address());
  const struct {
    uint64_t gate, up, dy, d_gate, d_up;
    int32_t n, ld, ldy, padding;
  } gated{a.gate,
          a.up,
          mem.wide.address(),
          mem.d_gate.address(),
          mem.d_up.address(),
          f.intermediate,
          t.ld(f.intermediate),
          f.intermediate,
          0};
  commands.dispatch(m.pipeline(Shader::kGatedBackward, {uint32_t(f.activation)}), gated, (f.intermediate + 63) / 64,
                    b.rows);
  commands.barrier();
  record_norm(commands, m, a.x_mid, weights().norms[kNormMiddle], 0, 0, b.rows, m.spec.hidden, s.normed.address());
  lora_up({{kGate, mem.d_gate.address()}, {kUp, mem.d_up.address()}});
  sum_tokens({{kGate, mem.d_gate.address()}, {kUp, mem.d_up.address()}}, s.normed.address());
  input_gradient_of({{kGate, mem.d_gate.address()}, {kUp, mem.d_up.address()}}, mem.d_normed.address());
  norm_backward(a.x_mid, kNormMiddle);
}

void LayerBackward::output_projection() {
  const ElementType t = m.type;
  branch_gradient(kNormAttended, a.attended);
  lora_up({{kO, mem.d_out.address()}});
  if (lora(kO)) sum_tokens({{kO, mem.d_out.address()}}, record_gated_heads(commands, m, b, layer, a, s));
  input_gradient_of({{kO, mem.d_out.address()}}, mem.d_attention.address());
  if (const DeltaRuleSpec* d = delta_rule()) {
    const struct {
      uint64_t x, gate, weight, d, d_gate;
      int32_t n, ld;
      float eps;
      int32_t heads;
    } norm{a.attention,
           a.delta_in[kInZ - kInQkv],
           weights().norms[kNormDelta],
           mem.d_attention.address(),
           mem.d_delta[kInZ - kInQkv].address(),
           d->value_dim,
           t.ld(d->value_width()),
           m.spec.rms_eps,
           d->value_heads};
    commands.dispatch(m.pipeline(Shader::kGatedNormBackward), norm, b.rows, d->value_heads);
    commands.barrier();
    return;
  }
  const AttentionSpec& c = spec().attention;
  if (c.output_gate) {
    const struct {
      uint64_t q, x, d, d_q;
      int32_t n, head_dim, ldq, ld;
    } gate{a.q,         a.attention, mem.d_attention.address(),    mem.d_q.address(),
           c.q_width(), c.head_dim,  t.ld(c.heads * c.q_stride()), t.ld(c.q_width())};
    commands.dispatch(m.pipeline(Shader::kOutputGateBackward), gate, (c.q_width() + 63) / 64, b.rows);
    commands.barrier();
  }
  record_queries(commands, m, b, pages, layer, a.q, s);
  if (goes_back_on_matrices(m, c)) {
    const struct {
      uint64_t attention, d_attention, delta, units, halves;
      int32_t heads, head_dim, ld, padding;
    } halves{a.attention,         mem.d_attention.address(), mem.delta.address(),
             mem.units.address(), mem.halves.address(),      c.heads,
             c.head_dim,          m.type.ld(c.q_width()),    0};
    commands.dispatch(m.pipeline(Shader::kAttentionHalves), halves, b.rows, c.heads);
    commands.barrier();
    return;
  }
  const struct {
    uint64_t attention, d_attention, delta, d_rounded;
    int32_t heads, head_dim, ld, padding;
  } delta{a.attention,
          mem.d_attention.address(),
          mem.delta.address(),
          mem.d_attended.address(),
          c.heads,
          c.head_dim,
          m.type.ld(c.q_width()),
          0};
  commands.dispatch(m.pipeline(Shader::kAttentionDelta), delta, b.rows, c.heads);
  commands.barrier();
}

void LayerBackward::attention_on_matrices() {
  const AttentionSpec& c = spec().attention;
  const Sight sight = sight_of(c);
  const DeviceBatch::MatrixQueries& q = b.matrix_queries_of(c);
  const struct {
    uint64_t queries, pages, tables, tiles, d_attention, units, lse, delta, d_queries;
    Sight sight;
    int32_t padding;
  } dq{s.queries.address(),
       pages.of(layer).address(),
       b.tables,
       q.tiles,
       mem.halves.address(),
       mem.units.address(),
       a.lse,
       mem.delta.address(),
       mem.d_queries.address(),
       sight,
       0};
  commands.dispatch(m.gpu->matrix_pipeline(Shader::kAttentionDqFast, shape_of(m.spec, c, q.across)), dq, q.count,
                    c.kv_heads);
  const struct {
    uint64_t queries, pages, first_use, uses, d_attention, units, lse, delta, d_keys, d_values;
    Sight sight;
    int32_t padding;
  } dkv{s.queries.address(),  pages.of(layer).address(), uses->first_use, uses->uses,
        mem.halves.address(), mem.units.address(),       a.lse,           mem.delta.address(),
        mem.d_keys.address(), mem.d_values.address(),    sight,           0};
  commands.dispatch(m.gpu->matrix_pipeline(Shader::kAttentionDkvFast, shape_of(m.spec, c, 0)), dkv, pages.count(),
                    c.kv_heads);
  commands.barrier();
}

void LayerBackward::attention() {
  const AttentionSpec& c = spec().attention;
  if (goes_back_on_matrices(m, c)) return attention_on_matrices();
  const Sight sight = sight_of(c);
  const std::vector<uint32_t> shape = shape_of(m.spec, c, 0);
  const int parts = (c.head_dim + kPairRows - 1) / kPairRows;  // of a head's elements
  bool goes_on = false;
  for (const PairChunk& chunk : pairs->chunks) {
    const uint64_t array = uint64_t(chunk.slots) * uint64_t(pair_slot_bytes(m, c) / pair_arrays(m)),
                   p = mem.pairs.address(), ds = p + array, ds_coded = pair_arrays(m) > 2 ? ds + array : ds;
    const struct {
      uint64_t queries, d_attention, pages, tables, tiles, lse, delta, p, ds, ds_coded;
      Sight sight;
      int32_t padding;
    } of_pairs{s.queries.address(),
               mem.d_attended.address(),
               pages.of(layer).address(),
               b.tables,
               chunk.tile_list,
               a.lse,
               mem.delta.address(),
               p,
               ds,
               ds_coded,
               sight,
               0};
    commands.dispatch(m.pipeline(Shader::kAttentionPairs, shape), of_pairs, chunk.blocks, chunk.tiles, c.kv_heads);
    commands.barrier();
    const struct {
      uint64_t ds, pages, tables, tiles, d_queries;
    } dq{ds_coded, pages.of(layer).address(), b.tables, chunk.tile_list, mem.d_queries.address()};
    commands.dispatch(m.pipeline(Shader::kAttentionDq, shape), dq, chunk.tiles, c.kv_heads, parts);
    const struct {
      uint64_t queries, d_attention, p, ds, first_use, uses, d_keys, d_values;
      int32_t goes_on, padding;
    } dkv{s.queries.address(),  mem.d_attended.address(), p,       ds, chunk.first_use, chunk.uses,
          mem.d_keys.address(), mem.d_values.address(),   goes_on, 0};
    commands.dispatch(m.pipeline(Shader::kAttentionDkv, shape), dkv, pages.count(), c.kv_heads, 2 * parts);
    commands.barrier();
    goes_on = true;
  }
}

void LayerBackward::queries_keys_values() {
  const AttentionSpec& c = spec().attention;
  const ElementType t = m.type;
  const struct {
    uint64_t q, k, q_norm, k_norm, turns, d_queries, d_keys, d_values, d_q, d_k, d_v, slots;
    int32_t ldq, ldkv;
    float eps;
    int32_t rows;
  } turn{a.q,
         a.k,
         weights().norms[kNormQ],
         weights().norms[kNormK],
         b.turns[size_t(m.rope_of[size_t(layer)])],
         mem.d_queries.address(),
         mem.d_keys.address(),
         mem.d_values.address(),
         mem.d_q.address(),
         mem.d_k.address(),
         mem.d_v.address(),
         b.slots,
         t.ld(c.heads * c.q_stride()),
         t.ld(c.kv_width()),
         m.spec.rms_eps,
         b.rows};
  commands.dispatch(m.pipeline(Shader::kRopeBackward, shape_of(m.spec, c, c.rotary())), turn, b.rows,
                    c.heads + 2 * c.kv_heads);
  commands.barrier();
  input_projections({{kQ, mem.d_q.address()}, {kK, mem.d_k.address()}, {kV, mem.d_v.address()}});
}

void LayerBackward::delta_inputs() {
  const auto of = [&](int p) { return mem.d_delta[p - kInQkv].address(); };
  record_delta_backward(commands, m, b, delta_lists, layer, a,
                        {mem.d_attention.address(), of(kInQkv), of(kInB), of(kInA)}, s, mem.delta_rule);
  input_projections({{kInQkv, of(kInQkv)}, {kInZ, of(kInZ)}, {kInB, of(kInB)}, {kInA, of(kInA)}});
}

// Gradients of what the projections of a layer's input put out, on to dx.
void LayerBackward::input_projections(std::initializer_list<std::pair<int, uint64_t>> terms) {
  record_norm(commands, m, a.x_in, weights().norms[kNormIn], 0, 0, b.rows, m.spec.hidden, s.normed.address());
  lora_up(terms);
  sum_tokens(terms, s.normed.address());
  if (!input_gradient) return;
  input_gradient_of(terms, mem.d_normed.address());
  norm_backward(a.x_in, kNormIn);
}

void LayerBackward::record() {
  feed_forward();
  output_projection();
  if (delta_rule()) return delta_inputs();
  attention();
  queries_keys_values();
}

void BackwardMemory::plan(MemoryPlan& plan, const GpuModel& m, int64_t rows, int rank, int64_t pages,
                          int64_t pair_bytes, const std::optional<DeltaPlan>& of_delta) {
  const ElementType t = m.type;
  const Widths c = widest(m.spec);
  int64_t page = 0;  // floats of keys of the widest layer
  for (const LayerSpec& l : m.spec.layers) page = std::max<int64_t>(page, int64_t(kPage) * l.attention.kv_width());
  plan.add(d_out, rows * t.row_bytes(m.spec.hidden));
  plan.add(d_gate, rows * t.row_bytes(c.intermediate));
  plan.add(d_up, rows * t.row_bytes(c.intermediate));
  plan.add(d_q, rows * t.row_bytes(c.q));
  plan.add(d_k, rows * t.row_bytes(c.kv));
  plan.add(d_v, rows * t.row_bytes(c.kv));
  for (int i = 0; i < kDeltaInputs; i++) plan.add(d_delta[i], rows * t.row_bytes(c.delta_in[i]));
  for (Memory& memory : g) plan.add(memory, rows * t.row_bytes(rank));
  plan.add(wide, rows * 4 * c.intermediate);
  plan.add(d_normed, rows * 4 * m.spec.hidden);
  plan.add(d_attention, rows * 4 * c.attended);
  plan.add(d_queries, rows * 4 * c.queries);
  plan.add(d_attended, rows * t.row_bytes(c.queries));
  plan.add(pairs, pair_bytes);
  for (Memory* memory : {&d_keys, &d_values})
    plan.add(*memory, pages * page * 4, Memory::Place::device, Memory::Parts::addressed);
  plan.add(delta, rows * 4 * c.heads);
  if (m.fast) plan.add(halves, rows * m.type.row_bytes(c.attended)), plan.add(units, rows * 4 * c.heads);
  for (Memory& memory : low) plan.add(memory, rows * 4 * rank);
  int64_t code_row = 0, transpose = transposed_bytes(m, m.weights->head);
  for (const Layer& l : m.weights->layers)
    for (const Linear& w : l.projections) {
      code_row = std::max(code_row, back_code_bytes(m, w));
      transpose = std::max(transpose, transposed_bytes(m, w));
    }
  if (code_row) plan.add(codes, rows * code_row);
  if (transpose) plan.add(transposed, transpose);
  if (of_delta) delta_rule.plan(plan, m, int(rows), *of_delta);
}

}  // namespace anneal::vulkan
