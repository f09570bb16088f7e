#include "step.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <unordered_set>

#include "../model/invalid_input.h"

namespace anneal::inference {

using backends::kPage;
using backends::WantedLogits;
using model::InvalidInput;

namespace {

// Longer lists of prompt log-probabilities are computed in pieces (the bits do not depend on where a prefill is cut).
constexpr int64_t kMinLogitRows = 16;  // at a time, even if those are more bytes than Backend::logit_bytes
constexpr int64_t kMaxStepTokens = 1 << 20;

void check_ids(size_t entry, const char* field, const std::vector<int32_t>& ids, int min, int count, const char* what) {
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < min || ids[i] >= count)
      throw InvalidInput{entry, field, int64_t(i),
                         "is " + std::to_string(ids[i]) + "; " + what + " are 0 to " + std::to_string(count - 1) +
                             (min < 0 ? ", -1 is none" : "")};
}

// A row for every token that is asked about a prompt, else one for the token that a draw follows.
void check_given_logits(size_t i, const Sequence& s, int vocab) {
  if (s.continues) throw InvalidInput{i, "tokens", -1, "must be given where logits are"};
  if (s.state_count > 0) throw InvalidInput{i, "states", -1, "are not known of a model whose logits are given"};
  const size_t rows = s.prompt_logprobs >= 0 ? s.tokens.size() : s.sample ? 1 : 0;
  if (s.given_logits.size() != rows * size_t(vocab))
    throw InvalidInput{i, "logits", -1,
                       "holds " + std::to_string(s.given_logits.size()) + " values, " + std::to_string(rows) +
                           " rows of " + std::to_string(vocab) + " are needed"};
}

// A page for every block of every group, or -1 where no token of the sequence sees it any more.
void check_blocks(size_t i, const Sequence& s, int64_t end, const StepLimits& limits) {
  const size_t groups = size_t(limits.groups.count()), count = s.blocks.size() / groups;
  if (s.blocks.size() % groups != 0)
    throw InvalidInput{i, "blocks", -1, "must have " + std::to_string(groups) + " pages for every block"};
  if (int64_t(count) * kPage < end)
    throw InvalidInput{
        i, "blocks", -1,
        "covers " + std::to_string(count * kPage) + " positions, " + std::to_string(end) + " are needed"};
  for (size_t g = 0; g < groups; ++g) {
    const size_t unseen = size_t(backends::unseen_blocks(limits.groups.windows[g], s.position, kPage));
    for (size_t b = 0; b < count; ++b)
      if (const int32_t page = s.blocks[g * count + b]; page < (b < unseen ? -1 : 0) || page >= limits.pages)
        throw InvalidInput{i, "blocks", int64_t(b * groups + g),
                           "is " + std::to_string(page) + "; pages are 0 to " + std::to_string(limits.pages - 1)};
  }
}

void check_sequence(size_t i, Sequence& s, const StepLimits& limits) {
  if (limits.given_logits) check_given_logits(i, s, limits.vocab);
  if (s.continues) {
    if (!s.slot || s.slot->latest == 0)
      throw InvalidInput{i, "tokens", -1, "must be given: the slot has no sampled token to go on from"};
    s.max_tokens = 1 + s.slot->latest_max_forced + s.slot->latest_max_drafts + s.max_drafts;
  } else {
    if (s.tokens.empty()) throw InvalidInput{i, "tokens", -1, "must not be empty"};
    check_ids(i, "tokens", s.tokens, 0, limits.vocab, "token ids");
    s.max_tokens = int(s.tokens.size());
  }
  const int64_t end = int64_t(s.position) + s.max_tokens;
  if (end > limits.max_positions)
    throw InvalidInput{i, "tokens", -1,
                       "reach past the model's " + std::to_string(limits.max_positions) + " positions"};
  check_blocks(i, s, end, limits);
  if (limits.recurrent_states > 0 && (s.recurrent < 0 || s.recurrent >= limits.recurrent_states))
    throw InvalidInput{i, "recurrent", -1,
                       "is " + std::to_string(s.recurrent) + "; recurrent states are 0 to " +
                           std::to_string(limits.recurrent_states - 1)};
  check_ids(i, "lookup", s.lookup, 0, limits.vocab, "token ids");
  if (s.max_drafts > 0 && limits.recurrent_states > 0 && !limits.takes_guesses_back)
    throw InvalidInput{i, "maxDrafts", -1, "must be 0: recurrent states cannot be taken back on this device"};
  if (s.sample && !s.slot) throw InvalidInput{i, "slot", -1, "must be an open slot where sample is true"};
  if (s.state_count > int64_t(s.tokens.size()))
    throw InvalidInput{i, "states", -1, "must be at most " + std::to_string(s.tokens.size()) + ", the tokens given"};
  if (s.prompt_logprobs < 0) return;
  if (s.continues) throw InvalidInput{i, "tokens", -1, "must be given where promptLogprobs are wanted"};
  if (s.next.size() != s.tokens.size()) throw InvalidInput{i, "next", -1, "must be as long as tokens"};
  check_ids(i, "next", s.next, -1, limits.vocab, "token ids");
}

// Two sequences must not write one page or state, or draw from one slot: they would do so at the same time.
void check_disjoint(const std::vector<Sequence>& sequences, size_t groups) {
  std::unordered_set<int32_t> written, states;
  std::unordered_set<const Slot*> slots;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const Sequence& s = sequences[i];
    const size_t count = s.blocks.size() / groups;
    for (size_t block = size_t(s.position) / kPage; block * kPage < size_t(s.position) + size_t(s.max_tokens); ++block)
      for (size_t g = 0; g < groups; ++g)
        if (const int32_t page = s.blocks[g * count + block]; !written.insert(page).second)
          throw InvalidInput{i, "blocks", -1,
                             "writes page " + std::to_string(page) + ", which is written twice in this step"};
    if (s.recurrent >= 0 && !states.insert(s.recurrent).second)
      throw InvalidInput{i, "recurrent", -1, "is used twice in this step"};
    if (s.slot && !slots.insert(s.slot.get()).second) throw InvalidInput{i, "slot", -1, "is used twice in this step"};
  }
}

