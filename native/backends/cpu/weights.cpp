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

void ConvolutionWeights::use(const ShortConvolutionSpec& c) {
  taps.resize(weight.size());
  for (int j = 0; j < c.kernel; j++)
    for (int i = 0; i < c.width; i++) taps[size_t(j) * c.width + i] = weight[size_t(i) * c.kernel + j];
}

DType dtype_of(TensorFormat format) { return format == TensorFormat::f32 ? DType::f32 : DType::bf16; }

namespace {

constexpr char kEmbeddingName[] = "model.embed_tokens.weight", kHeadName[] = "lm_head.weight";

std::string projection_name(const ModelSpec& m, int layer, int projection) {
  return module_name(layer, module_of(m.layers[layer], projection));
}

template <class W, class Use> void each_matrix(W& weights, Use&& use) {
  use(weights.embedding), use(weights.token_table), use(weights.token_projection);
  for (auto& layer : weights.layers) layer.each_matrix(use);
  use(weights.untied_head);
}

}  // namespace

Weights::Weights(const ModelSpec& m) : layers(m.layers.size()) {
  const auto shape = [&](Linear& w, const std::string& name, int n, int k) {
    w.n = n, w.k = k, w.format = m.format_of(name);
  };
  shape(embedding, kEmbeddingName, m.vocab, m.hidden);
  const auto tensor = [&](Linear& w, const TensorShape& of) { shape(w, of.name, int(of.rows), int(of.cols)); };
  if (m.token_inputs)
    tensor(token_table, token_tensor(m, kTokenTable)), tensor(token_projection, token_tensor(m, kTokenProjection));
  for (int l = 0; l < int(layers.size()); l++) {
    if (m.token_inputs)
      tensor(layers[l].token_gate, token_gate_tensor(m, l)), tensor(layers[l].token_out, token_out_tensor(m, l));
    for (int p = 0; p < kProjections; p++) {
      if (!has_projection(m.layers[l], p)) continue;
      const ProjectionShape of = projection_shape(m, l, p);
      shape(layers[l].projections[p], projection_name(m, l, p) + ".weight", of.outputs, of.inputs);
    }
    if (!m.layers[l].experts) continue;
    const ExpertsSpec& experts = *m.layers[l].experts;
    tensor(layers[l].router, router_tensor(m, l));
    if (experts.shared()) tensor(layers[l].shared_gate, shared_gate_tensor(m, l));
    layers[l].router.weight_only = layers[l].shared_gate.weight_only = true;
    layers[l].experts.resize(size_t(experts.total()));
    for (int e = 0; e < experts.total(); e++)
      for (int p : {kGate, kUp, kDown}) tensor(layers[l].experts[e].of(p), expert_tensor(m, l, e, p));
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

// Bytes that a worker reads at a time, which its cache holds until they are packed. Of integers that are packed across
// rows, which are read in as many parts as there are columns, more.
constexpr int64_t kReadBytes = 128 << 10, kReadIntegerBytes = 512 << 10;
// Between two looks at whether loading goes on.
constexpr int64_t kElementsAtOnce = 2 << 20;

struct Loader {
  // What a worker reads into: as it is stored, and as numbers.
  struct Scratch {
    std::vector<uint8_t> stored;
    std::vector<float> numbers;
  };
  const ModelSpec& spec;
  const Kernels& kernels;
  Pool& pool;
  const TensorReader& read;
  const std::function<bool(double)>& progress;
  double total, done = 0;
  bool stopped = false;
  std::vector<Scratch> scratch = std::vector<Scratch>(size_t(pool.workers()));

  TensorFormat stored(const std::string& name) const { return read.stored ? read.stored(name) : TensorFormat::f32; }

  // pack(first row, rows, scratch) of all rows in whole panels, `row_bytes` of each being read.
  template <class Pack> void each_rows(const Linear& w, int64_t row_bytes, Pack&& pack) {
    const int64_t most = model::is_integer(w.format) ? kReadIntegerBytes : kReadBytes;
    const int per = int(std::max<int64_t>(1, most / (row_bytes * kLanes))) * kLanes;
    const int block = int(std::max<int64_t>(1, kElementsAtOnce / (int64_t(w.k) * per))) * per;
    for (int begin = 0; begin < w.n && !stopped; begin += block) {
      const int rows = std::min(block, w.n - begin);
      Team team(pool);
      team.each((rows + per - 1) / per, [&](int64_t i, int worker) {
        const int row = begin + int(i) * per;
        pack(row, std::min(per, begin + rows - row), scratch[size_t(worker)]);
      });
      advance(team, double(rows) * w.k);
    }
  }

  // Rows from `first` on.
  void matrix(const std::string& name, int first, Linear& w) {
    const size_t panel = panel_bytes(kernels, w);
    if (w.quantized()) return blocks(name, first, w, panel);
    const bool words = stored(name) == TensorFormat::bf16;
    each_rows(w, int64_t(w.k) * (words ? 2 : 4), [&](int row, int rows, Scratch& from) {
      char* const to = w.panels + row / kLanes * panel;
      if (words) {
        from.stored.resize(size_t(rows) * w.k * 2);
        read.blocks(name, first + row, rows, from.stored.data());
        return kernels.pack(from.stored.data(), DType::bf16, w.k, rows, w.k, to);
      }
      from.numbers.resize(size_t(rows) * w.k);
      read.floats(name, first + row, rows, from.numbers.data());
      kernels.pack(from.numbers.data(), DType::f32, w.k, rows, w.k, to);
    });
  }
  // Rows as they are stored, or made of numbers.
  void blocks(const std::string& name, int first, Linear& w, size_t panel) {
    const bool made = stored(name) != w.format;
    const int64_t row_bytes = quantization::row_bytes(w.format, w.k);
    each_rows(w, made ? int64_t(w.k) * 4 : row_bytes, [&](int row, int rows, Scratch& from) {
      from.stored.resize(size_t(rows * row_bytes));
      uint8_t* const at = from.stored.data();
      if (made) {
        from.numbers.resize(size_t(rows) * w.k);
        read.floats(name, first + row, rows, from.numbers.data());
        for (int i = 0; i < rows; i++)
          quantization::quantize_row(w.format, &from.numbers[size_t(i) * w.k], w.k, at + i * row_bytes);
      } else
        read.blocks(name, first + row, rows, at);
      for (int i = 0; i < rows; i += kLanes)
        pack_quantized(w.format, at + i * row_bytes, row_bytes, std::min(kLanes, rows - i), w.k,
                       reinterpret_cast<uint8_t*>(w.panels) + (row + i) / kLanes * panel);
    });
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
  float number(const std::string& name) {
    std::vector<float> one;
    vector(name, 1, one);
    return one[0];
  }
  void delta(int layer, DeltaWeights& out) {
    for (int t = 0; t < kDeltaTensors; t++) {
      const TensorShape shape = delta_tensor(spec, layer, t);
      out.stored(t).resize(size_t(shape.elements()));
      read.floats(shape.name, 0, shape.cols ? shape.rows : 1, out.stored(t).data());
    }
    out.use(*spec.layers[layer].delta_rule);
  }
  void convolution(int layer, ConvolutionWeights& out) {
    int next = 0;
    for (const TensorShape& shape : convolution_tensors(spec, layer)) {
      std::vector<float>& to = out.stored(next++);
      to.resize(size_t(shape.elements()));
      read.floats(shape.name, 0, shape.cols ? shape.rows : 1, to.data());
    }
    out.use(*spec.layers[layer].short_convolution);
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
  Loader load{m, kernels, pool, read, progress, elements(m)};
  load.matrix(kEmbeddingName, 0, w->embedding);
  if (m.token_inputs && !load.stopped) {
    load.matrix(token_tensor(m, kTokenTable).name, 0, w->token_table);
    load.matrix(token_tensor(m, kTokenProjection).name, 0, w->token_projection);
    load.norm(token_tensor(m, kTokenNorm).name, m.token_inputs, m.norm_adds_one, w->token_norm);
  }
  for (int l = 0; l < int(m.layers.size()) && !load.stopped; l++) {
    Layer& layer = w->layers[l];
    for (int p = 0; p < kProjections; p++) {
      Linear& projection = layer.projections[p];
      if (!projection.n) continue;
      const std::string name = projection_name(m, l, p);
      load.matrix(name + ".weight", first_output(m, l, p), projection);
      if (projection_shape(m, l, p).bias) load.vector(name + ".bias", projection.n, projection.bias);
    }
    if (m.layers[l].attention.sinks) load.vector(sink_tensor(m, l).name, m.layers[l].attention.heads, layer.sinks);
    const auto& experts = m.layers[l].experts;
    const auto of_experts = [&](const std::string& name, Linear& w) {
      load.matrix(name, 0, w);
      if (experts->bias && !load.stopped) load.vector(model::bias_of(name), w.n, w.bias);
    };
    if (layer.router.n) of_experts(router_tensor(m, l).name, layer.router);
    if (experts && experts->score_bias) load.vector(score_bias_tensor(m, l).name, experts->count, layer.score_bias);
    if (layer.shared_gate.n) load.matrix(shared_gate_tensor(m, l).name, 0, layer.shared_gate);
    for (int e = 0; e < int(layer.experts.size()) && !load.stopped; e++)
      for (int p : {kGate, kUp, kDown}) of_experts(expert_tensor(m, l, e, p).name, layer.experts[e].of(p));
    if (layer.token_gate.n) load.matrix(token_gate_tensor(m, l).name, 0, layer.token_gate);
    if (layer.token_out.n) load.matrix(token_out_tensor(m, l).name, 0, layer.token_out);
    if (m.layers[l].attention.v_norm) layer.value_norm.assign(size_t(m.layers[l].attention.head_dim), 1);
    if (m.layers[l].scaled) layer.scale = load.number(scale_tensor(m, l).name);
    for (int n = 0; n < kNorms; n++)
      if (const char* place = norm_place(m, l, n))
        load.norm(layer_name(l, place) + ".weight", norm_width(m, l, n), norm_adds_one(m, n), layer.norms[n]);
    if (m.layers[l].delta_rule && !load.stopped) load.delta(l, layer.delta);
    if (m.layers[l].short_convolution && !load.stopped) load.convolution(l, layer.convolution);
  }
  if (!load.stopped) load.norm(final_norm_name(m), m.hidden, m.norm_adds_one, w->final_norm);
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
