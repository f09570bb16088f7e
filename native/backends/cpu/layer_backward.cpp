// The forward pass saved what products made; norms, rope and the gate's product are computed again. Order within a
// layer: feed-forward and output projection by runs of rows, attention by query tile and by page, then queries, keys
// and values by runs of rows. After each window of rows the sums over tokens take up its transposes.
#include "layer_backward.h"

#include <cmath>
#include <limits>

#include "convolution_layer.h"
#include "delta_layer.h"
#include "experts.h"
#include "layer_forward.h"
#include "token_inputs.h"

namespace anneal::cpu {
namespace {

// Pieces of rows that were kept lie far apart in memory, which no processor foresees.
constexpr int kRowsAhead = 8;
void fetch(const void* at, int bytes) {
  for (int i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const char*>(at) + i);
}

struct LayerBackward {
  Team& all;
  const Model& m;
  const Batch& batch;
  int layer;
  const LayerActivations& a;
  const AdapterPanels* adapter;  // transposes
  const LayerGradients& wanted;
  bool input_gradient;
  const Matrix& dx;
  Workspace& ws;
  BackwardMemory& mem;
  const AttentionSpec& c = m.attention(layer);
  const int hidden = m.spec.hidden, intermediate = m.spec.layers[layer].feed_forward.intermediate;
  const float rms_eps = m.spec.rms_eps;
  const Kernels& k = m.kernels;
  const Layer& w = m.weights->layers[layer];
  // Heads: [kv_heads][rows][group][head_dim], and [page][kv_heads][kPage][head_dim] of keys and values.
  const Rows d_out{mem.d_out.data(), c.head_dim, m.kernels.elem};
  const Matrix d_q{mem.d_q.floats(), padded(c.head_dim)};
  const int shared_keys = m.shared_keys(layer);
  const Matrix d_k{(shared_keys < 0 ? mem.d_k : mem.shared_d_k[shared_keys]).floats(), d_q.ld},
      d_v{(shared_keys < 0 ? mem.d_v : mem.shared_d_v[shared_keys]).floats(), d_q.ld};
  const DeltaRuleSpec* const delta_rule = m.delta_rule(layer);
  const ShortConvolutionSpec* const convolution = m.short_convolution(layer);
  int window0 = 0;

  bool lora(int p) const { return adapter && adapter->layers[layer][p]; }
  bool sums(int p) const { return wanted.weight[p] || wanted.a[p]; }

  BackTerm term(int p, const Rows& dy, const RunScratch& run) const {
    BackTerm t{dy, &w.projections[p], mem.transpose_layers ? mem.transposed[p].data() : nullptr, run.g[p]};
    if (lora(p)) t.a_t = adapter->layers[layer][p].a.data(), t.rank = adapter->rank;
    return t;
  }

  // g [rows][padded rank] = round(s dy B), of dy [rows][n] and B [n][rank].
  void lora_up(Team& team, int p, const Rows& dy, RunScratch& run, int rows) const {
    if (!lora(p)) return;
    const int columns = adapter->padded_rank();
    team.each((rows + kLoraRows - 1) / kLoraRows, [&](int64_t chunk, int worker) {
      const int row = int(chunk) * kLoraRows, n = std::min(kLoraRows, rows - row);
      float* sums = ws.workers[worker].tile.floats();
      k.gemm(dy.at(row), dy.ld, n, adapter->layers[layer][p].b.data(), w.projections[p].n, columns / kLanes, sums,
             columns, false);
      k.round_rows(sums, columns, n, columns, adapter->scale, run.g[p].at(row), run.g[p].ld);
    });
  }

  // f(block of the window, first row of the run, rows) for the blocks of a run.
  template <class F> void each_block(Team& team, int row0, int rows, F&& f) const {
    team.each((rows + kBlockRows - 1) / kBlockRows, [&](int64_t chunk, int worker) {
      const int row = int(chunk) * kBlockRows;
      f((row0 - window0 + row) / kBlockRows, row, std::min(kBlockRows, rows - row), worker);
    });
  }

