// Products of backward: with the transposed weight, and over tokens.
#pragma once
#include <vector>

#include "products.h"

namespace anneal::cpu {

// Tokens of a block of the sums over tokens. A fixed division of the pass's rows: partial sums of norms and biases are
// added block by block, whoever computed them.
constexpr int kBlockRows = 128;

// Panels of W^T: outputs col .. col + cols and reduction row .. row + rows, in the compute type, or codes.
inline void transpose_panels(const Kernels& k, const Linear& w, int col, int cols, int row, int rows, char* out) {
  if (codes_gradients(k, w))
    k.of(w.format).transpose_codes(w.panels, w.k, col, cols, row, rows, out);
  else if (w.quantized())
    k.of(w.format).transpose_panels(w.panels, w.k, col, cols, row, rows, out);
  else
    k.transpose_panels(w.panels, w.n, w.k, col, cols, row, rows, out);
}

// One summand of a gradient with respect to a projection's input: dy W + g A.
struct BackTerm {
  Rows dy;
  const Linear* w;
  const char* transposed = nullptr;  // panels of W^T, or null: blocks of it are transposed on the way
  Rows g;
  const char* a_t = nullptr;  // panels of A^T, or null: no adapter
  int rank = 0;
};

// f(row, rows, col, cols, tile, ld, worker) for tiles of the sum of the terms, [rows][width]. Tiles lie in worker
// scratch, or in `out` where there is one; a term's outputs from .. to - 1 take part, and `accumulate` adds to what is
// in `out`.
struct BackProduct {
  int rows, width;
  const BackTerm* terms;
  int count;
  const CodeStore& codes;  // for those of dy whose weights take them
  Matrix out = {};
  int from = 0, to = INT32_MAX;
  bool accumulate = false;
};

// Groups of panels of nearly equal size, at most kBackwardColumns wide: as many for every worker. Panels go in pairs,
// the columns of which share the scales of quantised weights.
struct ColumnGroups {
  static constexpr int kPair = 2, kMost = kBackwardColumns / kLanes / kPair;
  int panels, pairs, count;

  ColumnGroups(const Team& team, int panels_)
      : panels(panels_),
        pairs((panels + kPair - 1) / kPair),
        count(std::min(pairs, round_up((pairs + kMost - 1) / kMost, team.workers()))) {}
  // First panel of a group. The larger ones come first: workers end together.
  int begin(int64_t group) const {
    const int first = int(group) * (pairs / count) + std::min(int(group), pairs % count);
    return std::min(panels, first * kPair);
  }
};

// Codes of each term's gradients, of the outputs that take part.
class GradientCodes {
 public:
  GradientCodes(Team& team, const Kernels& k, const BackProduct& p) : k_(k), p_(p) {
    int64_t at = 0;
    for (int i = 0; i < p.count; i++) {
      const BackTerm& term = p.terms[i];
      if (!codes_gradients(k, *term.w)) continue;
      at_[i] = at;
      const int n = std::min(term.w->n, p.to) - p.from;
      each_rows(team, p.rows, n, [&](int row, int rows, int) {
        k.of(term.w->format)
            .quantize_rows(term.dy.at(row, p.from), term.dy.ld, rows, n, p.codes.at(row) + at, p.codes.ld);
      });
      at += code_row_bytes(term.w->format, n);
    }
  }
  // c (+)= rows of term i's gradients, of outputs n0 .. n0 + n, by so many panels of W^T over these.
  void multiply(int i, int row, int rows, int n0, int n, const char* panels, int count, float* c, int64_t ldc,
                bool accumulate) const {
    const BackTerm& term = p_.terms[i];
    if (!codes_gradients(k_, *term.w))
      return k_.gemm(term.dy.at(row, n0), term.dy.ld, rows, panels, n, count, c, ldc, accumulate);
    k_.of(term.w->format)
        .back_product(p_.codes.at(row) + at_[i] + code_row_bytes(term.w->format, n0 - p_.from), p_.codes.ld, rows,
                      panels, n, count, c, ldc, accumulate);
  }

