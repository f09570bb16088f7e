// Reads weights row block by row block into panels, so that no second copy of the model ever exists.
#include "weights.h"

#include <memory>

namespace anneal::cpu {

ProjectionShape projection_shape(const DecoderConfig& c, int p) {
  const int q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  switch (p) {
    case kQ: return {q, c.hidden, c.q_bias};
    case kK: return {kv, c.hidden, c.k_bias};
    case kV: return {kv, c.hidden, c.v_bias};
    case kO: return {c.hidden, q, c.o_bias};
    case kGate:
    case kUp: return {c.intermediate, c.hidden, c.mlp_bias};
    default: return {c.hidden, c.intermediate, c.mlp_bias};
  }
}

std::string layer_name(int layer, const char* rest) { return "model.layers." + std::to_string(layer) + "." + rest; }

std::string projection_name(int layer, int p) {
  static const char* names[kProjections] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                            "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
  return layer_name(layer, names[p]);
}

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

double parameters(const DecoderConfig& c) {
  double sum = double(c.vocab) * c.hidden * (c.tied_head ? 1 : 2);
  for (int p = 0; p < kProjections; p++) sum += double(c.layers) * projection_shape(c, p).n * projection_shape(c, p).k;
  return sum;
}

}  // namespace

std::unique_ptr<Weights> load_weights(const DecoderConfig& c, const Kernels& kernels, Pool& pool, const TensorReader& read,
                                      const std::function<bool(double)>& progress) {
  auto w = std::make_unique<Weights>();
  Loader load{kernels, pool, read, progress, parameters(c), 0, false, {}};
  load.matrix("model.embed_tokens.weight", c.vocab, c.hidden, w->embedding);
  w->layers.resize(c.layers);
  for (int l = 0; l < c.layers && !load.stopped; l++) {
    Layer& layer = w->layers[l];
    for (int p = 0; p < kProjections; p++) {
      const ProjectionShape shape = projection_shape(c, p);
      load.matrix(projection_name(l, p) + ".weight", shape.n, shape.k, layer.projections[p]);
      if (shape.bias) load.vector(projection_name(l, p) + ".bias", shape.n, layer.projections[p].bias);
    }
    load.vector(layer_name(l, "input_layernorm.weight"), c.hidden, layer.input_norm);
    load.vector(layer_name(l, "post_attention_layernorm.weight"), c.hidden, layer.post_norm);
    if (c.qk_norm) {
      load.vector(layer_name(l, "self_attn.q_norm.weight"), c.head_dim, layer.q_norm);
      load.vector(layer_name(l, "self_attn.k_norm.weight"), c.head_dim, layer.k_norm);
    }
  }
  if (!load.stopped) load.vector("model.norm.weight", c.hidden, w->final_norm);
  if (!load.stopped && !c.tied_head) load.matrix("lm_head.weight", c.vocab, c.hidden, w->untied_head);
  if (load.stopped) return nullptr;
  return w;
}

int64_t Decoder::weight_bytes(const DecoderConfig& c) {
  const Kernels& k = *kernels(Isa::portable, c.dtype);
  int64_t sum = panels_of(c.vocab) * panel_bytes(k, c.hidden) * (c.tied_head ? 1 : 2);
  for (int p = 0; p < kProjections; p++) {
    const ProjectionShape shape = projection_shape(c, p);
    sum += c.layers * (panels_of(shape.n) * int64_t(panel_bytes(k, shape.k)) + (shape.bias ? 4 * shape.n : 0));
  }
  return sum + 4 * int64_t(c.hidden) * (2 * c.layers + 1);
}

}  // namespace anneal::cpu