  // Keeps a run's output gradients dys[i] [rows][n of projection i], g and z as sums over tokens take them, and its
  // bias sums.
  void keep_outputs(Team& team, const int* projections, const Rows* dys, int count, const RunScratch& run, int row0,
                    int rows) const {
    each_block(team, row0, rows, [&](int b, int row, int n, int worker) {
      for (int i = 0; i < count; i++) {
        const int p = projections[i];
        if (wanted.weight[p])
          k.transpose(dys[i].at(row), k.type, dys[i].ld, n, w.projections[p].n, mem.dy[p].block(b), kBlockRows);
        if (wanted.a[p]) {
          const Rows g = run.g[p].from(row), z = a.z[p].from(row0 + row);
          k.pack_transposed(dys[i].at(row), k.type, dys[i].ld, n, w.projections[p].n, mem.dy[p].block(b));
          k.transpose(g.data, k.type, g.ld, n, adapter->padded_rank(), mem.g[p].block(b), kBlockRows);
          k.transpose(z.data, k.type, z.ld, n, adapter->padded_rank(), mem.z[p].block(b), kBlockRows);
        }
        if (wanted.bias[p]) {
          float* partial = mem.partial_bias[p].at((row0 + row) / kBlockRows);
          float* wide = ws.workers[worker].tile.floats();
          std::memset(partial, 0, mem.partial_bias[p].ld * sizeof(float));
          for (int r = row; r < row + n; r++) {
            k.widen_rows(dys[i].at(r), dys[i].ld, 1, w.projections[p].n, wide, w.projections[p].n);
            k.column_sums(wide, w.projections[p].n, 1, w.projections[p].n, partial);
          }
        }
      }
    });
  }

  // Keeps the transposes of a run's projection inputs x [rows][width].
  void keep_inputs(Team& team, ProjectionInput input, const Rows& x, int width, int row0, int rows) const {
    each_block(team, row0, rows, [&](int b, int row, int n, int) {
      k.pack_transposed(x.at(row), k.type, x.ld, n, width, mem.x[input].block(b));
    });
  }

  // y [rows][hidden] = norm(x [rows][hidden]).
  void normed(Team& team, const Matrix& x, const NormWeight& weight, const Rows& y, int rows) const {
    each_rows(team, rows, hidden, [&](int row, int n, int) {
      for (int i = row; i < row + n; i++) {
        if (i + 1 < rows) fetch(x.at(i + 1), hidden * int(sizeof(float)));
        k.rmsnorm(x.at(i), x.ld, weight.data(), rms_eps, 1, hidden, y.at(i), y.ld);
      }
    });
  }

  // Where the block of rows that begins at `row` sums the gradient of a norm's weight, zeros; null: it is not wanted.
  float* norm_sums(Norm norm, int row) const {
    if (!wanted.norms[norm]) return nullptr;
    MatrixStore& partial = mem.partial_norm[norm];
    float* sums = partial.at(row / kBlockRows);
    std::memset(sums, 0, partial.ld * sizeof(float));
    return sums;
  }

  // dx of the run += what norm takes of dy [rows][hidden]; x is the whole batch's input of the norm [..][hidden].
  void norm_backward(Team& team, const Matrix& x, Norm norm, const Matrix& dy, int row0, int rows) const {
    each_block(team, row0, rows, [&](int, int row, int n, int) {
      k.rmsnorm_backward(x.at(row0 + row), x.ld, w.norms[norm].data(), rms_eps, dy.at(row), dy.ld, n, hidden,
                         dx.at(row0 + row), dx.ld, norm_sums(norm, row0 + row));
    });
  }