// Whether the sequence's token is still to be drawn from logits.
bool draws(const Sequence& s) { return s.sample && s.sampled.token < 0; }

bool needs_logits(const Sequence& s) { return s.prompt_logprobs >= 0 || draws(s); }

// The token that the first draw follows.
int draws_at(const Sequence& s) { return int(s.tokens.size()) - 1 - s.drafts; }

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Rows of logits that the sequence's next pass must have room for.
int64_t least_rows(const Sequence& s) { return s.drafts > 0 ? int64_t(s.tokens.size()) : needs_logits(s) ? 1 : 0; }

}  // namespace

void begin_step(std::vector<Sequence>& sequences, const StepLimits& limits) {
  int64_t tokens = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    check_sequence(i, sequences[i], limits);
    tokens += sequences[i].max_tokens;
    if (tokens > kMaxStepTokens)
      throw InvalidInput{
          i, "tokens", -1,
          "are more than " + std::to_string(kMaxStepTokens) + " in this step: cut the prefill into chunks"};
  }
  check_disjoint(sequences, size_t(limits.groups.count()));
  for (Sequence& s : sequences) {
    if (s.continues) s.after = s.slot->latest;
    if (!s.sample) continue;
    s.draw = s.slot->latest = ++s.slot->draws;
    s.slot->latest_max_forced = s.max_forced;
    if (!s.continues) s.max_drafts = 0;
    s.slot->latest_max_drafts = s.max_drafts;
  }
}

bool Stepper::run(std::vector<Sequence>& sequences) {
  if (!compute_whole(sequences)) return false;
  // Recorded only now: an aborted step leaves its slots as they were, and steps that wait for its draws find them
  // missing.
  for (Sequence& s : sequences)
    if (s.sample) {
      s.slot->drawn = s.draw;
      s.slot->put_off.reset();
      if (s.sampled.token == Sequence::kPutOff) {
        s.slot->put_off = {s.tokens[size_t(draws_at(s))], s.position + draws_at(s), s.output_index};
        continue;
      }
      s.slot->accept(s.sampled.token, s.max_forced);
      const std::vector<int32_t>& given = s.slot->given;
      s.sampled.token = given.empty() ? -1 : given[0];
      if (given.size() > 1) s.forced.assign(given.begin() + 1, given.end());
    }
  return true;
}

