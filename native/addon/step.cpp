// One inference step: any mix of prefill and decode, then sampling of all rows in parallel.
#include <algorithm>
#include <chrono>
#include <unordered_set>

#include "model.h"

namespace anneal::addon {

namespace {

// Logits of at most this many bytes are held at a time; longer lists of prompt log-probabilities are computed in pieces (the bits do not
// depend on where a prefill is cut).
constexpr int64_t kLogitBytes = int64_t(64) << 20;

struct Sequence {
  std::shared_ptr<Slot> slot;
  int64_t draw = 0, after = 0;       // its own draw's number; that of the draw it goes on from, 0: tokens were given
  std::vector<int32_t> tokens, blocks, next;
  int position = 0;
  int most = 0;                      // tokens at most: those after a draw are known only when the step runs
  AdapterRef adapter;
  bool sample = false;
  int output_index = 0, prompt_logprobs = -1, jump = 0;
  // Results.
  Sampled sampled{-2, 0, {}, {}};
  std::vector<int32_t> forced;       // taken after the token sampled
  std::vector<RowLogprobs> rows;     // [tokens], with prompt_logprobs
};

struct Step {
  std::shared_ptr<ModelState> model;
  std::vector<Sequence> sequences;
  double seconds = 0;

  void run(Pool& pool);