  // to [rows][hidden]: what attention or feed-forward put out takes of dx; branch [rows][hidden]: that, where a norm
  // followed.
  void branch_gradient(Team& team, Norm norm, const Rows& branch, const Rows& to, int row0, int rows) const {
    const float scale = m.residual_scale(layer);
    if (w.norms[norm].data()) {
      each_block(team, row0, rows, [&](int, int row, int n, int worker) {
        float *x = ws.workers[worker].tile.floats(), *d = x + padded(hidden), *dy = d + padded(hidden),
              *sums = norm_sums(norm, row0 + row);
        for (int i = row; i < row + n; i++) {
          k.widen_rows(branch.at(row0 + i), branch.ld, 1, hidden, x, hidden);
          std::memset(d, 0, hidden * sizeof(float));
          k.scale(dx.at(row0 + i), hidden, scale, dy);
          k.rmsnorm_backward(x, hidden, w.norms[norm].data(), rms_eps, dy, hidden, 1, hidden, d, hidden, sums);
          k.round_rows(d, hidden, 1, hidden, 1.0f, to.at(i), to.ld);
        }
      });
      return;
    }
    each_rows(team, rows, hidden, [&](int row, int n, int) {
      k.round_rows(dx.at(row0 + row), dx.ld, n, hidden, scale, to.at(row), to.ld);
    });
  }

  // run.d_normed [rows][hidden] = the sum of the terms.
  void collect(Team& team, RunScratch& run, const BackTerm* terms, int count, int rows) const {
    back_product(team, k, ws.workers, {rows, hidden, terms, count, run.gradient_codes, run.d_normed}, [](auto...) {});
  }

  // dx [rows][hidden] of x_out becomes that of x_mid; d_gate, d_up [rows][intermediate] on the way.
  void feed_forward(Team& team, RunScratch& run, int row0, int rows) {
    if (m.spec.layers[layer].experts) {
      branch_gradient(team, kNormOut, a.fed_forward, run.d_out, row0, rows);
      normed(team, a.x_mid.from(row0), w.norms[kNormMiddle], run.normed, rows);
      experts_backward(team, m, layer, run.normed, run.d_out, rows, a.gate.from(row0), a.up.from(row0), run, ws);
      return norm_backward(team, a.x_mid, kNormMiddle, run.d_normed, row0, rows);
    }
    static constexpr int down[] = {kDown}, gate_up[] = {kGate, kUp};
    const Rows gate = a.gate.from(row0), up = a.up.from(row0);
    branch_gradient(team, kNormOut, a.fed_forward, run.d_out, row0, rows);
    lora_up(team, kDown, run.d_out, run, rows);
    const BackTerm down_term = term(kDown, run.d_out, run);
    back_product(team, k, ws.workers, {rows, intermediate, &down_term, 1, run.gradient_codes},
                 [&](int row, int n, int col, int cols, const float* tile, int64_t ld, int) {
                   for (int i = 0; i < n; i++) {
                     if (i + kRowsAhead < n)
                       for (const Rows* kept : {&gate, &up}) fetch(kept->at(row + i + kRowsAhead, col), cols * k.elem);
                     m.activation(layer).mul_backward(gate.at(row + i, col), up.at(row + i, col), gate.ld,
                                                      tile + i * ld, ld, 1, cols, run.d_gate.at(row + i, col),
                                                      run.d_up.at(row + i, col), run.d_gate.ld,
                                                      sums(kDown) ? run.act.at(row + i, col) : nullptr, run.act.ld);
                   }
                 });
    if (sums(kDown)) keep_inputs(team, kActivated, run.act, intermediate, row0, rows);
    const Rows d_down[] = {run.d_out};
    keep_outputs(team, down, d_down, 1, run, row0, rows);
    lora_up(team, kGate, run.d_gate, run, rows);
    lora_up(team, kUp, run.d_up, run, rows);
    if (sums(kGate) || sums(kUp)) {
      normed(team, a.x_mid.from(row0), w.norms[kNormMiddle], run.normed, rows);
      keep_inputs(team, kPostNormed, run.normed, hidden, row0, rows);
    }
    const Rows d_gate_up[] = {run.d_gate, run.d_up};
    keep_outputs(team, gate_up, d_gate_up, 2, run, row0, rows);
    const BackTerm terms[] = {term(kGate, run.d_gate, run), term(kUp, run.d_up, run)};
    collect(team, run, terms, 2, rows);
    norm_backward(team, a.x_mid, kNormMiddle, run.d_normed, row0, rows);
  }