 private:
  static constexpr int kMostTerms = 4;
  const Kernels& k_;
  const BackProduct& p_;
  int64_t at_[kMostTerms] = {};
};

template <class F>
void back_product(Team& team, const Kernels& k, std::vector<WorkerScratch>& workers, const BackProduct& p, F&& f) {
  const int panels = int(panels_of(p.width));
  auto place = [&](int row, int col, int panels, int worker) {
    return p.out ? Matrix{p.out.at(row, col), p.out.ld}
                 : Matrix{workers[worker].tile.floats(), int64_t(panels) * kLanes};
  };
  const GradientCodes codes(team, k, p);
  if (p.terms[0].transposed) {
    const Split split = split_product(team, k, p.rows, panels);
    team.each(split.chunks(), [&](int64_t chunk, int worker) {
      const Tile t = tile_of(split, chunk);
      const int col = t.panel * kLanes;
      const Matrix sums = place(t.row, col, t.panels, worker);
      for (int i = 0; i < p.count; i++) {
        const BackTerm& term = p.terms[i];
        codes.multiply(i, t.row, t.rows, 0, term.w->n,
                       term.transposed + t.panel * back_panel_bytes(k, *term.w, term.w->n), t.panels, sums.data,
                       sums.ld, i > 0);
        if (term.a_t)
          k.gemm(term.g.at(t.row), term.g.ld, t.rows, term.a_t + t.panel * panel_bytes(k, term.rank), term.rank,
                 t.panels, sums.data, sums.ld, true);
      }
      f(t.row, t.rows, col, std::min(t.panels * kLanes, p.width - col), sums.data, sums.ld, worker);
    });
    return;
  }
  const ColumnGroups groups(team, panels);
  team.each(groups.count, [&](int64_t chunk, int worker) {
    const int panel = groups.begin(chunk), mine = groups.begin(chunk + 1) - panel, col = panel * kLanes;
    const Matrix sums = place(0, col, mine, worker);
    char* transposed = workers[worker].panel.data();
    bool accumulate = p.accumulate;
    for (int i = 0; i < p.count; i++) {
      const BackTerm& term = p.terms[i];
      for (int n0 = p.from; n0 < std::min(term.w->n, p.to); n0 += kBackwardReduction) {
        const int n = std::min({kBackwardReduction, term.w->n - n0, p.to - n0});
        team.preemption_point(worker);
        transpose_panels(k, *term.w, col, mine * kLanes, n0, n, transposed);
        for (int row = 0; row < p.rows; row += kRunRows) {
          if (row > 0) team.preemption_point(worker);
          codes.multiply(i, row, std::min(kRunRows, p.rows - row), n0, n, transposed, mine, sums.at(row), sums.ld,
                         accumulate);
        }
        accumulate = true;
      }
      if (term.a_t)
        k.gemm(term.g.data, term.g.ld, p.rows, term.a_t + panel * panel_bytes(k, term.rank), term.rank, mine, sums.data,
               sums.ld, true);
    }
    f(0, p.rows, col, std::min(mine * kLanes, p.width - col), sums.data, sums.ld, worker);
  });
}

// Panels of W^T.
inline void transpose_weight(Team& team, const Kernels& k, const Linear& w, char* out) {
  const ColumnGroups groups(team, int(panels_of(w.k)));
  team.each(groups.count, [&](int64_t chunk, int) {
    const int panel = groups.begin(chunk), mine = groups.begin(chunk + 1) - panel;
    transpose_panels(k, w, panel * kLanes, mine * kLanes, 0, w.n, out + panel * back_panel_bytes(k, w, w.n));
  });
}

// Something of every row, transposed block by block for sums over tokens: as left operand [columns][block rows], or as
// right operand (panels with the rows as reduction).
struct TokenBlocks {
  Buffer memory;
  size_t stride = 0;  // bytes of a block
  void size(const Kernels& k, int columns, int block_rows, int blocks) {
    stride = size_t(padded(columns)) * block_rows * k.elem;
    memory.reserve(stride * blocks);
  }
  char* block(int64_t b) const { return memory.data() + b * stride; }
};

// out[m][n] += sum over tokens of left[token][m] right[token][n].
struct TokenSum {
  const TokenBlocks *left, *right;
  int m, n;
  Matrix out;
  bool transposed = false;  // out is [n][m]; m is a rank
};

// Part of a sum, from row `row` and panel `panel` on, which a worker adds to: where it lies, or in scratch where the
// output is transposed.
struct TokenSumTile {
  static int most_rows(const TokenSum& s) { return s.transposed ? s.m : 48; }
  static int most_panels(const TokenSum& s) {
    return s.transposed ? std::min(kTilePanels, kTileFloats / (s.m * kLanes)) : kTilePanels;
  }

