// AdamW (Loshchilov and Hutter 2019, decoupled weight decay) over named tensors, with clipping by the global norm.
#include "parameters.h"

#include <cmath>

namespace anneal {
namespace {

// Elements of an optimizer chunk: a fixed division, so that the norm does not depend on the number of workers.
constexpr int64_t kChunk = 1 << 16;

uint64_t mix(uint64_t x) {   // the finaliser of SplitMix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Uniform in [-1, 1), a function of its arguments alone.
float uniform(uint64_t seed, uint64_t stream, uint64_t index) {
  const uint64_t bits = mix(mix(mix(seed + 0x9e3779b97f4a7c15ull) ^ stream) + index * 0x9e3779b97f4a7c15ull);
  return float(int64_t(bits >> 40) - (1 << 23)) * (1.0f / (1 << 23));
}

}  // namespace

int Parameters::add(std::string name, int64_t rows, int64_t cols, bool decay) {
  tensors_.push_back({std::move(name), rows, cols});
  Parameter p{cols ? rows : 1, cols ? cols : rows, padded(cols ? cols : rows), decay, {}, {}, {}, {}, {}};
  for (Buffer* b : {&p.value, &p.gradient, &p.moment1, &p.moment2}) b->reserve(p.size() * sizeof(float));
  parameters_.push_back(std::move(p));
  return int(parameters_.size()) - 1;
}

const Buffer& Parameters::part(const Parameter& p, Part which) const {
  switch (which) {
    case Part::value: return p.value;
    case Part::gradient: return p.gradient;
    case Part::moment1: return p.moment1;
    default: return p.moment2;
  }
}

void Parameters::read(int tensor, Part which, float* dst) const {
  const Parameter& p = parameters_[tensor];
  for (int64_t r = 0; r < p.rows; r++) std::memcpy(dst + r * p.cols, part(p, which).floats() + r * p.ld, p.cols * sizeof(float));
}

void Parameters::write(int tensor, Part which, const float* src) {
  const Parameter& p = parameters_[tensor];
  for (int64_t r = 0; r < p.rows; r++) std::memcpy(part(p, which).floats() + r * p.ld, src + r * p.cols, p.cols * sizeof(float));
  if (which == Part::gradient) clean_ = false;
}

void Parameters::zero_grad() {
  if (!clean_)
    for (Parameter& p : parameters_) std::memset(p.gradient.data(), 0, p.size() * sizeof(float));
  clean_ = true;
}

ModelGradients Parameters::begin() {
  pending_ = !clean_;
  if (pending_)
    for (Parameter& p : parameters_) {
      p.pending.reserve(p.size() * sizeof(float));
      std::memset(p.pending.data(), 0, p.size() * sizeof(float));
    }
  clean_ = false;
  return gradients([&](int i) { return Matrix{(pending_ ? parameters_[i].pending : parameters_[i].gradient).floats(), parameters_[i].ld}; });
}

void Parameters::commit(bool count) {
  if (pending_) {
    if (count)
      for (Parameter& p : parameters_) kernels_.add(p.gradient.floats(), p.pending.floats(), p.size());
  } else if (!count) {
    zero_grad();
  }
  pending_ = false;
}

double Parameters::optim_step(const OptimizerSettings& s) {
  FloatMode mode;
  struct Chunk { int parameter; int64_t from, count; };
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < parameters_.size(); i++)
    for (int64_t from = 0; from < parameters_[i].size(); from += kChunk) chunks.push_back({int(i), from, std::min(kChunk, parameters_[i].size() - from)});
  std::vector<double> squares(chunks.size());
  Team team(pool_);
  team.each(chunks.size(), [&](int64_t i, int) {
    const Chunk& c = chunks[i];
    squares[i] = kernels_.sum_squares(parameters_[c.parameter].gradient.floats() + c.from, c.count);
  });
  double sum = 0;
  for (double x : squares) sum += x;
  const double norm = std::sqrt(sum);
  if (!std::isfinite(norm)) {
    zero_grad();
    return norm;
  }
  steps_++;
  AdamWStep step{s.learning_rate, s.beta1, s.beta2, s.eps, s.weight_decay, 0, 0, 1};
  step.bias1 = float(1 - std::pow(double(s.beta1), double(steps_)));
  step.bias2 = float(1 - std::pow(double(s.beta2), double(steps_)));
  if (s.max_grad_norm > 0) step.grad_scale = float(std::min(1.0, s.max_grad_norm / (norm + 1e-6)));
  team.each(chunks.size(), [&](int64_t i, int) {
    const Chunk& c = chunks[i];
    Parameter& p = parameters_[c.parameter];
    AdamWStep mine = step;
    if (!p.decay) mine.weight_decay = 0;
    kernels_.adamw(p.value.floats() + c.from, p.gradient.floats() + c.from, p.moment1.floats() + c.from, p.moment2.floats() + c.from, c.count, mine);
  });
  zero_grad();
  refresh();
  return norm;
}

namespace {

class AdapterParameters final : public Parameters {
 public:
  AdapterParameters(const Model& m, Pool& pool, const LoraSpec& spec, uint64_t seed, const Decoder::AdapterReader* values)
      : Parameters(pool, m.kernels), model_(m), spec_(spec), index_(m.config.layers) {
    for (int l = 0; l < m.config.layers; l++)
      for (int p = 0; p < kProjections; p++) {
        index_[l][p] = -1;
        if (!spec.targets[p]) continue;
        const ProjectionShape shape = projection_shape(m.config, p);
        const std::string name = "base_model.model." + projection_name(l, p);
        index_[l][p] = add(name + ".lora_A.weight", spec.rank, shape.k, true);
        add(name + ".lora_B.weight", shape.n, spec.rank, true);
        initialise(l, p, shape, seed, values);
      }
    refresh();
  }
  bool full() const override { return false; }
  AdapterRef version() const override { return version_; }
  void refresh() override {
    version_ = make_adapter_version(model_.config, kernels_, spec_, true, [&](int l, int p, bool b) { return parameters_[index_[l][p] + b].values(); });
  }

