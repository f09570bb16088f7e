#include "batch.h"

#include <cmath>

namespace anneal::cpu {

Model::Model(const ModelSpec& m, const Kernels& k, std::unique_ptr<Weights> w)
    : spec(m), shape(shape_of(m)), kernels(k), weights(std::move(w)) {
  std::vector<const RopeSpec*> known;
  for (const LayerSpec& l : m.layers) {
    const AttentionSpec& a = l.attention;
    const auto same = std::find_if(known.begin(), known.end(), [&](const RopeSpec* rope) { return *rope == a.rope; });
    rope_of_.push_back(int(same - known.begin()));
    if (same == known.end()) {
      known.push_back(&a.rope);
      ropes_.emplace_back(a.rope, a.head_dim, m.max_positions);
    }
    scales_.push_back(a.scale == 0 ? 1.0f / std::sqrt(float(a.head_dim)) : float(a.scale));
  }
}

void Batch::clear() {
  rows = 0;
  tokens.clear(), positions.clear(), query_positions.clear(), slots.clear();
  copies.clear(), copies_from.clear(), sequences.clear(), segments.clear(), tiles.clear();
}

void Batch::add(const int32_t* ids, int count, int position, const int32_t* blocks, int group) {
  sequences.push_back({rows, count, position, blocks});
  for (int i = 0; i < count; i++) {
    const int p = position + i;
    tokens.push_back(ids[i]);
    positions.push_back(p);
    query_positions.insert(query_positions.end(), group, p);
    slots.push_back({blocks[p / kPage], p % kPage});
  }
  rows += count;
}

void Batch::add_tiles(int group) {
  const int per_tile = std::max(1, kAttentionRows / group);
  for (size_t s = 0; s < sequences.size(); s++)
    for (int i = 0; i < sequences[s].rows; i += per_tile)
      tiles.push_back({int(s), sequences[s].row0 + i, std::min(per_tile, sequences[s].rows - i)});
}

void Span::size(const Model& m, int rows, int lora_columns) {
  const Shape& c = m.shape;
  normed.size(rows, c.hidden, m.kernels);
  q.size(rows, m.q_width(), m.kernels);
  k.size(rows, m.kv_width(), m.kernels);
  v.size(rows, m.kv_width(), m.kernels);
  gate.size(rows, c.intermediate, m.kernels);
  up.size(rows, c.intermediate, m.kernels);
  act.size(rows, c.intermediate, m.kernels);
  if (lora_columns)
    for (RowStore& s : z) s.size(rows, lora_columns, m.kernels);
}

void Span::size_backward(const Model& m, int rows, int lora_columns) {
  const Shape& c = m.shape;
  d_out.size(rows, c.hidden, m.kernels);
  d_gate.size(rows, c.intermediate, m.kernels);
  d_up.size(rows, c.intermediate, m.kernels);
  d_q.size(rows, m.q_width(), m.kernels);
  d_k.size(rows, m.kv_width(), m.kernels);
  d_v.size(rows, m.kv_width(), m.kernels);
  d_normed.size(rows, c.hidden);
  if (lora_columns)
    for (RowStore& s : g) s.size(rows, lora_columns, m.kernels);
}

void Workspace::configure_backward(const Model& m, int lora_columns) {
  for (Span& s : spans) s.size_backward(m, span_rows, lora_columns);
  for (WorkerScratch& w : workers) {
    w.attention_backward.reserve(m.kernels.attention_backward_scratch(m.shape.head_dim));
  }
}

void Workspace::configure(const Model& m, int rows, int count, int block, int lora_columns) {
  const Shape& c = m.shape;
  // A layer that stays in a core's cache is best applied to a run of rows at a time.
  by_rows = count > 1 && m.layer_bytes() <= (int64_t(4) << 20) && rows >= 8 * count;
  if (by_rows) {
    span_rows = std::min(kTileRows, std::max(8, (rows / (4 * count) + 7) / 8 * 8));
    if (block > 1) span_rows = block;
  } else {
    span_rows = std::min(kSpanRows, rows);
  }
  spans.resize(std::max<size_t>(spans.size(), by_rows ? count : 1));
  for (int i = 0; i < (by_rows ? count : 1); i++) spans[i].size(m, span_rows, lora_columns);
  workers.resize(std::max<size_t>(workers.size(), count));
  // Per head: outputs of a tile of query rows, and one token's heads in float32.
  const size_t head = (size_t(kAttentionRows) * m.head_ld() + m.q_width() + 3 * m.kv_width() + 64) * sizeof(float);
  for (WorkerScratch& w : workers) {
    w.tile.reserve(size_t(2) * kTileRows * kTilePanels * kLanes * sizeof(float));
    w.panel.reserve(size_t(kBackwardColumns) / kLanes * panel_bytes(m.kernels, kBackwardReduction));
    w.attention.reserve(m.kernels.attention_scratch(c.head_dim));
    w.head.reserve(head);
  }
  queries.size(int64_t(c.kv_heads) * rows * m.group(), c.head_dim, m.kernels);
  queries.ld = c.head_dim;
}

}  // namespace anneal::cpu
