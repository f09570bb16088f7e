// Steps and slots over a device made of paper: which tokens are computed, of which logits are wanted, what slots
// remember. Linked and run by test/native/programs.test.ts.
#include <cstdio>

#include "../expect_fixture.h"
#include "../model/invalid_input.h"
#include "arithmetic_difference.h"
#include "id_table.h"
#include "step.h"

using namespace anneal;
using namespace anneal::backends;
using namespace anneal::inference;

namespace {

struct PaperLogits final : Logits {
  std::vector<int32_t> likeliest;  // [rows]
};

// After token t comes t + 1.
class PaperBackend final : public Backend {
 public:
  explicit PaperBackend(int vocab) { spec_.vocab = vocab, spec_.max_positions = 1000, spec_.hidden = 1; }
  const model::ModelSpec& spec() const override { return spec_; }
  const char* name() const override { return "paper"; }
  int pages() const override { return 16; }
  const backends::PageGroups& page_groups() const override { return groups; }
  const Logits* step(std::span<const Run> runs) override {
    steps++;
    logits_.likeliest.clear();
    for (const Run& run : runs) {
      for (int i = 0; i < run.count; i++) computed.push_back({run.position + i, run.tokens[i]});
      for (int i = 0; run.block_count > 0 && i < run.block_count * groups.count(); i++)
        written.push_back(run.blocks[i]);
      for (int i = 0; i < run.state_count; i++) run.states[i] = float(run.tokens[run.count - run.state_count + i]);
      for (int i = run.count - run.logit_rows(); i < run.count; i++)
        logits_.likeliest.push_back((run.tokens[i] + 1) % spec_.vocab);
    }
    logits_.rows = int(logits_.likeliest.size());
    rows += logits_.rows;
    return aborted ? nullptr : &logits_;
  }
  bool sample(const Logits& logits, std::span<const RowRequest> requests, std::span<RowResult> results) override {
    if (fails_at_sample == samples++) return false;
    for (size_t i = 0; i < requests.size(); i++) {
      const RowRequest& r = requests[i];
      const int32_t next = static_cast<const PaperLogits&>(logits).likeliest[size_t(r.row)];
      if (r.draw) results[i].sampled.token = r.given >= 0 ? r.given : next;
      if (r.prompt_top >= 0) results[i].prompt = {r.prompt_token == next ? 0.0f : -1.0f, 1, {}, {}};
    }
    return true;
  }
  void copy_page(int, int) override {}
  bool set_exact(bool) override { return true; }
  AdapterRef load_adapter(const model::LoraSpec&, const AdapterValues&) override { return nullptr; }
  std::unique_ptr<Trainable> train_adapter(const model::LoraSpec&, uint64_t, const AdapterValues*) override {
    return nullptr;
  }
  std::unique_ptr<Trainable> train_weights() override { return nullptr; }
  std::unique_ptr<TrainPass> forward(std::span<const TrainRow>, Trainable*, const AdapterRef&,
                                     const PassOptions&) override {
    return nullptr;
  }

  struct Computed {
    int position;
    int32_t token;
    bool operator==(const Computed&) const = default;
  };
  std::vector<Computed> computed;
  std::vector<int32_t> written;  // pages
  backends::PageGroups groups;
  int steps = 0, rows = 0;
  bool aborted = false;
  int samples = 0, fails_at_sample = -1;

