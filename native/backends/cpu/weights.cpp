// Reads weights row block by row block into panels, so that no second copy of the model ever exists.
#include "weights.h"

#include <cmath>
#include <memory>

#include "../../quantization/blocks.h"

namespace anneal::cpu {

KeyHeadColumns::KeyHeadColumns(const DeltaRuleSpec& d, int head) {
  const int keys = d.key_heads * d.key_dim, values = d.group() * d.value_dim;
  parts[0] = {head * d.key_dim, d.key_dim};
  parts[1] = {keys + head * d.key_dim, d.key_dim};
  parts[2] = {2 * keys + head * values, values};
  width = 2 * d.key_dim + values;
}

std::vector<float>& DeltaWeights::stored(int tensor) {
  return tensor == kConvolution ? convolution : tensor == kDecay ? a_log : step_bias;
}

void DeltaWeights::use(const DeltaRuleSpec& d) {
  rate.resize(a_log.size());
  for (size_t i = 0; i < rate.size(); i++) rate[i] = float(std::exp(double(a_log[i])));
  taps.resize(convolution.size());
  float* to = taps.data();
  for (int head = 0; head < d.key_heads; head++)
    for (int j = 0; j < d.kernel; j++)
      for (const auto& part : KeyHeadColumns(d, head).parts)
        for (int i = 0; i < part.count; i++) *to++ = convolution[size_t(part.from + i) * d.kernel + j];
}

DType dtype_of(TensorFormat format) { return format == TensorFormat::f32 ? DType::f32 : DType::bf16; }

namespace {

constexpr char kEmbeddingName[] = "model.embed_tokens.weight", kHeadName[] = "lm_head.weight";

std::string projection_name(const ModelSpec& m, int layer, int projection) {
  return module_name(layer, module_of(m.layers[layer], projection));
}

template <class W, class Use> void each_matrix(W& weights, Use&& use) {
  use(weights.embedding);
  for (auto& layer : weights.layers)
    for (auto& w : layer.projections) use(w);
  use(weights.untied_head);
}

}  // namespace

Weights::Weights(const ModelSpec& m) : layers(m.layers.size()) {
  const auto shape = [&](Linear& w, const std::string& name, int n, int k) {
    w.n = n, w.k = k, w.format = m.format_of(name);
  };
  shape(embedding, kEmbeddingName, m.vocab, m.hidden);
  for (int l = 0; l < int(layers.size()); l++)
    for (int p = 0; p < kProjections; p++) {
      if (!has_projection(m.layers[l], p)) continue;
      const ProjectionShape of = projection_shape(m, l, p);
      shape(layers[l].projections[p], projection_name(m, l, p) + ".weight", of.outputs, of.inputs);
    }
  if (!m.tied_head) shape(untied_head, kHeadName, m.vocab, m.hidden);
}

size_t Weights::panels_bytes(const Kernels& k) const {
  size_t sum = 0;
  each_matrix(*this, [&](const Linear& w) { sum += matrix_bytes(k, w); });
  return sum;
}

void Weights::swap_panels(const Kernels& k, Buffer& others) {
  panels.swap(others);
  char* at = panels.data();
  each_matrix(*this, [&](Linear& w) { w.panels = at, at += matrix_bytes(k, w); });
}

namespace {

struct Loader {
  const ModelSpec& spec;
  const Kernels& kernels;
  Pool& pool;
  const TensorReader& read;
  const std::function<bool(double)>& progress;
  double total, done = 0;
  bool stopped = false;
  Buffer staging, rows_;

