// AdamW (Loshchilov and Hutter 2019, decoupled weight decay) over named tensors, with clipping by the global norm.
#include "parameters.h"

#include <cmath>
#include <optional>

#include "../../model/adapter_start.h"
#include "products.h"

namespace anneal::cpu {
int Parameters::add(TensorShape t, bool decay) {
  const int64_t rows = t.cols ? t.rows : 1, cols = t.cols ? t.cols : t.rows;
  tensors_.push_back(std::move(t));
  Parameter p{rows, cols, padded(cols), decay, {}, {}, {}, {}, {}};
  for (Buffer* b : {&p.value, &p.gradient, &p.moment1, &p.moment2}) b->reserve(p.size() * sizeof(float));
  for (int64_t from = 0; from < p.size(); from += kPiece)
    pieces_.push_back({int(parameters_.size()), from, std::min(kPiece, p.size() - from)});
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

void Parameters::read(int tensor, Part which, std::span<float> to) const {
  const Parameter& p = parameters_[tensor];
  if (which == Part::gradient && gradient_ == Gradient::dropped) {
    std::fill(to.begin(), to.end(), 0.0f);
    return;
  }
  Team team(pool_);
  each_rows(team, int(p.rows), int(p.cols), [&](int row, int count, int) {
    for (int r = row; r < row + count; r++)
      std::memcpy(&to[r * p.cols], part(p, which).floats() + r * p.ld, p.cols * sizeof(float));
  });
  if (!team.ok()) throw Aborted();
}

void Parameters::write(int tensor, Part which, std::span<const float> from) {
  const Parameter& p = parameters_[tensor];
  Team team(pool_);
  each_rows(team, int(p.rows), int(p.cols), [&](int row, int count, int) {
    for (int r = row; r < row + count; r++)
      std::memcpy(part(p, which).floats() + r * p.ld, &from[r * p.cols], p.cols * sizeof(float));
  });
}

ModelGradients Parameters::wanted() const {
  return gradients([&](int i) { return Matrix{parameters_[i].gradient.floats(), parameters_[i].ld}; });
}

bool Parameters::begin(ModelGradients& destination) {
  pending_ = gradient_ == Gradient::present;
  if (pending_)
    for (Parameter& p : parameters_) p.pending.reserve(p.size() * sizeof(float));
  const auto place = [&](Parameter& p) { return (pending_ ? p.pending : p.gradient).floats(); };
  if (gradient_ != Gradient::zeros && !each_piece([&](int64_t, int i, int64_t from, int64_t count) {
        std::memset(place(parameters_[i]) + from, 0, count * sizeof(float));
      }))
    return false;
  if (!pending_) gradient_ = Gradient::dropped;  // until commit()
  destination = gradients([&](int i) { return Matrix{place(parameters_[i]), parameters_[i].ld}; });
  return true;
}

bool Parameters::commit() {
  if (pending_) {
    if (!each_piece([&](int64_t, int i, int64_t from, int64_t count) {
          kernels_.add(parameters_[i].pending.floats() + from, parameters_[i].gradient.floats() + from, count);
        }))
      return false;
    for (Parameter& p : parameters_) p.gradient.swap(p.pending);
  }
  gradient_ = Gradient::present;
  return true;
}

int64_t Parameters::bytes() const {
  int64_t sum = version_bytes();
  for (const Parameter& p : parameters_) sum += 5 * p.size() * int64_t(sizeof(float));
  return sum;
}

double Parameters::add_squares(double sum) {
  FloatMode mode;
  if (gradient_ == Gradient::dropped && !each_piece([&](int64_t, int i, int64_t from, int64_t count) {
        std::memset(parameters_[i].gradient.floats() + from, 0, count * sizeof(float));
      }))
    throw Aborted();
  std::vector<double> squares(pieces());
  if (!each_piece([&](int64_t piece, int i, int64_t from, int64_t count) {
        squares[piece] = kernels_.sum_squares(parameters_[i].gradient.floats() + from, count);
      }))
    throw Aborted();
  for (double x : squares) sum += x;
  return sum;
}

void Parameters::step(const OptimizerSettings& s, double norm) {
  FloatMode mode;
  // What may lack memory comes first: then nothing has been changed.
  take_next();
  steps_++;
  AdamWStep step{s.learning_rate, s.beta1, s.beta2, s.eps, s.weight_decay, 0, 0, 1};
  step.bias1 = float(1 - std::pow(double(s.beta1), double(steps_)));
  step.bias2 = float(1 - std::pow(double(s.beta2), double(steps_)));
  if (s.max_grad_norm > 0) step.grad_scale = float(std::min(1.0, s.max_grad_norm / (norm + 1e-6)));
  const bool complete = each_piece([&](int64_t, int i, int64_t from, int64_t count) {
    Parameter& p = parameters_[i];
    AdamWStep mine = step;
    if (!p.decay) mine.weight_decay = 0;
    kernels_.adamw(p.value.floats() + from, p.gradient.floats() + from, p.moment1.floats() + from,
                   p.moment2.floats() + from, count, mine);
  });
  // What was aborted here is being closed: the masters go, and what was made of them last stays in use.
  if (!complete) throw Aborted();
  zero_grad();
  publish();
}

namespace {

class AdapterParameters final : public Parameters {
 public:
  AdapterParameters(const Model& m, Pool& pool, const LoraSpec& spec, uint64_t seed, const AdapterValues* values)
      : Parameters(pool, m.kernels), model_(m), spec_(spec), places_(m.spec, spec) {
    std::vector<TensorShape> tensors = adapter_tensors(m.spec, spec);
    auto next = tensors.begin();
    for (int l = 0; l < m.layers(); l++)
      for (int module : modules_of(m.spec.layers[l])) {
        if (!spec.targets[module]) continue;
        const int a = add(*next++, true);
        add(*next++, true);
        initialise(a, l, module, seed, values);
      }
    refresh();
  }
  bool full() const override { return false; }
  AdapterRef version() const override { return trained_.version; }
  std::shared_ptr<const AdapterPanels> transposes() const override { return trained_.transposes; }

 protected:
  void take_next() override {
    next_.emplace(model_.spec, kernels_, spec_, true, [&](int l, int p, bool b) {
      return part(places_.of(l, p, b), [&](int i) { return parameters_[i].values(); });
    });
  }
  void publish() override {
    auto made = next_->fill(kernels_, pool_);
    next_.reset();
    if (!made.version) throw Aborted();
    trained_ = std::move(made);
  }
  ModelGradients gradients(const std::function<Matrix(int)>& of) const override {
    ModelGradients g;
    g.layers.resize(size_t(model_.layers()));
    for (int l = 0; l < model_.layers(); l++)
      for (int p = 0; p < kProjections; p++)
        if (spec_.adapts(model_.spec.layers[l], p)) {
          g.layers[l].a[p] = part(places_.of(l, p, false), of);
          g.layers[l].b[p] = part(places_.of(l, p, true), of);
        }
    return g;
  }
  // The version in use, and the one that takes its place.
  int64_t version_bytes() const override { return 2 * (trained_.version->bytes() + trained_.transposes->bytes()); }

 private:
  // A, or the rows of B that are a projection's.
  template <class F> Matrix part(const AdapterPlace& place, F&& of) const {
    return of(int(place.tensor)).from(place.element / parameters_[place.tensor].cols);
  }

  void initialise(int a, int l, int module, uint64_t seed, const AdapterValues* values) {
    const int inputs = module_shape(model_.spec, l, module).inputs;
    if (values) {
      for (int b = 0; b < 2; b++)
        write(a + b, Part::value, {(*values)(l, parts_of(module).first, b), size_t(tensors()[a + b].elements())});
      return;
    }
    const Matrix rows = parameters_[a].values();
    Team team(pool_);
    each_rows(team, spec_.rank, inputs,
              [&](int row, int count, int) { start_adapter(seed, l, module, inputs, row, count, rows.data, rows.ld); });
  }

  const Model& model_;
  LoraSpec spec_;
  AdapterPlaces places_;
  TrainedVersion trained_;
  std::optional<NextVersion> next_;
};

class WeightParameters final : public Parameters {
 public:
  WeightParameters(Model& m, Pool& pool) : Parameters(pool, m.kernels), model_(m) {
    Weights& w = *m.weights;
    matrix("model.embed_tokens.weight", &w.embedding, 1);
    for (int l = 0; l < m.layers(); l++) {
      const LayerSpec& spec = m.spec.layers[l];
      Layer& layer = w.layers[l];
      for (int module : modules_of(spec)) {
        const Parts parts = parts_of(module);
        matrix(module_name(l, module) + ".weight", &layer.projections[parts.first], parts.count);
        if (module_shape(m.spec, l, module).bias)
          vector(module_name(l, module) + ".bias", layer.projections[parts.first].bias);
      }
      for (int n = 0; n < kNorms; n++)
        if (const char* place = norm_place(m.spec, l, n))
          norm(layer_name(l, place) + ".weight", layer.norms[n], norm_adds_one(m.spec, n));
      for (int t = 0; spec.delta_rule && t < kDeltaTensors; t++) {
        TensorShape shape = delta_tensor(m.spec, l, t);
        const bool decays = shape.cols > 0;
        const int index = add(std::move(shape), decays);
        write(index, Part::value, layer.delta.stored(t));
        delta_.push_back({index, l, t});
      }
      int next = 0;
      for (TensorShape& shape : convolution_tensors(m.spec, l)) {
        const bool decays = shape.cols > 0;
        const int index = add(std::move(shape), decays);
        write(index, Part::value, layer.convolution.stored(next));
        convolutions_.push_back({index, l, next++});
      }
    }
    norm(final_norm_name(m.spec), w.final_norm, m.spec.norm_adds_one);
    if (w.untied_head.n) matrix("lm_head.weight", &w.untied_head, 1);
  }
  bool full() const override { return true; }
  AdapterRef version() const override { return nullptr; }
  std::shared_ptr<const AdapterPanels> transposes() const override { return nullptr; }

 protected:
  void take_next() override { next_.reserve(model_.weights->panels.size()); }
  // Into a second copy, and then all at once: a step of inference, and whoever goes on after training was closed in the
  // middle of this, sees the weights of before or those of after.
  void publish() override {
    FloatMode mode;
    Team team(pool_);
    Weights& weights = *model_.weights;
    for (const Trained& trained : matrices_) {
      const Linear& linear = *trained.linear;
      const Matrix values = parameters_[trained.parameter].values().from(trained.row);
      const size_t bytes = panel_bytes(kernels_, linear.k);
      char* const to = next_.data() + (linear.panels - weights.panels.data());
      const int per = std::max(1, int(kPiece / (int64_t(linear.k) * kLanes))) * kLanes;
      team.each((linear.n + per - 1) / per, [&](int64_t chunk, int) {
        const int row = int(chunk) * per;
        kernels_.pack(values.at(row), DType::f32, values.ld, std::min(per, linear.n - row), linear.k,
                      to + row / kLanes * bytes);
      });
    }
    if (!team.ok()) throw Aborted();
    weights.swap_panels(kernels_, next_);
    for (auto& [index, to] : vectors_)
      std::memcpy(to->data(), parameters_[index].value.data(), to->size() * sizeof(float));
    for (auto& [norm, adds_one] : norms_) norm->use(adds_one);
    const auto copy = [&](int index, std::vector<float>& to) {
      const Parameter& p = parameters_[index];
      for (int64_t row = 0; row < p.rows; row++)
        std::memcpy(to.data() + row * p.cols, p.values().at(row), p.cols * sizeof(float));
    };
    for (const auto& [index, layer, tensor] : delta_) {
      DeltaWeights& to = model_.weights->layers[layer].delta;
      copy(index, to.stored(tensor));
      if (tensor == kDeltaTensors - 1) to.use(*model_.spec.layers[layer].delta_rule);
    }
    for (const auto& [index, layer, tensor] : convolutions_) {
      ConvolutionWeights& to = model_.weights->layers[layer].convolution;
      copy(index, to.stored(tensor));
      to.use(*model_.spec.layers[layer].short_convolution);
    }
  }
  ModelGradients gradients(const std::function<Matrix(int)>& of) const override {
    ModelGradients g;
    int i = 0;
    g.embedding = g.head = of(i++);
    for (int l = 0; l < model_.layers(); l++) {
      const LayerSpec& spec = model_.spec.layers[l];
      LayerGradients& out = g.layers.emplace_back();
      for (int module : modules_of(spec)) {
        const Parts parts = parts_of(module);
        const Matrix whole = of(i++);
        for (int p = parts.first; p < parts.first + parts.count; p++)
          out.weight[p] = whole.from(first_output(model_.spec, l, p));
        if (module_shape(model_.spec, l, module).bias) out.bias[parts.first] = of(i++).data;
      }
      for (int n = 0; n < kNorms; n++)
        if (norm_place(model_.spec, l, n)) out.norms[n] = of(i++).data;
      for (int t = 0; spec.delta_rule && t < kDeltaTensors; t++) out.delta[t] = of(i++);
      for (size_t t = 0; t < convolution_tensors(model_.spec, l).size(); t++) out.convolution[t] = of(i++);
    }
    g.final_norm = of(i++).data;
    if (model_.weights->untied_head.n) g.head = of(i++);
    return g;
  }
  int64_t version_bytes() const override { return int64_t(model_.weights->panels.size()); }

 private:
  // Of `count` products whose outputs stand one after the other.
  void matrix(std::string name, Linear* parts, int count) {
    int outputs = 0;
    for (int i = 0; i < count; i++) outputs += parts[i].n;
    const int index = add({std::move(name), outputs, parts[0].k}, true);
    int first = 0;
    for (int i = 0; i < count; first += parts[i++].n) {
      Linear& w = parts[i];
      const Matrix values = parameters_[index].values().from(first);
      const int per = std::max(1, int(kPiece / (int64_t(w.k) * kLanes))) * kLanes;
      Team team(pool_);
      team.each((w.n + per - 1) / per, [&](int64_t chunk, int) {
        const int row = int(chunk) * per;
        kernels_.unpack(w.panels + row / kLanes * panel_bytes(kernels_, w.k), std::min(per, w.n - row), w.k,
                        values.at(row), values.ld);
      });
      if (!team.ok()) throw Aborted();
      matrices_.push_back({index, first, &w});
    }
  }
  void norm(std::string name, NormWeight& w, bool adds_one) {
    vector(std::move(name), w.stored);
    norms_.push_back({&w, adds_one});
  }
  void vector(std::string name, std::vector<float>& v) {
    if (v.empty()) return;
    const int index = add({std::move(name), int64_t(v.size()), 0}, false);
    write(index, Part::value, v);
    vectors_.push_back({index, &v});
  }

  Model& model_;
  // A matrix and its master.
  struct Trained {
    int parameter, row;  // of the parameter's rows, the first
    const Linear* linear;
  };
  std::vector<Trained> matrices_;
  Buffer next_;  // where the next version of all panels is made
  std::vector<std::pair<int, std::vector<float>*>> vectors_;
  std::vector<std::pair<NormWeight*, bool>> norms_;  // and whether it adds 1
  struct LayerParameter {
    int parameter, layer, tensor;
  };
  std::vector<LayerParameter> delta_, convolutions_;
};

}  // namespace

std::unique_ptr<Parameters> train_adapter_parameters(const Model& m, Pool& pool, const LoraSpec& spec, uint64_t seed,
                                                     const AdapterValues* values) {
  return std::make_unique<AdapterParameters>(m, pool, spec, seed, values);
}

std::unique_ptr<Parameters> train_weight_parameters(Model& m, Pool& pool) {
  return std::make_unique<WeightParameters>(m, pool);
}

}  // namespace anneal::cpu