 private:
  struct Row {
    Sequence* sequence;
    int token;                       // index in the sequence's tokens
  };
  void compute(Pool& pool);
  void pass(Pool& pool, const std::vector<StepRun>& runs, const std::vector<Row>& rows);
};

Sequence read_sequence(const Argument& entry, const ModelHandle& handle) {
  const DecoderConfig& config = handle.config;
  entry.object();
  Sequence s;
  const auto slot_id = int32_t(entry.field("slot", [](Argument a) { return a.integer(-1, INT32_MAX); }));
  if (slot_id >= 0) {
    const auto found = handle.slots.find(slot_id);
    if (found == handle.slots.end()) invalid(Path(entry.path(), "slot"), "is not open: " + std::to_string(slot_id));
    s.slot = found->second;
  }
  entry.field("tokens", [&](Argument a) {
    if (a.missing()) {
      if (!s.slot || s.slot->latest == 0) invalid(a.path(), "must be given: the slot has no sampled token to go on from");
      s.after = s.slot->latest;
      s.most = 1 + s.slot->latest_jump;
      return;
    }
    s.tokens = a.int32s();
    if (s.tokens.empty()) invalid(a.path(), "must not be empty");
    for (size_t i = 0; i < s.tokens.size(); ++i)
      if (s.tokens[i] < 0 || s.tokens[i] >= config.vocab)
        invalid(Path(a.path(), int64_t(i)), "is " + std::to_string(s.tokens[i]) + "; token ids are 0 to " + std::to_string(config.vocab - 1));
    s.most = int(s.tokens.size());
  });
  s.position = int(entry.field("position", [&](Argument a) { return a.integer(0, config.max_positions - 1); }));
  const int64_t end = int64_t(s.position) + s.most;
  if (end > config.max_positions) invalid(Path(entry.path(), "tokens"), "reach past the model's " + std::to_string(config.max_positions) + " positions");
  const int pages = handle.pages;
  entry.field("blocks", [&](Argument a) {
    s.blocks = a.int32s();
    if (int64_t(s.blocks.size()) * kPage < end) invalid(a.path(), "covers " + std::to_string(s.blocks.size() * kPage) + " positions, " + std::to_string(end) + " are needed");
    for (size_t i = 0; i < s.blocks.size(); ++i)
      if (s.blocks[i] < 0 || s.blocks[i] >= pages)
        invalid(Path(a.path(), int64_t(i)), "is " + std::to_string(s.blocks[i]) + "; pages are 0 to " + std::to_string(pages - 1));
  });
  s.adapter = entry.field("adapter", [&](Argument a) { return handle.adapter(a); });
  s.sample = entry.field("sample", [](Argument a) { return a.boolean(); });
  if (s.sample && !s.slot) invalid(Path(entry.path(), "slot"), "must be an open slot where sample is true");
  s.jump = int(entry.field("jump", [](Argument a) { return a.missing() ? 0 : a.integer(0, 1 << 16); }));
  s.output_index = int(entry.field("outputIndex", [](Argument a) { return a.integer(0, INT32_MAX); }));
  s.prompt_logprobs = int(entry.field("promptLogprobs", [&](Argument a) { return a.integer(-1, config.vocab); }));
  if (s.prompt_logprobs >= 0) {
    if (s.after) invalid(Path(entry.path(), "tokens"), "must be given where promptLogprobs are wanted");
    entry.field("next", [&](Argument a) {
      s.next = a.int32s();
      if (s.next.size() != s.tokens.size()) invalid(a.path(), "must be as long as tokens");
      for (size_t i = 0; i < s.next.size(); ++i)
        if (s.next[i] < -1 || s.next[i] >= config.vocab)
          invalid(Path(a.path(), int64_t(i)), "is " + std::to_string(s.next[i]) + "; token ids are 0 to " + std::to_string(config.vocab - 1) + ", -1 is none");
    });
    s.rows.resize(s.tokens.size());
  }
  return s;
}

// Two sequences must not write one page or draw from one slot: they would do so at the same time.
void require_disjoint(const std::vector<Sequence>& sequences, const Path& path) {
  std::unordered_set<int32_t> written;
  std::unordered_set<const Slot*> slots;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const auto& s = sequences[i];
    const Path at(path, int64_t(i));
    for (int64_t block = s.position / kPage; block * kPage < int64_t(s.position) + s.most; ++block)
      if (!written.insert(s.blocks[size_t(block)]).second) invalid(Path(at, "blocks"), "writes page " + std::to_string(s.blocks[size_t(block)]) + ", which is written twice in this step");
    if (s.slot && !slots.insert(s.slot.get()).second) invalid(Path(at, "slot"), "is used twice in this step");
  }
}

void Step::run(Pool& pool) {
  const auto start = std::chrono::steady_clock::now();
  compute(pool);
  // Recorded only now: an aborted step leaves its slots as they were, and steps that wait for its draws find them missing.
  for (auto& s : sequences)
    if (s.sample) {
      s.slot->drawn = s.draw;
      s.slot->accept(s.sampled.token, s.jump);
      const auto& given = s.slot->given;
      s.sampled.token = given.empty() ? -1 : given[0];
      if (given.size() > 1) s.forced.assign(given.begin() + 1, given.end());
    }
  seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Step::compute(Pool& pool) {
  const int64_t ld = kLanes * panels_of(model->decoder->config().vocab);
  const int64_t capacity = std::max<int64_t>(16, kLogitBytes / (ld * 4));
  std::vector<StepRun> runs;
  std::vector<Row> rows;
  const auto flush = [&] {
    if (!runs.empty()) pass(pool, runs, rows);
    runs.clear();
    rows.clear();
  };
  for (auto& s : sequences) {
    if (s.after) {
      // The draw before this one found nothing permitted, or never took place: this sequence has ended.
      if (s.slot->drawn != s.after || s.slot->given.empty()) {
        if (s.sample) s.sampled.token = -1;
        continue;
      }
      s.tokens = s.slot->given;
      s.output_index += int(s.tokens.size()) - 1;
    }
    // Without logits where the token is known beforehand and nothing is to be reported of it.
    if (s.sample && s.slot->params().top_logprobs < 0)
      if (const int32_t token = s.slot->forced(); token >= 0) s.sampled.token = token;
    const bool samples = s.sample && s.sampled.token < 0;
    const int count = int(s.tokens.size());
    for (int done = 0; done < count;) {
      int n = count - done;
      if (s.prompt_logprobs >= 0 || (samples && int64_t(rows.size()) >= capacity)) {
        if (int64_t(rows.size()) >= capacity) flush();
        if (s.prompt_logprobs >= 0) n = int(std::min<int64_t>(n, capacity - int64_t(rows.size())));
      }
      const bool last = done + n == count;
      const int logits = s.prompt_logprobs >= 0 ? 2 : (samples && last ? 1 : 0);
      runs.push_back({s.tokens.data() + done, n, s.position + done, s.blocks.data(), s.adapter, logits});
      for (int i = logits == 2 ? 0 : n - logits; i < n; ++i) rows.push_back({&s, done + i});
      done += n;
      if (!last) flush();
    }
  }
  flush();
}

void Step::pass(Pool& pool, const std::vector<StepRun>& runs, const std::vector<Row>& rows) {
  const int vocab = model->decoder->config().vocab;
  const int64_t ld = kLanes * panels_of(vocab), needed = ld * int64_t(rows.size());
  if (needed > model->logits_capacity) {
    model->logits.reset();
    model->logits_capacity = 0;
    model->logits.reset(new float[size_t(needed)]);
    model->logits_capacity = needed;
  }
  const auto draws = [](const Row& row) { return row.sequence->sample && row.sequence->sampled.token < 0 && row.token + 1 == int(row.sequence->tokens.size()); };
  std::vector<Slot*> drawing;
  for (const Row& row : rows)
    if (draws(row) && row.sequence->slot->constrained()) drawing.push_back(row.sequence->slot.get());
  {
    const MaskThread::Work masks(model->masks, std::move(drawing));
    if (!model->decoder->step(pool, runs.data(), int(runs.size()), {model->logits.get(), ld})) throw Failure{"aborted", "the step was aborted", ""};
  }
  model->scratch.resize(size_t(pool.workers()));
  for (SamplerScratch& scratch : model->scratch) scratch.size(vocab);
  const bool complete = pool.each(int64_t(rows.size()), [&](int64_t index, int worker) {
    const Row& row = rows[size_t(index)];
    Sequence& s = *row.sequence;
    const float* logits = model->logits.get() + index * ld;
    SamplerScratch& scratch = model->scratch[size_t(worker)];
    if (s.prompt_logprobs >= 0) {
      const int32_t next = s.next[size_t(row.token)];
      auto& out = s.rows[size_t(row.token)];
      out = row_logprobs(*model->kernels, logits, vocab, std::max(next, 0), s.prompt_logprobs, scratch);
      if (next < 0) out.logprob = 0, out.rank = 0;
    }
    if (draws(row)) s.sampled = s.slot->sample(*model->kernels, logits, s.output_index, scratch);
  });
  if (!complete) throw Failure{"aborted", "the step was aborted", ""};
}

napi_value result(Js js, const Step& step) {
  const size_t count = step.sequences.size();
  std::vector<int32_t> tokens(count);
  std::vector<float> logprobs(count), temperature_logprobs(count);
  napi_value top = js.array(count), prompt = js.array(count), forced = js.array(count), none = js.null();
  for (size_t i = 0; i < count; ++i) {
    const auto& s = step.sequences[i];
    tokens[i] = s.sampled.token;
    logprobs[i] = s.sampled.logprob;
    temperature_logprobs[i] = s.sampled.temperature_logprob;
    napi_value most_likely = none, rows = none;
    if (s.sample && s.sampled.token >= 0 && s.slot->params().top_logprobs >= 0) {
      most_likely = js.object();
      js.set(most_likely, "ids", js.int32s(s.sampled.top_ids.data(), s.sampled.top_ids.size()));
      js.set(most_likely, "logprobs", js.floats(s.sampled.top_logprobs.data(), s.sampled.top_logprobs.size()));
    }
    if (s.prompt_logprobs >= 0) {
      rows = js.array(s.rows.size());
      for (size_t t = 0; t < s.rows.size(); ++t) {
        const auto& row = s.rows[t];
        napi_value entry = js.object();
        js.set(entry, "logprob", js.number(row.logprob));
        js.set(entry, "rank", js.number(row.rank));
        js.set(entry, "topIds", js.int32s(row.top_ids.data(), row.top_ids.size()));
        js.set(entry, "topLogprobs", js.floats(row.top_logprobs.data(), row.top_logprobs.size()));
        js.set(rows, uint32_t(t), entry);
      }
    }
    js.set(forced, uint32_t(i), s.forced.empty() ? none : js.int32s(s.forced.data(), s.forced.size()));
    js.set(top, uint32_t(i), most_likely);
    js.set(prompt, uint32_t(i), rows);
  }
  napi_value output = js.object();
  js.set(output, "tokens", js.int32s(tokens.data(), count));
  js.set(output, "logprobs", js.floats(logprobs.data(), count));
  js.set(output, "temperatureLogprobs", js.floats(temperature_logprobs.data(), count));
  js.set(output, "forced", forced);
  js.set(output, "top", top);
  js.set(output, "prompt", prompt);
  js.set(output, "seconds", js.number(step.seconds));
  return output;
}

}  // namespace

napi_value start_step(const std::shared_ptr<ModelHandle>& handle, const Arguments& arguments) {
  handle->require_open();
  const Path path("sequences"), cancellation_path("cancellation");
  const auto list = arguments.at(0, path);
  auto step = std::make_shared<Step>();
  step->model = handle->state;
  const uint32_t count = list.array_length(1 << 16);
  if (count == 0) invalid(path, "must not be empty");
  step->sequences.reserve(count);
  for (uint32_t i = 0; i < count; ++i) list.element(i, [&](Argument entry) { step->sequences.push_back(read_sequence(entry, *handle)); });
  require_disjoint(step->sequences, path);
  int64_t tokens = 0;
  for (auto& s : step->sequences) tokens += s.most;
  if (tokens > 1 << 20) invalid(path, "holds more than 1048576 tokens: cut the prefill into chunks");
  auto control = control_of(arguments.at(1, cancellation_path));
  // Reading arguments may have run JavaScript (getters), which may have closed the model.
  handle->require_open();
  for (auto& s : step->sequences)
    if (s.sample) {
      s.draw = s.slot->latest = ++s.slot->draws;
      s.slot->latest_jump = s.jump;
    }
  return handle->environment->start(
      {.queue = Queue::inference, .control = std::move(control), .pending = {&handle->pending}},
      [step, executor = handle->environment->executor().get()] { step->run(*executor); },
      [step](Js js) { return result(js, *step); });
}

}  // namespace anneal::addon