  // dx [rows][hidden] of x_mid to that of what heads put out; dx itself is that of x_in as well, by the residual.
  void output_projection(Team& team, RunScratch& run, int row0, int rows) {
    static constexpr int o[] = {kO};
    branch_gradient(team, kNormAttended, a.attended, run.d_out, row0, rows);
    lora_up(team, kO, run.d_out, run, rows);
    if (sums(kO))
      keep_inputs(team, kAttended, gated_heads(team, m, layer, a, run, row0, rows, ws), w.projections[kO].k, row0,
                  rows);
    const Rows d_o[] = {run.d_out};
    keep_outputs(team, o, d_o, 1, run, row0, rows);
    if (delta_rule)
      delta_heads(team, run, row0, rows);
    else if (convolution)
      convolution_outputs(team, run, row0, rows);
    else
      attention_heads(team, run, row0, rows);
  }

  // d_out of a layer's output to d_heads [rows][value_width] and d_head_gates.
  void delta_heads(Team& team, RunScratch& run, int row0, int rows) {
    const int width = delta_rule->value_width(), head = delta_rule->value_dim;
    const BackTerm o_term = term(kO, run.d_out, run);
    back_product(team, k, ws.workers, {rows, width, &o_term, 1, run.gradient_codes},
                 [&](int row, int n, int col, int cols, const float* tile, int64_t ld, int) {
                   for (int i = 0; i < n; i++)
                     std::memcpy(mem.d_heads.at(row0 + row + i, col), tile + i * ld, cols * sizeof(float));
                 });
    const Rows& gate = a.delta_in[kInZ - kInQkv];
    each_block(team, row0, rows, [&](int, int row, int n, int worker) {
      float *x = ws.workers[worker].head.floats(), *d_gate = x + padded(head),
            *sums = norm_sums(kNormDelta, row0 + row);
      for (int t = row0 + row; t < row0 + row + n; t++)
        for (int col = 0; col < width; col += head) {
          k.widen_rows(a.attention.at(t, col), head, 1, head, x, head);
          float* d = mem.d_heads.at(t, col);
          k.gated_norm_backward(x, gate.at(t, col), w.norms[kNormDelta].data(), rms_eps, head, d, d, d_gate, sums);
          k.round_rows(d_gate, head, 1, head, 1.0f, mem.d_head_gates.at(t, col), head);
        }
    });
  }

  // d_out of a layer's output to d_heads [rows][width] of what a convolution put out.
  void convolution_outputs(Team& team, RunScratch& run, int row0, int rows) {
    const BackTerm o_term = term(kO, run.d_out, run);
    back_product(team, k, ws.workers, {rows, convolution->width, &o_term, 1, run.gradient_codes},
                 [&](int row, int n, int col, int cols, const float* tile, int64_t ld, int) {
                   for (int i = 0; i < n; i++)
                     std::memcpy(mem.d_heads.at(a.row(row0 + row + i), col), tile + i * ld, cols * sizeof(float));
                 });
  }

  // Of a convolution, what rows that are not read have: nothing.
  void clear_unread_outputs() const {
    each_rows(all, batch.rows, convolution->width, [&](int row, int n, int) {
      for (int t = row; t < row + n; t++)
        if (!a.reads(t, t + 1)) std::memset(mem.d_heads.at(t), 0, size_t(convolution->width) * sizeof(float));
    });
  }

  // d_heads to gradients of what the first projection put out.
  void convolve() {
    if (a.read) clear_unread_outputs(), spread_read();
    convolution_backward(all, m, batch, layer, a,
                         {mem.d_heads, mem.d_qkv, wanted.convolution[0], wanted.convolution[1].data}, ws);
  }

