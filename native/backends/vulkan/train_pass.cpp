#include "train_pass.h"

#include <algorithm>
#include <bit>
#include <optional>

namespace anneal::vulkan {

using backends::PassOptions;
using backends::TrainRow;

namespace {

// Of a piece of logits: the more rows it has, the more chains of products over a vocabulary are computed at once. As
// much as a share of the memory that a pass may take, if that leaves room for all else, but not less than the first of
// these.
constexpr int64_t kMinLogitBytes = int64_t(64) << 20, kMaxLogitBytes = int64_t(1) << 30;
constexpr int64_t kLogitShare = 16;
constexpr int64_t kHeadBlockBytes = 8;  // of a block of logits, or a row (shaders/head_rows.comp)

// A prediction: the hidden state of row `hidden` of the batch, the token that came, and what logits are multiplied
// with.
struct Entry {
  int hidden, target;
  float inverse_temperature;
  int row, t;  // where its results go
};

// Bytes of what a layer leaves behind.
int64_t kept_bytes(const ModelSpec& m, ElementType t, const Widths& c, int64_t rows) {
  constexpr int kParts = 16;  // each begins on 16 bytes
  return rows * vulkan::kept_bytes(m, t, c) + 16 * kParts;
}

class Pass final : public backends::PartPass {
 public:
  Pass(GpuModel& m, executor::Pool& pool, AdapterParameters* trainable, backends::AdapterRef adapter)
      : m_(m), pool_(pool), trainable_(trainable), adapter_(std::move(adapter)), commands_(m.gpu), staging_(m.gpu) {
    if (trainable_) spare_ = trainable_->spare();
  }
  ~Pass() override {
    if (!spare_ || !taken_) return;
    try {
      commands_.discard();
    } catch (const std::exception&) {
      return;  // it may still be read
    }
    spare_->give(taken_->release());
  }

  std::span<const float> logprobs(int row) const override { return of_row(logprobs_, row); }
  std::span<const float> entropies(int row) const override { return of_row(entropies_, row); }
  int64_t bytes() const override { return bytes_; }

  void read_residual_gradient(float* to) override { staging_.read(d_x_, 0, to, d_x_.bytes()); }
  void commit() override { trainable_->commit(); }

  bool forward(std::span<const TrainRow>, const PassOptions&, const float* residual);
  bool backward(RowGradients by_logprob, RowGradients by_entropy) override;

 private:
  std::span<const float> of_row(const std::vector<float>& values, int row) const {
    return std::span(values).subspan(size_t(row0_[size_t(row)]), size_t(row0_[size_t(row) + 1] - row0_[size_t(row)]));
  }
  void lay_out(std::span<const TrainRow>);
  void list_entries(std::span<const TrainRow>);
  int token_at(std::span<const TrainRow>, int row, int position) const;
  std::vector<int32_t> list_uses();
  void require_turns() const;
  void place_lists(const std::vector<int32_t>&);
  void plan_logits(MemoryPlan&, int64_t bytes);
  void take_memory(const PassOptions&, int64_t list_bytes);
  LayerActivations activations(int layer) const;
  bool recomputed(int layer) const { return layer < first_kept_; }
  bool head_forward();
  bool run(Commands& commands) {
    return pool_.each(1, [&](int64_t, int) { commands.run(); });
  }
  int rank() const { return adapter_ ? version_of(adapter_)->rank : 0; }

