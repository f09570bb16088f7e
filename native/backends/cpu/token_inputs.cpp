#include "token_inputs.h"

#include <cmath>

#include "activation_probe.h"
#include "back_products.h"
#include "products.h"

namespace anneal::cpu {
namespace {

Input input_of(Team& team, const Model& m, const Linear& linear, const Rows& x, int rows, RunScratch& run) {
  const Linear* const weights[] = {&linear};
  return with_codes(team, m.kernels, x, rows, weights, 1, run.codes);
}

// to [rows][n] = x [rows][k] W^T, rounded.
void round_product(Team& team, const Model& m, const Linear& linear, const Input& x, int rows, const Rows& to,
                   Workspace& ws) {
  const Split split = split_product(team, m.kernels, rows, panels_of(linear.n));
  team.each(split.chunks(), [&](int64_t chunk, int worker) {
    const Tile t = tile_of(split, chunk);
    const int col = t.panel * kLanes, cols = std::min(t.panels * kLanes, linear.n - col);
    float* sums = ws.workers[worker].tile.floats();
    linear_product(m, linear, x, t, sums, t.panels * kLanes, false);
    round_tile(m.kernels, sums, t.panels * kLanes, t.rows, cols, to, t.row, col);
  });
}

// run.normed [rows][hidden] = x, rounded.
void round_residual(Team& team, const Model& m, const Matrix& x, int rows, RunScratch& run) {
  const int hidden = m.spec.hidden;
  each_rows(team, rows, hidden, [&](int row, int n, int) {
    m.kernels.round_rows(x.at(row), x.ld, n, hidden, 1.0f, run.normed.at(row), run.normed.ld);
  });
}

// A layer's token input of a row.
const char* token_input(const Model& m, int layer, int row, const Workspace& ws) {
  return ws.token_inputs.at(row, int64_t(layer) * m.spec.token_inputs);
}

// Rows of run.token_act = activation(gate) * token input; `gate` is kept where it has data.
void activate(Team& team, const Model& m, int layer, const LayerActivations& a, const Input& x, const Rows& gate,
              RunScratch& run, Workspace& ws, int row0, int rows) {
  const Kernels& k = m.kernels;
  const Linear& linear = m.weights->layers[layer].token_gate;
  const Split split = split_product(team, k, rows, panels_of(linear.n), 2);
  team.each(split.chunks(), [&](int64_t chunk, int worker) {
    const Tile t = tile_of(split, chunk);
    const int col = t.panel * kLanes, cols = std::min(t.panels * kLanes, linear.n - col);
    const int64_t ld = t.panels * kLanes;
    float *gates = ws.workers[worker].tile.floats(), *given = gates + t.rows * ld;
    char* const given_again = reinterpret_cast<char*>(given + ld);
    linear_product(m, linear, x, t, gates, ld, false);
    for (int i = 0; i < t.rows; i++) {
      const int row = t.row + i;
      k.widen_rows(token_input(m, layer, a.row(row0 + row), ws) + col * k.elem, ld, 1, cols, given, ld);
      m.activation(layer).round_mul(gates + i * ld, given, ld, 1, cols, gate ? gate.at(row, col) : nullptr,
                                    gate ? given_again : nullptr, ld, run.token_act.at(row, col), ld);
    }
  });
}

}  // namespace

void make_token_inputs(Team& team, const Model& m, const Batch& batch, const Matrix& x, Workspace& ws) {
  const int width = m.spec.token_inputs, layers = m.layers(), all = width * layers;
  if (!width) return;
  const Kernels& k = m.kernels;
  const Weights& w = *m.weights;
  float scale = float(std::sqrt(double(width)));
  if (m.spec.embedding_rounds) m.round(&scale, 1);
  const float by_hidden = float(1 / std::sqrt(double(m.spec.hidden))), by_two = float(std::sqrt(0.5));
  ws.each_run(team, batch.rows, [&](Team& t, RunScratch& run, int row0, int rows) {
    round_residual(t, m, x.from(row0), rows, run);
    const Rows to = ws.token_inputs.from(row0);
    round_product(t, m, w.token_projection, input_of(t, m, w.token_projection, run.normed, rows, run), rows, to, ws);
    each_rows(t, rows, 4 * all, [&](int row, int n, int worker) {
      float *told = ws.workers[worker].tile.floats(), *part = told + padded(all);
      char* normed = reinterpret_cast<char*>(part + padded(width));
      for (int i = row; i < row + n; i++) {
        m.embed(w.token_table, batch.tokens[row0 + i], told);
        for (int layer = 0; layer < layers; layer++) {
          const int64_t col = int64_t(layer) * width;
          k.widen_rows(to.at(i, col), width, 1, width, part, width);
          k.scale(part, width, by_hidden, part);
          k.rmsnorm(part, width, w.token_norm.data(), m.spec.rms_eps, 1, width, normed, width);
          k.widen_rows(normed, width, 1, width, part, width);
          k.add_scaled(part, told + col, scale, width);
          k.round_rows(part, width, 1, width, by_two, to.at(i, col), width);
        }
      }
    });
  });
}

void keep_token_inputs(Team& team, const Model& m, const std::vector<int>& rows, Workspace& ws) {
  if (!m.spec.token_inputs) return;
  const Rows x = ws.token_inputs;
  each_stripe(team, x, int(rows.size()), [&](int64_t at, size_t bytes) {
    for (int i = 0; i < int(rows.size()); i++)
      if (rows[i] != i) std::memcpy(x.at(i) + at, x.at(rows[i]) + at, bytes);
  });
}

void end_of_layer(Team& team, const Model& m, int layer, const LayerActivations& a, RunScratch& run, Workspace& ws,
                  int row0, int rows) {
  if (!a.x_out || !m.ends_apart(layer)) return;
  const Kernels& k = m.kernels;
  const int hidden = m.spec.hidden;
  const Layer& w = m.weights->layers[layer];
  const Matrix x = a.x_out.from(row0);
  const Rows branch = a.token_branch ? a.token_branch.from(row0) : Rows(run.branch);
  if (m.spec.token_inputs) {
    round_residual(team, m, x, rows, run);
    activate(team, m, layer, a, input_of(team, m, w.token_gate, run.normed, rows, run),
             a.token_gate ? a.token_gate.from(row0) : Rows{}, run, ws, row0, rows);
    round_product(team, m, w.token_out, input_of(team, m, w.token_out, run.token_act, rows, run), rows, branch, ws);
  }
  each_rows(team, rows, hidden, [&](int row, int n, int worker) {
    float* wide = ws.workers[worker].tile.floats();
    char* normed = reinterpret_cast<char*>(wide + padded(hidden));
    for (int i = row; i < row + n; i++) {
      if (m.spec.token_inputs) {
        k.widen_rows(branch.at(i), branch.ld, 1, hidden, wide, hidden);
        k.rmsnorm(wide, hidden, w.norms[kNormToken].data(), m.spec.rms_eps, 1, hidden, normed, hidden);
        k.widen_rows(normed, hidden, 1, hidden, wide, hidden);
        k.add(x.at(i), wide, hidden);
      }
      if (m.spec.layers[layer].scaled) k.scale(x.at(i), hidden, w.scale, x.at(i));
    }
  });
}

void end_of_layer_backward(Team& team, const Model& m, int layer, const LayerActivations& a, const Matrix& dx,
                           RunScratch& run, Workspace& ws, int row0, int rows) {
  if (!m.ends_apart(layer)) return;
  const Kernels& k = m.kernels;
  const int hidden = m.spec.hidden, width = m.spec.token_inputs;
  const Layer& w = m.weights->layers[layer];
  const Matrix d = dx.from(row0);
  each_rows(team, rows, 4 * hidden, [&](int row, int n, int worker) {
    float *x = ws.workers[worker].tile.floats(), *d_branch = x + padded(hidden);
    for (int i = row; i < row + n; i++) {
      if (m.spec.layers[layer].scaled) k.scale(d.at(i), hidden, w.scale, d.at(i));
      if (!width) continue;
      k.widen_rows(a.token_branch.at(row0 + i), a.token_branch.ld, 1, hidden, x, hidden);
      std::memset(d_branch, 0, hidden * sizeof(float));
      k.rmsnorm_backward(x, hidden, w.norms[kNormToken].data(), m.spec.rms_eps, d.at(i), d.ld, 1, hidden, d_branch,
                         hidden, nullptr);
      k.round_rows(d_branch, hidden, 1, hidden, 1.0f, run.d_out.at(i), run.d_out.ld);
    }
  });
  if (!width) return;
  const BackTerm out{run.d_out, &w.token_out}, gate{run.d_token_gate, &w.token_gate};
  back_product(team, k, ws.workers, {rows, width, &out, 1, run.gradient_codes},
               [&](int row, int n, int col, int cols, const float* tile, int64_t ld, int) {
                 for (int i = row; i < row + n; i++)
                   m.activation(layer).mul_backward(a.token_gate.at(row0 + i, col),
                                                    token_input(m, layer, a.row(row0 + i), ws) + col * k.elem, cols,
                                                    tile + (i - row) * ld, ld, 1, cols, run.d_token_gate.at(i, col),
                                                    run.token_act.at(i, col), run.d_token_gate.ld, nullptr, 0);
               });
  back_product(team, k, ws.workers, {rows, hidden, &gate, 1, run.gradient_codes},
               [&](int row, int n, int col, int cols, const float* tile, int64_t ld, int) {
                 for (int i = 0; i < n; i++) k.add(d.at(row + i, col), tile + i * ld, cols);
               });
}

}  // namespace anneal::cpu
