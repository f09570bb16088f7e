#include "layer_forward.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "activation_probe.h"
#include "attention_layer.h"
#include "convolution_layer.h"
#include "delta_layer.h"
#include "experts.h"
#include "products.h"
#include "token_inputs.h"

namespace anneal::cpu {
namespace {

// Tile c [t.rows][t.panels * 16] of x W^T + bias + B z, where x is [rows][k] and z [rows][padded rank]: rows of a run,
// whose first is row0 of the batch.
struct ProjectionTile {
  const Model& m;
  std::span<const AdapterRows> adapted;
  int layer;

  // Rows with their codes, where the projections want them.
  Input input(Team& team, const Rows& x, int rows, const int* projections, int count, RunScratch& run) const {
    const Linear* weights[kProjections];
    for (int i = 0; i < count; i++) weights[i] = &m.weights->layers[layer].projections[projections[i]];
    return with_codes(team, m.kernels, x, rows, weights, count, run.codes);
  }

  void operator()(int p, const Input& x, int row0, const Tile& t, const Rows& z, float* c, int64_t ldc,
                  bool accumulate) const {
    const Kernels& k = m.kernels;
    const Linear& w = m.weights->layers[layer].projections[p];
    linear_product(m, w, x, t, c, ldc, accumulate);
    for (const AdapterRows& s : adapted) {
      const LowRank& low = s.adapter->layers[layer][p];
      const int from = std::max(t.row, s.row0 - row0), to = std::min(t.row + t.rows, s.row0 + s.rows - row0);
      if (from >= to || !low) continue;
      const int rank = s.adapter->rank;
      k.gemm(z.at(from), z.ld, to - from, low.b.data() + t.panel * panel_bytes(k, rank), rank, t.panels,
             c + (from - t.row) * ldc, ldc, true);
    }
  }
};

// Where s A x of projection p goes, from row0 of the batch on.
Rows low_rank_rows(const LayerActivations& a, const RunScratch& run, int p, int row0) {
  return a.z[p] ? a.z[p].from(row0) : Rows(run.z[p]);
}

// z[i] [rows][padded rank] = round(s A x) of `count` projections of the same input [rows][k], where they are adapted.
// Rows are relative to row0 of the batch.
void lora_down(Team& team, const ProjectionTile& tile, const int* projections, int count, const Rows& input, int row0,
               int rows, const Rows* z, Workspace& ws) {
  const Model& m = tile.m;
  const int layer = tile.layer;
  bool any = false;
  for (const AdapterRows& s : tile.adapted)
    for (int p = 0; p < count; p++) any |= bool(s.adapter->layers[layer][projections[p]]);
  if (!any) return;
  const Kernels& k = m.kernels;
  const int blocks = (rows + kLoraRows - 1) / kLoraRows;
  team.each(int64_t(blocks) * count, [&](int64_t chunk, int worker) {
    const int p = int(chunk % count), row = int(chunk / count) * kLoraRows, end = std::min(rows, row + kLoraRows);
    float* sums = ws.workers[worker].tile.floats();
    for (const AdapterRows& s : tile.adapted) {
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
  const Split split = split_product(team, tile.m.kernels, rows, panels_of(n));
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
  Split splits[kDeltaInputs];
  int64_t from[kDeltaInputs + 1] = {};
  const auto width = [&](int i) { return tile.m.weights->layers[tile.layer].projections[projections[i]].n; };
  for (int i = 0; i < count; i++) {
    splits[i] = split_product(team, tile.m.kernels, rows, panels_of(width(i)));
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
                         RunScratch& run, Workspace& ws, int row0, int rows) {
  const AttentionSpec& c = m.attention(layer);
  const Kernels& k = m.kernels;
  const Layer& w = m.weights->layers[layer];
  const ProjectionTile tile{m, batch.adapted, layer};
  norm_rows(team, m, a.x_in.from(row0), w.norms[kNormIn], rows, run.normed);

  const Rows q = a.q ? a.q.from(row0) : run.q, k_out = a.k ? a.k.from(row0) : run.k,
             v = c.values_from_keys ? k_out
                 : a.v              ? a.v.from(row0)
                                    : run.v;
  const Rows of[] = {q, k_out, v};
  int projections[3], count = 0;
  Rows z[3], out[3];
  for (int p : {kQ, kK, kV})
    if (has_projection(m.spec.layers[layer], p))
      projections[count] = p, z[count] = low_rank_rows(a, run, p, row0), out[count++] = of[p];
  lora_down(team, tile, projections, count, run.normed, row0, rows, z, ws);
  const Input input = tile.input(team, run.normed, rows, projections, count, run);
  round_products(team, tile, projections, count, input, row0, rows, z, out, ws);

  // Several passes over the heads: so many fewer rows to a chunk.
  each_rows(team, rows, 4 * c.q_width(), [&](int row, int n, int worker) {
    float* heads = ws.workers[worker].head.floats();
    rope_queries(m, batch, layer, q, row0, row, n, ws.queries_of(c), heads);
    if (c.keys_of >= 0) return;
    float* keys = heads;
    float* values = heads + padded(c.kv_width());
    for (int i = row; i < row + n; i++) {
      const int position = batch.positions[row0 + i];
      k.head_norm_rope(k_out.at(i), c.head_dim, c.kv_heads, c.head_dim, c.rotary(), w.norms[kNormK].data(),
                       m.spec.rms_eps, m.rope(layer).cos(position), m.rope(layer).sin(position), keys);
      if (c.v_norm)
        k.head_norm_rope(v.at(i), c.head_dim, c.kv_heads, c.head_dim, 0, w.value_norm.data(), m.spec.rms_eps, nullptr,
                         nullptr, values);
      else
        k.widen_rows(v.at(i), v.ld, 1, c.kv_width(), values, c.kv_width());
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

// x_in [rows][hidden] to what the delta rule, or a short convolution, is made of.
void delta_inputs(Team& team, const Model& m, const Batch& batch, int layer, const LayerActivations& a, RunScratch& run,
                  Workspace& ws, int row0, int rows) {
  const ProjectionTile tile{m, batch.adapted, layer};
  norm_rows(team, m, a.x_in.from(row0), m.weights->layers[layer].norms[kNormIn], rows, run.normed);
  static constexpr int projections[kDeltaInputs] = {kInQkv, kInZ, kInB, kInA};
  const int count = m.recurrent_inputs(layer);
  Rows z[kDeltaInputs], out[kDeltaInputs];
  for (int i = 0; i < count; i++) z[i] = low_rank_rows(a, run, projections[i], row0), out[i] = a.delta_in[i].from(row0);
  lora_down(team, tile, projections, count, run.normed, row0, rows, z, ws);
  const Input input = tile.input(team, run.normed, rows, projections, count, run);
  round_products(team, tile, projections, count, input, row0, rows, z, out, ws);
}

// x_mid [rows][hidden] = x_in + attention [rows][attended], gated . o^T.
void output_projection(Team& team, const Model& m, std::span<const AdapterRows> adapted, int layer,
                       const LayerActivations& a, RunScratch& run, Workspace& ws, int row0, int rows) {
  const ProjectionTile tile{m, adapted, layer};
  const Rows attention = gated_heads(team, m, layer, a, run, row0, rows, ws);
  static constexpr int o[] = {kO};
  const Rows z = low_rank_rows(a, run, kO, row0);
  lora_down(team, tile, o, 1, attention, row0, rows, &z, ws);
  add_branch(team, tile, kO, kNormAttended, tile.input(team, attention, rows, o, 1, run), row0, rows, z,
             a.attended ? a.attended.from(row0) : run.branch, a.x_in, a.x_mid, ws);
}

// x_out [rows][hidden] = x_mid + (activation(gate) * up [rows][intermediate]) . down^T.
void feed_forward(Team& team, const Model& m, std::span<const AdapterRows> adapted, int layer,
                  const LayerActivations& a, RunScratch& run, Workspace& ws, int row0, int rows) {
  const int intermediate = m.spec.layers[layer].feed_forward.intermediate;
  const Layer& w = m.weights->layers[layer];
  const ProjectionTile tile{m, adapted, layer};

  norm_rows(team, m, a.x_mid.from(row0), w.norms[kNormMiddle], rows, run.normed);
  if (m.spec.layers[layer].experts)
    return experts_forward(team, m, layer, run.normed, rows, a.gate.from(row0), a.up.from(row0), a.x_mid.from(row0),
                           a.x_out.from(row0), run, ws);
  static constexpr int gate_up[] = {kGate, kUp};
  const Rows z[] = {low_rank_rows(a, run, kGate, row0), low_rank_rows(a, run, kUp, row0)};
  lora_down(team, tile, gate_up, 2, run.normed, row0, rows, z, ws);
  const Input input = tile.input(team, run.normed, rows, gate_up, 2, run);
  const Rows gate = a.gate.from(row0), up = a.up.from(row0);
  const Split split = split_product(team, m.kernels, rows, panels_of(intermediate), 2);
  team.each(split.chunks(), [&](int64_t chunk, int worker) {
    const Tile t = tile_of(split, chunk);
    const int col = t.panel * kLanes, cols = std::min(t.panels * kLanes, intermediate - col);
    const int64_t ld = t.panels * kLanes;
    float *gates = ws.workers[worker].tile.floats(), *ups = gates + t.rows * ld;
    tile(kGate, input, row0, t, z[0], gates, ld, false);
    tile(kUp, input, row0, t, z[1], ups, ld, false);
    for (int i = 0; i < t.rows; i++)
      m.activation(layer).round_mul(gates + i * ld, ups + i * ld, ld, 1, cols, gate ? gate.at(t.row + i, col) : nullptr,
                                    up ? up.at(t.row + i, col) : nullptr, gate.ld, run.act.at(t.row + i, col), ld);
  });

  const bool ends_here = !a.x_out && !a.fed_forward;
  static constexpr int down[] = {kDown};
  const Rows z_down = low_rank_rows(a, run, kDown, row0);
  if (!ends_here || a.z[kDown]) lora_down(team, tile, down, 1, run.act, row0, rows, &z_down, ws);
  if (ends_here) return;
  add_branch(team, tile, kDown, kNormOut, tile.input(team, run.act, rows, down, 1, run), row0, rows, z_down,
             a.fed_forward ? a.fed_forward.from(row0) : run.branch, a.x_mid, a.x_out, ws);
}

// What is read again after attention goes to the workspace where `given` does not keep it.
LayerActivations kept_or_not(const Model& m, int layer, const LayerActivations& given, const Workspace& ws) {
  LayerActivations a = given;
  if (!m.attends(layer)) {
    for (int i = 0; i < kDeltaInputs; i++)
      if (!a.delta_in[i]) a.delta_in[i] = ws.delta_in[i];
  } else if (m.attention(layer).output_gate && !a.q) {
    a.q = ws.gated_q;
  }
  return a;
}

// Brings the rows that are read together, of x_in in x_mid.
Matrix take_read(Team& team, const LayerActivations& a) {
  const int count = int(a.read->size());
  const auto take = [&](const Rows& to, const Rows& from) {
    each_stripe(team, from, count, [&](int64_t at, size_t bytes) {
      for (int i = 0; i < count; i++)
        if (to.at(i) != from.at(a.row(i))) std::memcpy(to.at(i) + at, from.at(a.row(i)) + at, bytes);
    });
  };
  take(a.x_mid.as_rows(), a.x_in.as_rows());
  take(a.attention, a.attention);
  return a.x_mid;
}

void project_inputs(Team& team, const Model& m, const Batch& batch, int layer, const LayerActivations& a,
                    Workspace& ws) {
  const auto project = m.attends(layer) ? queries_keys_values : delta_inputs;
  ws.each_run(team, batch.rows, [&](Team& t, RunScratch& run, int row0, int rows) {
    project(t, m, batch, layer, a, run, ws, row0, rows);
  });
}

void mix_positions(Team& team, const Model& m, const Batch& batch, int layer, const LayerActivations& a,
                   Workspace& ws) {
  const auto mix = m.delta_rule(layer)          ? delta_forward
                   : m.short_convolution(layer) ? convolution_forward
                                                : attention_forward;
  mix(team, m, batch, layer, a, ws);
}

// The rest of a layer, of all rows or of those that are read.
void project_outputs(Team& team, const Model& m, const Batch& batch, int layer, const LayerActivations& given,
                     Workspace& ws) {
  LayerActivations a = given;
  std::span<const AdapterRows> adapted = batch.adapted;
  std::vector<AdapterRows> of_read;
  if (a.read) {
    a.x_in = take_read(team, a);
    for (const AdapterRows& s : batch.adapted)
      if (const int from = place_among(*a.read, s.row0), end = place_among(*a.read, s.row0 + s.rows); from < end)
        of_read.push_back({from, end - from, s.adapter});
    adapted = of_read;
  }
  ws.each_run(team, a.rows_read(batch.rows), [&](Team& t, RunScratch& run, int row0, int count) {
    output_projection(t, m, adapted, layer, a, run, ws, row0, count);
    feed_forward(t, m, adapted, layer, a, run, ws, row0, count);
    end_of_layer(t, m, layer, a, run, ws, row0, count);
  });
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

void embed_tokens(Team& team, const Model& m, const Batch& batch, const Matrix& x, Workspace& ws) {
  const int hidden = m.spec.hidden;
  const float scale = m.embedding_scale();
  each_rows(team, batch.rows, hidden, [&](int row, int n, int) {
    for (int i = row; i < row + n; i++) {
      m.embed(m.weights->embedding, batch.tokens[i], x.at(i));
      if (scale != 1) m.kernels.scale(x.at(i), hidden, scale, x.at(i));
      if (m.spec.embedding_rounds) m.round(x.at(i), hidden);
    }
  });
  make_token_inputs(team, m, batch, x, ws);
}

Rows gated_heads(Team& team, const Model& m, int layer, const LayerActivations& a, RunScratch& run, int row0, int rows,
                 Workspace& ws) {
  const Rows attention = a.attention.from(row0);
  const Kernels& k = m.kernels;
  if (const DeltaRuleSpec* d = m.delta_rule(layer)) {
    const Rows& gate = a.delta_in[kInZ - kInQkv];
    const float* weight = m.weights->layers[layer].norms[kNormDelta].data();
    each_rows(team, rows, d->value_width(), [&](int row, int n, int worker) {
      float* wide = ws.workers[worker].head.floats();
      for (int i = row; i < row + n; i++)
        for (int col = 0; col < d->value_width(); col += d->value_dim) {
          k.widen_rows(attention.at(i, col), d->value_dim, 1, d->value_dim, wide, d->value_dim);
          k.gated_norm(wide, gate.at(a.row(row0 + i), col), weight, m.spec.rms_eps, d->value_dim, run.gated.at(i, col));
        }
    });
    return run.gated;
  }
  const AttentionSpec& c = m.attention(layer);
  if (!c.output_gate) return attention;
  each_rows(team, rows, c.q_width(), [&](int row, int n, int) {
    for (int i = row; i < row + n; i++)
      for (int h = 0; h < c.heads; h++)
        k.logistic.mul(a.q.at(a.row(row0 + i), h * c.q_stride() + c.head_dim), attention.at(i, h * c.head_dim),
                       c.head_dim, 1, c.head_dim, run.gated.at(i, h * c.head_dim), c.head_dim);
  });
  return run.gated;
}

void layer_forward(Team& team, const Model& m, const Batch& batch, int layer, const LayerActivations& given,
                   Workspace& ws) {
  const LayerActivations a = kept_or_not(m, layer, given, ws);
  project_inputs(team, m, batch, layer, a, ws);
  if (a.rows_read(batch.rows) > 0 || !m.attends(layer)) mix_positions(team, m, batch, layer, a, ws);
  project_outputs(team, m, batch, layer, a, ws);
}

}  // namespace anneal::cpu
