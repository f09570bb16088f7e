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

  // Rows from `first` on.
  void matrix(const std::string& name, int first, int n, int k, Linear& w) {
    w.n = n, w.k = k;
    const size_t bytes = panel_bytes(kernels, k);
    w.panels.reserve(panels_of(n) * bytes);
    const int block = std::max<int64_t>(1, (int64_t(8) << 20) / (int64_t(k) * kLanes * 4)) * kLanes;
    staging.reserve(size_t(std::min<int64_t>(block, padded(n))) * k * 4);
    for (int row = 0; row < n && !stopped; row += block) {
      const int rows = std::min(block, n - row);
      read(name, first + row, rows, staging.floats());
      Team team(pool);
      team.each(panels_of(rows), [&](int64_t p, int) {
        kernels.pack(staging.floats() + p * kLanes * k, DType::f32, k, std::min<int>(kLanes, rows - p * kLanes), k,
                     w.panels.data() + (row / kLanes + p) * bytes);
      });
      done += double(rows) * k;
      if (!team.ok() || (progress && !progress(done / total))) stopped = true;
    }
  }
  void norm(const std::string& name, int n, bool adds_one, NormWeight& out) {
    vector(name, n, out.stored);
    out.use(adds_one);
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
  load.matrix("model.embed_tokens.weight", 0, m.vocab, m.hidden, w->embedding);
  w->layers.resize(m.layers.size());
  for (int l = 0; l < int(m.layers.size()) && !load.stopped; l++) {
    Layer& layer = w->layers[l];
    for (int p = 0; p < kProjections; p++) {
      const ProjectionShape shape = projection_shape(m, l, p);
      const std::string name = module_name(l, module_of(m.layers[l], p));
      const int first = first_output(m, l, p);
      load.matrix(name + ".weight", first, shape.outputs, shape.inputs, layer.projections[p]);
      if (shape.bias) load.vector(name + ".bias", shape.outputs, layer.projections[p].bias);
    }
    for (int n = 0; n < kNorms; n++)
      if (const char* place = norm_place(m.layers[l], n))
        load.norm(layer_name(l, place) + ".weight", norm_width(m, l, n), m.norm_adds_one, layer.norms[n]);
  }
  if (!load.stopped) load.norm("model.norm.weight", m.hidden, m.norm_adds_one, w->final_norm);
  if (!load.stopped && !m.tied_head) load.matrix("lm_head.weight", 0, m.vocab, m.hidden, w->untied_head);
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
