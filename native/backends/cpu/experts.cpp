#include "experts.h"

#include <cmath>
#include <numeric>

#include "activation_probe.h"
#include "back_products.h"

namespace anneal::cpu {
namespace {

// Rows of activations of one expert, one after the other.
Rows of_choices(const RowStore& rows, const ExpertsSpec& e) { return {rows.data, e.stride(), rows.elem}; }

struct Experts {
  Team& team;
  const Model& m;
  const int layer, rows;
  RunScratch& run;
  Workspace& ws;
  const ExpertsSpec& spec = *m.spec.layers[layer].experts;
  const Kernels& k = m.kernels;
  const Layer& w = m.weights->layers[layer];
  ExpertScratch& s = run.experts;
  const Kernels& floats = *kernels(k.isa, DType::f32);
  const int hidden = m.spec.hidden, per = spec.per_row(), choices = rows * per;
  const int64_t shared_column = padded(spec.count);  // of scores

  int row_of(int choice) const { return choice / per; }
  // Where a choice's activations begin in its row's.
  int64_t column_of(int choice) const { return int64_t(choice % per) * spec.stride(); }
  // Of the activations of the choice that is i-th in order.
  int width_of(int i) const { return spec.intermediate_of(s.expert[s.order[i]]); }
  int count_of(int expert) const { return s.from[expert + 1] - s.from[expert]; }

  // Chooses for each row of x [rows][hidden], and sorts by expert.
  void route(const Rows& x) {
    score(w.router, x, 0);
    if (spec.shared()) score(w.shared_gate, x, shared_column);
    s.expert.resize(size_t(choices)), s.weight.resize(size_t(choices)), s.order.resize(size_t(choices));
    each_rows(team, rows, 4 * spec.count, [&](int row, int n, int worker) {
      for (int i = row; i < row + n; i++) choose(i, ws.workers[worker].tile.floats());
    });
    s.from.assign(size_t(spec.total()) + 1, 0);
    for (int expert : s.expert) s.from[expert + 1]++;
    std::partial_sum(s.from.begin(), s.from.end(), s.from.begin());
    for (int c = choices - 1; c >= 0; c--) s.order[--s.from[s.expert[c] + 1]] = c;
    std::rotate(s.from.begin(), s.from.begin() + 1, s.from.end());
    s.from.back() = choices;
  }

  void score(const Linear& linear, const Rows& x, int64_t column) {
    const Split split = split_product(team, k, rows, int(panels_of(linear.n)));
    team.each(split.chunks(), [&](int64_t chunk, int) {
      const Tile t = tile_of(split, chunk);
      float* const scores = s.scores.at(t.row, column + t.panel * kLanes);
      linear_product(m, linear, Input{x}, t, scores, s.scores.ld, false);
    });
  }

  // The experts of the largest scores, of equal ones the first; in the order of their numbers. Returns the largest.
  float choose_largest(const float* score, int32_t* chosen) const {
    const int most = spec.per_token;
    for (int i = 0, n = 0; i < spec.count; i++) {
      if (n == most && !(score[i] > score[chosen[n - 1]])) continue;
      int at = n < most ? n++ : n - 1;
      for (; at > 0 && score[i] > score[chosen[at - 1]]; at--) chosen[at] = chosen[at - 1];
      chosen[at] = i;
    }
    const float largest = score[chosen[0]];
    std::sort(chosen, chosen + most);
    return largest;
  }

  // The experts of a row and their weights. Its logits become probabilities: of all together, or each its own.
  void choose(int row, float* scratch) {
    float* const p = s.scores.at(row);
    int32_t* const chosen = &s.expert[size_t(row) * per];
    if (spec.logistic)
      weigh_each(p, chosen, &s.weight[size_t(row) * per], scratch);
    else
      weigh_together(p, chosen, &s.weight[size_t(row) * per], scratch);
  }

  void weigh_each(float* p, int32_t* chosen, float* weight, float* scratch) const {
    float *const ones = scratch, *score = ones + shared_column;
    std::fill_n(ones, spec.count, 1.0f);
    floats.logistic.mul(p, ones, spec.count, 1, spec.count, score, spec.count);
    std::copy_n(score, spec.count, p);
    for (int i = 0; spec.score_bias && i < spec.count; i++) score[i] += w.score_bias[size_t(i)];
    choose_largest(score, chosen);
    const double share = spec.scale / sum_of_chosen(p, chosen);
    for (int j = 0; j < spec.per_token; j++) weight[j] = float(share * p[chosen[j]]);
  }