  // Rows from `first` on.
  void matrix(const std::string& name, int first, Linear& w) {
    const int n = w.n, k = w.k;
    const size_t bytes = panel_bytes(kernels, w);
    if (w.quantized()) return blocks(name, first, w, bytes);
    const int block = std::max<int64_t>(1, (int64_t(8) << 20) / (int64_t(k) * kLanes * 4)) * kLanes;
    staging.reserve(size_t(std::min<int64_t>(block, padded(n))) * k * 4);
    for (int row = 0; row < n && !stopped; row += block) {
      const int rows = std::min(block, n - row);
      read.floats(name, first + row, rows, staging.floats());
      Team team(pool);
      team.each(panels_of(rows), [&](int64_t p, int) {
        kernels.pack(staging.floats() + p * kLanes * k, DType::f32, k, std::min<int>(kLanes, rows - p * kLanes), k,
                     w.panels + (row / kLanes + p) * bytes);
      });
      advance(team, double(rows) * k);
    }
  }
  // Rows as they are stored, or made of numbers.
  void blocks(const std::string& name, int begin, Linear& w, size_t panel) {
    const bool stored = read.stored && read.stored(name) == w.format;
    const int64_t row_bytes = quantization::row_bytes(w.format, w.k);
    const int block = int(std::max<int64_t>(1, (int64_t(8) << 20) / (int64_t(w.k) * kLanes * 4))) * kLanes;
    const int most = int(std::min<int64_t>(block, padded(w.n)));
    staging.reserve(size_t(most) * w.k * 4);
    rows_.reserve(size_t(most) * row_bytes);
    for (int row = 0; row < w.n && !stopped; row += block) {
      const int rows = std::min(block, w.n - row);
      uint8_t* const at = reinterpret_cast<uint8_t*>(rows_.data());
      if (stored)
        read.blocks(name, begin + row, rows, at);
      else
        read.floats(name, begin + row, rows, staging.floats());
      Team team(pool);
      team.each(panels_of(rows), [&](int64_t p, int) {
        const int first = int(p) * kLanes, count = std::min(kLanes, rows - first);
        if (!stored)
          for (int i = first; i < first + count; i++)
            quantization::quantize_row(w.format, staging.floats() + int64_t(i) * w.k, w.k, at + i * row_bytes);
        pack_quantized(w.format, at + first * row_bytes, row_bytes, count, w.k,
                       reinterpret_cast<uint8_t*>(w.panels) + (row / kLanes + p) * panel);
      });
      advance(team, double(rows) * w.k);
    }
  }
  void advance(const Team& team, double elements) {
    done += elements;
    if (!team.ok() || (progress && !progress(done / total))) stopped = true;
  }
  void norm(const std::string& name, int n, bool adds_one, NormWeight& out) {
    vector(name, n, out.stored);
    out.use(adds_one);
  }
  void vector(const std::string& name, int n, std::vector<float>& out) {
    out.assign(padded(n), 0);
    read.floats(name, 0, 1, out.data());
    out.resize(n);
  }
  void delta(int layer, DeltaWeights& out) {
    for (int t = 0; t < kDeltaTensors; t++) {
      const TensorShape shape = delta_tensor(spec, layer, t);
      out.stored(t).resize(size_t(shape.elements()));
      read.floats(shape.name, 0, shape.cols ? shape.rows : 1, out.stored(t).data());
    }
    out.use(*spec.layers[layer].delta_rule);
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
  auto w = std::make_unique<Weights>(m);
  Buffer panels(w->panels_bytes(kernels));
  w->swap_panels(kernels, panels);
  Loader load{m, kernels, pool, read, progress, elements(m), 0, false, {}, {}};
  load.matrix(kEmbeddingName, 0, w->embedding);
  for (int l = 0; l < int(m.layers.size()) && !load.stopped; l++) {
    Layer& layer = w->layers[l];
    for (int p = 0; p < kProjections; p++) {
      Linear& projection = layer.projections[p];
      if (!projection.n) continue;
      const std::string name = projection_name(m, l, p);
      load.matrix(name + ".weight", first_output(m, l, p), projection);
      if (projection_shape(m, l, p).bias) load.vector(name + ".bias", projection.n, projection.bias);
    }
    for (int n = 0; n < kNorms; n++)
      if (const char* place = norm_place(m.layers[l], n))
        load.norm(layer_name(l, place) + ".weight", norm_width(m, l, n), norm_adds_one(m, n), layer.norms[n]);
    if (m.layers[l].delta_rule && !load.stopped) load.delta(l, layer.delta);
  }
  if (!load.stopped) load.norm("model.norm.weight", m.hidden, m.norm_adds_one, w->final_norm);
  if (!load.stopped && !m.tied_head) load.matrix(kHeadName, 0, w->untied_head);
  if (load.stopped) return nullptr;
  return w;
}

int64_t weight_bytes(const ModelSpec& m, const Kernels& k) {
  int64_t sum = Buffer::taken_for(Weights(m).panels_bytes(k));
  for (const TensorShape& t : weight_tensors(m))
    if (!t.cols || t.convolution) sum += (t.convolution ? 2 : 1) * 4 * t.elements();
  return sum;
}

}  // namespace anneal::cpu
