#include "train_pass.h"

#include <algorithm>

#include "attention_layer.h"
#include "delta_layer.h"
#include "layer_forward.h"

namespace anneal::cpu {
namespace {

class Pass final : public backends::PartPass {
 public:
  Pass(Model& m, Pool& pool, Parameters* trainable, AdapterRef adapter, std::shared_ptr<TrainMemorySlot> slot)
      : m_(m),
        pool_(pool),
        trainable_(trainable),
        adapter_(std::move(adapter)),
        transposes_(trainable ? trainable->transposes() : nullptr),
        slot_(std::move(slot)),
        memory_(slot_->take()) {
    if (!memory_) memory_ = std::make_unique<TrainMemory>();
  }
  ~Pass() override { slot_->give(std::move(memory_)); }

  std::span<const float> logprobs(int row) const override { return of_row(logprobs_, row); }
  std::span<const float> entropies(int row) const override { return of_row(entropies_, row); }
  int64_t bytes() const override { return memory_->account.bytes; }

  bool forward(std::span<const TrainRow> rows, const PassOptions& options);
  // Takes the memory of a pass over these rows, or plans to.
  void prepare(std::span<const TrainRow> rows, const PassOptions& options);
  bool backward(RowGradients by_logprob, RowGradients by_entropy) override;
  void read_residual(float* to) override;
  void give_residual_gradient(const float* from) override;

 private:
  // Where an entry's results go.
  struct Source {
    int row, t;
  };

  void lay_out(std::span<const TrainRow> rows);
  void list_entries(std::span<const TrainRow> rows);
  void list_read();
  const std::vector<int>* read() const { return read_.empty() ? nullptr : &read_; }
  int rows_read() const { return read_.empty() ? memory_->batch.rows : int(read_.size()); }
  int token_at(std::span<const TrainRow> rows, int row, int position) const;
  std::span<const float> of_row(const std::vector<float>& values, int row) const {
    return std::span(values).subspan(size_t(row0_[row]), size_t(row0_[row + 1] - row0_[row]));
  }
  void take_memory(const PassOptions&);
  void configure(TrainMemory&, const ModelGradients&) const;
  void configure_workspace(TrainMemory&) const;
  void configure_backward(TrainMemory&, const ModelGradients&) const;
  int64_t needed(TrainMemory&, const ModelGradients&) const;
  const AdapterVersion* version() const { return version_of(adapter_); }
  LayerActivations activations(int layer);
  bool recomputed(int layer) const { return layer < first_kept_; }