  // What weights of their own logistics are divided by.
  double sum_of_chosen(const float* p, const int32_t* chosen) const {
    constexpr double kNoZero = 1e-6;
    double sum = kNoZero;
    for (int j = 0; j < spec.per_token; j++) sum += p[chosen[j]];
    return spec.normalized ? sum : 1;
  }

  void weigh_together(float* p, int32_t* chosen, float* weight, float* scratch) const {
    float* const maxima = scratch;
    const int most = spec.per_token;
    const float top = choose_largest(p, chosen);
    const int blocks = (spec.count + kLogitBlock - 1) / kLogitBlock;
    double* const masses = reinterpret_cast<double*>(maxima + blocks * kLanes);
    k.lane_maxima(p, spec.count, maxima);
    k.probabilities(p, spec.count, maxima, {top, 1, -INFINITY, 0}, p, masses);
    double sum = 0;
    for (int j = 0; spec.normalized && j < most; j++) sum += p[chosen[j]];
    for (int b = 0; !spec.normalized && b < blocks; b++) sum += masses[b];
    k.scale(p, spec.count, float(1 / sum), p);
    for (int j = 0; j < most; j++) weight[j] = p[chosen[j]];
    if (!spec.shared()) return;
    const float one = 1;
    chosen[most] = spec.count;
    floats.logistic.mul(p + shared_column, &one, 1, 1, 1, &weight[most], 1);
  }

  // Rows of x [rows][hidden] to s.input, as choices stand in order.
  void gather(const Rows& x) {
    const size_t bytes = size_t(round_up(hidden, k.k_step)) * k.elem;
    each_rows(team, choices, hidden, [&](int at, int n, int) {
      for (int i = at; i < at + n; i++) std::memcpy(s.input.at(i), x.at(row_of(s.order[i])), bytes);
    });
  }

  // The first of these projections that takes codes; null: none does.
  const Linear* taker(std::initializer_list<Linear Expert::*> projections) const {
    for (const Expert& e : w.experts)
      for (Linear Expert::*p : projections)
        if ((e.*p).takes_codes()) return &(e.*p);
    return nullptr;
  }

  // x [rows][hidden] of choices in order, with codes where they are wanted.
  Input gathered(const Rows& x) {
    gather(x);
    Input input{s.input};
    const Linear* const gate_up = taker({&Expert::gate, &Expert::up});
    if (!gate_up) return input;
    const TensorFormat format = gate_up->format;
    each_rows(team, rows, hidden, [&](int row, int n, int) {
      k.of(format).quantize_rows(x.at(row), x.ld, n, hidden, run.codes.at(row), run.codes.ld);
    });
    const size_t bytes = size_t(code_row_bytes(format, hidden));
    each_rows(team, choices, hidden, [&](int at, int n, int) {
      for (int i = at; i < at + n; i++) std::memcpy(s.codes.at(i), run.codes.at(row_of(s.order[i])), bytes);
    });
    input.codes = s.codes.data, input.codes_ld = s.codes.ld;
    return input;
  }

  Input activated(const Rows& act) {
    Input input{act};
    const Linear* const down = taker({&Expert::down});
    if (!down) return input;
    each_rows(team, choices, spec.stride(), [&](int at, int n, int) {
      for (int i = at; i < at + n; i++)
        k.of(down->format).quantize_rows(act.at(i), act.ld, 1, width_of(i), s.codes.at(i), s.codes.ld);
    });
    input.codes = s.codes.data, input.codes_ld = s.codes.ld;
    return input;
  }

  // act [choices][intermediate] of x, choices in order.
  void activate(const Input& x, const Rows& act, const Rows& gate, const Rows& up) {
    struct Part {
      int expert;
      int64_t first;  // chunk
      Split split;
    };
    std::vector<Part> parts;
    int64_t chunks = 0;
    for (int e = 0; e < spec.total(); e++) {
      if (!count_of(e)) continue;
      const Split split = split_product(team, k, count_of(e), int(panels_of(spec.intermediate_of(e))), 2);
      parts.push_back({e, chunks, split});
      chunks += split.chunks();
    }
    team.each(chunks, [&](int64_t chunk, int worker) {
      const Part& part =
          *(std::upper_bound(parts.begin(), parts.end(), chunk, [](int64_t c, const Part& p) { return c < p.first; }) -
            1);
      Tile t = tile_of(part.split, chunk - part.first);
      t.row += s.from[part.expert];
      const int col = t.panel * kLanes, cols = std::min(t.panels * kLanes, spec.intermediate_of(part.expert) - col);
      const int64_t ld = t.panels * kLanes;
      float *gates = ws.workers[worker].tile.floats(), *ups = gates + t.rows * ld;
      linear_product(m, w.experts[part.expert].gate, x, t, gates, ld, false);
      linear_product(m, w.experts[part.expert].up, x, t, ups, ld, false);
      for (int i = 0; i < t.rows; i++) {
        const int c = s.order[t.row + i], row = row_of(c);
        const int64_t to = column_of(c) + col;
        m.activation(layer).round_mul(gates + i * ld, ups + i * ld, ld, 1, cols, gate ? gate.at(row, to) : nullptr,
                                      up ? up.at(row, to) : nullptr, gate.ld, act.at(t.row + i, col), ld);
      }
    });
  }

