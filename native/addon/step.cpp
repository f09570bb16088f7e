// A step's arguments and results.
#include <chrono>

#include "../model/invalid_input.h"
#include "model.h"

namespace anneal::addon {

using inference::Sequence;

namespace {

struct Step {
  std::vector<Sequence> sequences;
  double seconds = 0;
};

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
  const auto whole = [&](const char* name, int64_t min, int64_t max) {
    return int(entry.field(name, [&](Argument a) { return a.integer(min, max); }));
  };
  Sequence s;
  if (const int32_t id = whole("slot", -1, INT32_MAX); id >= 0) {
    const auto* found = handle.slots.find(id);
    if (!found) invalid(Path(entry.path(), "slot"), "is not open: " + std::to_string(id));
    s.slot = *found;
  }
  entry.field("tokens", [&](Argument a) {
    s.continues = a.missing();
    if (!s.continues) s.tokens = a.int32s();
  });
  s.position = whole("position", 0, handle.spec.max_positions - 1);
  entry.field("blocks", [&](Argument a) { s.blocks = by_group(a.int32s(), handle.page_groups.count()); });
  if (handle.recurrent_states > 0) s.recurrent = whole("recurrent", 0, INT32_MAX);
  s.adapter = entry.field("adapter", [&](Argument a) { return handle.adapter(a); });
  s.sample = entry.field("sample", [](Argument a) { return a.boolean(); });
  s.max_forced = int(entry.field("maxForced", [](Argument a) { return a.missing() ? 0 : a.integer(0, 1 << 16); }));
  s.output_index = whole("outputIndex", 0, INT32_MAX);
  s.prompt_logprobs = whole("promptLogprobs", -1, handle.spec.vocab);
  s.state_count = int(entry.field("states", [](Argument a) { return a.missing() ? 0 : a.integer(0, INT32_MAX); }));
  if (s.prompt_logprobs >= 0) entry.field("next", [&](Argument a) { s.next = a.int32s(); });
  if (handle.given_logits)
    entry.field("logits", [&](Argument a) {
      if (!a.missing()) s.given_logits = a.floats();
    });
  return s;
}

napi_value result(Js js, const Step& step) {
  const size_t count = step.sequences.size();
  std::vector<int32_t> tokens(count);
  std::vector<float> logprobs(count), temperature_logprobs(count);
  napi_value top = js.array(count), prompt = js.array(count), forced = js.array(count), states = js.array(count),
             none = js.null();
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
    js.set(states, uint32_t(i), s.states.empty() ? none : js.floats(s.states.data(), s.states.size()));
  }
  napi_value output = js.object();
  js.set(output, "tokens", js.int32s(tokens.data(), count));
  js.set(output, "logprobs", js.floats(logprobs.data(), count));
  js.set(output, "temperatureLogprobs", js.floats(temperature_logprobs.data(), count));
  js.set(output, "forced", forced);
  js.set(output, "top", top);
  js.set(output, "prompt", prompt);
  js.set(output, "states", states);
  js.set(output, "seconds", js.number(step.seconds));
  return output;
}

}  // namespace

napi_value start_step(const std::shared_ptr<ModelHandle>& handle, const Arguments& arguments) {
  handle->require_open();
  const Path path("sequences"), cancellation_path("cancellation");
  const auto list = arguments.at(0, path);
  auto step = std::make_shared<Step>();
  const uint32_t count = list.array_length(1 << 16);
  if (count == 0) invalid(path, "must not be empty");
  step->sequences.reserve(count);
  for (uint32_t i = 0; i < count; ++i)
    list.element(i, [&](Argument entry) { step->sequences.push_back(read_sequence(entry, *handle)); });
  auto control = control_of(arguments.at(1, cancellation_path));
  // Reading arguments may have run JavaScript (getters), which may have closed the model.
  handle->require_open();
  try {
    inference::begin_step(step->sequences,
                          {handle->spec.vocab, handle->spec.max_positions, handle->pages * handle->page_groups.count(),
                           handle->given_logits, handle->page_groups, handle->recurrent_states});
  } catch (const model::InvalidInput& input) {
    invalid(path, input);
  }
  return handle->environment->start(
      {.queue = Queue::inference, .control = std::move(control), .pending = {&handle->pending}},
      [step, state = handle->state] {
        const auto start = std::chrono::steady_clock::now();
        if (!state->stepper->run(step->sequences)) throw Failure{"aborted", "the step was aborted", ""};
        step->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      },
      [step](Js js) { return result(js, *step); });
}

}  // namespace anneal::addon
