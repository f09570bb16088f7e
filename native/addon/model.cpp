#include "model.h"

#include <algorithm>

#include "../backends/devices.h"
#include "../weights/weight_files.h"
#include "grammar_binding.h"
#include "model_options.h"
#include "named_tensors.h"
#include "trainer.h"

namespace anneal::addon {

using sampling::kSamplingNumbers;
using sampling::SamplingParams;
using sampling::ThinkingBudget;

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
  const auto whole = [&](const char* name, int64_t min, int64_t max) {
    return params.field(name, [&](Argument a) { return a.integer(min, max); });
  };
  const auto ids = [&](const char* name) { return params.field(name, [&](Argument a) { return id_set(a, vocab); }); };
  SamplingParams p;
  for (const sampling::SamplingNumber& number : kSamplingNumbers)
    params.field(number.name, [&](Argument a) {
      if (const auto* value = std::get_if<float SamplingParams::*>(&number.member))
        p.** value = float(a.number(number.min, number.max));
      else
        p.*std::get<int SamplingParams::*>(number.member) = int(a.integer(int64_t(number.min), int64_t(number.max)));
    });
  p.seed = params.field("seed", [](Argument a) { return a.bits64(); });
  p.choice = uint32_t(whole("choice", 0, UINT32_MAX));
  p.min_tokens = int(whole("minTokens", 0, INT32_MAX));
  p.end_ids = ids("endIds");
  const auto bias_ids = params.field("biasIds", [&](Argument a) { return token_ids(a, vocab); });
  const auto bias_values = params.field("biasValues", [](Argument a) { return a.finite_floats(); });
  if (bias_ids.size() != bias_values.size()) invalid(Path(params.path(), "biasValues"), "must be as long as biasIds");
  if (const int32_t twice = p.set_bias(bias_ids, bias_values); twice >= 0)
    invalid(Path(params.path(), "biasIds"), "names token " + std::to_string(twice) + " twice");
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
  const auto count = [&](const char* name, int64_t min) {
    return int(argument.field(name, [&](Argument a) { return a.integer(min, INT32_MAX); }));
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
  const std::vector<int>& windows = handle_->page_groups.windows;
  js.set(result, "pageGroups", js.int32s(windows.data(), windows.size()));
  js.set(result, "recurrentStates", js.number(handle_->recurrent_states));
  js.set(result, "bytes", js.number(double(handle_->bytes)));
  js.set(result, "kernelSet", js.text(handle_->kernel_set));
  napi_value weight_only = js.array(handle_->weight_only.size());
  for (size_t i = 0; i < handle_->weight_only.size(); ++i)
    js.set(weight_only, uint32_t(i), js.text(handle_->weight_only[i]));
  js.set(result, "weightOnly", weight_only);
  return result;
}

napi_value Model::open_slot(const Arguments& arguments) {
  handle_->require_open();
  const int vocab = handle_->spec.vocab;
  const Path path("params");
  const auto params = arguments.at(0, path);
  auto sampling = sampling_params(params, vocab);
  auto matcher = params.field("grammar", [&](Argument a) { return slot_matcher(a, vocab); });
  const auto optional_ids = [&](const char* name) {
    return params.field(name, [&](Argument a) { return a.missing() ? std::vector<int32_t>() : id_set(a, vocab); });
  };
  auto stop_ids = optional_ids("stopIds"), thought_ids = optional_ids("thoughtIds");
  auto thinking = params.field("thinking", [&](Argument a) { return thinking_budget(a, vocab); });
  auto slot = std::make_shared<Slot>(std::move(sampling), vocab, std::move(matcher), std::move(stop_ids),
                                     std::move(thought_ids), std::move(thinking));
  if (handle_->slots.size() >= size_t(1) << 20)
    throw Failure{"invalid_argument", "too many open slots: close those that are not used", "slot"};
  return arguments.js.number(handle_->slots.add(std::move(slot)));
}

napi_value Model::close_slot(const Arguments& arguments) {
  handle_->require_open();
  const Path path("slot");
  if (!handle_->slots.remove(int32_t(arguments.at(0, path).integer(0, INT32_MAX)))) invalid(path, "is not open");
  return arguments.js.undefined();
}

napi_value Model::step(const Arguments& arguments) { return start_step(handle_, arguments); }

// copy(backend, from, to) of pairs of ids below `count`, in order.
static napi_value queue_copies(ModelHandle& handle, const Arguments& arguments, int count, const char* what,
                               void (*copy)(backends::Backend&, int from, int to)) {
  handle.require_open();
  const Path from_path("from"), to_path("to");
  const auto known_ids = [&](size_t index, const Path& path) {
    auto ids = arguments.at(index, path).int32s();
    for (size_t i = 0; i < ids.size(); ++i)
      if (ids[i] < 0 || ids[i] >= count)
        invalid(Path(path, int64_t(i)), "is " + std::to_string(ids[i]) + "; " + what + " are " +
                                            (count ? "0 to " + std::to_string(count - 1) : "none"));
    return ids;
  };
  auto from = known_ids(0, from_path), to = known_ids(1, to_path);
  if (from.size() != to.size()) invalid(to_path, "must be as long as from");
  handle.environment->post(Queue::inference, [state = handle.state, copy, from = std::move(from), to = std::move(to)] {
    for (size_t i = 0; i < from.size(); ++i)
      if (from[i] != to[i]) copy(*state->backend, from[i], to[i]);
  });
  return arguments.js.undefined();
}

napi_value Model::copy_pages(const Arguments& arguments) {
  return queue_copies(*handle_, arguments, handle_->pages * handle_->page_groups.count(), "pages",
                      [](backends::Backend& backend, int from, int to) { backend.copy_page(from, to); });
}

napi_value Model::copy_recurrent_states(const Arguments& arguments) {
  return queue_copies(*handle_, arguments, handle_->recurrent_states, "recurrent states",
                      [](backends::Backend& backend, int from, int to) { backend.copy_recurrent_state(from, to); });
}

napi_value Model::load_adapter(const Arguments& arguments) {
  const Path spec_path("spec"), tensors_path("tensors");
  const auto spec = lora_spec(arguments.at(0, spec_path), handle_->spec);
  auto values = std::make_shared<TensorValues>(
      named_tensors(arguments.at(1, tensors_path), model::adapter_tensors(handle_->spec, spec)));
  handle_->require_open();
  handle_->trainers.check_loading();
  auto made = std::make_shared<AdapterRef>();
  return handle_->environment->start(
      {.pending = {&handle_->pending}},
      [state = handle_->state, spec, values, made] {
        *made = state->backend->load_adapter(spec, adapter_values(state->backend->spec(), spec, *values));
        if (!*made) throw executor::Aborted();
      },
      [handle = handle_, made](Js js) {
        handle->require_open();
        return js.number(handle->adapters.add(std::move(*made)));
      });
}

napi_value Model::release_adapter(const Arguments& arguments) {
  handle_->require_open();
  const Path path("version");
  if (!handle_->adapters.remove(int32_t(arguments.at(0, path).integer(1, INT32_MAX))))
    invalid(path, "is no adapter version of this model");
  return arguments.js.undefined();
}

napi_value Model::make_trainer(training::OpenTrainers::Place place,
                               std::function<std::unique_ptr<backends::Trainable>(backends::Backend&)> make) {
  auto trainer = std::make_shared<TrainerState>();
  trainer->model = handle_->state;
  auto handle = handle_;
  return handle->environment->start(
      {.pending = {&handle->pending}},
      [trainer, make = std::move(make)] {
        backends::Backend& backend = *trainer->model->backend;
        trainer->trainer = std::make_unique<training::Trainer>(backend, make(backend));
      },
      [handle, trainer, place = std::move(place)](Js js) {
        handle->require_open();
        auto opened = std::make_shared<TrainerHandle>();
        opened->model = handle;
        opened->state = trainer;
        opened->tensors = trainer->trainer->trainable().tensors();
        opened->place = place;
        std::erase_if(handle->opened, [](const auto& known) { return known.expired(); });
        handle->opened.push_back(opened);
        return wrap(*handle->environment, std::make_unique<Trainer>(js, std::move(opened)));
      });
}

napi_value Model::train_adapter(const Arguments& arguments) {
  const Path spec_path("spec"), seed_path("seed"), tensors_path("tensors");
  const auto spec = lora_spec(arguments.at(0, spec_path), handle_->spec);
  const uint64_t seed = arguments.at(1, seed_path).bits64();
  const auto list = arguments.at(2, tensors_path);
  std::shared_ptr<TensorValues> values;
  if (!list.missing())
    values = std::make_shared<TensorValues>(named_tensors(list, model::adapter_tensors(handle_->spec, spec)));
  handle_->require_open();
  return make_trainer(handle_->trainers.open_adapter(), [spec, seed, values](backends::Backend& backend) {
    if (!values) return backend.train_adapter(spec, seed, nullptr);
    const auto reader = adapter_values(backend.spec(), spec, *values);
    return backend.train_adapter(spec, seed, &reader);
  });
}

napi_value Model::train_weights(const Arguments&) {
  handle_->require_open();
  if (!handle_->spec.quantized.empty())
    throw Failure{"invalid_argument", "quantised weights cannot be trained: train an adapter", "config"};
  return make_trainer(handle_->trainers.open_weights(handle_->adapters.size()),
                      [](backends::Backend& backend) { return backend.train_weights(); });
}

napi_value Model::close(const Arguments& arguments) {
  handle_->close();
  memory_.set(0);
  return arguments.js.undefined();
}

// ---- loading

namespace {

int64_t whole(const Argument& a) { return a.integer(0, int64_t(1) << 52); }

weights::TensorPart tensor_part(const Argument& part) {
  if (part.missing()) return {};
  part.object();
  weights::TensorPart read;
  read.path = part.field("file", [](Argument a) { return a.text(1 << 16); });
  read.type = part.field("dtype", [](Argument a) { return a.text(16); });
  read.offset = part.field("offset", whole);
  read.bytes = part.field("bytes", whole);
  if (read.path.empty()) invalid(part.path(), "names no file");
  return read;
}

std::optional<weights::StoredTensor::Packed> packed(const Argument& a) {
  if (a.missing()) return std::nullopt;
  a.object();
  weights::StoredTensor::Packed packed;
  packed.packing = a.field("packing", [](Argument packing) {
    return one_of<weights::Packing>(packing, {{"compressed_tensors", weights::Packing::compressed_tensors},
                                              {"gptq", weights::Packing::gptq},
                                              {"gptq_v2", weights::Packing::gptq_v2},
                                              {"awq", weights::Packing::awq}});
  });
  packed.group = a.field("group", [](Argument group) { return group.integer(1, 1 << 24); });
  packed.scales = a.field("scales", tensor_part);
  packed.zeros = a.field("zeros", tensor_part);
  return packed;
}

weights::WeightFiles weight_files(const Argument& list, const model::ModelSpec& spec) {
  std::vector<weights::StoredTensor> tensors;
  for (uint32_t i = 0, count = list.array_length(1 << 20); i < count; ++i)
    list.element(i, [&](Argument entry) {
      entry.object();
      weights::StoredTensor& tensor = tensors.emplace_back();
      tensor.name = entry.field("name", [](Argument a) { return a.text(512); });
      tensor.file = entry.field("file", [](Argument a) { return a.text(1 << 16); });
      tensor.type = entry.field("dtype", [](Argument a) { return a.text(16); });
      tensor.offset = entry.field("offset", whole);
      tensor.bytes = entry.field("bytes", whole);
      tensor.interleaved_heads =
          entry.field("interleavedHeads", [](Argument a) { return a.missing() ? int64_t(0) : a.integer(1, 1 << 20); });
      tensor.packed = entry.field("packed", packed);
      entry.field("shape", [&](Argument a) {
        for (uint32_t d = 0, n = a.array_length(8); d < n; ++d) tensor.shape.push_back(a.element(d, whole));
      });
    });
  try {
    return weights::WeightFiles(tensors, spec);
  } catch (const weights::UnusableTensor& unusable) {
    invalid(unusable.entry < 0 ? list.path() : Path(list.path(), unusable.entry), unusable.problem);
  }
}

}  // namespace

napi_value load_model(const Arguments& arguments) {
  const Path path("options"), cancellation_path("cancellation");
  const auto options = arguments.at(0, path);
  options.object();
  auto environment = Environment::of(arguments.js.env);
  auto state = std::make_shared<ModelState>();
  const auto device = options.field("device", [](Argument a) { return device_name(a); });
  const int gpu_layers = options.field("gpuLayers", [](Argument a) { return layers_on_gpu(a); });
  const auto format = options.field("dtype", [](Argument a) { return tensor_format(a); });
  const auto spec = options.field("config", [&](Argument a) { return model_spec(a, format); });
  const int pages = int(options.field("kvPages", [](Argument a) { return a.integer(1, 1 << 24); }));
  const backends::CacheSize cache(pages, int(options.field("recurrentStates", [&](Argument a) -> int64_t {
                                    if (!spec.recurrent()) return 0;
                                    return a.integer(1, 1 << 20);
                                  })));
  const auto arithmetic =
      options.field("kernelSet", [](Argument a) { return a.missing() ? std::string() : a.text(32); });
  auto source = std::make_shared<weights::WeightFiles>(
      options.field("tensors", [&](Argument a) { return weight_files(a, spec); }));
  auto gate_text = options.field(
      "gateText", [&](Argument a) { return a.missing() ? std::vector<int32_t>() : token_ids(a, spec.vocab); });
  auto control = control_of(arguments.at(1, cancellation_path));
  if (!control) control = std::make_shared<CallControl>();
  return environment->start(
      {.control = control},
      [state, device, gpu_layers, spec, cache, arithmetic, source, control, gate_text = std::move(gate_text),
       executor = environment->executor().get()] {
        const Path path("options");
        state->device = backends::open_device(*executor, device, gpu_layers, int(spec.layers.size()));
        try {
          state->device->require(spec);
        } catch (const model::UnsupportedModel& error) {
          invalid(Path(Path(path, "config"), error.field.c_str()), error.problem);
        }
        if (const auto known = state->device->arithmetics();
            !arithmetic.empty() && std::find(known.begin(), known.end(), arithmetic) == known.end())
          invalid(Path(path, "kernelSet"), "cannot run on this device");
        source->open();
        state->backend = state->device->load(spec, cache, arithmetic,
                                             {[&](const std::string& name, int64_t row0, int64_t rows, float* dst) {
                                                source->read(name, row0, rows, dst);
                                              },
                                              [&](const std::string& name) { return source->stored(name); },
                                              [&](const std::string& name, int64_t row0, int64_t rows, uint8_t* dst) {
                                                source->blocks(name, row0, rows, dst);
                                              }},
                                             [&](double done) {
                                               control->progress = done;
                                               return executor->checkpoint();
                                             });
        if (!state->backend) throw Failure{"aborted", "loading was aborted", ""};
        state->weight_only = state->backend->gate_activations(gate_text);
        state->stepper = std::make_unique<inference::Stepper>(*state->backend);
      },
      [environment, state, spec, cache](Js js) {
        auto handle = std::make_shared<ModelHandle>();
        const auto bytes = state->device->memory(spec);
        handle->environment = environment;
        handle->state = state;
        handle->spec = spec;
        handle->pages = cache.pages;
        handle->page_groups = state->backend->page_groups();
        handle->recurrent_states = cache.recurrent_states;
        handle->bytes = bytes.weights + cache.pages * bytes.page + cache.recurrent_states * bytes.recurrent_state;
        handle->kernel_set = state->backend->name();
        handle->weight_only = state->weight_only;
        return wrap(*environment, std::make_unique<Model>(js, std::move(handle)));
      });
}

napi_value given_logits_model(const Arguments& arguments) {
  const Path path("options");
  const auto options = arguments.at(0, path);
  options.object();
  const auto whole = [&](const char* name, int64_t max) {
    return int(options.field(name, [&](Argument a) { return a.integer(1, max); }));
  };
  auto handle = std::make_shared<ModelHandle>();
  handle->environment = Environment::of(arguments.js.env);
  handle->given_logits = true;
  handle->spec.vocab = whole("vocab", 1 << 22);
  handle->spec.max_positions = whole("maxPositions", 1 << 24);
  handle->pages = whole("pages", 1 << 24);
  handle->bytes = 0;
  auto state = std::make_shared<ModelState>();
  state->backend = backends::open_sampler(*handle->environment->executor(), handle->spec, handle->pages);
  state->stepper = std::make_unique<inference::Stepper>(*state->backend);
  handle->kernel_set = state->backend->name();
  handle->state = std::move(state);
  return wrap(*handle->environment, std::make_unique<Model>(arguments.js, handle));
}

void define_model(Js js) {
  define_class<Model>(
      js, "Model",
      {describe<Model, &Model::info>("info"), describe<Model, &Model::open_slot>("openSlot"),
       describe<Model, &Model::close_slot>("closeSlot"), describe<Model, &Model::step>("step"),
       describe<Model, &Model::copy_pages>("copyPages"),
       describe<Model, &Model::copy_recurrent_states>("copyRecurrentStates"),
       describe<Model, &Model::load_adapter>("loadAdapter"), describe<Model, &Model::release_adapter>("releaseAdapter"),
       describe<Model, &Model::train_adapter>("trainAdapter"), describe<Model, &Model::train_weights>("trainWeights"),
       describe<Model, &Model::close>("close")});
}

}  // namespace anneal::addon