  void convolution_inputs(Team& team, RunScratch& run, int row0, int rows) {
    static constexpr int projections[] = {kInQkv};
    const int width = 3 * convolution->width;
    each_rows(team, rows, width, [&](int row, int n, int) {
      k.round_rows(mem.d_qkv.at(row0 + row), mem.d_qkv.ld, n, width, 1.0f, run.d_qkv.at(row), run.d_qkv.ld);
    });
    const Rows dys[] = {run.d_qkv};
    input_projections(team, run, projections, dys, 1, row0, rows);
  }

  // d_out of a layer's output to d_out of heads [kv_heads][rows][group][head_dim], and d_head_gates.
  void attention_heads(Team& team, RunScratch& run, int row0, int rows) {
    const Rows attention = a.attention.from(row0);
    const int group = c.group(), head = c.head_dim;
    const BackTerm o_term = term(kO, run.d_out, run);
    back_product(team, k, ws.workers, {rows, c.q_width(), &o_term, 1, run.gradient_codes},
                 [&](int row, int n, int col, int cols, const float* tile, int64_t ld, int) {
                   for (int i = 0; i < n; i++)
                     for (int from = col; from < col + cols;) {
                       const int h = from / head, within = from % head,
                                 count = std::min(head - within, col + cols - from);
                       const int t = a.row(row0 + row + i);
                       const int64_t query = (int64_t(h / group) * batch.rows + t) * group + h % group;
                       const float* d = tile + i * ld + (from - col);
                       if (c.output_gate)
                         k.logistic.mul_backward(
                             a.q.at(t, h * c.q_stride() + head + within), attention.at(row + i, from), head, d, ld, 1,
                             count, mem.d_head_gates.at(t, from), d_out.at(query, within), count, nullptr, 0);
                       else
                         k.round_rows(d, ld, 1, count, 1.0f, d_out.at(query, within), count);
                       from += count;
                     }
                 });
    each_rows(team, rows, 4 * c.q_width(), [&](int row, int n, int worker) {
      for (int i = row; i < row + n; i++) {
        const int t = a.row(row0 + i);
        if (i + 1 < rows) {
          fetch(a.q.at(a.row(row0 + i + 1)), c.heads * c.q_stride() * k.elem);
          fetch(attention.at(i + 1), c.q_width() * k.elem);
        }
        rope_queries(m, batch, layer, a.q.from(t), t, 0, 1, ws.queries_of(c), ws.workers[worker].head.floats());
        for (int h = 0; h < c.kv_heads; h++) {
          const int64_t query = (int64_t(h) * batch.rows + t) * group;
          k.row_dots(d_out.at(query), d_out.ld, attention.at(i, int64_t(h) * group * head), head, group, head,
                     mem.delta.floats() + query);
          std::memset(d_q.at(query), 0, group * d_q.ld * sizeof(float));
        }
      }
    });
  }

  // Of attention, what rows that are not read have: nothing. Their probabilities are made 0 by a sum that none reaches.
  void clear_unread() const {
    const int group = c.group();
    const Rows queries = ws.queries_of(c);
    each_rows(all, batch.rows, 4 * c.q_width(), [&](int row, int n, int) {
      for (int t = row; t < row + n; t++) {
        if (a.reads(t, t + 1)) continue;
        for (int h = 0; h < c.kv_heads; h++) {
          const int64_t query = (int64_t(h) * batch.rows + t) * group;
          for (const Rows& heads : {queries, d_out}) std::memset(heads.at(query), 0, size_t(group) * heads.ld * k.elem);
          std::memset(d_q.at(query), 0, group * d_q.ld * sizeof(float));
          std::fill_n(mem.delta.floats() + query, group, 0.0f);
          std::fill_n(a.lse + query, group, std::numeric_limits<float>::max());
        }
        if (c.output_gate) std::memset(mem.d_head_gates.at(t), 0, size_t(mem.d_head_gates.ld) * k.elem);
      }
    });
  }

