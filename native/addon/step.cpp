// A step's arguments and results.
#include <chrono>

#include "model.h"

namespace anneal::addon {

using inference::Sequence;

namespace {

// [blocks][groups] to [groups][blocks]; what is no table stays as it is, and is refused later.
std::vector<int32_t> by_group(std::vector<int32_t> blocks, int groups) {
  const size_t stride = size_t(groups), count = blocks.size() / stride;
  if (stride == 1 || count * stride != blocks.size()) return blocks;
  std::vector<int32_t> out(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) out[i % stride * count + i / stride] = blocks[i];
  return out;
}

Sequence read_sequence(const Argument& entry, const ModelHandle& handle) {
  entry.object();
  Sequence s;
  const Argument slot = entry.at("slot"), tokens = entry.at("tokens");
  if (const int32_t id = slot.whole(-1, INT32_MAX); id >= 0) {
    const auto* found = handle.slots.find(id);
    if (!found) invalid(slot.path(), "is not open: " + std::to_string(id));
    s.slot = *found;
  }
  s.continues = tokens.missing();
  if (!s.continues) s.tokens = tokens.int32s();
  s.position = entry.at("position").whole(0, handle.spec.max_positions - 1);
  s.blocks = by_group(entry.at("blocks").int32s(), handle.page_groups.count());
  if (handle.recurrent_states > 0) s.recurrent = entry.at("recurrent").whole(0, INT32_MAX);
  s.adapter = handle.adapter(entry.at("adapter"));
  s.sample = entry.at("sample").boolean();
  if (const auto most = entry.given("maxForced")) s.max_forced = most->whole(0, 1 << 16);
  if (const auto most = entry.given("maxDrafts")) s.max_drafts = most->whole(0, inference::PromptLookup::kMaxDraft);
  if (const auto prompt = entry.given("lookup")) s.lookup = prompt->int32s();
  s.output_index = entry.at("outputIndex").whole(0, 1 << 30);
  s.prompt_logprobs = entry.at("promptLogprobs").whole(-1, handle.spec.vocab);
  if (const auto states = entry.given("states")) s.state_count = states->whole(0, INT32_MAX);
  if (s.prompt_logprobs >= 0) s.next = entry.at("next").int32s();
  if (handle.given_logits)
    if (const auto logits = entry.given("logits")) s.given_logits = logits->floats();
  return s;
}

// Null: the slot reports none.
napi_value most_likely(Js js, const Sequence& s, const sampling::Sampled& sampled) {
  if (!s.sample || sampled.token < 0 || s.slot->params().top_logprobs < 0) return js.null();
  return js.object({{"ids", js.int32s(sampled.top_ids)}, {"logprobs", js.floats(sampled.top_logprobs)}});
}

// Null: none was computed.
napi_value drafts(Js js, const Sequence& s) {
  if (s.drafts == 0) return js.null();
  return js.object({{"count", js.number(s.drafts)},
                    {"place", js.number(s.draft_place)},
                    {"kept", js.array(s.kept, [&](const sampling::Sampled& sampled) {
                       return js.object({{"token", js.number(sampled.token)},
                                         {"logprob", js.number(sampled.logprob)},
                                         {"temperatureLogprob", js.number(sampled.temperature_logprob)},
                                         {"top", most_likely(js, s, sampled)}});
                     })}});
}

napi_value prompt_rows(Js js, const Sequence& s) {
  if (s.prompt_logprobs < 0) return js.null();
  return js.array(s.rows, [&](const auto& row) {
    return js.object({{"logprob", js.number(row.logprob)},
                      {"rank", js.number(row.rank)},
                      {"topIds", js.int32s(row.top_ids)},
                      {"topLogprobs", js.floats(row.top_logprobs)}});
  });
}

napi_value result(Js js, const std::vector<Sequence>& sequences, double seconds) {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs, temperature_logprobs;
  for (const Sequence& s : sequences) {
    tokens.push_back(s.sampled.token);
    logprobs.push_back(s.sampled.logprob);
    temperature_logprobs.push_back(s.sampled.temperature_logprob);
  }
  const auto of_each = [&](auto&& f) { return js.array(sequences, f); };
  return js.object(
      {{"tokens", js.int32s(tokens)},
       {"logprobs", js.floats(logprobs)},
       {"temperatureLogprobs", js.floats(temperature_logprobs)},
       {"forced", of_each([&](const Sequence& s) { return s.forced.empty() ? js.null() : js.int32s(s.forced); })},
       {"top", of_each([&](const Sequence& s) { return most_likely(js, s, s.sampled); })},
       {"drafts", of_each([&](const Sequence& s) { return drafts(js, s); })},
       {"prompt", of_each([&](const Sequence& s) { return prompt_rows(js, s); })},
       {"states", of_each([&](const Sequence& s) { return s.states.empty() ? js.null() : js.floats(s.states); })},
       {"seconds", js.number(seconds)}});
}

}  // namespace

napi_value start_step(const std::shared_ptr<ModelHandle>& handle, const Arguments& arguments) {
  handle->require_open();
  const Argument list = arguments.at(0, "sequences");
  auto sequences = std::make_shared<std::vector<Sequence>>();
  list.each(1 << 16, [&](const Argument& entry) { sequences->push_back(read_sequence(entry, *handle)); });
  if (sequences->empty()) invalid(list.path(), "must not be empty");
  auto control = control_of(arguments.at(1, "cancellation"));
  // Reading arguments may have run JavaScript (getters), which may have closed the model.
  handle->require_open();
  try {
    inference::begin_step(*sequences,
                          {handle->spec.vocab, handle->spec.max_positions, handle->pages * handle->page_groups.count(),
                           handle->given_logits, handle->page_groups, handle->recurrent_states, handle->takes_guesses});
  } catch (const model::InvalidInput& input) {
    invalid(list.path(), input);
  }
  return handle->environment->start(
      {.queue = Queue::inference, .control = std::move(control), .pending = {&handle->pending}},
      [sequences, state = handle->state] {
        const auto start = std::chrono::steady_clock::now();
        if (!state->stepper->run(*sequences)) throw Failure{"aborted", "the step was aborted", ""};
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      },
      [sequences](Js js, double seconds) { return result(js, *sequences, seconds); });
}

}  // namespace anneal::addon