  Model& m_;
  Pool& pool_;
  Parameters* trainable_;
  AdapterRef adapter_;
  std::shared_ptr<const AdapterPanels> transposes_;  // of what is trained, unless it is all weights
  std::shared_ptr<TrainMemorySlot> slot_;
  std::unique_ptr<TrainMemory> memory_;
  std::vector<std::vector<int32_t>> tables_;  // block table of each row
  std::vector<int> row0_;                     // [rows + 1]
  std::vector<Entry> entries_;
  std::vector<Source> sources_;
  std::vector<int> read_;          // rows whose last hidden state is read, ascending; empty: all are
  std::vector<int> entries_from_;  // [rows read + 1]: entries of each hidden state
  std::vector<float> logprobs_, entropies_;
  int pages_ = 0;
  std::vector<float> residual_gradient_;  // given: [tokens][hidden]
  bool entropy_gradient_ = false;
  int first_kept_ = 0;         // layers below are computed again in backward
  int64_t limit_ = INT64_MAX;  // of the pass's memory, bytes
};

// Follows prefixes to the row that computes a position.
int Pass::token_at(std::span<const TrainRow> rows, int row, int position) const {
  while (rows[row].prefix >= 0 && position < rows[row].prefix_length) row = rows[row].prefix;
  return row0_[row] + position - (rows[row].prefix >= 0 ? rows[row].prefix_length : 0);
}

void Pass::lay_out(std::span<const TrainRow> rows) {
  const int count = int(rows.size());
  Batch& b = memory_->batch;
  b.clear();
  tables_.assign(count, {});
  row0_.assign(count + 1, 0);
  int pages = 0, last = 0;
  std::vector<std::pair<int, Slot>> copies;
  std::vector<int> sequence_of(count, -1);
  for (int r = 0; r < count; r++) {
    const TrainRow& row = rows[r];
    const int start = row.prefix >= 0 ? row.prefix_length : 0, whole = start / kPage;
    std::vector<int32_t>& table = tables_[r];
    if (start > 0) table.assign(tables_[row.prefix].begin(), tables_[row.prefix].begin() + whole);
    for (int block = whole; block * kPage < start + int(row.tokens.size()); block++) table.push_back(pages++);
    // The block in which the prefix ends is this row's own; the prefix's tokens write it too.
    if (int(row.tokens.size()) > 0)
      for (int p = whole * kPage; p < start; p++)
        copies.push_back({token_at(rows, row.prefix, p), {table[whole], p % kPage}});
    if (int(row.tokens.size()) > 0) {
      sequence_of[r] = int(b.sequences.size());
      b.add(row.tokens.data(), int(row.tokens.size()), start, table.data(), 0, -1,
            start > 0 ? sequence_of[row.prefix] : -1);
    }
    row0_[r + 1] = b.rows;
    last = std::max(last, start + int(row.tokens.size()));
  }
  if (!copies.empty()) {
    std::stable_sort(copies.begin(), copies.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    b.copies_from.assign(b.rows + 1, 0);
    for (const auto& copy : copies) b.copies.push_back(copy.second), b.copies_from[copy.first + 1]++;
    for (int i = 0; i < b.rows; i++) b.copies_from[i + 1] += b.copies_from[i];
  }
  if (adapter_) b.adapted.push_back({0, b.rows, version()});
  b.list_queries(m_);
  pages_ = pages;
  m_.reserve_positions(last);
}

void Pass::list_entries(std::span<const TrainRow> rows) {
  std::vector<std::pair<Entry, Source>> list;
  for (int r = 0; r < int(rows.size()); r++) {
    const TrainRow& row = rows[r];
    for (int t = 0; t + 1 < int(row.tokens.size()); t++)
      if (row.trained.empty() || row.trained[t])
        list.push_back(
            {{row0_[r] + t, row.tokens[t + 1], row.temperatures.empty() ? 1.0f : 1.0f / row.temperatures[t]}, {r, t}});
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& x, const auto& y) { return x.first.hidden < y.first.hidden; });
  for (const auto& [entry, source] : list) entries_.push_back(entry), sources_.push_back(source);
  list_read();
  const int count = rows_read();
  entries_from_.assign(count + 1, 0);
  for (Entry& entry : entries_) {
    if (!read_.empty()) entry.hidden = place_among(read_, entry.hidden);
    entries_from_[entry.hidden + 1]++;
  }
  for (int i = 0; i < count; i++) entries_from_[i + 1] += entries_from_[i];
}

// All rows are read of the first layers of a model that others go on with; no row has an entry there.
void Pass::list_read() {
  const int tokens = memory_->batch.rows;
  read_.clear();
  // All weights have sums over all rows of norms and biases.
  if (trainable_ && (trainable_->full() || m_.delta_rule(m_.layers() - 1))) return;
  // As sums over tokens take rows up, so that they have the bits of those over all rows. Gate and up that are adapted
  // as one take turns block by block.
  const int together = m_.spec.layers.back().feed_forward.fused_gate_up ? kBlockRows
                       : is_fast(m_.kernels.isa)                        ? kFastDepth
                                                                        : 2;
  for (const Entry& entry : entries_)
    for (int row = entry.hidden / together * together, end = std::min(tokens, row + together); row < end; row++)
      if (read_.empty() || read_.back() < row) read_.push_back(row);
  if (int(read_.size()) == tokens) read_.clear();
}

// Prepares `mem` for the forward pass. Its batch has been laid out.
void Pass::configure(TrainMemory& mem, const ModelGradients& wanted) const {
  const int tokens = memory_->batch.rows, layers = m_.layers(), hidden = m_.spec.hidden;
  mem.pages = Pages(m_.spec, m_.kernels, std::move(mem.pages));
  mem.pages.reserve(pages_);
  configure_workspace(mem);
  if (trainable_) {
    mem.x.resize(layers + 1), mem.kept.resize(layers);
    for (MatrixStore& x : mem.x) x.size(tokens, hidden);
    for (int l = 0; l < layers; l++) {
      if (recomputed(l))
        mem.kept[l] = {};
      else
        mem.kept[l].size(m_, tokens, widths_of(m_.spec.layers[l]), version());
    }
    if (first_kept_ > 0) mem.again.size(m_, tokens, m_.widest(), version());
    mem.units.size(std::max(int(entries_.size()), 1), hidden);
    if (entropy_gradient_) mem.entropy_units.size(std::max(int(entries_.size()), 1), hidden);
    mem.d_x.size(tokens, hidden);
    reserve_delta_forward(m_, memory_->batch, mem.workspace);
    configure_backward(mem, wanted);
  } else {
    mem.x.resize(std::max<size_t>(mem.x.size(), 1));
    mem.x[0].size(tokens, hidden);
    mem.workspace.configure_unkept(m_, tokens);
    reserve_delta_forward(m_, memory_->batch, mem.workspace);
    mem.attention.size(tokens, m_.widest().attended, m_.kernels);
    mem.head.configure(m_, int(entries_.size()), pool_.workers(), {});
  }
}

void Pass::configure_workspace(TrainMemory& mem) const {
  const Batch& batch = memory_->batch;
  const int workers = pool_.workers();
  mem.workspace.configure(m_, batch.rows, workers, kBlockRows, adapter_ ? version()->padded_rank() : 0);
  reserve_attention_forward(m_, batch, read(), workers, mem.workspace);
}

void Pass::configure_backward(TrainMemory& mem, const ModelGradients& wanted) const {
  mem.workspace.configure_backward(m_, adapter_ ? version()->padded_rank() : 0);
  reserve_delta_backward(m_, memory_->batch, mem.workspace);
  mem.backward.configure(m_, memory_->batch, pages_, mem.workspace, wanted, version());
  mem.head.configure(m_, int(entries_.size()), pool_.workers(), {true, entropy_gradient_, trainable_->full()});
}

// Bytes that `mem` has to grow by.
int64_t Pass::needed(TrainMemory& mem, const ModelGradients& wanted) const {
  MemoryAccount counted{0, MemoryAccount::Mode::counts};
  MemoryAccount::Scope scope(counted);
  configure(mem, wanted);
  return counted.bytes;
}

// Keeps as many layers as there is room for, and takes memory.
void Pass::take_memory(const PassOptions& options) {
  const ModelGradients wanted = trainable_ ? trainable_->wanted() : ModelGradients{};
  const int layers = trainable_ ? m_.layers() : 0;
  auto bytes_with = [&](int first_kept) {
    first_kept_ = first_kept;
    TrainMemory planned(MemoryAccount::Mode::plans);
    MemoryAccount::Scope scope(planned.account);
    configure(planned, wanted);
    return planned.account.bytes;
  };
  const int64_t limit = options.memory_budget > 0 ? options.memory_budget : INT64_MAX,
                keep = options.keep_bytes > 0 ? std::min(options.keep_bytes, limit) : limit;
  int low = 0, high = layers;  // between which is the least number of layers to be computed again
  if (const int64_t least = keep < INT64_MAX ? bytes_with(high) : 0; least > limit) throw NoRoom(least, limit);
  // The layer being computed again takes the place of a kept one.
  while (low < high && keep < INT64_MAX) {
    const int middle = (low + high) / 2;
    if (bytes_with(middle) <= keep)
      high = middle;
    else
      low = middle + 1;
  }
  first_kept_ = keep < INT64_MAX ? high : 0;
  // What is there already may be of another shape.
  if (limit < INT64_MAX && memory_->account.bytes + needed(*memory_, wanted) > limit) {
    auto fresh = std::make_unique<TrainMemory>(memory_->account.mode);
    std::swap(fresh->batch, memory_->batch);
    memory_ = std::move(fresh);
  }
  limit_ = limit;
  MemoryAccount::Scope scope(memory_->account);
  configure(*memory_, wanted);
  memory_->batch.pages = &memory_->pages;
}

LayerActivations Pass::activations(int layer) {
  LayerActivations a;
  if (layer + 1 == m_.layers()) a.read = read();
  if (!trainable_) {
    a.x_in = a.x_mid = a.x_out = memory_->x[0];
    a.attention = memory_->attention;
    return a;
  }
  TrainMemory::Kept& kept = recomputed(layer) ? memory_->again : memory_->kept[layer];
  a.x_in = memory_->x[layer], a.x_mid = kept.x_mid, a.x_out = memory_->x[layer + 1];
  a.q = kept.q, a.gate = kept.gate, a.up = kept.up, a.attention = kept.attention;
  for (int i = 0; i < kDeltaInputs; i++) a.delta_in[i] = kept.delta_in[i];
  const Widths c = widths_of(m_.spec.layers[layer]);
  if (c.qk_norm) a.k = kept.k;
  if (c.v_norm) a.v = kept.v;
  if (m_.spec.token_inputs) a.token_gate = kept.token_gate, a.token_branch = kept.token_branch;
  if (m_.spec.layers[layer].norms == NormPlacement::before_and_after)
    a.attended = kept.attended, a.fed_forward = kept.fed_forward;
  for (int p = 0; p < kProjections; p++) a.z[p] = kept.z[p];
  a.lse = kept.lse.floats();
  return a;
}

void Pass::prepare(std::span<const TrainRow> rows, const PassOptions& options) {
  entropy_gradient_ = options.entropy_gradient;
  lay_out(rows);
  list_entries(rows);
  if (memory_->batch.rows > 0) take_memory(options);
}

bool Pass::forward(std::span<const TrainRow> rows, const PassOptions& options) {
  const int layers = m_.layers();
  prepare(rows, options);
  const int tokens = memory_->batch.rows, entry_count = int(entries_.size());
  logprobs_.assign(tokens, 0), entropies_.assign(tokens, 0);
  if (tokens == 0) return true;

  TrainMemory& mem = *memory_;
  Team team(pool_);
  team.each(pages_, [&](int64_t page, int) { memory_->pages.clear(int(page)); });
  embed_tokens(team, m_, mem.batch, mem.x[0], mem.workspace);
  for (int l = 0; l < layers && team.ok(); l++) layer_forward(team, m_, mem.batch, l, activations(l), mem.workspace);
  std::vector<float> logprobs(entry_count), entropies(entry_count);
  Units units;
  if (trainable_) units.logprob = mem.units;
  if (trainable_ && entropy_gradient_) units.entropy = mem.entropy_units;
  head_forward(team, m_, trainable_ ? mem.x[layers] : mem.x[0], entries_, logprobs.data(), entropies.data(), units,
               mem.workspace.workers, mem.head);
  for (int e = 0; e < entry_count; e++) {
    const Source s = sources_[e];
    logprobs_[row0_[s.row] + s.t] = logprobs[e];
    entropies_[row0_[s.row] + s.t] = entropies[e];
  }
  return team.ok();
}

void Pass::read_residual(float* to) {
  MatrixStore& x = memory_->x[trainable_ ? m_.layers() : 0];
  for (int t = 0; t < memory_->batch.rows; t++) std::copy_n(x.at(t), m_.spec.hidden, to + int64_t(t) * m_.spec.hidden);
}

void Pass::give_residual_gradient(const float* from) {
  residual_gradient_.assign(from, from + int64_t(memory_->batch.rows) * m_.spec.hidden);
}

bool Pass::backward(RowGradients by_logprob, RowGradients by_entropy_rows) {
  const bool with_entropy = !by_entropy_rows.empty();
  FloatMode mode;
  const int layers = m_.layers(), hidden = m_.spec.hidden;
  const Kernels& k = m_.kernels;
  TrainMemory& mem = *memory_;
  const Batch& batch = mem.batch;
  const int tokens = batch.rows, read = rows_read(), blocks = (read + kBlockRows - 1) / kBlockRows;
  if (tokens == 0) return true;
  std::vector<float> d(entries_.size()), by_entropy(with_entropy ? entries_.size() : 0);
  for (size_t e = 0; e < d.size(); e++) {
    const Source s = sources_[e];
    if (!by_logprob[s.row].empty()) d[e] = by_logprob[s.row][s.t];
    if (with_entropy && !by_entropy_rows[s.row].empty()) by_entropy[e] = by_entropy_rows[s.row][s.t];
  }

  {  // The pool may have changed since the forward pass.
    const ModelGradients shape = trainable_->wanted();
    const auto grow = [&](MemoryAccount& account) {
      MemoryAccount::Scope scope(account);
      configure_workspace(mem);
      configure_backward(mem, shape);
    };
    MemoryAccount counted{0, MemoryAccount::Mode::counts};
    grow(counted);
    if (mem.account.bytes + counted.bytes > limit_) throw NoRoom(mem.account.bytes + counted.bytes, limit_);
    grow(mem.account);
  }
  ModelGradients wanted;
  if (!trainable_->begin(wanted)) return false;
  Team team(pool_);
  const HeadGradient by{d.data(), with_entropy ? by_entropy.data() : nullptr};
  if (wanted.head)
    head_weight_gradient(team, m_, mem.x[layers], entries_, by, wanted.head, mem.workspace.workers, mem.head);

  MatrixStore& partial = mem.backward.partial_final_norm;
  team.each(blocks, [&](int64_t block, int worker) {
    float* sums = wanted.final_norm ? partial.at(block) : nullptr;
    if (sums) std::memset(sums, 0, partial.ld * sizeof(float));
    float* dh = mem.workspace.workers[worker].tile.floats();
    for (int t = int(block) * kBlockRows; t < std::min(read, int(block + 1) * kBlockRows); t++) {
      std::memset(mem.d_x.at(t), 0, mem.d_x.ld * sizeof(float));
      if (entries_from_[t] == entries_from_[t + 1]) continue;
      std::memset(dh, 0, hidden * sizeof(float));
      for (int e = entries_from_[t]; e < entries_from_[t + 1]; e++) {
        k.add_scaled(dh, mem.units.at(e), d[e], hidden);
        if (with_entropy) k.add_scaled(dh, mem.entropy_units.at(e), by_entropy[e], hidden);
      }
      k.rmsnorm_backward(mem.x[layers].at(t), mem.x[layers].ld, m_.weights->final_norm.data(), m_.spec.rms_eps, dh,
                         hidden, 1, hidden, mem.d_x.at(t), mem.d_x.ld, sums);
    }
  });
  for (int t = 0; t < tokens && !residual_gradient_.empty(); t++)
    std::copy_n(&residual_gradient_[size_t(t) * hidden], hidden, mem.d_x.at(t));
  if (wanted.final_norm) k.column_sums(partial.data, partial.ld, blocks, hidden, wanted.final_norm);

  for (int l = layers - 1; l >= 0 && team.ok(); l--) {
    LayerActivations a = activations(l);
    if (recomputed(l)) {
      LayerActivations again = a;
      if (!m_.spec.token_inputs) again.x_out = {};
      layer_forward(team, m_, batch, l, again, mem.workspace);
    }
    layer_backward(team, m_, batch, l, a, transposes_.get(), wanted.layers[l], l > 0 || trainable_->full(), mem.d_x,
                   mem.workspace, mem.backward);
  }
  // Embedding rows take the gradients of their tokens in row order, after the head's when tied.
  if (wanted.embedding) {
    constexpr int kColumns = 64;
    team.each((hidden + kColumns - 1) / kColumns, [&](int64_t chunk, int) {
      const int col = int(chunk) * kColumns;
      for (int t = 0; t < tokens; t++)
        k.add_scaled(wanted.embedding.at(batch.tokens[t], col), mem.d_x.at(t, col), m_.embedding_scale(),
                     std::min(kColumns, hidden - col));
    });
  }
  return team.ok() && trainable_->commit();
}

}  // namespace

void TrainMemory::Kept::size(const Model& m, int rows, const Widths& c, const AdapterVersion* adapter) {
  x_mid.size(rows, m.spec.hidden);
  q.size(rows, c.q, m.kernels);
  if (c.qk_norm) k.size(rows, c.kv, m.kernels);
  if (c.v_norm) v.size(rows, c.kv, m.kernels);
  if (m.spec.token_inputs) {
    token_gate.size(rows, m.spec.token_inputs, m.kernels);
    token_branch.size(rows, m.spec.hidden, m.kernels);
  }
  if (c.norms_after)
    for (RowStore* s : {&attended, &fed_forward}) s->size(rows, m.spec.hidden, m.kernels);
  gate.size(rows, c.intermediate, m.kernels);
  up.size(rows, c.intermediate, m.kernels);
  attention.size(rows, c.attended, m.kernels);
  for (int i = 0; i < kDeltaInputs; i++) delta_in[i].size(rows, c.delta_in[i], m.kernels);
  for (int p = 0; p < kProjections; p++)
    if (adapter && adapter->adapts(p)) z[p].size(rows, adapter->padded_rank(), m.kernels);
  lse.reserve(size_t(rows) * c.heads * sizeof(float));
}

std::unique_ptr<TrainPass> train_forward(Model& m, Pool& pool, std::span<const TrainRow> rows, Parameters* trainable,
                                         const AdapterRef& adapter, const PassOptions& options,
                                         std::shared_ptr<TrainMemorySlot> slot) {
  FloatMode mode;
  auto pass = std::make_unique<Pass>(m, pool, trainable, trainable ? trainable->version() : adapter, std::move(slot));
  if (!pass->forward(rows, options)) return nullptr;
  return pass;
}

int64_t planned_pass_bytes(Model& m, Pool& pool, std::span<const std::vector<TrainRow>> trained,
                           std::span<const std::vector<TrainRow>> evaluated, Parameters* trainable,
                           const PassOptions& options) {
  auto slot = std::make_shared<TrainMemorySlot>();
  slot->give(std::make_unique<TrainMemory>(MemoryAccount::Mode::plans));
  int64_t most = 0;
  const auto plan = [&](std::span<const std::vector<TrainRow>> passes, Parameters* kept_for) {
    for (const std::vector<TrainRow>& rows : passes) {
      Pass pass(m, pool, kept_for, trainable->version(), slot);
      pass.prepare(rows, options);
      most = std::max(most, pass.bytes());
    }
  };
  plan(trained, trainable);
  plan(evaluated, nullptr);
  return most;
}

int64_t activation_bytes_per_token(const ModelSpec& m, const Kernels& k) {
  int64_t bytes = int64_t(Pages(m, k).page_bytes()) / kPage;
  for (const LayerSpec& layer : m.layers) {
    const Widths c = widths_of(layer);
    const int64_t residual = 2 * 4 * padded(m.hidden), rounded = c.attended + c.q + (c.qk_norm ? c.kv : 0) +
                                                                 (c.v_norm ? c.kv : 0) + 2 * int64_t(c.intermediate) +
                                                                 (c.norms_after ? 2 * m.hidden : 0) +
                                                                 (m.token_inputs ? 2 * m.token_inputs + m.hidden : 0);
    bytes += residual + k.elem * rounded + 4 * c.heads;
    for (int width : c.delta_in) bytes += k.elem * width;
  }
  return bytes;
}

}  // namespace anneal::cpu
