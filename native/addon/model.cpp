#include "model.h"

#include <algorithm>

#include "../backends/devices.h"
#include "grammar_binding.h"
#include "model_options.h"
#include "named_tensors.h"
#include "tensor_source.h"
#include "trainer.h"

namespace anneal::addon {

using sampling::kSamplingNumbers;
using sampling::SamplingParams;
using sampling::ThinkingBudget;

// ---- handle

void ModelHandle::require_open() const {
  if (!state) throw Failure{"closed", "the model was closed", ""};
}

int32_t ModelHandle::add_adapter(AdapterRef adapter) {
  const int32_t version = next_adapter++;
  adapters.emplace(version, std::move(adapter));
  return version;
}

AdapterRef ModelHandle::adapter(const Argument& version) const {
  const auto id = int32_t(version.integer(0, INT32_MAX));
  if (id == 0) return nullptr;
  const auto found = adapters.find(id);
  if (found == adapters.end()) invalid(version.path(), "is no adapter version of this model: " + std::to_string(id));
  return found->second;
}

void ModelHandle::close() {
  if (!state) return;
  pending.close(*environment->executor());
  for (auto& known : opened)
    if (auto trainer = known.lock()) trainer->close();
  opened.clear();
  slots.clear();
  adapters.clear();
  environment->executor()->retire(std::move(state));
}

// ---- slots

namespace {

std::vector<int32_t> token_ids(const Argument& list, int vocab) {
  auto ids = list.int32s();
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= vocab)
      invalid(Path(list.path(), int64_t(i)),
              "is " + std::to_string(ids[i]) + "; token ids are 0 to " + std::to_string(vocab - 1));
  return ids;
}

std::vector<int32_t> id_set(const Argument& list, int vocab) {
  auto ids = token_ids(list, vocab);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

SamplingParams sampling_params(const Argument& params, int vocab) {
  params.object();
  const auto whole = [&](const char* name, int64_t least, int64_t most) {
    return params.field(name, [&](Argument a) { return a.integer(least, most); });
  };
  const auto ids = [&](const char* name) { return params.field(name, [&](Argument a) { return id_set(a, vocab); }); };
  SamplingParams p;
  for (const auto& [name, value, least, most] : kSamplingNumbers)
    p.*value = float(params.field(name, [&](Argument a) { return a.number(least, most); }));
  p.top_k = int(whole("topK", 0, INT32_MAX));
  p.seed = params.field("seed", [](Argument a) { return a.bits64(); });
  p.choice = uint32_t(whole("choice", 0, UINT32_MAX));
  p.min_tokens = int(whole("minTokens", 0, INT32_MAX));
  p.end_ids = ids("endIds");
  std::vector<std::pair<int32_t, float>> bias;
  {
    const auto bias_ids = params.field("biasIds", [&](Argument a) { return token_ids(a, vocab); });
    const auto bias_values = params.field("biasValues", [](Argument a) { return a.finite_floats(); });
    if (bias_ids.size() != bias_values.size()) invalid(Path(params.path(), "biasValues"), "must be as long as biasIds");
    for (size_t i = 0; i < bias_ids.size(); ++i)
      bias.emplace_back(bias_ids[i], std::clamp(bias_values[i], -100.0f, 100.0f));
  }
  std::stable_sort(bias.begin(), bias.end(), [](auto& a, auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < bias.size(); ++i) {
    if (i > 0 && bias[i].first == bias[i - 1].first)
      invalid(Path(params.path(), "biasIds"), "names token " + std::to_string(bias[i].first) + " twice");
    p.bias_ids.push_back(bias[i].first);
    p.bias_values.push_back(bias[i].second);
  }
  params.field("allowedIds", [&](Argument a) {
    if (a.missing()) return;
    p.restrict_allowed = true;
    p.allowed_ids = id_set(a, vocab);
  });
  params.field("badWords", [&](Argument list) {
    for (uint32_t i = 0, n = list.array_length(1 << 16); i < n; ++i)
      list.element(i, [&](Argument a) {
        p.bad_words.push_back(token_ids(a, vocab));
        if (p.bad_words.back().empty()) invalid(a.path(), "must not be empty");
      });
  });
  p.prompt = params.field("prompt", [&](Argument a) { return token_ids(a, vocab); });
  p.top_logprobs = int(whole("topLogprobs", -1, vocab));
  params.field("logprobIds", [&](Argument a) {
    if (!a.missing()) p.logprob_ids = token_ids(a, vocab);
  });
  return p;
}

// The slot's own copy: what JavaScript does with the given one changes nothing here.
std::unique_ptr<grammar::Matcher> slot_matcher(const Argument& argument, int vocab) {
  if (argument.missing()) return nullptr;
  const auto* given = unwrap<GrammarMatcher>(argument.js(), argument.value(), kGrammarMatcherClass);
  if (!given) invalid(argument.path(), "must be a GrammarMatcher");
  const int known = given->matcher().grammar().vocabulary().size();
  if (known < vocab)
    invalid(argument.path(), "is of a vocabulary of " + std::to_string(known) + " tokens, the model has " +
                                 std::to_string(vocab) + ": add tokens without bytes");
  return std::make_unique<grammar::Matcher>(given->matcher());
}

std::optional<ThinkingBudget> thinking_budget(const Argument& argument, int vocab) {
  if (argument.missing()) return std::nullopt;
  argument.object();
  const auto tag = [&](const char* name) {
    return argument.field(name, [&](Argument a) {
      auto ids = token_ids(a, vocab);
      if (ids.empty()) invalid(a.path(), "must not be empty");
      return ids;
    });
  };
  const auto count = [&](const char* name, int64_t least) {
    return int(argument.field(name, [&](Argument a) { return a.integer(least, INT32_MAX); }));
  };
  return ThinkingBudget(count("tokens", 0), count("used", -1), tag("open"), tag("close"));
}

}  // namespace

// ---- model

Model::Model(Js js, std::shared_ptr<ModelHandle> handle) : handle_(std::move(handle)), memory_(js) {
  memory_.set(handle_->bytes);
}

napi_value Model::info(const Arguments& arguments) {
  const Js js = arguments.js;
  napi_value result = js.object();
  js.set(result, "pages", js.number(handle_->pages));
  js.set(result, "bytes", js.number(double(handle_->bytes)));
  js.set(result, "kernelSet", js.text(handle_->kernel_set));
  return result;
}

napi_value Model::open_slot(const Arguments& arguments) {
  handle_->require_open();
  const int vocab = handle_->spec.vocab;
  const Path path("params");
  const auto params = arguments.at(0, path);
  auto sampling = sampling_params(params, vocab);
  auto matcher = params.field("grammar", [&](Argument a) { return slot_matcher(a, vocab); });
  const auto few = [&](const char* name) {
    return params.field(name, [&](Argument a) { return a.missing() ? std::vector<int32_t>() : id_set(a, vocab); });
  };
  auto stop_ids = few("stopIds"), thought_ids = few("thoughtIds");
  auto thinking = params.field("thinking", [&](Argument a) { return thinking_budget(a, vocab); });
  auto slot = std::make_shared<Slot>(std::move(sampling), vocab, std::move(matcher), std::move(stop_ids),
                                     std::move(thought_ids), std::move(thinking));
  if (handle_->slots.size() >= size_t(1) << 20)
    throw Failure{"invalid_argument", "too many open slots: close those that are not used", "slot"};
  do handle_->next_slot = handle_->next_slot == INT32_MAX ? 1 : handle_->next_slot + 1;
  while (handle_->slots.count(handle_->next_slot));
  handle_->slots.emplace(handle_->next_slot, std::move(slot));
  return arguments.js.number(handle_->next_slot);
}

napi_value Model::close_slot(const Arguments& arguments) {
  handle_->require_open();
  const Path path("slot");
  if (handle_->slots.erase(int32_t(arguments.at(0, path).integer(0, INT32_MAX))) == 0) invalid(path, "is not open");
  return arguments.js.undefined();
}

napi_value Model::step(const Arguments& arguments) { return start_step(handle_, arguments); }

napi_value Model::copy_pages(const Arguments& arguments) {
  handle_->require_open();
  const int pages = handle_->pages;
  const Path from_path("from"), to_path("to");
  const auto page_ids = [&](size_t index, const Path& path) {
    auto ids = arguments.at(index, path).int32s();
    for (size_t i = 0; i < ids.size(); ++i)
      if (ids[i] < 0 || ids[i] >= pages)
        invalid(Path(path, int64_t(i)),
                "is " + std::to_string(ids[i]) + "; pages are 0 to " + std::to_string(pages - 1));
    return ids;
  };
  auto from = page_ids(0, from_path), to = page_ids(1, to_path);
  if (from.size() != to.size()) invalid(to_path, "must be as long as from");
  handle_->environment->post(Queue::inference, [state = handle_->state, from = std::move(from), to = std::move(to)] {
    for (size_t i = 0; i < from.size(); ++i)
      if (from[i] != to[i]) state->backend->copy_page(from[i], to[i]);
  });
  return arguments.js.undefined();
}

napi_value Model::load_adapter(const Arguments& arguments) {
  const Path spec_path("spec"), tensors_path("tensors");
  const auto spec = lora_spec(arguments.at(0, spec_path));
  auto values = std::make_shared<TensorValues>(
      named_tensors(arguments.at(1, tensors_path), model::adapter_tensors(handle_->spec, spec)));
  handle_->require_open();
  if (handle_->weights_trained)
    throw Failure{"conflict", "the model's weights are being trained: close that trainer before loading adapters", ""};
  auto made = std::make_shared<AdapterRef>();
  return handle_->environment->start(
      {.pending = {&handle_->pending}},
      [state = handle_->state, spec, values, made] {
        *made = state->backend->load_adapter(spec, adapter_values(spec, *values));
        if (!*made) throw executor::Aborted();
      },
      [handle = handle_, made](Js js) {
        handle->require_open();
        return js.number(handle->add_adapter(std::move(*made)));
      });
}

napi_value Model::release_adapter(const Arguments& arguments) {
  handle_->require_open();
  const Path path("version");
  const auto found = handle_->adapters.find(int32_t(arguments.at(0, path).integer(1, INT32_MAX)));
  if (found == handle_->adapters.end()) invalid(path, "is no adapter version of this model");
  handle_->adapters.erase(found);
  return arguments.js.undefined();
}

napi_value Model::make_trainer(std::function<std::unique_ptr<backends::Trainable>(backends::Backend&)> make) {
  auto trainer = std::make_shared<TrainerState>();
  trainer->model = handle_->state;
  auto handle = handle_;
  ++handle->trainers;
  // Counts as open until the promise is settled, however that ends.
  auto place = std::shared_ptr<void>(nullptr, [handle](void*) { --handle->trainers; });
  const bool all_weights = handle->weights_trained;
  auto unlock = std::shared_ptr<void>(nullptr, [handle, all_weights](void*) {
    if (all_weights) handle->weights_trained = false;
  });
  return handle->environment->start(
      {.pending = {&handle->pending}},
      [trainer, make = std::move(make)] {
        backends::Backend& backend = *trainer->model->backend;
        trainer->trainer = std::make_unique<training::Trainer>(backend, make(backend));
      },
      [handle, trainer, place, unlock](Js js) {
        handle->require_open();
        auto opened = std::make_shared<TrainerHandle>();
        opened->model = handle;
        opened->state = trainer;
        opened->tensors = trainer->trainer->trainable().tensors();
        opened->place = place;
        opened->weights = unlock;
        std::erase_if(handle->opened, [](const auto& known) { return known.expired(); });
        handle->opened.push_back(opened);
        return wrap(*handle->environment, std::make_unique<Trainer>(js, std::move(opened)));
      });
}

napi_value Model::train_adapter(const Arguments& arguments) {
  const Path spec_path("spec"), seed_path("seed"), tensors_path("tensors");
  const auto spec = lora_spec(arguments.at(0, spec_path));
  const uint64_t seed = arguments.at(1, seed_path).bits64();
  const auto list = arguments.at(2, tensors_path);
  std::shared_ptr<TensorValues> values;
  if (!list.missing())
    values = std::make_shared<TensorValues>(named_tensors(list, model::adapter_tensors(handle_->spec, spec)));
  handle_->require_open();
  if (handle_->weights_trained)
    throw Failure{"conflict", "the model's weights are being trained: close that trainer first", ""};
  return make_trainer([spec, seed, values](backends::Backend& backend) {
    if (!values) return backend.train_adapter(spec, seed, nullptr);
    const auto reader = adapter_values(spec, *values);
    return backend.train_adapter(spec, seed, &reader);
  });
}

napi_value Model::train_weights(const Arguments&) {
  handle_->require_open();
  if (handle_->trainers > 0) throw Failure{"conflict", "another trainer of this model is open: close it first", ""};
  if (!handle_->adapters.empty())
    throw Failure{"conflict", "adapters of this model are loaded: release them first", ""};
  handle_->weights_trained = true;
  return make_trainer([](backends::Backend& backend) { return backend.train_weights(); });
}

napi_value Model::close(const Arguments& arguments) {
  handle_->close();
  memory_.set(0);
  return arguments.js.undefined();
}

// ---- loading

void require(const backends::Device& device, const model::ModelSpec& spec, const Path& config) {
  try {
    device.require(spec);
  } catch (const model::UnsupportedModel& error) {
    invalid(Path(config, error.field.c_str()), error.problem);
  }
}

napi_value load_model(const Arguments& arguments) {
  const Path path("options"), cancellation_path("cancellation");
  const auto options = arguments.at(0, path);
  options.object();
  auto environment = Environment::of(arguments.js.env);
  auto state = std::make_shared<ModelState>();
  state->device = backends::open_device(*environment->executor());
  const auto format = options.field("dtype", [](Argument a) { return tensor_format(a); });
  const auto spec = options.field("config", [&](Argument a) { return model_spec(a, format); });
  require(*state->device, spec, Path(path, "config"));
  const int pages = int(options.field("kvPages", [](Argument a) { return a.integer(1, 1 << 24); }));
  const auto arithmetic = options.field("kernelSet", [&](Argument a) {
    if (a.missing()) return std::string();
    const auto known = state->device->arithmetics();
    const auto found = std::find(known.begin(), known.end(), a.text(32));
    if (found == known.end()) invalid(a.path(), "cannot run on this machine");
    return *found;
  });
  auto source =
      std::make_shared<TensorSource>(options.field("tensors", [&](Argument a) { return TensorSource(a, spec); }));
  auto control = control_of(arguments.at(1, cancellation_path));
  if (!control) control = std::make_shared<CallControl>();
  return environment->start(
      {.control = control},
      [state, spec, pages, arithmetic, source, control, executor = environment->executor().get()] {
        source->open();
        state->backend = state->device->load(
            spec, pages, arithmetic,
            [&](const std::string& name, int64_t row0, int64_t rows, float* dst) {
              source->read(name, row0, rows, dst);
            },
            [&](double done) {
              control->progress = done;
              return executor->checkpoint();
            });
        if (!state->backend) throw Failure{"aborted", "loading was aborted", ""};
        state->stepper = std::make_unique<inference::Stepper>(*state->backend);
      },
      [environment, state, spec, pages](Js js) {
        auto handle = std::make_shared<ModelHandle>();
        const auto bytes = state->device->memory(spec);
        handle->environment = environment;
        handle->state = state;
        handle->spec = spec;
        handle->pages = pages;
        handle->bytes = bytes.weights + pages * bytes.page;
        handle->kernel_set = state->backend->name();
        return wrap(*environment, std::make_unique<Model>(js, std::move(handle)));
      });
}

void define_model(Js js) {
  define_class<Model>(
      js, "Model",
      {describe<Model, &Model::info>("info"), describe<Model, &Model::open_slot>("openSlot"),
       describe<Model, &Model::close_slot>("closeSlot"), describe<Model, &Model::step>("step"),
       describe<Model, &Model::copy_pages>("copyPages"), describe<Model, &Model::load_adapter>("loadAdapter"),
       describe<Model, &Model::release_adapter>("releaseAdapter"),
       describe<Model, &Model::train_adapter>("trainAdapter"), describe<Model, &Model::train_weights>("trainWeights"),
       describe<Model, &Model::close>("close")});
}

}  // namespace anneal::addon
