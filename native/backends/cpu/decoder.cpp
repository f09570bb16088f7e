// Loading, inference steps and adapters of a decoder.
#include <numeric>

#include "decoder_impl.h"
#include "layer_forward.h"
#include "parameters.h"
#include "products.h"
#include "train_pass.h"

namespace anneal::cpu {
namespace {

void check(const DecoderConfig& c) {
  auto require = [](bool ok, const char* what) {
    if (!ok) throw std::runtime_error(std::string("decoder configuration: ") + what);
  };
  require(c.hidden > 0 && c.intermediate > 0 && c.layers > 0 && c.vocab > 0 && c.max_positions > 0, "sizes must be positive");
  require(c.head_dim > 0 && c.head_dim % 2 == 0, "head_dim must be even");
  require(c.kv_heads > 0 && c.heads % c.kv_heads == 0, "the number of heads must be a multiple of the number of key-value heads");
  require(c.heads / c.kv_heads <= kAttentionRows, "at most 64 query heads may share a key-value head");
}

// Products that take less than waking the pool does.
constexpr int64_t kInlineMacs = 2 << 20;

}  // namespace

std::unique_ptr<Decoder> Decoder::create(const DecoderConfig& c, const Kernels& kernels, Pool& pool, int pages, const TensorReader& read,
                                         const std::function<bool(double)>& progress) {
  check(c);
  std::unique_ptr<Weights> weights = load_weights(c, kernels, pool, read, progress);
  if (!weights) return nullptr;
  std::unique_ptr<Model> model(new Model{c, kernels, std::move(weights), RopeTable(c.rope, c.head_dim, c.max_positions)});
  return std::make_unique<DecoderImpl>(std::move(model), pool, pages);
}

int64_t Decoder::page_bytes(const DecoderConfig& c) { return int64_t(Pages(c, *kernels(Isa::portable, c.dtype)).page_bytes()); }

DecoderImpl::DecoderImpl(std::unique_ptr<Model> model, Pool& pool, int pages) : model_(std::move(model)), pool_(pool), pages_(model_->config, model_->kernels) {
  pages_.reserve(pages);
  train_memory_ = std::make_shared<TrainMemorySlot>();
}

DecoderImpl::~DecoderImpl() = default;

bool DecoderImpl::step(Pool& pool, const StepRun* runs, int count, LogitsOut out) {
  FloatMode mode;
  const Model& m = *model_;
  const DecoderConfig& c = m.config;
  const Kernels& k = m.kernels;

  // Runs of one adapter stand together.
  order_.resize(count), first_row_.resize(count);
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) { return runs[a].adapter.get() < runs[b].adapter.get(); });
  batch_.clear();
  batch_.pages = &pages_;
  int lora_columns = 0, last_position = 0;
  for (int i : order_) {
    const StepRun& run = runs[i];
    if (run.count <= 0) continue;
    first_row_[i] = batch_.rows;
    for (int p = (run.position + kPage - 1) / kPage * kPage; p < run.position + run.count; p += kPage) pages_.clear(run.blocks[p / kPage]);
    if (const AdapterVersion* adapter = run.adapter.get()) {
      if (!batch_.segments.empty() && batch_.segments.back().adapter == adapter)
        batch_.segments.back().rows += run.count;
      else
        batch_.segments.push_back({batch_.rows, run.count, adapter});
      lora_columns = std::max(lora_columns, adapter->padded_rank());
    }
    last_position = std::max(last_position, run.position + run.count);
    batch_.add(run.tokens, run.count, run.position, run.blocks, m.group());
  }
  if (batch_.rows == 0) return true;
  batch_.add_tiles(m.group());
  model_->rope.reserve(last_position);

  const int rows = batch_.rows;
  residual_.size(rows, c.hidden);
  attention_.size(rows, m.q_width(), k);
  workspace_.configure(m, rows, pool.workers(), 1, lora_columns);
  const bool small = rows * m.layer_bytes() / k.elem <= kInlineMacs;
  Team team = small ? Team() : Team(pool);
  each_rows(team, rows, c.hidden, [&](int row, int n, int) {
    for (int i = row; i < row + n; i++) k.embed(m.weights->embedding.panels.data(), c.vocab, c.hidden, batch_.tokens[i], residual_.at(i));
  });
  LayerActivations a;
  a.x_in = a.x_mid = a.x_out = residual_;
  a.attention = attention_;
  for (int l = 0; l < c.layers; l++) layer_forward(team, m, batch_, l, a, workspace_);

  logit_rows_.clear();
  for (int i = 0; i < count; i++) {
    if (runs[i].count <= 0 || runs[i].logits == 0) continue;
    const int end = first_row_[i] + runs[i].count;
    for (int row = runs[i].logits == 1 ? end - 1 : first_row_[i]; row < end; row++) logit_rows_.push_back(row);
  }
  const int wanted = int(logit_rows_.size());
  if (wanted == 0) return team.ok();
  normed_.size(wanted, c.hidden, k);
  each_rows(team, wanted, c.hidden, [&](int row, int n, int) {
    for (int i = row; i < row + n; i++)
      k.rmsnorm(residual_.at(logit_rows_[i]), residual_.ld, m.weights->final_norm.data(), c.rms_eps, 1, c.hidden, normed_.at(i), normed_.ld);
  });
  const Linear& head = m.weights->head();
  Team all(pool);
  Team& head_team = team.ok() && int64_t(wanted) * head.n * head.k > kInlineMacs ? all : team;
  const Split split = split_product(head_team, wanted, panels_of(head.n));
  head_team.each(split.chunks(), [&](int64_t chunk, int) {
    const Tile t = tile_of(split, chunk);
    k.gemm(normed_.at(t.row), normed_.ld, t.rows, head.panels.data() + t.panel * panel_bytes(k, head.k), head.k, t.panels,
           out.data + t.row * out.ld + int64_t(t.panel) * kLanes, out.ld, false);
  });
  return team.ok() && head_team.ok();
}

AdapterRef DecoderImpl::load_adapter(Pool& pool, const LoraSpec& spec, const AdapterValues& values) {
  return make_adapter_version(model_->config, model_->kernels, pool, spec, false, [&](int layer, int p, bool b) {
    // Not written to.
    return Matrix{const_cast<float*>(values(layer, Projection(p), b)), b ? spec.rank : projection_shape(model_->config, p).k};
  });
}

std::unique_ptr<Trainable> DecoderImpl::train_adapter(const LoraSpec& spec, uint64_t seed, const AdapterValues* values) {
  auto parameters = train_adapter_parameters(*model_, pool_, spec, seed, values);
  parameters->at_end([slot = train_memory_] { slot->take(); });
  return parameters;
}

std::unique_ptr<Trainable> DecoderImpl::train_weights() {
  auto parameters = train_weight_parameters(*model_, pool_);
  parameters->at_end([slot = train_memory_] { slot->take(); });
  return parameters;
}

std::unique_ptr<TrainPass> DecoderImpl::forward(Pool& pool, const TrainRow* rows, int count, const uint8_t* const* trained, const uint8_t* first_trained,
                                                Trainable* trainable, const AdapterRef& adapter, const PassOptions& options) {
  return train_forward(*model_, pool, rows, count, trained, first_trained, static_cast<Parameters*>(trainable), adapter, options, train_memory_);
}

}  // namespace anneal::cpu
