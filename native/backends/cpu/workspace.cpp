#include "workspace.h"

namespace anneal::cpu {

void RunScratch::size(const Model& m, int rows, int lora_columns) {
  const Widths& c = m.widest();
  normed.size(rows, m.spec.hidden, m.kernels);
  q.size(rows, c.q, m.kernels);
  k.size(rows, c.kv, m.kernels);
  v.size(rows, c.kv, m.kernels);
  act.size(rows, c.intermediate, m.kernels);
  if (c.norms_after || m.spec.token_inputs) branch.size(rows, m.spec.hidden, m.kernels);
  if (m.spec.token_inputs) token_act.size(rows, m.spec.token_inputs, m.kernels);
  if (c.gated) gated.size(rows, c.attended, m.kernels);
  codes.size(rows, m.code_bytes());
  if (const ExpertsSpec& e = m.most_experts(); e.count) {
    experts.scores.size(rows, padded(e.count) + kLanes);
    experts.input.size(int64_t(rows) * e.per_row(), m.spec.hidden, m.kernels);
    experts.codes.size(int64_t(rows) * e.per_row(), m.code_bytes());
  }
  if (lora_columns)
    for (RowStore& s : z) s.size(rows, lora_columns, m.kernels);
}

void RunScratch::size_backward(const Model& m, int rows, int lora_columns) {
  const Widths& c = m.widest();
  d_out.size(rows, m.spec.hidden, m.kernels);
  d_gate.size(rows, c.intermediate, m.kernels);
  d_up.size(rows, c.intermediate, m.kernels);
  d_q.size(rows, c.q, m.kernels);
  d_k.size(rows, c.kv, m.kernels);
  d_v.size(rows, c.kv, m.kernels);
  d_qkv.size(rows, c.delta_in[0], m.kernels);
  d_normed.size(rows, m.spec.hidden);
  gradient_codes.size(rows, m.gradient_code_bytes());
  if (m.spec.token_inputs) d_token_gate.size(rows, m.spec.token_inputs, m.kernels);
  if (const ExpertsSpec& e = m.most_experts(); e.count) {
    experts.d_act.size(int64_t(rows) * e.per_row(), e.stride());
    experts.d_scores.size(rows, padded(e.count) + kLanes, m.kernels);
  }
  if (lora_columns)
    for (RowStore& s : g) s.size(rows, lora_columns, m.kernels);
}

void Workspace::configure_backward(const Model& m, int lora_columns) {
  for (RunScratch& s : runs) s.size_backward(m, run_rows, lora_columns);
  for (WorkerScratch& w : workers) {
    w.attention_backward.reserve(m.attention_kernels().attention_backward_scratch(m.widest().head_dim));
  }
}

void Workspace::configure(const Model& m, int rows, int count, int block, int lora_columns) {
  const Widths& c = m.widest();
  // A layer that stays in a core's cache is best applied to a run of rows at a time. Where there are many rows, they
  // had better stay with the core that has them in its cache: the matrix unit is so fast, and the weights that a
  // backward pass transposes for them serve all. Not those of experts, each of which serves a few rows of a run.
  const bool experts = m.most_experts().count > 0,
             many = is_fast(m.kernels.isa)
                        ? rows >= kTileRows * count
                        : block > 1 && rows >= 2 * kTileRows * count && m.layer_bytes() <= kTransposedBytes,
             stays = many && !experts;
  by_rows = count > 1 && (stays || (m.layer_bytes() <= (int64_t(4) << 20) && rows >= 8 * count));
  if (stays) {
    const int turns = (rows + kStayingRows * count - 1) / (kStayingRows * count), step = std::max(block, kFastDepth);
    run_rows = round_up((rows + turns * count - 1) / (turns * count), step);
  } else if (by_rows) {
    run_rows = std::min(kTileRows, std::max(8, (rows / (4 * count) + 7) / 8 * 8));
    if (block > 1) run_rows = block;
  } else {
    run_rows = std::min(experts ? kExpertRunRows : kRunRows, rows);
  }
  runs.resize(std::max<size_t>(runs.size(), by_rows ? count : 1));
  for (int i = 0; i < (by_rows ? count : 1); i++) runs[i].size(m, run_rows, lora_columns);
  workers.resize(std::max<size_t>(workers.size(), count));
  const int token_width = m.spec.token_inputs * m.layers();
  // Per head: outputs of a tile of query rows, and one token's heads in float32.
  const size_t head = (size_t(kAttentionRows) * padded(c.head_dim) + 2 * c.attended + 3 * c.kv + 64) * sizeof(float);
  for (WorkerScratch& w : workers) {
    // A tile of a product, forward or backward, or three rows of the residual stream or of an expert's activations, or
    // one of token inputs and two of a layer's.
    w.tile.reserve(std::max<size_t>({kTileFloats, size_t(run_rows) * kBackwardColumns,
                                     size_t(3 * padded(m.spec.hidden)), size_t(3 * m.most_experts().stride()),
                                     size_t(padded(token_width) + 2 * padded(m.spec.token_inputs))}) *
                   sizeof(float));
    w.panel.reserve(size_t(kBackwardColumns) / kLanes *
                    std::max<size_t>(panel_bytes(m.kernels, kBackwardReduction),
                                     quantized_back_panel_bytes(TensorFormat::int16_64, kBackwardReduction)));
    w.attention.reserve(m.attention_kernels().attention_scratch(c.head_dim));
    w.head.reserve(head);
  }
  queries.size(rows, c.attended, m.kernels);
  if (token_width) token_inputs.size(rows, token_width, m.kernels);
}

void Workspace::configure_unkept(const Model& m, int rows) {
  const Widths& c = m.widest();
  if (c.gated) gated_q.size(rows, c.q, m.kernels);
  for (int i = 0; i < kDeltaInputs; i++) delta_in[i].size(rows, c.delta_in[i], m.kernels);
}

}  // namespace anneal::cpu