  // dx of the rows that are read, which it begins with, to where they stand among all.
  void spread_read() const {
    const Rows x = dx.as_rows();
    each_stripe(all, x, batch.rows, [&](int64_t at, size_t bytes) {
      int of_read = int(a.read->size());
      for (int t = batch.rows - 1; t >= 0; t--) {
        const bool is_read = of_read > 0 && a.row(of_read - 1) == t;
        if (!is_read)
          std::memset(x.at(t) + at, 0, bytes);
        else if (--of_read != t)
          std::memcpy(x.at(t) + at, x.at(of_read) + at, bytes);
      }
    });
  }

  // Gradient of a token's key or value: its own slot, then the copies.
  void slot_gradients(const Matrix& d, int row, float* out) const {
    auto add = [&](Slot s, bool first) {
      for (int h = 0; h < c.kv_heads; h++) {
        const float* from = d.at((int64_t(s.page) * c.kv_heads + h) * kPage + s.slot);
        if (first)
          std::memcpy(out + h * c.head_dim, from, c.head_dim * sizeof(float));
        else
          k.add(out + h * c.head_dim, from, c.head_dim);
      }
    };
    add(batch.slot(row, layer), true);
    if (!batch.copies_from.empty())
      for (int j = batch.copies_from[row]; j < batch.copies_from[row + 1]; j++) add(batch.copies[j], false);
  }

  // What is read of a token below.
  void fetch_heads(int t) const {
    const Slot s = batch.slot(t, layer);
    const int bytes = c.head_dim * int(sizeof(float));
    for (int h = 0; h < c.kv_heads; h++) {
      fetch(d_q.at((int64_t(h) * batch.rows + t) * c.group()), c.group() * int(d_q.ld * sizeof(float)));
      if (c.keys_of >= 0) continue;
      const int64_t key = (int64_t(s.page) * c.kv_heads + h) * kPage + s.slot;
      fetch(d_k.at(key), bytes), fetch(d_v.at(key), bytes);
    }
    fetch(a.q.at(t), c.heads * c.q_stride() * k.elem);
    if (a.k) fetch(a.k.at(t), c.kv_width() * k.elem);
  }

  // d_q, d_k, d_v of roped heads to those of the projections [rows][width], and on to dx [rows][hidden].
  void queries_keys_values(Team& team, RunScratch& run, int row0, int rows) {
    const int group = c.group(), head = c.head_dim;
    each_block(team, row0, rows, [&](int, int row, int n, int worker) {
      float *q_sums = norm_sums(kNormQ, row0 + row), *k_sums = norm_sums(kNormK, row0 + row);
      float* d = ws.workers[worker].head.floats();
      for (int i = row; i < row + n; i++) {
        const int t = row0 + i, position = batch.positions[t];
        if (i + 1 < rows) fetch_heads(t + 1);
        const float *cos = m.rope(layer).cos(position), *sin = m.rope(layer).sin(position);
        for (int h = 0; h < c.heads; h++)
          std::memcpy(d + h * head, d_q.at((int64_t(h / group) * batch.rows + t) * group + h % group),
                      head * sizeof(float));
        if (const float scale = m.rope(layer).query_scale(position); scale != 1) k.scale(d, c.q_width(), scale, d);
        k.head_norm_rope_backward(a.q.at(t), c.q_stride(), c.heads, head, c.rotary(), w.norms[kNormQ].data(), rms_eps,
                                  cos, sin, d, d, q_sums);
        if (c.output_gate)
          for (int h = 0; h < c.heads; h++) {
            k.round_rows(d + h * head, head, 1, head, 1.0f, run.d_q.at(i, h * c.q_stride()), head);
            std::memcpy(run.d_q.at(i, h * c.q_stride() + head), mem.d_head_gates.at(t, h * head),
                        size_t(head) * k.elem);
          }
        else
          k.round_rows(d, c.q_width(), 1, c.q_width(), 1.0f, run.d_q.at(i), run.d_q.ld);
        if (c.keys_of >= 0) continue;
        slot_gradients(d_k, t, d);
        // Without a norm of their own keys are not kept, and rope's backward does not look at them.
        k.head_norm_rope_backward(a.k ? a.k.at(t) : a.q.at(t), head, c.kv_heads, head, c.rotary(),
                                  w.norms[kNormK].data(), rms_eps, cos, sin, d, d, k_sums);
        float* const of_values = d + padded(c.kv_width());
        slot_gradients(d_v, t, of_values);
        if (c.v_norm)
          k.head_norm_rope_backward((c.values_from_keys ? a.k : a.v).at(t), head, c.kv_heads, head, 0,
                                    w.value_norm.data(), rms_eps, nullptr, nullptr, of_values, of_values, nullptr);
        if (c.values_from_keys)
          k.add(d, of_values, c.kv_width());
        else
          k.round_rows(of_values, c.kv_width(), 1, c.kv_width(), 1.0f, run.d_v.at(i), run.d_v.ld);
        k.round_rows(d, c.kv_width(), 1, c.kv_width(), 1.0f, run.d_k.at(i), run.d_k.ld);
      }
    });
    const Rows of[] = {run.d_q, run.d_k, run.d_v};
    Rows dys[3];
    int projections[3], count = 0;
    for (int p : {kQ, kK, kV})
      if (has_projection(m.spec.layers[layer], p)) projections[count] = p, dys[count++] = of[p];
    input_projections(team, run, projections, dys, count, row0, rows);
  }

