#include "cpu_backend.h"

#include <numeric>

#include "activation_gate.h"
#include "delta_layer.h"
#include "head.h"
#include "layer_forward.h"
#include "parameters.h"
#include "products.h"
#include "token_inputs.h"
#include "train_pass.h"

namespace anneal::cpu {

using backends::WantedLogits;

namespace {

// Multiply-accumulates that take less time than waking the pool does.
constexpr int64_t kInlineMacs = 2 << 20;
// The same of recurrent states that are moved on.
constexpr size_t kInlineStateBytes = 1 << 20;

}  // namespace

CpuBackend::CpuBackend(std::unique_ptr<Model> model, Pool& pool, backends::CacheSize cache)
    : model_(std::move(model)),
      isa_(model_->kernels.isa),
      pool_(pool),
      pages_(model_->spec, model_->kernels, backends::page_groups(model_->spec)),
      states_(model_->spec),
      sampler_(model_->kernels, pool, model_->spec.vocab) {
  for (Batch* batch : {&batch_, &read_batch_}) {
    batch->pages = &pages_;
    batch->groups = pages_.groups();
    batch->recurrent = &states_;
  }
  pages_.reserve(cache.pages * batch_.groups.count());
  if (model_->spec.recurrent()) states_.reserve(cache.recurrent_states);
  train_memory_ = std::make_shared<TrainMemorySlot>();
}

CpuBackend::~CpuBackend() = default;

std::vector<std::string> CpuBackend::gate_activations(const backends::GateText& text) {
  const size_t room =
      std::min<size_t>(size_t(pages_.count() / pages_.groups().count()) * kPage, size_t(model_->spec.max_positions));
  backends::GateText within = text;
  within.tokens = text.tokens.first(std::min(text.tokens.size(), room));
  return cpu::gate_activations(*model_, pages_, states_, within);
}

bool CpuBackend::set_exact(bool exact) {
  if (!is_fast(isa_)) return false;
  model_->kernels = *kernels(exact ? best_isa() : isa_, model_->kernels.type);
  return true;
}

void CpuBackend::keep_training_memory(bool keep) { train_memory_->stays(keep); }

namespace {

// The next `rows` rows of a batch, in which runs of one adapter stand together.
void adapt(Batch& batch, int rows, const AdapterVersion* adapter) {
  if (!batch.adapted.empty() && batch.adapted.back().adapter == adapter)
    batch.adapted.back().rows += rows;
  else
    batch.adapted.push_back({batch.rows, rows, adapter});
}

// How many of a run's rows are read behind the last layer: the last ones.
int rows_read(const Run& run) { return run.residual_out ? run.count : std::max(run.logit_rows(), run.state_count); }

}  // namespace

// Runs of one adapter stand together. The widest padded rank of their adapters.
int CpuBackend::gather(std::span<const Run> runs) {
  const int count = int(runs.size());
  order_.resize(count), first_row_.resize(count);
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(),
                   [&](int a, int b) { return runs[a].adapter.get() < runs[b].adapter.get(); });
  batch_.clear();
  guessed_.clear();
  new_pages_.clear();
  const backends::PageGroups& groups = batch_.groups;
  int lora_columns = 0, last_position = 0;
  for (int i : order_) {
    const Run& run = runs[i];
    if (run.count <= 0) continue;
    first_row_[i] = batch_.rows;
    for (int p = (run.position + kPage - 1) / kPage * kPage; p < run.position + run.count; p += kPage)
      for (int g = 0; g < groups.count(); g++)
        new_pages_.push_back(run.blocks[int64_t(g) * run.block_count + p / kPage]);
    if (const AdapterVersion* adapter = version_of(run.adapter)) {
      adapt(batch_, run.count, adapter);
      lora_columns = std::max(lora_columns, adapter->padded_rank());
    }
    last_position = std::max(last_position, run.position + run.count);
    // A sequence that branches off another leaves the state of that one where it begins.
    const int guesses = run.recurrent >= 0 ? run.guesses : 0, known = run.count - guesses,
              sequence = int(batch_.sequences.size());
    batch_.add(run.tokens, known, run.position, run.blocks, run.block_count, run.recurrent);
    if (guesses == 0) continue;
    batch_.add(run.tokens + known, guesses, run.position + known, run.blocks, run.block_count, -1, sequence);
    guessed_.add(i, sequence + 1, guesses);
  }
  batch_.list_queries(*model_);
  model_->reserve_positions(last_position);
  return lora_columns;
}

