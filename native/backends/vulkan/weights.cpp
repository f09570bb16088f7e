// Reads weights block of rows by block of rows into blocks of granules, so that the host never holds more than a piece.
#include "weights.h"

#include <algorithm>
#include <cmath>

#include "../../quantization/blocks.h"
#include "staging.h"

namespace anneal::vulkan {
namespace {

constexpr int64_t kAlignment = 256;  // of everything that has an address
constexpr int64_t kPieceElements = int64_t(4) << 20;

int64_t vector_bytes(int n) { return round_up(int64_t(n) * 4, kAlignment); }

TensorFormat format_of(const ModelSpec& m, const std::string& name) {
  const TensorFormat format = m.format_of(name);
  return is_quantized(format) ? format : TensorFormat::f32;
}
int64_t bytes_of(const ModelSpec& m, ElementType t, const std::string& name, int n, int k) {
  const TensorFormat format = format_of(m, name);
  return is_quantized(format) ? Records(format).bytes_of(n, k) : matrix_bytes(t, n, k);
}
std::string weight_name(const ModelSpec& m, int layer, int p) {
  return module_name(layer, module_of(m.layers[size_t(layer)], p)) + ".weight";
}
constexpr const char *kEmbedding = "model.embed_tokens.weight", *kHead = "lm_head.weight";

int64_t layer_bytes(const ModelSpec& m, ElementType t, int layer) {
  int64_t bytes = 0;
  for (int p = 0; p < kProjections; p++) {
    if (!has_projection(m.layers[size_t(layer)], p)) continue;
    const ProjectionShape shape = projection_shape(m, layer, p);
    bytes += round_up(bytes_of(m, t, weight_name(m, layer, p), shape.outputs, shape.inputs), kAlignment);
    if (shape.bias) bytes += vector_bytes(shape.outputs);
  }
  for (int n = 0; n < kNorms; n++)
    if (norm_place(m, layer, n)) bytes += vector_bytes(norm_width(m, layer, n));
  if (const auto& d = m.layers[size_t(layer)].delta_rule)
    bytes += vector_bytes(d->kernel * d->conv_width()) + vector_bytes(2 * d->value_heads);
  return bytes;
}
int64_t embedding_bytes(const ModelSpec& m, ElementType t) {
  return round_up(bytes_of(m, t, kEmbedding, m.vocab, m.hidden), kAlignment) + vector_bytes(m.hidden);
}
int64_t head_bytes(const ModelSpec& m, ElementType t) {
  return m.tied_head ? 0 : bytes_of(m, t, kHead, m.vocab, m.hidden);
}

struct Loader {
  const ModelSpec& spec;
  ElementType type;
  std::shared_ptr<Gpu> gpu;
  executor::Pool& pool;
  const backends::TensorReader& read;
  const std::function<bool(double)>& progress;
  Staging staging{gpu};
  double total = 0, done = 0;
  bool stopped = false;
  std::vector<float> rows;
  std::vector<char> packed;
  std::vector<uint8_t> blocks;
  Memory* memory = nullptr;
  int64_t at = 0;