  // Chunks are stripes of columns, each of all experts: so the outputs of a row are added in one order.
  void add_outputs(const Input& act, const Matrix& from, const Matrix& to) {
    const float scale = m.residual_scale(layer);
    const Split split = split_product(team, k, std::min(rows, kTileRows), int(panels_of(hidden)));
    team.each(split.chunks(), [&](int64_t chunk, int worker) {
      const Tile stripe = tile_of(split, chunk);
      const int64_t col = int64_t(stripe.panel) * kLanes;
      const int cols = stripe.panels * kLanes;
      float* sums = ws.workers[worker].tile.floats();
      for (int i = 0; from.data != to.data && i < rows; i++)
        std::memcpy(to.at(i, col), from.at(i, col), size_t(cols) * sizeof(float));
      for (int e = 0; e < spec.total(); e++)
        for (int at = s.from[e]; at < s.from[e + 1]; at += kTileRows) {
          const Tile t{at, std::min(kTileRows, s.from[e + 1] - at), stripe.panel, stripe.panels};
          team.preemption_point(worker);
          linear_product(m, w.experts[e].down, act, t, sums, cols, false);
          for (int i = 0; i < t.rows; i++) {
            const int c = s.order[at + i];
            k.add_scaled(to.at(row_of(c), col), sums + int64_t(i) * cols, scale * s.weight[c], cols);
          }
        }
    });
  }

  // s.d_act [choices][intermediate] = what each chosen expert's activations take of dy, were its weight 1.
  void activation_gradients(const Rows& dy) {
    gather(dy);
    for (int e = 0; e < spec.total() && team.ok(); e++) {
      const int from = s.from[e];
      if (!count_of(e)) continue;
      const BackTerm term{s.input.from(from), &w.experts[e].down};
      back_product(team, k, ws.workers, {count_of(e), spec.intermediate_of(e), &term, 1, run.gradient_codes},
                   [&](int row, int n, int col, int cols, const float* tile, int64_t ld, int) {
                     for (int i = 0; i < n; i++)
                       std::memcpy(s.d_act.at(from + row + i, col), tile + i * ld, size_t(cols) * sizeof(float));
                   });
    }
  }

  // Of gate and up [choices][intermediate] in order, and of weights; s.input is the gradient's, as it was gathered.
  void gate_gradients(const Rows& gate, const Rows& up, const Rows& d_gate, const Rows& d_up) {
    const int stride = spec.stride();
    s.d_weight.resize(size_t(choices));
    each_rows(team, choices, 4 * stride, [&](int at, int count, int worker) {
      float *scaled = ws.workers[worker].tile.floats(), *wide = scaled + stride, *act = wide + stride;
      for (int i = at; i < at + count; i++) {
        const int c = s.order[i], row = row_of(c), n = width_of(i);
        const int64_t col = column_of(c);
        k.scale(s.d_act.at(i), n, s.weight[c], scaled);
        m.activation(layer).mul_backward(gate.at(row, col), up.at(row, col), gate.ld, scaled, stride, 1, n,
                                         d_gate.at(i), d_up.at(i), d_gate.ld, act, stride);
        k.widen_rows(act, stride, 1, n, wide, stride);
        floats.row_dots(s.d_act.at(i), s.d_act.ld, wide, stride, 1, n, &s.d_weight[c]);
        if (const std::vector<float>& bias = w.experts[s.expert[c]].down.bias; !bias.empty()) {
          float *dy = scaled, dot;
          k.widen_rows(s.input.at(i), s.input.ld, 1, hidden, dy, hidden);
          floats.row_dots(dy, hidden, bias.data(), hidden, 1, hidden, &dot);
          s.d_weight[c] += dot;
        }
      }
    });
  }