  const TokenSum& sum;
  const Kernels& floats;
  const int rows, panels, col, cols;
  const Matrix c;  // [rows][panels * 16]

  TokenSumTile(const Kernels& k, const TokenSum& s, int row, int panel, WorkerScratch& scratch)
      : sum(s),
        floats(*kernels(k.isa, DType::f32)),
        rows(std::min(most_rows(s), s.m - row)),
        panels(std::min(most_panels(s), int(panels_of(s.n)) - panel)),
        col(panel * kLanes),
        cols(std::min(panels * kLanes, s.n - col)),
        c(s.transposed ? Matrix{scratch.tile.floats(), int64_t(panels) * kLanes}
                       : Matrix{s.out.at(row, col), s.out.ld}) {
    if (s.transposed) floats.transpose(s.out.at(col), DType::f32, s.out.ld, cols, rows, c.data, c.ld);
  }
  void end() const {
    if (sum.transposed) floats.transpose(c.data, DType::f32, c.ld, rows, cols, sum.out.at(col), sum.out.ld);
  }
};

// One owner for every tile of every sum; tokens in row order. Sums into the same place (of products that share an A)
// take turns block by block.
inline void sum_over_tokens(Team& team, const Kernels& k, const std::vector<TokenSum>& sums, int rows, int block_rows,
                            std::vector<WorkerScratch>& workers) {
  struct Part {
    int place, row, panel;
  };
  std::vector<Part> parts;
  std::vector<std::vector<const TokenSum*>> places;
  for (const TokenSum& s : sums) {
    const auto same =
        std::find_if(places.begin(), places.end(), [&](const auto& place) { return place[0]->out.data == s.out.data; });
    if (same == places.end())
      places.push_back({&s});
    else
      same->push_back(&s);
  }
  for (size_t i = 0; i < places.size(); i++) {
    const TokenSum& s = *places[i][0];
    for (int64_t panel = 0; panel < panels_of(s.n); panel += TokenSumTile::most_panels(s))
      for (int row = 0; row < s.m; row += TokenSumTile::most_rows(s)) parts.push_back({int(i), row, int(panel)});
  }
  team.each(int64_t(parts.size()), [&](int64_t chunk, int worker) {
    const Part& p = parts[chunk];
    const TokenSumTile tile(k, *places[p.place][0], p.row, p.panel, workers[worker]);
    for (int row = 0, b = 0; row < rows; row += block_rows, b++) {
      const int n = std::min(block_rows, rows - row);
      team.preemption_point(worker);
      for (const TokenSum* s : places[p.place])
        k.gemm(s->left->block(b) + size_t(p.row) * block_rows * k.elem, block_rows, tile.rows,
               s->right->block(b) + p.panel * panel_bytes(k, n), n, tile.panels, tile.c.data, tile.c.ld, true);
    }
    tile.end();
  });
}

}  // namespace anneal::cpu
