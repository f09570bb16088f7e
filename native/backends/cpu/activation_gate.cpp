#include "activation_gate.h"

#include <numeric>

#include "activation_probe.h"
#include "delta_layer.h"
#include "head.h"
#include "layer_forward.h"

namespace anneal::cpu {

std::vector<std::string> gate_activations(Model& m, Pages& pages, RecurrentStates& states,
                                          const backends::GateText& text) {
  FloatMode mode;
  std::vector<std::string> names;
  const int rows = int(text.tokens.size());
  const bool is_last = !text.residual_out;
  if (rows == 0 || (m.spec.quantized.empty() && is_last)) return names;
  const int block_count = (rows + kPage - 1) / kPage;
  std::vector<int32_t> blocks(size_t(block_count) * pages.groups().count());
  std::iota(blocks.begin(), blocks.end(), 0);
  for (int32_t page : blocks) pages.clear(page);
  Batch batch;
  batch.pages = &pages;
  batch.groups = pages.groups();
  batch.recurrent = &states;
  batch.add(text.tokens.data(), rows, 0, blocks.data(), block_count, 0);
  batch.list_queries(m);
  m.reserve_positions(rows);
  MatrixStore x;
  RowStore attention, normed;
  CodeStore codes;
  Workspace workspace;
  x.size(rows, m.spec.hidden);
  attention.size(rows, m.widest().attended, m.kernels);
  normed.size(rows, m.spec.hidden, m.kernels);
  workspace.configure(m, rows, 1, 1, 0);
  workspace.configure_unkept(m, rows);
  reserve_delta_forward(m, batch, workspace);
  ActivationProbe probe;
  m.probe = &probe;
  Team alone;  // so that sums are in one order
  for (int row = 0; row < rows && text.residual_in; row++)
    std::copy_n(text.residual_in + int64_t(row) * m.spec.hidden, m.spec.hidden, x.at(row));
  if (!text.residual_in) embed_tokens(alone, m, batch, x, workspace);
  LayerActivations a;
  a.x_in = a.x_mid = a.x_out = x;
  a.attention = attention;
  for (int l = 0; l < m.layers(); l++) layer_forward(alone, m, batch, l, a, workspace);
  for (int row = 0; row < rows && !is_last; row++)
    std::copy_n(x.at(row), m.spec.hidden, text.residual_out + int64_t(row) * m.spec.hidden);
  Linear& head = m.weights->head();
  if (is_last && head.takes_codes()) {
    m.kernels.rmsnorm(x.data, x.ld, m.weights->final_norm.data(), m.spec.rms_eps, rows, m.spec.hidden, normed.data,
                      normed.ld);
    codes.size(rows, code_row_bytes(head.format, head.k));
    const Linear* const weights[] = {&head};
    const Input input = with_codes(alone, m.kernels, normed, rows, weights, 1, codes);
    const Split split = split_product(alone, m.kernels, rows, panels_of(head.n));
    for (int64_t chunk = 0; chunk < split.chunks(); chunk++)
      probe.compare(m.kernels, head, input, tile_of(split, chunk));
  }
  m.probe = nullptr;
  const auto gate = [&](Linear& w, const std::string& name) {
    if (!(probe.error(w) > kMaxActivationError)) return;
    w.weight_only = true;
    names.push_back(name);
  };
  if (m.spec.token_inputs) gate(m.weights->token_projection, token_tensor(m.spec, kTokenProjection).name);
  for (int l = 0; l < m.layers(); l++) {
    Layer& layer = m.weights->layers[l];
    for (int p = 0; p < kProjections; p++)
      if (has_projection(m.spec.layers[l], p))
        gate(layer.projections[p], module_name(l, module_of(m.spec.layers[l], p)) + ".weight");
    if (layer.token_gate.n) gate(layer.token_gate, token_gate_tensor(m.spec, l).name);
    if (layer.token_out.n) gate(layer.token_out, token_out_tensor(m.spec, l).name);
    for (int e = 0; e < int(layer.experts.size()); e++)
      for (int p : {kGate, kUp, kDown}) gate(layer.experts[e].of(p), expert_tensor(m.spec, l, e, p).name);
  }
  if (is_last) gate(head, m.spec.tied_head ? "model.embed_tokens.weight" : "lm_head.weight");
  for (int32_t page : blocks) pages.clear(page);
  return names;
}

}  // namespace anneal::cpu