  // d [experts] = the gradient of a row's logits p, which have become probabilities, of what its choices' weights take.
  void logistic_gradients(const float* p, size_t of, float* d) const {
    const int32_t* const chosen = &s.expert[of];
    const double sum = sum_of_chosen(p, chosen);
    double mean = 0;
    for (int j = 0; spec.normalized && j < spec.per_token; j++) mean += double(s.weight[of + j]) * s.d_weight[of + j];
    std::fill_n(d, spec.count, 0.0f);
    for (int j = 0; j < spec.per_token; j++) {
      const double of_one = p[chosen[j]];
      d[chosen[j]] = float((spec.scale * s.d_weight[of + j] - mean) / sum * of_one * (1 - of_one));
    }
  }

  // s.d_scores [rows][experts]: of the router's logits, through their softmax or logistics. Where the weights of those
  // chosen are divided by their sum, a softmax is of these alone.
  void score_gradients() {
    each_rows(team, rows, 4 * spec.count, [&](int first, int n, int worker) {
      for (int row = first; row < first + n; row++) {
        const size_t of = size_t(row) * per;
        const size_t shared = of + spec.per_token;
        float *d = s.scores.at(row), mean = 0;
        if (spec.logistic) {
          float* const p = ws.workers[worker].tile.floats();
          std::copy_n(d, spec.count, p);
          logistic_gradients(p, of, d);
        } else {
          for (size_t c = of; c < shared; c++) mean += s.weight[c] * s.d_weight[c];
          k.scale(d, spec.count, spec.normalized ? 0 : -mean, d);
          for (size_t c = of; c < shared; c++) d[s.expert[c]] = s.weight[c] * (s.d_weight[c] - mean);
        }
        k.round_rows(d, s.scores.ld, 1, spec.count, 1.0f, s.d_scores.at(row), shared_column);
        if (!spec.shared()) continue;
        d[shared_column] = s.weight[shared] * (1 - s.weight[shared]) * s.d_weight[shared];
        k.round_rows(d + shared_column, kLanes, 1, 1, 1.0f, s.d_scores.at(row, shared_column), kLanes);
      }
    });
  }

  // run.d_normed [rows][hidden]: of the input, by the router and by each expert.
  void input_gradients(const Rows& d_gate, const Rows& d_up) {
    const Rows d_shared{s.d_scores.at(0, shared_column), s.d_scores.ld, s.d_scores.elem};
    const BackTerm scores[] = {{s.d_scores, &w.router}, {d_shared, &w.shared_gate}};
    back_product(team, k, ws.workers, {rows, hidden, scores, 1 + spec.shared(), run.gradient_codes, run.d_normed},
                 [](auto...) {});
    for (int e = 0; e < spec.total() && team.ok(); e++) {
      const int from = s.from[e];
      if (!count_of(e)) continue;
      const BackTerm terms[] = {{d_gate.from(from), &w.experts[e].gate}, {d_up.from(from), &w.experts[e].up}};
      back_product(team, k, ws.workers, {count_of(e), hidden, terms, 2, run.gradient_codes},
                   [&](int row, int n, int col, int cols, const float* tile, int64_t ld, int) {
                     for (int i = 0; i < n; i++)
                       k.add(run.d_normed.at(row_of(s.order[from + row + i]), col), tile + i * ld, cols);
                   });
    }
  }
};

}  // namespace

void experts_forward(Team& team, const Model& m, int layer, const Rows& x, int rows, const Rows& gate, const Rows& up,
                     const Matrix& from, const Matrix& to, RunScratch& run, Workspace& ws) {
  Experts e{team, m, layer, rows, run, ws};
  e.route(x);
  const Rows act = of_choices(run.act, e.spec);
  e.activate(e.gathered(x), act, gate, up);
  if (to) e.add_outputs(e.activated(act), from, to);
}

void experts_backward(Team& team, const Model& m, int layer, const Rows& x, const Rows& dy, int rows, const Rows& gate,
                      const Rows& up, RunScratch& run, Workspace& ws) {
  Experts e{team, m, layer, rows, run, ws};
  e.route(x);
  e.activation_gradients(dy);
  const Rows d_gate = of_choices(run.d_gate, e.spec), d_up = of_choices(run.d_up, e.spec);
  e.gate_gradients(gate, up, d_gate, d_up);
  e.score_gradients();
  e.input_gradients(d_gate, d_up);
}

}  // namespace anneal::cpu