bool Stepper::compute_whole(std::vector<Sequence>& sequences) {
  const auto take_back = [&] {
    for (Sequence& s : sequences)
      if (!s.kept.empty()) s.slot->take_back();
  };
  try {
    if (compute(sequences)) return true;
  } catch (...) {
    take_back();
    throw;
  }
  take_back();
  return false;
}

bool Stepper::compute(std::vector<Sequence>& sequences) {
  runs_.clear();
  running_.clear();
  rows_.clear();
  for (Sequence& s : sequences) {
    if (!take_tokens(s)) continue;
    if (s.sample && !s.lookup.empty()) s.slot->look_up(std::move(s.lookup));
    if (s.max_drafts > 0 && draws(s)) add_drafts(s, int(sequences.size()) - 1);
    const int count = int(s.tokens.size());
    for (int done = 0; done < count;) {
      if (room() < least_rows(s) && !pass()) return false;
      done += add_run(s, done);
      if (done < count && !pass()) return false;
    }
  }
  return runs_.empty() || pass();
}

bool Stepper::take_tokens(Sequence& s) {
  if (s.after && s.slot->drawn == s.after && s.slot->put_off) {
    const Slot::PutOff& again = *s.slot->put_off;
    s.tokens = {again.token}, s.position = again.position, s.output_index = again.output;
  } else if (s.after) {
    // The draw before this one found nothing permitted, or never took place: this sequence has ended.
    if (s.slot->drawn != s.after || s.slot->given.empty()) {
      if (s.sample) s.sampled.token = -1;
      return false;
    }
    s.tokens = s.slot->given;
    s.position += s.slot->kept;
    s.output_index += s.slot->kept + int(s.tokens.size()) - 1;
  }
  if (s.prompt_logprobs >= 0) s.rows.resize(s.tokens.size());
  // Without logits where the token is known beforehand and nothing is to be reported of it.
  if (s.sample && s.slot->params().top_logprobs < 0)
    if (const int32_t token = s.slot->forced(); token >= 0) s.sampled.token = token;
  s.states.resize(size_t(s.state_count) * size_t(backend_.spec().hidden));
  return true;
}

void Stepper::add_drafts(Sequence& s, int others) {
  // They are computed in one pass, each with a row of logits.
  const int most = std::min(s.max_drafts, int(kMinLogitRows) - int(s.tokens.size()));
  const auto drafts = s.slot->draft(most, row_cost_.share(), others);
  s.tokens.insert(s.tokens.end(), drafts.begin(), drafts.end());
  s.drafts = int(drafts.size());
  if (s.drafts > 0) s.draft_place = s.slot->draft_place();
}

// Not where the last token cannot be computed again: its recurrent state has moved on, pages behind its window are
// given away, or its logits come from elsewhere.
bool Stepper::may_wait(const Sequence& s) const {
  const auto& windows = backend_.page_groups().windows;
  return rows_.size() > 1 && s.recurrent < 0 && s.given_logits.empty() &&
         std::all_of(windows.begin(), windows.end(), [](int window) { return window == 0; });
}

int64_t Stepper::room() const {
  const int64_t row_bytes = int64_t(backend_.spec().vocab) * int64_t(sizeof(float));
  return std::max(kMinLogitRows, backend_.logit_bytes() / row_bytes) - int64_t(rows_.size());
}

int Stepper::add_run(Sequence& s, int first) {
  const model::ModelSpec& spec = backend_.spec();
  const bool of_prompt = s.prompt_logprobs >= 0;
  const int count = int(s.tokens.size()), left = count - first;
  const int n = of_prompt ? int(std::min<int64_t>(left, room())) : left;
  const WantedLogits wanted = of_prompt || s.drafts > 0 ? WantedLogits::all
                              : draws(s) && n == left   ? WantedLogits::last
                                                        : WantedLogits::none;

  backends::Run run{s.tokens.data() + first, n, s.position + first, s.blocks.data(), s.adapter, wanted};
  run.block_count = int(s.blocks.size()) / backend_.page_groups().count();
  run.recurrent = s.recurrent;
  run.guesses = s.drafts;
  if (wanted != WantedLogits::none && !s.given_logits.empty())
    run.given_logits = s.given_logits.data() + (of_prompt ? int64_t(first) * spec.vocab : 0);
  const int first_state = count - s.state_count;
  if (const int state = std::max(first, first_state); state < first + n) {
    run.states = s.states.data() + int64_t(state - first_state) * spec.hidden;
    run.state_count = first + n - state;
  }
  runs_.push_back(run);
  running_.push_back(&s);

  for (int i = n - run.logit_rows(); i < n; ++i) rows_.push_back({&s, first + i});
  return n;
}

