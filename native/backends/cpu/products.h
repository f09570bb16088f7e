// How a product is cut into chunks. No cut changes a bit of the result: every output is one chain over its reduction.
#pragma once
#include <algorithm>

#include "workspace.h"

namespace anneal::cpu {

struct Split {
  int rows, panels, block, group;  // row blocks of `block`, panel groups of `group`
  int stripes;                     // runs of neighbouring groups that are taken by turns
  int row_blocks() const { return (rows + block - 1) / block; }
  int groups() const { return (panels + group - 1) / group; }
  int64_t chunks() const { return int64_t(row_blocks()) * groups(); }
};

struct Tile {
  int row, rows, panel, panels;
};

// Neighbouring chunks share weights. With one block of rows they have none in common: then workers that take chunks by
// turns go through stripes of their own, each group's weights following those before, so that what a product fetches
// ahead is what its worker needs next.
inline Tile tile_of(const Split& s, int64_t chunk) {
  const int row = int(chunk % s.row_blocks()) * s.block;
  int group = int(chunk / s.row_blocks());
  if (s.row_blocks() == 1) {
    const int stripe = group % s.stripes, length = s.groups() / s.stripes, remainder = s.groups() % s.stripes;
    group = stripe * length + std::min(stripe, remainder) + group / s.stripes;
  }
  const int panel = group * s.group;
  return {row, std::min(s.block, s.rows - row), panel, std::min(s.group, s.panels - panel)};
}

// Rows that are multiplied with weights, and their codes where these are quantised.
struct Input : Rows {
  const char* codes = nullptr;
  int64_t codes_ld = 0;  // bytes
};

// c (+)= x W^T of a tile.
inline void multiply(const Kernels& k, const Linear& w, const Input& x, const Tile& t, float* c, int64_t ldc,
                     bool accumulate) {
  const char* const panels = w.panels + t.panel * panel_bytes(k, w);
  if (!w.quantized()) return k.gemm(x.at(t.row), x.ld, t.rows, panels, w.k, t.panels, c, ldc, accumulate);
  const QuantizedKernels& q = k.of(w.format);
  if (w.weight_only)
    q.dequantized_product(x.at(t.row), x.ld, t.rows, panels, w.k, t.panels, c, ldc, accumulate);
  else
    q.product(x.codes + t.row * x.codes_ld, x.codes_ld, t.rows, panels, w.k, t.panels, c, ldc, accumulate);
}

// width: outputs that are computed together (gate and up: 2). The matrix unit multiplies so fast that weights must
// serve more rows for each time that they are read.
inline Split split_product(const Team& team, const Kernels& k, int rows, int panels, int width = 1) {
  const int more = is_fast(k.isa) && rows > kTileRows ? 2 : 1;
  const int most = rows >= kTileRows ? std::min(k.product_panels, kMostTilePanels) / more : kTilePanels;
  Split s{rows, panels, std::min(rows, kTileRows * more), std::min(panels, most), team.workers()};
  if (team.workers() > 1)
    while (s.group * width > 3 && s.chunks() < 4 * team.workers())
      s.group = s.group > 6 ? s.group - 3 : s.group > 3 ? 3 : 1;
  return s;
}

// Elementwise work over rows of n elements: as many rows for every worker, where that is worth waking them.
template <class F> void each_rows(Team& team, int rows, int n, F&& f) {
  constexpr int64_t kMost = 1 << 15, kWorthSharing = 1 << 13;  // elements
  const int64_t elements = int64_t(rows) * n;
  const int workers = elements >= kWorthSharing ? team.workers() : 1;
  const int64_t turns = std::max<int64_t>(1, (elements + kMost * workers - 1) / (kMost * workers));
  const int per = int(std::max<int64_t>(1, (rows + turns * workers - 1) / (turns * workers)));
  team.each((rows + per - 1) / per, [&](int64_t chunk, int worker) {
    const int row = int(chunk) * per;
    f(row, std::min(per, rows - row), worker);
  });
}

// Moves within `rows` rows that depend on each other: f(offset in bytes, bytes) for stripes of columns.
template <class F> void each_stripe(Team& team, const Rows& x, int rows, F&& f) {
  constexpr int64_t kStripe = 1 << 10, kWorthSharing = 1 << 15;  // bytes
  const int64_t row_bytes = x.ld * x.elem, stripe = rows * row_bytes >= kWorthSharing ? kStripe : row_bytes;
  team.each((row_bytes + stripe - 1) / stripe, [&](int64_t chunk, int) {
    const int64_t from = chunk * stripe;
    f(from, size_t(std::min(stripe, row_bytes - from)));
  });
}

// Rows with their codes, in `store`, where one of the weights that they will be multiplied with takes them.
inline Input with_codes(Team& team, const Kernels& k, const Rows& x, int rows, const Linear* const* weights, int count,
                        CodeStore& store) {
  Input input{x};
  const auto taker = std::find_if(weights, weights + count, [](const Linear* w) { return w->takes_codes(); });
  if (taker == weights + count) return input;
  input.codes = store.data, input.codes_ld = store.ld;
  const auto quantize = k.of((*taker)->format).quantize_rows;
  const int width = weights[0]->k;
  each_rows(team, rows, width,
            [&](int row, int n, int) { quantize(x.at(row), x.ld, n, width, store.at(row), store.ld); });
  return input;
}

// Rounds a tile of `cols` columns into part of wider rows.
inline void round_tile(const Kernels& k, const float* c, int64_t ldc, int rows, int cols, const Rows& dst, int row,
                       int64_t col) {
  for (int i = 0; i < rows; i++) k.round_rows(c + i * ldc, ldc, 1, cols, 1.0f, dst.at(row + i, col), cols);
}

}  // namespace anneal::cpu