  void into(Memory& to, int64_t bytes) {
    to = Memory(gpu, bytes, Memory::Place::device, Memory::Parts::addressed);
    memory = &to, at = 0;
  }
  uint64_t take(int64_t bytes) {
    const uint64_t address = memory->address() + uint64_t(at);
    at += round_up(bytes, kAlignment);
    return address;
  }
  Linear matrix(const std::string& name, int first, int n, int k) {
    const TensorFormat format = format_of(spec, name);
    const int64_t begin = at, panel = bytes_of(spec, type, name, kPanel, k);
    const Linear linear{n, k, take(bytes_of(spec, type, name, n, k)), 0, format};
    const bool stored = linear.quantized() && read.stored && read.stored(name) == format;
    const int64_t row_bytes = linear.quantized() ? quantization::row_bytes(format, k) : 0;
    const int block = int(std::max<int64_t>(1, kPieceElements / (int64_t(k) * kPanel))) * kPanel;
    for (int row = 0; row < n && !stopped; row += block) {
      const int count = std::min(block, n - row), panels = int(round_up(count, kPanel) / kPanel);
      rows.resize(size_t(count) * k);
      packed.assign(size_t(panels * panel), 0);
      blocks.resize(size_t(count * row_bytes));
      if (stored)
        read.blocks(name, first + row, count, blocks.data());
      else
        read.floats(name, first + row, count, rows.data());
      const bool complete = pool.each(panels, [&](int64_t p, int) {
        const int from = int(p) * kPanel, some = std::min(kPanel, count - from);
        char* const to = packed.data() + p * panel;
        if (!linear.quantized()) return pack_rows(type, rows.data() + int64_t(from) * k, k, some, k, to);
        uint8_t* const raw = blocks.data() + from * row_bytes;
        for (int i = 0; i < some && !stored; i++)
          quantization::quantize_row(format, rows.data() + int64_t(from + i) * k, k, raw + i * row_bytes);
        pack_records(format, raw, row_bytes, some, k, to);
      });
      staging.send(*memory, begin + row / kPanel * panel, packed.data(), int64_t(packed.size()));
      done += double(count) * k;
      if (!complete || (progress && !progress(done / total))) stopped = true;
    }
    return linear;
  }
  uint64_t vector(const std::string& name, int n, bool add_one = false) {
    const int64_t begin = at;
    const uint64_t address = take(vector_bytes(n));
    rows.assign(size_t(n), 0);
    read.floats(name, 0, 1, rows.data());
    for (float& x : rows) x = add_one ? x + 1 : x;
    put(begin, rows);
    return address;
  }
  void put(int64_t begin, std::vector<float>& values) {
    for (float& x : values) x = flushed(x);
    staging.send(*memory, begin, values.data(), int64_t(values.size()) * 4);
  }
  // What it has beside its projections and its norm.
  void delta(int l, const DeltaRuleSpec& d, Layer& layer) {
    const auto read_all = [&](DeltaTensor which) {
      const TensorShape shape = delta_tensor(spec, l, which);
      std::vector<float> values(size_t(shape.elements()));
      read.floats(shape.name, 0, shape.cols ? shape.rows : 1, values.data());
      return values;
    };
    const std::vector<float> stored = read_all(kConvolution);  // [conv_width][kernel]
    std::vector<float> taps(stored.size());
    for (int i = 0; i < d.conv_width(); i++)
      for (int j = 0; j < d.kernel; j++)
        taps[size_t(j) * size_t(d.conv_width()) + size_t(i)] = stored[size_t(i) * size_t(d.kernel) + size_t(j)];
    std::vector<float> rates = read_all(kDecay);
    for (float& x : rates) x = float(std::exp(double(x)));
    const std::vector<float> bias = read_all(kStepBias);
    rates.insert(rates.end(), bias.begin(), bias.end());
    for (const auto& [values, address] : {std::pair{&taps, &layer.taps}, std::pair{&rates, &layer.rates}}) {
      const int64_t begin = at;
      *address = take(vector_bytes(int(values->size())));
      put(begin, *values);
    }
  }
};

}  // namespace

std::unique_ptr<Weights> load_weights(const ModelSpec& m, ElementType type, const std::shared_ptr<Gpu>& gpu,
                                      executor::Pool& pool, const backends::TensorReader& read,
                                      const std::function<bool(double)>& progress) {
  auto w = std::make_unique<Weights>();
  Loader load{m, type, gpu, pool, read, progress};
  for (const TensorShape& t : weight_tensors(m))
    if (t.cols) load.total += double(t.elements());
  load.into(w->embedding_memory, embedding_bytes(m, type));
  w->embedding = load.matrix(kEmbedding, 0, m.vocab, m.hidden);
  w->final_norm = load.vector(final_norm_name(m), m.hidden, m.norm_adds_one);
  w->layers.resize(m.layers.size());
  for (int l = 0; l < int(m.layers.size()) && !load.stopped; l++) {
    const LayerSpec& spec = m.layers[size_t(l)];
    Layer& layer = w->layers[size_t(l)];
    load.into(layer.memory, layer_bytes(m, type, l));
    for (int p = 0; p < kProjections && !load.stopped; p++) {
      if (!has_projection(spec, p)) continue;
      const ProjectionShape shape = projection_shape(m, l, p);
      const std::string name = module_name(l, module_of(spec, p));
      layer.projections[p] = load.matrix(weight_name(m, l, p), first_output(m, l, p), shape.outputs, shape.inputs);
      if (shape.bias) layer.projections[p].bias = load.vector(name + ".bias", shape.outputs);
    }
    for (int n = 0; n < kNorms; n++)
      if (const char* place = norm_place(m, l, n))
        layer.norms[n] = load.vector(layer_name(l, place) + ".weight", norm_width(m, l, n), norm_adds_one(m, n));
    if (spec.delta_rule && !load.stopped) load.delta(l, *spec.delta_rule, layer);
  }
  w->head = w->embedding;
  if (!load.stopped && !m.tied_head) {
    load.into(w->head_memory, head_bytes(m, type));
    w->head = load.matrix(kHead, 0, m.vocab, m.hidden);
  }
  if (load.stopped) return nullptr;
  load.staging.finish();
  return w;
}

std::vector<uint32_t> Linear::constants(uint32_t first, uint32_t second) const {
  if (!quantized()) return {first, second};
  const Records r(format);
  return {first, second, uint32_t(r.bits), uint32_t(r.parts), uint32_t(r.zero), r.minima};
}

void keep_activations(const ModelSpec& m, Weights& w, const std::vector<std::string>& names) {
  const auto named = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (int l = 0; l < int(m.layers.size()); l++)
    for (int p = 0; p < kProjections; p++)
      if (has_projection(m.layers[size_t(l)], p))
        w.layers[size_t(l)].projections[p].weight_only = named(weight_name(m, l, p));
  w.head.weight_only = named(m.tied_head ? kEmbedding : kHead);
}

int64_t weight_bytes(const ModelSpec& m, ElementType t) {
  int64_t bytes = embedding_bytes(m, t) + head_bytes(m, t);
  for (int l = 0; l < int(m.layers.size()); l++) bytes += layer_bytes(m, t, l);
  return bytes;
}

int64_t largest_weight_bytes(const ModelSpec& m, ElementType t) {
  int64_t bytes = embedding_bytes(m, t);
  for (int l = 0; l < int(m.layers.size()); l++) bytes = std::max(bytes, layer_bytes(m, t, l));
  return bytes;
}

}  // namespace anneal::vulkan