  GpuModel& m_;
  executor::Pool& pool_;
  std::shared_ptr<SpareMemory> spare_;  // of the trainable, which may be gone before
  std::optional<MemoryPlan> taken_;
  AdapterParameters* trainable_;
  backends::AdapterRef adapter_;
  Commands commands_;
  Staging staging_;
  Batch batch_;
  DeviceBatch device_batch_;
  Scratch scratch_;
  Pages pages_;
  BackwardMemory backward_;
  std::vector<std::vector<int32_t>> tables_;  // block table of each row
  std::vector<int> row0_;                     // [rows + 1]
  std::vector<Entry> entries_;
  std::vector<float> logprobs_, entropies_;
  int page_count_ = 0, first_kept_ = 0, per_ = 1;      // per_: rows of logits at once
  bool entropy_gradient_ = false, is_behind_ = false;  // is_behind_: another device has the layers before these
  int64_t bytes_ = 0;
  std::vector<Memory> x_, kept_;  // residual stream before each layer and after the last; of the layers that are kept
  Memory again_, units_, entropy_units_, d_x_, dh_, normed_, logits_, head_blocks_, residual_, residual_halves_,
      residual_codes_, results_, lists_, derivatives_;
  PageQueries page_queries_;
  RecurrentStates states_;               // where sequences branch off
  std::optional<DeltaPlan> delta_plan_;  // of the way back
  DeltaListsBack delta_lists_;
  uint64_t entry_list_ = 0, entry_of_ = 0, gathered_ = 0;
};

// Follows prefixes to the row that computes a position.
int Pass::token_at(std::span<const TrainRow> rows, int row, int position) const {
  while (rows[size_t(row)].prefix >= 0 && position < rows[size_t(row)].prefix_length) row = rows[size_t(row)].prefix;
  const TrainRow& own = rows[size_t(row)];
  return row0_[size_t(row)] + position - (own.prefix >= 0 ? own.prefix_length : 0);
}

void Pass::lay_out(std::span<const TrainRow> rows) {
  const int count = int(rows.size());
  tables_.assign(size_t(count), {});
  row0_.assign(size_t(count) + 1, 0);
  std::vector<std::pair<int, Slot>> copies;
  std::vector<int> sequence_of(size_t(count), -1);
  for (int r = 0; r < count; r++) {
    const TrainRow& row = rows[size_t(r)];
    const int start = row.prefix >= 0 ? row.prefix_length : 0, whole = start / kPage, tokens = int(row.tokens.size());
    std::vector<int32_t>& table = tables_[size_t(r)];
    if (start > 0) {
      const std::vector<int32_t>& of = tables_[size_t(row.prefix)];
      table.assign(of.begin(), of.begin() + whole);
    }
    for (int block = whole; block * kPage < start + tokens; block++) table.push_back(page_count_++);
    // The block in which the prefix ends is this row's own; the prefix's tokens write it too.
    sequence_of[size_t(r)] = tokens > 0       ? int(batch_.sequences.size())
                             : row.prefix < 0 ? -1
                                              : sequence_of[size_t(row.prefix)];
    if (tokens > 0) {
      for (int p = whole * kPage; p < start; p++)
        copies.push_back({token_at(rows, row.prefix, p), {table[size_t(whole)], p % kPage}});
      batch_.add(row.tokens.data(), tokens, start, table.data(), version_of(adapter_), -1,
                 start > 0 ? sequence_of[size_t(row.prefix)] : -1);
    }
    row0_[size_t(r) + 1] = batch_.rows;
  }
  if (copies.empty()) return;
  batch_.copies.resize(size_t(batch_.rows));
  for (const auto& [token, slot] : copies) batch_.copies[size_t(token)].push_back(slot);
}

void Pass::list_entries(std::span<const TrainRow> rows) {
  for (int r = 0; r < int(rows.size()); r++) {
    const TrainRow& row = rows[size_t(r)];
    for (int t = 0; t + 1 < int(row.tokens.size()); t++)
      if (row.trained.empty() || row.trained[size_t(t)])
        entries_.push_back({row0_[size_t(r)] + t, row.tokens[size_t(t) + 1],
                            row.temperatures.empty() ? 1.0f : 1.0f / row.temperatures[size_t(t)], r, t});
  }
}

// Entries, and which queries see a page, as shaders read them; what is an address becomes a place among them.
std::vector<int32_t> Pass::list_uses() {
  std::vector<int32_t> all;
  const auto structures = [&](const auto& values) {
    const size_t at = all.size();
    const auto* ints = reinterpret_cast<const int32_t*>(values.data());
    all.insert(all.end(), ints, ints + values.size() * sizeof(values[0]) / 4);
    return uint64_t(at) * 4;
  };
  const auto add = [&](const std::vector<int32_t>& values) { return structures(values); };
  std::vector<int32_t> targets, of(size_t(batch_.rows), -1), hidden;
  for (const Entry& e : entries_) {
    of[size_t(e.hidden)] = int32_t(hidden.size());
    hidden.push_back(e.hidden);
    targets.insert(targets.end(), {e.target, std::bit_cast<int32_t>(e.inverse_temperature)});
  }
  entry_list_ = add(targets), entry_of_ = add(of), gathered_ = add(hidden);
  if (trainable_) page_queries_.list(m_, batch_, page_count_, structures);
  if (delta_plan_) {
    const DeltaPlan& plan = *delta_plan_;
    delta_lists_.lead = lead_of(m_.spec), delta_lists_.longest = plan.longest;
    delta_lists_.levels = plan.levels, delta_lists_.levels_back = plan.levels_back;
    delta_lists_.before = add(plan.before), delta_lists_.scans = structures(plan.scans);
    delta_lists_.saves = add(plan.saves), delta_lists_.sequences = structures(plan.sequences);
    delta_lists_.stretches = structures(plan.stretches), delta_lists_.adds = add(plan.adds);
    delta_lists_.readers = add(plan.readers);
  }
  return all;
}

// Of what is done backwards.
void Pass::require_turns() const {
  const int longest = batch_.longest();
  for (const LayerSpec& layer : m_.spec.layers)
    if (const auto& d = layer.delta_rule)
      m_.gpu->require_turns("the gradient of the delta rule over " + std::to_string(longest) + " tokens",
                            longest * delta_turns_back(*d));
  page_queries_.require_turns(*m_.gpu);
}

void Pass::place_lists(const std::vector<int32_t>& all) {
  std::memcpy(lists_.mapped<char>(), all.data(), all.size() * 4);
  for (uint64_t* at : {&entry_list_, &entry_of_, &gathered_}) *at += lists_.address();
  DeltaListsBack& d = delta_lists_;
  for (uint64_t* at : {&d.before, &d.scans, &d.saves, &d.sequences, &d.stretches, &d.adds, &d.readers})
    *at += lists_.address();
  page_queries_.place(lists_.address());
}

// Of a piece of logits, and what is made of them, about so many bytes.
void Pass::plan_logits(MemoryPlan& plan, int64_t bytes) {
  const ElementType t = m_.type;
  const int vocab = m_.spec.vocab, hidden = m_.spec.hidden;
  const int64_t logits = int64_t(vocab) * 4, residual = trainable_ ? t.row_bytes(vocab) : 0,
                halves = trainable_ && m_.fast ? half_bytes(vocab) : 0,
                codes = trainable_ ? back_code_bytes(m_, m_.weights->head) : 0, normed = t.row_bytes(hidden),
                blocks = (blocks_of_row(vocab) + 1) * kHeadBlockBytes;
  const int64_t most = std::min(kMaxLogitBytes, m_.gpu->facts().max_allocation) / logits;
  const int64_t rows = std::clamp(bytes / (logits + residual + halves + codes + normed + blocks),
                                  kMinLogitBytes / logits, std::max(most, kMinLogitBytes / logits));
  per_ = int(std::clamp<int64_t>(rows, 1, std::max<int64_t>(1, int64_t(entries_.size()))));
  plan.add(normed_, per_ * normed);
  plan.add(logits_, per_ * logits);
  plan.add(head_blocks_, per_ * blocks);
  if (residual) plan.add(residual_, per_ * residual);
  if (halves) plan.add(residual_halves_, per_ * halves);
  if (codes) plan.add(residual_codes_, per_ * codes);
}

// Keeps as many layers as there is room for, and takes memory.
void Pass::take_memory(const PassOptions& options, int64_t list_bytes) {
  const int64_t rows = batch_.rows, hidden = m_.spec.hidden, entries = int64_t(entries_.size());
  const int64_t some = std::max<int64_t>(1, entries);
  const ElementType t = m_.type;
  const int layers = m_.layers();
  MemoryPlan plan(m_.gpu, "a training pass over " + std::to_string(rows) + " tokens");
  device_batch_.plan(plan, m_, batch_);
  plan.add(lists_, list_bytes, Memory::Place::upload);
  pages_.plan(plan, m_, page_count_);
  if (m_.spec.recurrent()) states_.plan_passing(plan, m_.spec, device_batch_.states);
  scratch_.plan(plan, m_, int(rows), rank());
  plan.add(results_, some * 12, Memory::Place::readback);
  x_.resize(trainable_ ? size_t(layers) + 1 : 1);
  for (Memory& x : x_) plan.add(x, rows * hidden * 4);
  if (is_behind_) staging_.plan(plan, Memory::Place::upload);
  std::vector<int64_t> each;
  int64_t most = 0;
  if (trainable_) {
    plan.add(units_, some * hidden * 4);
    if (entropy_gradient_) plan.add(entropy_units_, some * hidden * 4);
    plan.add(d_x_, rows * hidden * 4);
    plan.add(dh_, rows * hidden * 4);
    plan.add(derivatives_, 2 * some * 4, Memory::Place::upload);
    if (is_behind_) staging_.plan(plan, Memory::Place::readback);
    backward_.plan(plan, m_, rows, rank(), page_count_, page_queries_.pair_bytes(), delta_plan_);
    for (const LayerSpec& layer : m_.spec.layers) {
      each.push_back(kept_bytes(m_.spec, t, widths_of(layer), rows));
      most = std::max(most, each.back());
    }
  }
  const int64_t available = m_.gpu->available(),
                limit = options.memory_budget > 0 ? std::min(options.memory_budget, available) : available,
                keep = options.keep_bytes > 0 ? std::min(options.keep_bytes, limit) : limit;
  // Whatever is kept.
  int64_t fixed = plan.bytes();
  const auto whole = [&](int first_kept) {
    int64_t bytes = fixed + (first_kept > 0 ? most : 0);
    for (int l = first_kept; l < int(each.size()); l++) bytes += each[size_t(l)];
    return bytes;
  };
  const int64_t room = limit - std::min(whole(0), whole(int(each.size())));
  plan_logits(plan, std::min(keep / kLogitShare, room));
  fixed = plan.bytes();
  if (trainable_) {
    first_kept_ = 0;
    while (first_kept_ < layers && whole(first_kept_) > keep) first_kept_++;
    // The layer being computed again takes the place of a kept one.
    if (const int64_t least = std::min(whole(first_kept_), whole(layers)); least > limit)
      throw backends::NoRoom(least, limit);
    kept_.resize(size_t(layers));
    for (int l = first_kept_; l < layers; l++) plan.add(kept_[size_t(l)], each[size_t(l)]);
    if (first_kept_ > 0) plan.add(again_, most);
  } else if (fixed > limit) {
    throw backends::NoRoom(fixed, limit);
  }
  if (spare_) {
    bytes_ = plan.take(*spare_, limit);
    taken_ = std::move(plan);
  } else {
    bytes_ = plan.bytes();
    plan.take();
  }
  device_batch_.write();
}

LayerActivations Pass::activations(int layer) const {
  if (!trainable_) return unkept_activations(scratch_, x_[0].address());
  const Memory& memory = recomputed(layer) ? again_ : kept_[size_t(layer)];
  const Widths c = widths_of(m_.spec.layers[size_t(layer)]);
  const ElementType t = m_.type;
  const int64_t rows = batch_.rows;
  uint64_t at = memory.address();
  const auto take = [&](int64_t bytes) {
    const uint64_t here = at;
    at += uint64_t(round_up(bytes, 16));
    return here;
  };
  LayerActivations a{};
  a.x_in = x_[size_t(layer)].address(), a.x_out = x_[size_t(layer) + 1].address();
  a.x_mid = take(rows * 4 * m_.spec.hidden);
  a.q = take(rows * t.row_bytes(c.q)), a.attention = take(rows * t.row_bytes(c.attended));
  for (int i = 0; i < kDeltaInputs; i++) a.delta_in[i] = take(rows * t.row_bytes(c.delta_in[i]));
  a.k = take(rows * t.row_bytes(c.kv));
  a.gate = take(rows * t.row_bytes(c.intermediate)), a.up = take(rows * t.row_bytes(c.intermediate));
  if (c.norms_after) {
    a.attended = take(rows * t.row_bytes(m_.spec.hidden));
    a.fed_forward = take(rows * t.row_bytes(m_.spec.hidden));
  }
  a.lse = take(rows * 4 * c.heads);
  return a;
}

// Log-probabilities and entropies of all entries, and their units, a piece of logits at a time.
bool Pass::head_forward() {
  const ElementType t = m_.type;
  const int vocab = m_.spec.vocab, hidden = m_.spec.hidden, found = int(entries_.size());
  const uint64_t x = x_.back().address();
  for (int e = 0; e < found; e += per_) {
    const int count = std::min(per_, found - e);
    record_norm(commands_, m_, x, m_.weights->final_norm, gathered_ + uint64_t(e) * 4, 0, count, hidden,
                normed_.address());
    commands_.barrier();
    record_logits(commands_, m_, normed_.address(), count, logits_.address(), scratch_);
    commands_.barrier();
    const int64_t blocks = blocks_of_row(vocab), groups = groups_of_row(vocab);
    const uint64_t entries = entry_list_ + uint64_t(e) * 8,
                   row_pairs = head_blocks_.address() + uint64_t(per_ * blocks * kHeadBlockBytes);
    const struct {
      uint64_t logits, entries, blocks;
      int32_t n, padding;
    } of_blocks{logits_.address(), entries, head_blocks_.address(), vocab, 0};
    commands_.dispatch(m_.pipeline(Shader::kHeadBlocks), of_blocks, groups, count);
    commands_.barrier();
    const auto merge = [&](bool entropy) {
      const struct {
        uint64_t logits, entries, blocks, rows, results;
        int32_t n, sums_entropy;
      } of_rows{logits_.address(),
                entries,
                head_blocks_.address(),
                row_pairs,
                results_.address() + uint64_t(e) * 12,
                vocab,
                entropy};
      commands_.dispatch(m_.pipeline(Shader::kHeadRows), of_rows, count);
      commands_.barrier();
    };
    merge(false);
    for (int by_entropy = 0; by_entropy <= int(trainable_ && entropy_gradient_); by_entropy++) {
      const struct {
        uint64_t logits, entries, blocks, rows, residual;
        int32_t n, ld, by_entropy;
        float logit_scale, logit_cap;
        int32_t padding;
      } gradient{logits_.address(),
                 entries,
                 head_blocks_.address(),
                 row_pairs,
                 trainable_ ? residual_.address() : 0,
                 vocab,
                 t.ld(vocab),
                 by_entropy,
                 float(m_.spec.logit_scale),
                 float(m_.spec.logit_soft_cap),
                 0};
      commands_.dispatch(m_.pipeline(Shader::kHeadGradient), gradient, groups, count);
      commands_.barrier();
      if (!by_entropy) merge(true);
      if (!trainable_) continue;
      const Memory& units = by_entropy ? entropy_units_ : units_;
      record_back_product(commands_, m_, m_.weights->head, residual_.address(), count,
                          units.address() + uint64_t(e) * hidden * 4, false,
                          {residual_halves_, residual_codes_, backward_.transposed});
      commands_.barrier();
    }
    if (!run(commands_)) return false;
  }
  return true;
}

bool Pass::forward(std::span<const TrainRow> rows, const PassOptions& options, const float* residual) {
  entropy_gradient_ = options.entropy_gradient, is_behind_ = residual != nullptr;
  lay_out(rows);
  list_entries(rows);
  logprobs_.assign(size_t(batch_.rows), 0), entropies_.assign(size_t(batch_.rows), 0);
  if (batch_.rows == 0) return true;
  m_.gpu->require_rows("a training pass over " + std::to_string(batch_.rows) + " tokens", batch_.rows);
  if (m_.spec.recurrent() && trainable_)
    delta_plan_.emplace(batch_.sequences, lead_of(m_.spec), DeltaPlan::Way::backward);
  const std::vector<int32_t> lists = list_uses();
  if (trainable_) require_turns();
  take_memory(options, int64_t(lists.size()) * 4 + 16);
  place_lists(lists);
  // Slots that no token writes are read, with a probability of 0.
  for (int l = 0; l < m_.layers(); l++) commands_.zero(pages_.of(l), 0, pages_.of(l).bytes());
  commands_.barrier();
  if (is_behind_)
    staging_.write(x_[0], 0, residual, x_[0].bytes());
  else
    record_embedding(commands_, m_, device_batch_, x_[0].address());
  for (int l = 0; l < m_.layers(); l++) {
    record_layer(commands_, m_, device_batch_, pages_, states_, l, activations(l), scratch_);
    if (!run(commands_)) return false;
  }
  if (!head_forward()) return false;
  const float* results = results_.mapped<float>();
  for (size_t e = 0; e < entries_.size(); e++) {
    const size_t at = size_t(row0_[size_t(entries_[e].row)] + entries_[e].t);
    logprobs_[at] = results[3 * e];
    entropies_[at] = results[3 * e + 1];
  }
  return true;
}

bool Pass::backward(RowGradients by_logprob, RowGradients by_entropy) {
  if (batch_.rows == 0) return true;
  const int rows = batch_.rows, hidden = m_.spec.hidden, layers = m_.layers();
  const bool with_entropy = !by_entropy.empty();
  std::vector<float> d(std::max<size_t>(1, entries_.size())), de(d.size());
  for (size_t e = 0; e < entries_.size(); e++) {
    const Entry& entry = entries_[e];
    if (!by_logprob[size_t(entry.row)].empty()) d[e] = by_logprob[size_t(entry.row)][size_t(entry.t)];
    if (with_entropy && !by_entropy[size_t(entry.row)].empty()) de[e] = by_entropy[size_t(entry.row)][size_t(entry.t)];
  }
  const int64_t bytes = int64_t(d.size()) * 4;
  std::memcpy(derivatives_.mapped<char>(), d.data(), size_t(bytes));
  std::memcpy(derivatives_.mapped<char>() + bytes, de.data(), size_t(bytes));

  commands_.discard();
  trainable_->begin(commands_);
  const struct {
    uint64_t units, entropy_units, by_logprob, by_entropy, entry_of, dh;
    int32_t n, padding;
  } sums{units_.address(),
         with_entropy ? entropy_units_.address() : 0,
         derivatives_.address(),
         with_entropy ? derivatives_.address() + uint64_t(bytes) : 0,
         entry_of_,
         dh_.address(),
         hidden,
         0};
  commands_.dispatch(m_.pipeline(Shader::kUnitSums), sums, rows);
  commands_.zero(d_x_, 0, d_x_.bytes());
  commands_.barrier();
  const struct {
    uint64_t x, weight, dy, dx;
    int32_t n;
    float eps;
  } norm{x_.back().address(), m_.weights->final_norm, dh_.address(), d_x_.address(), hidden, m_.spec.rms_eps};
  commands_.dispatch(m_.pipeline(Shader::kRmsnormBackward), norm, rows);
  commands_.barrier();
  for (int l = layers - 1; l >= 0; l--) {
    LayerActivations a = activations(l);
    if (recomputed(l)) {
      LayerActivations again = a;
      again.x_out = 0;
      record_layer(commands_, m_, device_batch_, pages_, states_, l, again, scratch_);
    }
    LayerBackward{commands_,
                  m_,
                  device_batch_,
                  pages_,
                  page_queries_.pairs_of(m_.spec.layers[size_t(l)]),
                  page_queries_.uses_of(m_.spec.layers[size_t(l)]),
                  delta_lists_,
                  l,
                  a,
                  *version_of(adapter_),
                  *trainable_,
                  l > 0 || is_behind_,
                  d_x_.address(),
                  scratch_,
                  backward_}
        .record();
    if (!run(commands_)) return false;
  }
  if (!is_behind_) commit();
  return true;
}

}  // namespace

std::unique_ptr<backends::TrainPass> train_forward(GpuModel& m, executor::Pool& pool, std::span<const TrainRow> rows,
                                                   AdapterParameters* trainable, const backends::AdapterRef& adapter,
                                                   const PassOptions& options, const float* residual) {
  auto pass = std::make_unique<Pass>(m, pool, trainable, trainable ? trainable->version() : adapter);
  if (!pass->forward(rows, options, residual)) return nullptr;
  return pass;
}

}  // namespace anneal::vulkan