  // Gradients of what the projections of a layer's input put out, on to dx [rows][hidden].
  void input_projections(Team& team, RunScratch& run, const int* projections, const Rows* dys, int count, int row0,
                         int rows) {
    bool any = false;
    for (int i = 0; i < count; i++) {
      lora_up(team, projections[i], dys[i], run, rows);
      any |= sums(projections[i]);
    }
    if (any) {
      normed(team, a.x_in.from(row0), w.norms[kNormIn], run.normed, rows);
      keep_inputs(team, kInputNormed, run.normed, hidden, row0, rows);
    }
    keep_outputs(team, projections, dys, count, run, row0, rows);
    if (!input_gradient) return;
    BackTerm terms[kDeltaInputs];
    for (int i = 0; i < count; i++) terms[i] = term(projections[i], dys[i], run);
    collect(team, run, terms, count, rows);
    norm_backward(team, a.x_in, kNormIn, run.d_normed, row0, rows);
  }

  // d_heads and d_head_gates to gradients of what the projections from kInQkv on put out.
  void delta_scan() {
    const int width = delta_rule->conv_width();
    each_rows(all, batch.rows, width,
              [&](int row, int n, int) { std::memset(mem.d_qkv.at(row), 0, n * mem.d_qkv.ld * sizeof(float)); });
    delta_backward(all, m, batch, layer, a,
                   {mem.d_heads, mem.d_qkv, mem.d_b, mem.d_a, wanted.delta[kConvolution], wanted.delta[kDecay].data,
                    wanted.delta[kStepBias].data},
                   ws);
  }

  void delta_inputs(Team& team, RunScratch& run, int row0, int rows) {
    static constexpr int projections[kDeltaInputs] = {kInQkv, kInZ, kInB, kInA};
    const int width = delta_rule->conv_width();
    each_rows(team, rows, width, [&](int row, int n, int) {
      k.round_rows(mem.d_qkv.at(row0 + row), mem.d_qkv.ld, n, width, 1.0f, run.d_qkv.at(row), run.d_qkv.ld);
    });
    const Rows dys[kDeltaInputs] = {run.d_qkv, mem.d_head_gates.from(row0), mem.d_b.from(row0), mem.d_a.from(row0)};
    input_projections(team, run, projections, dys, kDeltaInputs, row0, rows);
  }

