#include "backward_memory.h"

namespace anneal::cpu {
namespace {

int widest_norm(const ModelSpec& m, int norm) {
  int width = 0;
  for (size_t l = 0; l < m.layers.size(); l++) width = std::max(width, norm_width(m, int(l), norm));
  return width;
}

// Bytes of transposes that a window may hold.
constexpr int64_t kWindowBytes = int64_t(192) << 20;

}  // namespace

void BackwardMemory::configure(const Model& m, const Batch& batch, int page_count, const Workspace& ws,
                               const ModelGradients& wanted, const AdapterVersion* adapter) {
  const Widths& c = m.widest();
  const Kernels& k = m.kernels;
  const int rank = adapter ? adapter->padded_rank() : 0;
  auto any = [&](auto&& is_wanted) { return std::any_of(wanted.layers.begin(), wanted.layers.end(), is_wanted); };
  transpose_layers = ws.by_rows;
  int64_t row_bytes = 0;
  int outputs[kProjections] = {}, inputs[kProjections] = {};  // of the widest layer
  for (int p = 0; p < kProjections; p++) {
    int64_t transpose_bytes = 0;
    for (const Layer& layer : m.weights->layers) {
      const Linear& w = layer.projections[p];
      transpose_bytes = std::max(transpose_bytes, int64_t(panels_of(w.k) * back_panel_bytes(k, w, w.n)));
      outputs[p] = std::max(outputs[p], w.n), inputs[p] = std::max(inputs[p], w.k);
    }
    // Once, for the widest layer: each growth of a buffer is counted by itself.
    if (transpose_layers) transposed[p].reserve(size_t(transpose_bytes));
    row_bytes += (padded(outputs[p]) + padded(inputs[p]) + 2 * rank) * k.elem;
  }
  window = ws.by_rows ? int(std::clamp<int64_t>(kWindowBytes / row_bytes, kBlockRows, batch.rows + kBlockRows)) /
                            kBlockRows * kBlockRows
                      : ws.run_rows;
  const int blocks = (std::min(window, batch.rows) + kBlockRows - 1) / kBlockRows,
            all_blocks = (batch.rows + kBlockRows - 1) / kBlockRows;
  for (int p = 0; p < kProjections; p++) {
    const bool weight = any([&](const LayerGradients& l) { return bool(l.weight[p]); }),
               low_rank = any([&](const LayerGradients& l) { return bool(l.a[p]); });
    if (weight || low_rank) {
      dy[p].size(k, outputs[p], kBlockRows, blocks);
      x[kInputOf[p]].size(k, inputs[p], kBlockRows, blocks);
    }
    if (low_rank) {
      g[p].size(k, rank, kBlockRows, blocks);
      z[p].size(k, rank, kBlockRows, blocks);
    }
    if (any([&](const LayerGradients& l) { return l.bias[p] != nullptr; }))
      partial_bias[p].size(all_blocks, outputs[p]);
  }
  if (wanted.final_norm) partial_final_norm.size(all_blocks, m.spec.hidden);
  for (int n = 0; n < kNorms; n++)
    if (any([&](const LayerGradients& l) { return l.norms[n] != nullptr; }))
      partial_norm[n].size(all_blocks, widest_norm(m.spec, n));
  d_out.reserve(size_t(batch.rows) * c.attended * k.elem);
  if (c.gated) d_head_gates.size(batch.rows, c.attended, k);
  if (c.delta_in[0] > 0) {
    d_heads.size(batch.rows, c.attended);
    d_qkv.size(batch.rows, c.delta_in[0]);
    for (RowStore* rows : {&d_b, &d_a}) rows->size(batch.rows, c.delta_in[kInA - kInQkv], k);
  }
  delta.reserve(size_t(batch.rows) * c.heads * sizeof(float));
  d_q.reserve(size_t(batch.rows) * c.q_floats * sizeof(float));
  pages = page_count;
  for (Buffer* heads : {&d_k, &d_v}) heads->reserve(size_t(pages) * kPage * c.kv_floats * sizeof(float));
  for (std::vector<Buffer>* shared : {&shared_d_k, &shared_d_v}) {
    shared->resize(size_t(m.shared_keys_count()));
    for (int l = 0; l < m.layers(); l++)
      if (m.spec.keys_are_shared(l))
        (*shared)[size_t(m.shared_keys(l))].reserve(size_t(pages) * kPage * widths_of(m.spec.layers[l]).kv_floats *
                                                    sizeof(float));
  }
  cells.clear();
  for (const Queries& queries : batch.queries) cells.push_back(attention_cells(batch, pages, queries.group));
}

}  // namespace anneal::cpu