 protected:
  ModelGradients gradients(const std::function<Matrix(int)>& of) const override {
    ModelGradients g;
    g.layers.resize(index_.size());
    for (size_t l = 0; l < index_.size(); l++)
      for (int p = 0; p < kProjections; p++)
        if (index_[l][p] >= 0) g.layers[l].a[p] = of(index_[l][p]), g.layers[l].b[p] = of(index_[l][p] + 1);
    return g;
  }

 private:
  void initialise(int l, int p, const ProjectionShape& shape, uint64_t seed, const Decoder::AdapterReader* values) {
    const int a = index_[l][p];
    if (values) {
      std::vector<float> staging;
      for (int b = 0; b < 2; b++) {
        staging.assign(int64_t(spec_.rank) * (b ? shape.n : shape.k), 0);
        (*values)(l, Projection(p), b, staging.data());
        write(a + b, Part::value, staging.data());
      }
      return;
    }
    // Kaiming-uniform with a = sqrt(5) is uniform in +-1 / sqrt(inputs).
    const float bound = 1 / std::sqrt(float(shape.k));
    const Matrix rows = parameters_[a].values();
    for (int r = 0; r < spec_.rank; r++)
      for (int i = 0; i < shape.k; i++) *rows.at(r, i) = bound * uniform(seed, uint64_t(l) * kProjections + p, uint64_t(r) * shape.k + i);
  }