const backends::Logits* CpuBackend::step(std::span<const Run> runs) {
  FloatMode mode;
  const Model& m = *model_;
  const Kernels& k = m.kernels;
  logits_.rows = 0;
  const int lora_columns = gather(runs);
  if (batch_.rows == 0) return &logits_;

  const int rows = batch_.rows;
  residual_.size(rows, m.spec.hidden);
  attention_.size(rows, m.widest().attended, k);
  workspace_.configure(m, rows, pool_.workers(), 1, lora_columns);
  workspace_.configure_unkept(m, rows);
  reserve_delta_forward(m, batch_, workspace_);
  const bool small = rows * m.layer_bytes() / k.elem <= kInlineMacs;
  Team team = small ? Team() : Team(pool_);
  // A page holds megabytes of a large model, so that layers are cleared one by one.
  const int layers = m.layers();
  const backends::PageGroups& groups = batch_.groups;
  team.each(int64_t(new_pages_.size()) / groups.count() * layers, [&](int64_t chunk, int) {
    const int layer = int(chunk % layers);
    pages_.clear(new_pages_[chunk / layers * groups.count() + groups.of(layer)], layer);
  });
  embed_tokens(team, m, batch_, residual_, workspace_);
  list_read(runs);
  if (m.reads_keys_from() < layers && int(read_.size()) < rows) gather_read(runs);
  run_layers(team);

  for (size_t i = 0; i < runs.size(); i++) {
    if (runs[i].state_count > 0)
      read_states(team, place_among(read_, first_row_[i] + runs[i].count - runs[i].state_count), runs[i].state_count,
                  runs[i].states);
    for (int row = 0; runs[i].residual_out && row < runs[i].count; row++)
      std::copy_n(residual_.at(place_among(read_, first_row_[i]) + row), m.spec.hidden,
                  runs[i].residual_out + int64_t(row) * m.spec.hidden);
  }
  return project_logits(team) ? &logits_ : nullptr;
}

bool CpuBackend::keep_guesses(std::span<const int> kept) {
  if (guessed_.empty()) return true;
  FloatMode mode;
  Team team = states_.bytes() > kInlineStateBytes ? Team(pool_) : Team();
  guessed_.keep(team, *model_, batch_, kept, attention_, workspace_);
  guessed_.clear();
  return team.ok();
}

void CpuBackend::gather_read(std::span<const Run> runs) {
  read_batch_.clear();
  for (int i : order_) {
    const Run& run = runs[i];
    const int count = run.count > 0 ? rows_read(run) : 0, skipped = run.count - count;
    if (count == 0) continue;
    if (const AdapterVersion* adapter = version_of(run.adapter)) adapt(read_batch_, count, adapter);
    read_batch_.add(run.tokens + skipped, count, run.position + skipped, run.blocks, run.block_count, run.recurrent);
  }
  read_batch_.list_queries(*model_);
}

// Layers that have keys of their own compute all rows, but the last of them, which needs these for keys alone. Those
// behind it attend to what is there: they compute the rows that are read.
void CpuBackend::run_layers(Team& team) {
  const Model& m = *model_;
  LayerActivations a;
  a.x_in = a.x_mid = a.x_out = residual_;
  a.attention = attention_;
  const bool some = int(read_.size()) < batch_.rows;
  const int last = m.reads_keys_from() - 1;
  for (int l = 0; l <= last; l++) {
    if (l == last && some) a.read = &read_;
    layer_forward(team, m, batch_, l, a, workspace_);
    if (!guessed_.empty() && !m.attends(l)) guessed_.take(m, batch_, l, workspace_);
  }
  if (last + 1 == m.layers() || read_.empty()) return;
  a.read = nullptr;
  if (some) keep_token_inputs(team, m, read_, workspace_);
  for (int l = last + 1; l < m.layers(); l++) layer_forward(team, m, some ? read_batch_ : batch_, l, a, workspace_);
}