bool Stepper::pass() {
  const auto drawn_from = [](const Row& row) { return draws(*row.sequence) && row.token == draws_at(*row.sequence); };
  const auto start = std::chrono::steady_clock::now();
  std::deque<MaskThread::Task> constrained;
  for (const Row& row : rows_)
    if (drawn_from(row) && row.sequence->slot->constrained())
      constrained.push_back({row.sequence->slot.get(), may_wait(*row.sequence)});
  const backends::Logits* logits;
  {
    const bool masked = !constrained.empty();
    const MaskThread::Work masks(masks_, std::move(constrained));
    logits = backend_.step(runs_);
    if (masked && logits) backend_.start();
  }
  if (!logits) return false;
  requests_.clear();
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    Sequence& s = *row.sequence;
    backends::RowRequest request{.row = int(i)};
    if (s.prompt_logprobs >= 0)
      request.prompt_token = std::max(s.next[size_t(row.token)], 0), request.prompt_top = s.prompt_logprobs;
    if (drawn_from(row)) {
      if (may_wait(s) && !s.slot->is_prepared())
        s.sampled.token = Sequence::kPutOff;
      else if (!s.slot->ask(s.output_index, request))
        s.sampled = {-1, 0, {}, {}};
    }
    requests_.push_back(request);
  }
  results_.assign(requests_.size(), {});
  if (!backend_.sample(*logits, requests_, results_)) return false;
  const double seconds = seconds_since(start);
  drawing_.clear();
  for (size_t i = 0; i < rows_.size(); ++i) {
    Sequence& s = *rows_[i].sequence;
    if (requests_[i].draw) {
      s.sampled = std::move(results_[i].sampled);
      if (s.drafts > 0) drawing_.push_back(&rows_[i]);
    }
    if (requests_[i].prompt_top < 0) continue;
    sampling::RowLogprobs& out = s.rows[size_t(rows_[i].token)] = std::move(results_[i].prompt);
    if (s.next[size_t(rows_[i].token)] < 0) out.logprob = 0, out.rank = 0;
  }
  if (!draw_on(*logits)) return false;
  const auto settling = std::chrono::steady_clock::now();
  if (!settle()) return false;
  learn_row_cost(seconds + seconds_since(settling));
  runs_.clear();
  running_.clear();
  rows_.clear();
  return true;
}

void Stepper::learn_row_cost(double seconds) {
  size_t tokens = 0;
  for (const backends::Run& run : runs_) tokens += size_t(run.count);
  const bool decodes = tokens == rows_.size() &&
                       std::all_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.sequence->after != 0; });
  if (decodes) row_cost_.observe(int(runs_.size()), int(tokens - runs_.size()), seconds);
}

bool Stepper::settle() {
  kept_.clear();
  for (const Sequence* s : running_) kept_.push_back(int(s->kept.size()));
  return backend_.keep_guesses(kept_);
}

bool Stepper::draw_on(const backends::Logits& logits) {
  for (;;) {
    requests_.clear();
    size_t going_on = 0;
    for (Row* row : drawing_) {
      Sequence& s = *row->sequence;
      if (row->token + 1 == int(s.tokens.size()) || s.sampled.token != s.tokens[size_t(row->token) + 1] ||
          std::isnan(s.sampled.logprob))
        continue;
      grammar::Turn turn(turn_steps_);
      if (!s.slot->keep(s.sampled.token, turn)) continue;
      s.kept.push_back(std::move(s.sampled));
      drawing_[going_on++] = ++row;
      backends::RowRequest request{.row = int(row - rows_.data())};
      s.slot->ask(s.output_index + int(s.kept.size()), request);
      requests_.push_back(request);
    }
    drawing_.resize(going_on);
    if (drawing_.empty()) return true;
    results_.assign(requests_.size(), {});
    if (!backend_.sample(logits, requests_, results_)) return false;
    for (size_t i = 0; i < drawing_.size(); ++i) drawing_[i]->sequence->sampled = std::move(results_[i].sampled);
  }
}

}  // namespace anneal::inference