  const Model& model_;
  LoraSpec spec_;
  std::vector<std::array<int, kProjections>> index_;   // of A; B follows
  AdapterRef version_;
};

class WeightParameters final : public Parameters {
 public:
  WeightParameters(Model& m, Pool& pool) : Parameters(pool, m.kernels), model_(m) {
    Weights& w = *m.weights;
    matrix("model.embed_tokens.weight", w.embedding);
    for (int l = 0; l < m.config.layers; l++) {
      Layer& layer = w.layers[l];
      for (int p = 0; p < kProjections; p++) {
        matrix(projection_name(l, p) + ".weight", layer.projections[p]);
        vector(projection_name(l, p) + ".bias", layer.projections[p].bias);
      }
      vector(layer_name(l, "input_layernorm.weight"), layer.input_norm);
      vector(layer_name(l, "post_attention_layernorm.weight"), layer.post_norm);
      vector(layer_name(l, "self_attn.q_norm.weight"), layer.q_norm);
      vector(layer_name(l, "self_attn.k_norm.weight"), layer.k_norm);
    }
    vector("model.norm.weight", w.final_norm);
    if (w.untied_head.n) matrix("lm_head.weight", w.untied_head);
  }
  bool full() const override { return true; }
  AdapterRef version() const override { return nullptr; }
  void refresh() override {
    FloatMode mode;
    // A step of inference reads these weights: it must not see half of an update.
    struct Unbroken {
      Pool& pool;
      explicit Unbroken(Pool& p) : pool(p) { pool.unbroken(true); }
      ~Unbroken() { pool.unbroken(false); }
    } unbroken(pool_);
    Team team(pool_);
    for (auto& [index, linear] : matrices_) {
      const Matrix values = parameters_[index].values();
      const size_t bytes = panel_bytes(kernels_, linear->k);
      const int per = 64;
      team.each((linear->n + per - 1) / per, [&, linear = linear](int64_t chunk, int) {
        const int row = int(chunk) * per;
        kernels_.pack(values.at(row), DType::f32, values.ld, std::min(per, linear->n - row), linear->k,
                      linear->panels.data() + row / kLanes * bytes);
      });
    }
    for (auto& [index, to] : vectors_) std::memcpy(to->data(), parameters_[index].value.data(), to->size() * sizeof(float));
  }

 protected:
  ModelGradients gradients(const std::function<Matrix(int)>& of) const override {
    ModelGradients g;
    int i = 0;
    auto next_vector = [&](const std::vector<float>& v) { return v.empty() ? nullptr : of(i++).data; };
    g.embedding = g.head = of(i++);
    for (const Layer& layer : model_.weights->layers) {
      LayerGradients& out = g.layers.emplace_back();
      for (int p = 0; p < kProjections; p++) {
        out.weight[p] = of(i++);
        out.bias[p] = next_vector(layer.projections[p].bias);
      }
      out.input_norm = next_vector(layer.input_norm), out.post_norm = next_vector(layer.post_norm);
      out.q_norm = next_vector(layer.q_norm), out.k_norm = next_vector(layer.k_norm);
    }
    g.final_norm = of(i++).data;
    if (model_.weights->untied_head.n) g.head = of(i++);
    return g;
  }

 private:
  void matrix(std::string name, Linear& w) {
    const int index = add(std::move(name), w.n, w.k, true);
    const Matrix values = parameters_[index].values();
    kernels_.unpack(w.panels.data(), w.n, w.k, values.data, values.ld);
    matrices_.push_back({index, &w});
  }
  void vector(std::string name, std::vector<float>& v) {
    if (v.empty()) return;
    const int index = add(std::move(name), int64_t(v.size()), 0, false);
    write(index, Part::value, v.data());
    vectors_.push_back({index, &v});
  }

  Model& model_;
  std::vector<std::pair<int, Linear*>> matrices_;
  std::vector<std::pair<int, std::vector<float>*>> vectors_;
};

}  // namespace

std::unique_ptr<Parameters> train_adapter_parameters(const Model& m, Pool& pool, const LoraSpec& spec, uint64_t seed, const Decoder::AdapterReader* values) {
  return std::make_unique<AdapterParameters>(m, pool, spec, seed, values);
}

std::unique_ptr<Parameters> train_weight_parameters(Model& m, Pool& pool) { return std::make_unique<WeightParameters>(m, pool); }

}  // namespace anneal