void CpuBackend::list_read(std::span<const Run> runs) {
  read_.clear(), logit_rows_.clear();
  for (size_t i = 0; i < runs.size(); i++) {
    const Run& run = runs[i];
    if (run.count <= 0) continue;
    const int end = first_row_[i] + run.count, logits = run.logit_rows();
    for (int row = end - logits; row < end; row++) logit_rows_.push_back(row);
    for (int row = end - rows_read(run); row < end; row++) read_.push_back(row);
  }
  std::sort(read_.begin(), read_.end());
  for (int& row : logit_rows_) row = place_among(read_, row);
}

bool CpuBackend::project_logits(Team& team) {
  const Model& m = *model_;
  const Kernels& k = m.kernels;
  const int wanted = int(logit_rows_.size());
  if (wanted == 0) return team.ok();
  logits_.rows = wanted;
  logits_.values.size(wanted, m.spec.vocab);
  normed_.size(wanted, m.spec.hidden, k);
  each_rows(team, wanted, m.spec.hidden, [&](int row, int n, int) {
    for (int i = row; i < row + n; i++)
      k.rmsnorm(residual_.at(logit_rows_[i]), residual_.ld, m.weights->final_norm.data(), m.spec.rms_eps, 1,
                m.spec.hidden, normed_.at(i), normed_.ld);
  });
  const Linear& head = m.weights->head();
  Team all(pool_);
  Team& head_team = team.ok() && int64_t(wanted) * head.n * head.k > kInlineMacs ? all : team;
  if (head.takes_codes()) codes_.size(wanted, code_row_bytes(head.format, head.k));
  const Linear* const weights[] = {&head};
  const Input input = with_codes(team, k, normed_, wanted, weights, 1, codes_);
  const Split split = split_product(head_team, k, wanted, panels_of(head.n));
  head_team.each(split.chunks(),
                 [&](int64_t chunk, int) { head_tile(m, input, tile_of(split, chunk), logits_.values); });
  return team.ok() && head_team.ok();
}

void CpuBackend::read_states(Team& team, int row0, int rows, float* to) {
  const Model& m = *model_;
  const int hidden = m.spec.hidden;
  normed_.size(rows, hidden, m.kernels);
  each_rows(team, rows, hidden, [&](int row, int n, int) {
    m.kernels.rmsnorm(residual_.at(row0 + row), residual_.ld, m.weights->final_norm.data(), m.spec.rms_eps, n, hidden,
                      normed_.at(row), normed_.ld);
    m.kernels.widen_rows(normed_.at(row), normed_.ld, n, hidden, to + int64_t(row) * hidden, hidden);
  });
}

bool CpuBackend::sample(const backends::Logits& logits, std::span<const RowRequest> requests,
                        std::span<RowResult> results) {
  const MatrixStore& rows = static_cast<const HostLogits&>(logits).values;
  return sampler_.sample([&](int row) { return rows.at(row); }, requests, results);
}

AdapterRef CpuBackend::load_adapter(const LoraSpec& lora, const AdapterValues& values) {
  NextVersion version(model_->spec, model_->kernels, lora, false, [&](int layer, int p, bool b) {
    // Not written to.
    return Matrix{const_cast<float*>(values(layer, p, b)),
                  b ? lora.rank : projection_shape(model_->spec, layer, p).inputs};
  });
  return version.fill(model_->kernels, pool_).version;
}

std::unique_ptr<Trainable> CpuBackend::train_adapter(const LoraSpec& lora, uint64_t seed, const AdapterValues* values) {
  auto parameters = train_adapter_parameters(*model_, pool_, lora, seed, values);
  parameters->at_end([slot = train_memory_] { slot->trained(); });
  return parameters;
}

std::unique_ptr<Trainable> CpuBackend::train_weights() {
  auto parameters = train_weight_parameters(*model_, pool_);
  parameters->at_end([slot = train_memory_] { slot->trained(); });
  return parameters;
}

std::unique_ptr<TrainPass> CpuBackend::forward(std::span<const TrainRow> rows, Trainable* trainable,
                                               const AdapterRef& adapter, const PassOptions& options) {
  return train_forward(*model_, pool_, rows, static_cast<Parameters*>(trainable), adapter, options, train_memory_);
}

int64_t CpuBackend::pass_bytes(std::span<const std::vector<TrainRow>> trained,
                               std::span<const std::vector<TrainRow>> evaluated, Trainable* trainable,
                               const PassOptions& options) {
  return planned_pass_bytes(*model_, pool_, trained, evaluated, static_cast<Parameters*>(trainable), options);
}

}  // namespace anneal::cpu
