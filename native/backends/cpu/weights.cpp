// Reads weights row block by row block into panels, so that no second copy of the model ever exists.
#include "weights.h"

#include <memory>

namespace anneal::cpu {

DType dtype_of(TensorFormat format) { return format == TensorFormat::f32 ? DType::f32 : DType::bf16; }

namespace {

struct Loader {
  const Kernels& kernels;
  Pool& pool;
  const TensorReader& read;
  const std::function<bool(double)>& progress;
  double total, done = 0;
  bool stopped = false;
  Buffer staging;

  void matrix(const std::string& name, int n, int k, Linear& w) {
    w.n = n, w.k = k;
    const size_t bytes = panel_bytes(kernels, k);
    w.panels.reserve(panels_of(n) * bytes);
    const int block = std::max<int64_t>(1, (int64_t(8) << 20) / (int64_t(k) * kLanes * 4)) * kLanes;
    staging.reserve(size_t(std::min<int64_t>(block, padded(n))) * k * 4);
    for (int row = 0; row < n && !stopped; row += block) {
      const int rows = std::min(block, n - row);
      read(name, row, rows, staging.floats());
      Team team(pool);
      team.each(panels_of(rows), [&](int64_t p, int) {
        kernels.pack(staging.floats() + p * kLanes * k, DType::f32, k, std::min<int>(kLanes, rows - p * kLanes), k,
                     w.panels.data() + (row / kLanes + p) * bytes);
      });
      done += double(rows) * k;
      if (!team.ok() || (progress && !progress(done / total))) stopped = true;
    }
  }
  void vector(const std::string& name, int n, std::vector<float>& out) {
    out.assign(padded(n), 0);
    read(name, 0, 1, out.data());
    out.resize(n);
  }
};

double elements(const ModelSpec& m) {
  double sum = 0;
  for (const TensorShape& t : weight_tensors(m))
    if (t.cols) sum += double(t.elements());
  return sum;
}

}  // namespace

std::unique_ptr<Weights> load_weights(const ModelSpec& m, const Kernels& kernels, Pool& pool, const TensorReader& read,
                                      const std::function<bool(double)>& progress) {
  auto w = std::make_unique<Weights>();
  Loader load{kernels, pool, read, progress, elements(m), 0, false, {}};
  load.matrix("model.embed_tokens.weight", m.vocab, m.hidden, w->embedding);
  w->layers.resize(m.layers.size());
  for (int l = 0; l < int(m.layers.size()) && !load.stopped; l++) {
    Layer& layer = w->layers[l];
    for (int p = 0; p < kProjections; p++) {
      const ProjectionShape shape = projection_shape(m, l, p);
      load.matrix(projection_name(l, p) + ".weight", shape.outputs, shape.inputs, layer.projections[p]);
      if (shape.bias) load.vector(projection_name(l, p) + ".bias", shape.outputs, layer.projections[p].bias);
    }
    load.vector(layer_name(l, "input_layernorm.weight"), m.hidden, layer.input_norm);
    load.vector(layer_name(l, "post_attention_layernorm.weight"), m.hidden, layer.post_norm);
    const AttentionSpec& attention = m.layers[l].attention;
    if (attention.qk_norm) {
      load.vector(layer_name(l, "self_attn.q_norm.weight"), attention.head_dim, layer.q_norm);
      load.vector(layer_name(l, "self_attn.k_norm.weight"), attention.head_dim, layer.k_norm);
    }
  }
  if (!load.stopped) load.vector("model.norm.weight", m.hidden, w->final_norm);
  if (!load.stopped && !m.tied_head) load.matrix("lm_head.weight", m.vocab, m.hidden, w->untied_head);
  if (load.stopped) return nullptr;
  return w;
}

int64_t weight_bytes(const ModelSpec& m, const Kernels& k) {
  int64_t sum = 0;
  for (const TensorShape& t : weight_tensors(m))
    sum += t.cols ? panels_of(int(t.rows)) * int64_t(panel_bytes(k, int(t.cols))) : 4 * t.rows;
  return sum;
}

}  // namespace anneal::cpu