 private:
  model::ModelSpec spec_;
  PaperLogits logits_;
};

const StepLimits kLimits{100, 1000, 16};

std::shared_ptr<Slot> slot_of(sampling::SamplingParams params = {},
                              std::optional<sampling::ThinkingBudget> thinking = {}) {
  return std::make_shared<Slot>(std::move(params), 100, nullptr, std::vector<int32_t>{}, std::vector<int32_t>{},
                                std::move(thinking));
}

Sequence prompt(std::shared_ptr<Slot> slot, std::vector<int32_t> tokens, std::vector<int32_t> blocks = {0, 1}) {
  Sequence s;
  s.slot = std::move(slot), s.tokens = std::move(tokens), s.blocks = std::move(blocks), s.sample = true;
  return s;
}

Sequence going_on(std::shared_ptr<Slot> slot, int position) {
  Sequence s = prompt(std::move(slot), {});
  s.continues = true, s.position = position;
  return s;
}

bool step(Stepper& stepper, std::vector<Sequence>& sequences) {
  begin_step(sequences, kLimits);
  return stepper.run(sequences);
}

void decodes_from_its_own_draws() {
  PaperBackend backend(100);
  Stepper stepper(backend);
  const auto slot = slot_of();
  std::vector<Sequence> first = {prompt(slot, {5, 6, 7})}, second = {going_on(slot, 3)};
  // The second step is queued before the first has run.
  begin_step(first, kLimits);
  begin_step(second, kLimits);
  expect(stepper.run(first) && stepper.run(second), "two steps");
  expect(first[0].sampled.token == 8 && second[0].sampled.token == 9, "each goes on from the draw before");
  expect(backend.computed == std::vector<PaperBackend::Computed>{{0, 5}, {1, 6}, {2, 7}, {3, 8}},
         "every token once, at its position");
  expect(backend.rows == 2, "logits of the last tokens only");
}

void forces_tokens() {
  PaperBackend backend(100);
  Stepper stepper(backend);
  // No thought at all: 90 91 close them at once.
  const auto slot = slot_of({}, sampling::ThinkingBudget(0, 0, {1}, {90, 91}));
  std::vector<Sequence> first = {prompt(slot, {5})}, second = {going_on(slot, 1)};
  first[0].max_forced = 4;
  expect(step(stepper, first), "a step with a token known beforehand");
  expect(first[0].sampled.token == 90 && first[0].forced == std::vector<int32_t>{91},
         "draws the forced token and takes what follows");
  expect(backend.rows == 0, "without logits");
  second[0].output_index = 1;
  expect(step(stepper, second) && second[0].sampled.token == 92, "and goes on after both");
  expect(second[0].output_index == 2, "counting both");
  expect(backend.computed.back() == PaperBackend::Computed{2, 91}, "having computed both");
}

// Goes on from its own draws until `count` tokens have come, always one step ahead of what is known; true if they are
// those that follow 5, all computed once at their places or taken back.
bool counts_on(Stepper& stepper, PaperBackend& backend, const std::shared_ptr<Slot>& slot, size_t count,
               int max_drafts) {
  std::vector<int32_t> came, blocks = {0, 1, 2};
  std::vector<Sequence> flying = {prompt(slot, {5}, blocks)};
  begin_step(flying, kLimits);
  for (int position = 1; came.size() < count; ++position) {
    Sequence next = going_on(slot, position);
    next.blocks = blocks, next.output_index = position, next.max_drafts = max_drafts;
    std::vector<Sequence> behind = {next};
    begin_step(behind, kLimits);
    if (!stepper.run(flying)) return false;
    for (const auto& kept : flying[0].kept) came.push_back(kept.token);
    came.push_back(flying[0].sampled.token);
    position += int(flying[0].kept.size());
    flying = std::move(behind);
  }
  if (!stepper.run(flying)) return false;
  for (size_t i = 0; i < came.size(); ++i)
    if (came[i] != int32_t(6 + i) % 100) return false;
  // What a place held last is what was drawn for it.
  std::vector<int32_t> held(1000, -1);
  for (const auto& [position, token] : backend.computed) held[size_t(position)] = token;
  for (size_t i = 0; i < came.size(); ++i)
    if (held[i + 1] != came[i]) return false;
  return true;
}

void keeps_guesses() {
  std::vector<int32_t> right, wrong, end = {3, 4, 5};
  for (int32_t token = 3; token < 60; ++token) right.push_back(token), wrong.push_back(token % 5 == 4 ? 99 : token);
  for (auto* text : {&right, &wrong}) text->insert(text->end(), end.begin(), end.end());
  for (const int max_drafts : {0, 1, 7, 15})
    for (const auto& text : {right, wrong, std::vector<int32_t>{5}}) {
      PaperBackend backend(100);
      Stepper stepper(backend);
      const auto slot = slot_of();
      slot->look_up(text);
      expect(counts_on(stepper, backend, slot, 50, max_drafts), "guesses change nothing of what is drawn");
      if (max_drafts == 0 || text.size() == 1)
        expect(backend.steps >= 50 && backend.rows == backend.steps, "without any, a step for each token");
      else
        expect(backend.steps < 49, "right ones save steps");
    }
}

void looks_up_later() {
  PaperBackend backend(100);
  Stepper stepper(backend);
  // 90 closes the thoughts, whatever the logits say: the step that brings the prompt has nothing to guess.
  const auto slot = slot_of({}, sampling::ThinkingBudget(0, 0, {1}, {89, 90}));
  std::vector<Sequence> first = {prompt(slot, {5})}, second = {going_on(slot, 1)}, third = {going_on(slot, 2)};
  second[0].output_index = 1, second[0].max_drafts = 4, second[0].lookup = {88, 89, 90, 91, 92, 93, 5};
  third[0].output_index = 2, third[0].max_drafts = 4;
  expect(step(stepper, first) && step(stepper, second) && second[0].sampled.token == 90, "a token known beforehand");
  expect(step(stepper, third) && third[0].drafts == 0, "two tokens are no match");
  std::vector<Sequence> fourth = {going_on(slot, 3)};
  fourth[0].output_index = 3, fourth[0].max_drafts = 4;
  expect(step(stepper, fourth) && fourth[0].drafts > 0 && fourth[0].kept.size() > 0, "is looked up in all the same");
}

void takes_guesses_back() {
  PaperBackend backend(100);
  Stepper stepper(backend);
  sampling::SamplingParams params;
  params.presence_penalty = 1;
  const auto slot = std::make_shared<Slot>(params, 100, nullptr, std::vector<int32_t>{}, std::vector<int32_t>{},
                                           sampling::ThinkingBudget(40, 0, {1}, {90}));
  std::vector<Sequence> first = {prompt(slot, {5})}, second = {going_on(slot, 1)}, again = {going_on(slot, 1)};
  expect(step(stepper, first) && first[0].sampled.token == 6, "a first draw");
  second[0].max_drafts = again[0].max_drafts = 4;
  second[0].lookup = {3, 4, 5, 6, 7, 8, 9, 10, 11, 3, 4, 5};
  second[0].output_index = again[0].output_index = 1;
  backend.fails_at_sample = 2;
  expect(!step(stepper, second) && second[0].kept.size() > 0, "aborted behind a guess");
  backend.fails_at_sample = -1;
  // Its draw never was; the token before it is given again.
  again[0].continues = false, again[0].tokens = {6};
  expect(step(stepper, again) && again[0].sampled.token == 7 && again[0].kept.empty(), "the slot is as it was");
  std::vector<Sequence> next = {going_on(slot, 2)};
  next[0].output_index = 2, next[0].max_drafts = 4;
  expect(step(stepper, next) && next[0].kept.size() > 0 && next[0].kept[0].token == 8, "and goes on");
}

void guesses() {
  const auto held = [](std::span<const int32_t> draft, std::vector<int32_t> wanted) {
    return draft.size() == PromptLookup::kMaxDraft && std::equal(wanted.begin(), wanted.end(), draft.begin());
  };
  PromptLookup none({1, 2, 3, 4});
  expect(none.draft().empty() && none.worthwhile(15, 0.01, 0) == 0, "nothing like the end has come before");
  PromptLookup longest({7, 1, 2, 3, 50, 8, 1, 2, 3, 60, 9, 1, 2, 3, 70, 7, 1, 2, 3});
  expect(held(longest.draft(), {50, 8, 1}), "the place with the most tokens in common");
  PromptLookup latest({1, 2, 3, 50, 1, 2, 3, 60, 4, 1, 2, 3});
  expect(held(latest.draft(), {60, 4}), "of alike ones the latest");
  PromptLookup loop({1, 2, 3, 1, 2, 3});
  expect(held(loop.draft(), {1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3}), "what repeats itself goes on");
  PromptLookup aligned({1, 2, 3, 10, 11, 12, 13, 14, 15, 16, 5, 1, 2, 3});
  expect(held(aligned.draft(), {10, 11, 12, 13}) && aligned.place() == 3, "a place");
  aligned.append(std::vector<int32_t>{10, 99});
  expect(held(aligned.draft(), {12, 13, 14}) && aligned.place() == 5, "behind a token that was another");
  expect(
      longest.worthwhile(15, 0.5, 0) == 0 && longest.worthwhile(15, 0.02, 0) > 2 && longest.worthwhile(2, 0.02, 0) == 2,
      "as many as pay");
  for (int i = 0; i < 100; ++i) latest.draft(), latest.append(std::vector<int32_t>{i % 2 ? 40 : 41, 1, 2, 3});
  expect(latest.worthwhile(15, 0.2, 0) == 0, "few where guesses have not held");
}

void ends_thoughts() {
  // 1 opens and 9 closes them; two tokens in all.
  const std::vector<int32_t> outputs = {1, 5, 9, 3, 1, 6, 9, 1, 9, 4};
  const auto forced = [&](bool several) {
    sampling::ThinkingBudget budget(2, -1, {1}, {9}, several);
    std::vector<int32_t> found;
    for (size_t count = 0; count <= outputs.size(); count++)
      found.push_back(budget.forced(std::span(outputs).first(count)));
    return found;
  };
  expect(forced(true) == std::vector<int32_t>{-1, -1, -1, -1, -1, -1, 9, -1, 9, -1, -1},
         "several thoughts count together");
  expect(forced(false) == std::vector<int32_t>(11, -1), "of others the first one");
}

void aborts() {
  PaperBackend backend(100);
  Stepper stepper(backend);
  const auto slot = slot_of();
  std::vector<Sequence> first = {prompt(slot, {5})}, second = {going_on(slot, 1)}, again = {prompt(slot, {5})};
  begin_step(first, kLimits);
  begin_step(second, kLimits);
  backend.aborted = true;
  expect(!stepper.run(first), "an aborted step says so");
  backend.aborted = false;
  backend.computed.clear();
  expect(stepper.run(second) && second[0].sampled.token == -1 && backend.computed.empty(),
         "one that waited for its draw has ended");
  expect(step(stepper, again) && again[0].sampled.token == 6, "and the slot is as it was");
}

void reports_prompts_in_pieces() {
  PaperBackend backend(4 << 20);  // so wide that sixteen rows of logits are held at most
  Stepper stepper(backend);
  Sequence s;
  for (int32_t t = 0; t < 40; t++) s.tokens.push_back(t), s.next.push_back(t == 39 ? -1 : t == 20 ? 7 : t + 1);
  s.blocks = {0}, s.prompt_logprobs = 0;
  std::vector<Sequence> list = {s};
  begin_step(list, {4 << 20, 1000, 16});
  expect(stepper.run(list) && backend.steps == 3, "forty rows of logits in three passes");
  bool right = true;
  for (int t = 0; t < 39; t++) right &= list[0].rows[size_t(t)].logprob == (t == 20 ? -1 : 0);
  expect(right && list[0].rows[39].rank == 0, "each about the token that follows");
  expect(list[0].sampled.token == -2, "and nothing drawn");
}

void reads_states_in_pieces() {
  PaperBackend backend(4 << 20);
  Stepper stepper(backend);
  Sequence s;
  for (int32_t t = 0; t < 40; t++) s.tokens.push_back(t), s.next.push_back(-1);
  s.blocks = {0}, s.prompt_logprobs = 0, s.state_count = 30;
  std::vector<Sequence> list = {s};
  begin_step(list, {4 << 20, 1000, 16});
  expect(stepper.run(list) && backend.steps == 3, "states beside forty rows of logits");
  bool right = list[0].states.size() == 30;
  for (size_t t = 0; right && t < 30; t++) right = list[0].states[t] == float(t + 10);
  expect(right, "each of its own token, the last thirty");
}

void numbers_handles() {
  IdTable<int> handles;
  expect(handles.add(7) == 1 && handles.add(8) == 2, "numbers from 1");
  expect(handles.remove(1) && !handles.remove(1) && !handles.find(1), "gone once removed");
  expect(handles.add(9) == 3 && *handles.find(3) == 9 && *handles.find(2) == 8, "a number is not given again");
  expect(handles.size() == 2, "counts those there are");
}

// Of many tokens, so that finding out which of them may follow takes many turns; the first hundred are letters.
std::shared_ptr<grammar::Grammar> slow_grammar() {
  std::vector<uint8_t> bytes;
  std::vector<int32_t> offsets{0};
  for (int32_t token = 0; token < 60'000; ++token) {
    if (token < 100)
      bytes.push_back(uint8_t(' ' + token % 90));
    else
      for (int32_t rest = token; rest > 0; rest /= 26) bytes.push_back(uint8_t('a' + rest % 26));
    offsets.push_back(int32_t(bytes.size()));
  }
  const auto vocabulary =
      std::make_shared<grammar::Vocabulary>(bytes, offsets, std::vector<int32_t>{}, std::vector<int32_t>{});
  // Any characters but a few, in any number: then one more.
  return grammar::Grammar::compile(vocabulary, std::vector<int32_t>{1, 0, 1, 5, 2, 7, 0, -1, 2, 1, ' ', 'z', 3, 1, '~'},
                                   {}, {.walk_nodes = UINT64_MAX});
}

// A draw that waits for its mask is put off, from step to step, and comes of the same token; the others go on.
// False: this thread was kept waiting for so long that the mask was there before.
bool puts_off_a_slow_mask() {
  PaperBackend backend(100);
  Stepper stepper(backend, 200);
  const auto slow =
      std::make_shared<Slot>(sampling::SamplingParams{}, 100, std::make_unique<grammar::Matcher>(slow_grammar()),
                             std::vector<int32_t>{}, std::vector<int32_t>{}, std::nullopt);
  const auto quick = slot_of();
  std::vector<Sequence> first = {prompt(slow, {5, 6, 7}), prompt(quick, {9}, {2, 3})};
  expect(step(stepper, first) && first[1].sampled.token == 10, "one draws beside a slow mask");
  if (first[0].sampled.token != Sequence::kPutOff) return false;
  int steps = 0, position = 1;
  for (;; ++steps, ++position) {
    backend.computed.clear();
    // As if the draw had come; and, now and then, after the caller has heard that it has not.
    std::vector<Sequence> next = {going_on(slow, 3), going_on(quick, position)};
    next[1].blocks = {2, 3};
    if (steps % 3 == 2) next[0] = prompt(slow, {7}), next[0].position = 2;
    expect(step(stepper, next) && next[1].sampled.token == 11 + steps, "the other goes on");
    expect(backend.computed[0] == PaperBackend::Computed{2, 7}, "the last token is computed again");
    if (next[0].sampled.token == Sequence::kPutOff) continue;
    expect(next[0].sampled.token == 8, "the draw comes of the same token");
    break;
  }
  std::vector<Sequence> last = {going_on(slow, 3)};
  expect(step(stepper, last) && last[0].sampled.token == 9, "alone it is waited for");
  return steps > 3;
}

void puts_off_slow_masks() {
  bool is_put_off = false;
  for (int i = 0; i < 1000 && !is_put_off; ++i) is_put_off = puts_off_a_slow_mask();
  expect(is_put_off, "a slow mask takes many steps, and nobody waits for it");
}

void refuses() {
  const auto slot = slot_of(), other = slot_of();
  const auto refused = [&](std::vector<Sequence> list, const StepLimits& limits = kLimits) -> std::string {
    try {
      begin_step(list, limits);
    } catch (const model::InvalidInput& input) {
      return std::to_string(input.entry) + "." + input.field +
             (input.element < 0 ? "" : "." + std::to_string(input.element));
    }
    return "";
  };
  expect(refused({prompt(slot, {})}) == "0.tokens", "no tokens");
  expect(refused({prompt(slot, {1, 100})}) == "0.tokens.1", "a token beyond the vocabulary");
  expect(refused({prompt(slot, {1}, {16})}) == "0.blocks.0", "a page beyond the pool");
  expect(refused({prompt(slot, {1}, {})}) == "0.blocks", "no page");
  expect(refused({going_on(slot, 1)}) == "0.tokens", "going on from nothing");
  Sequence states = prompt(slot, {1});
  states.state_count = 2;
  expect(refused({states}) == "0.states", "more states than tokens");
  StepLimits recurrent = kLimits;
  recurrent.recurrent_states = 1;
  Sequence guessing = prompt(slot, {1});
  guessing.recurrent = 0, guessing.max_drafts = 1;
  expect(refused({guessing}, recurrent) == "0.maxDrafts", "guesses that cannot be taken back");
  expect(refused({prompt(nullptr, {1})}) == "0.slot", "a draw without a slot");
  expect(refused({prompt(slot, {1}), prompt(other, {1})}) == "1.blocks", "one page written twice");
  expect(refused({prompt(slot, {1}), prompt(slot, {1}, {2})}) == "1.slot", "one slot used twice");
  // All positions are seen in one group of layers, the last 64 in the other: from position 200 on, no block before 2.
  const StepLimits grouped{100, 1000, 32, false, {{0, 64}, {}}};
  const auto table = [&](std::vector<int32_t> blocks) {
    Sequence s = prompt(slot, {1}, std::move(blocks));
    s.position = 200, s.sample = false;
    return s;
  };
  expect(refused({table({0, 1, 2, 3, -1, -1, 4, 5})}, grouped) == "", "no pages where nothing is seen");
  expect(refused({table({0, 1, 2, 3, -1, -1, -1, 5})}, grouped) == "0.blocks.5", "no page where a window is");
  expect(refused({table({0, 1, 2, 3, -2, -1, 4, 5})}, grouped) == "0.blocks.1", "a page that is none");
  expect(refused({table({0, -1, 2, 3, -1, -1, 4, 5})}, grouped) == "0.blocks.2", "no page where all is seen");
  expect(refused({table({0, 1, 2, 3, -1, -1, 4})}, grouped) == "0.blocks", "pages of one group alone");
  expect(refused({table({0, 1, 2, -1, -1, 4})}, grouped) == "0.blocks", "too short a table");
  expect(refused({table({0, 1, 2, 3, -1, -1, 4, 3})}, grouped) == "0.blocks", "one page for two groups");
  expect(slot->draws == 0 && slot->latest == 0, "a refused step leaves slots as they were");
}

// Of as much of the text as there are pages, and positions, for.
void compares_arithmetics() {
  for (const size_t tokens : {10, 999, 1000, 1001, 5000}) {
    PaperBackend backend(100);
    expect(difference_to_exact(backend, std::vector<int32_t>(tokens, 1)) == 0, "a difference of nothing");
    const size_t each = std::min<size_t>(tokens, 1000);
    expect(backend.computed.size() == 2 * each && backend.computed.back().position == int(each) - 1,
           "a text within the model's positions: " + std::to_string(tokens));
  }
  // Layers with a window have pages of their own: 8 of the 16 are theirs.
  PaperBackend backend(100);
  backend.groups.windows = {0, 64};
  expect(difference_to_exact(backend, std::vector<int32_t>(1000, 1)) == 0, "a difference of nothing in two groups");
  expect(backend.computed.size() == 2 * 8 * backends::kPage, "a text within the pages of each group");
  std::vector<int32_t> wanted(32);
  for (int i = 0; i < 32; i++) wanted[size_t(i)] = i % 16;
  expect(backend.written == wanted, "pages of both groups, each once in a step");
}

}  // namespace

int main() {
  decodes_from_its_own_draws();
  keeps_guesses();
  looks_up_later();
  takes_guesses_back();
  guesses();
  forces_tokens();
  ends_thoughts();
  aborts();
  reports_prompts_in_pieces();
  reads_states_in_pieces();
  numbers_handles();
  puts_off_slow_masks();
  compares_arithmetics();
  refuses();
  return report_failures();
}