  void sum_window(const int* projections, int count, int rows) {
    std::vector<TokenSum> list;
    for (int i = 0; i < count; i++) {
      const int p = projections[i];
      const Linear& linear = w.projections[p];
      if (wanted.weight[p]) list.push_back({&mem.dy[p], &mem.x[kInputOf[p]], linear.n, linear.k, wanted.weight[p]});
      if (wanted.a[p]) {
        list.push_back({&mem.g[p], &mem.x[kInputOf[p]], adapter->rank, linear.k, wanted.a[p]});
        list.push_back({&mem.z[p], &mem.dy[p], adapter->rank, linear.n, wanted.b[p], true});
      }
    }
    if (!list.empty()) sum_over_tokens(all, k, list, rows, kBlockRows, ws.workers);
  }

  template <class F> void each_window(int all_rows, const int* projections, int count, F&& f) {
    for (window0 = 0; window0 < all_rows && all.ok(); window0 += mem.window) {
      const int rows = std::min(mem.window, all_rows - window0);
      ws.each_run(all, rows, [&](Team& team, RunScratch& run, int row0, int n) { f(team, run, window0 + row0, n); });
      sum_window(projections, count, rows);
    }
  }

  void add_partials(const MatrixStore& partial, int n, float* to) const {
    if (to) k.column_sums(partial.data, partial.ld, (batch.rows + kBlockRows - 1) / kBlockRows, n, to);
  }

  void run() {
    if (mem.transpose_layers)
      for (int p = 0; p < kProjections; p++)
        if (w.projections[p].n) transpose_weight(all, k, w.projections[p], mem.transposed[p].data());
    static constexpr int after_attention[] = {kO, kGate, kUp, kDown}, before_attention[] = {kQ, kK, kV},
                         before_delta_rule[] = {kInQkv, kInZ, kInB, kInA};
    each_window(a.rows_read(batch.rows), after_attention, 4, [&](Team& team, RunScratch& run, int row0, int rows) {
      end_of_layer_backward(team, m, layer, a, dx, run, ws, row0, rows);
      feed_forward(team, run, row0, rows);
      output_projection(team, run, row0, rows);
    });
    if (delta_rule) {
      delta_scan();
      each_window(batch.rows, before_delta_rule, kDeltaInputs,
                  [&](Team& team, RunScratch& run, int row0, int rows) { delta_inputs(team, run, row0, rows); });
    } else if (convolution) {
      convolve();
      each_window(batch.rows, before_delta_rule, 1,
                  [&](Team& team, RunScratch& run, int row0, int rows) { convolution_inputs(team, run, row0, rows); });
    } else {
      if (a.read) clear_unread(), spread_read();
      attention_backward(all, m, batch, layer, a,
                         {d_out, mem.delta.floats(), d_q, d_k, d_v, shared_keys >= 0 && !m.reads_keys_last(layer),
                          mem.pages, mem.cells_of(batch, c.group())},
                         ws);
      each_window(batch.rows, before_attention, 3,
                  [&](Team& team, RunScratch& run, int row0, int rows) { queries_keys_values(team, run, row0, rows); });
    }
    if (!all.ok()) return;
    for (int n = 0; n < kNorms; n++)
      if (wanted.norms[n]) add_partials(mem.partial_norm[n], norm_width(m.spec, layer, n), wanted.norms[n]);
    for (int p = 0; p < kProjections; p++) add_partials(mem.partial_bias[p], w.projections[p].n, wanted.bias[p]);
  }
};

}  // namespace

void layer_backward(Team& team, const Model& m, const Batch& batch, int layer, const LayerActivations& a,
                    const AdapterPanels* adapter, const LayerGradients& wanted, bool input_gradient, const Matrix& dx,
                    Workspace& ws, BackwardMemory& memory) {
  LayerBackward{team, m, batch, layer, a, adapter, wanted, input_gradient, dx, ws, memory}.run();
}

}  // namespace anneal::cpu
