#include "model.h"

#include <algorithm>

#include "../backends/devices.h"
#include "../inference/arithmetic_difference.h"
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

std::vector<int32_t> some_ids(const Argument& list, int vocab) {
  auto ids = token_ids(list, vocab);
  if (ids.empty()) invalid(list.path(), "must not be empty");
  return ids;
}

SamplingParams sampling_params(const Argument& params, int vocab) {
  params.object();
  SamplingParams p;
  for (const sampling::SamplingNumber& number : kSamplingNumbers) {
    const Argument a = params.at(number.name);
    if (const auto* value = std::get_if<float SamplingParams::*>(&number.member))
      p.** value = float(a.number(number.min, number.max));
    else
      p.*std::get<int SamplingParams::*>(number.member) = a.whole(int(number.min), int(number.max));
  }
  p.seed = params.at("seed").bits64();
  p.choice = uint32_t(params.at("choice").integer(0, UINT32_MAX));
  p.min_tokens = params.at("minTokens").whole(0, INT32_MAX);
  p.end_ids = id_set(params.at("endIds"), vocab);
  const Argument bias_ids = params.at("biasIds"), bias_values = params.at("biasValues");
  const auto ids = token_ids(bias_ids, vocab);
  const auto values = bias_values.finite_floats();
  if (ids.size() != values.size()) invalid(bias_values.path(), "must be as long as biasIds");
  if (const int32_t twice = p.set_bias(ids, values); twice >= 0)
    invalid(bias_ids.path(), "names token " + std::to_string(twice) + " twice");
  if (const auto allowed = params.given("allowedIds"))
    p.restrict_allowed = true, p.allowed_ids = id_set(*allowed, vocab);
  params.at("badWords").each(1 << 16, [&](const Argument& word) { p.bad_words.push_back(some_ids(word, vocab)); });
  p.prompt = token_ids(params.at("prompt"), vocab);
  p.top_logprobs = params.at("topLogprobs").whole(-1, vocab);
  if (const auto reported = params.given("logprobIds")) p.logprob_ids = token_ids(*reported, vocab);
  return p;
}

// The slot's own copy: what JavaScript does with the given one changes nothing here.
std::unique_ptr<grammar::Matcher> slot_matcher(const Argument& argument, int vocab) {
  const auto* given = unwrap<GrammarMatcher>(argument.js(), argument.value(), kGrammarMatcherClass);
  if (!given) invalid(argument.path(), "must be a GrammarMatcher");
  const int known = given->matcher().grammar().vocabulary().size();
  if (known < vocab)
    invalid(argument.path(), "is of a vocabulary of " + std::to_string(known) + " tokens, the model has " +
                                 std::to_string(vocab) + ": add tokens without bytes");
  return std::make_unique<grammar::Matcher>(given->matcher());
}

ThinkingBudget thinking_budget(const Argument& budget, int vocab) {
  budget.object();
  const auto several = budget.given("several");
  return ThinkingBudget(budget.at("tokens").whole(0, INT32_MAX), budget.at("used").whole(-1, INT32_MAX),
                        some_ids(budget.at("open"), vocab), some_ids(budget.at("close"), vocab),
                        several && several->boolean());
}

std::shared_ptr<Slot> new_slot(const Argument& params, int vocab) {
  auto sampling = sampling_params(params, vocab);
  std::unique_ptr<grammar::Matcher> matcher;
  if (const auto grammar = params.given("grammar")) matcher = slot_matcher(*grammar, vocab);
  std::vector<int32_t> stop_ids, thought_ids;
  if (const auto ids = params.given("stopIds")) stop_ids = id_set(*ids, vocab);
  if (const auto ids = params.given("thoughtIds")) thought_ids = id_set(*ids, vocab);
  std::optional<ThinkingBudget> thinking;
  if (const auto budget = params.given("thinking")) thinking = thinking_budget(*budget, vocab);
  return std::make_shared<Slot>(std::move(sampling), vocab, std::move(matcher), std::move(stop_ids),
                                std::move(thought_ids), std::move(thinking));
}

}  // namespace

// ---- model

Model::Model(std::shared_ptr<ModelHandle> handle) : handle_(std::move(handle)) {}

napi_value Model::info(const Arguments& arguments) {
  const Js js = arguments.js;
  return js.object({{"pages", js.number(handle_->pages)},
                    {"pageGroups", js.int32s(handle_->page_groups.windows)},
                    {"recurrentStates", js.number(handle_->recurrent_states)},
                    {"takesGuesses", js.boolean(handle_->takes_guesses)},
                    {"bytes", js.number(double(handle_->bytes))},
                    {"kernelSet", js.text(handle_->kernel_set)},
                    {"differenceToExact", js.number(handle_->difference_to_exact)},
                    {"weightOnly", js.array(handle_->weight_only, [&](const auto& name) { return js.text(name); })}});
}

napi_value Model::open_slot(const Arguments& arguments) {
  handle_->require_open();
  auto slot = new_slot(arguments.at(0, "params"), handle_->spec.vocab);
  if (handle_->slots.size() >= size_t(1) << 20)
    throw Failure{"invalid_argument", "too many open slots: close those that are not used", "slot"};
  return arguments.js.number(handle_->slots.add(std::move(slot)));
}

napi_value Model::close_slot(const Arguments& arguments) {
  handle_->require_open();
  const Argument slot = arguments.at(0, "slot");
  if (!handle_->slots.remove(slot.whole(0, INT32_MAX))) invalid(slot.path(), "is not open");
  return arguments.js.undefined();
}

napi_value Model::step(const Arguments& arguments) { return start_step(handle_, arguments); }

// copy(backend, from, to) of pairs of ids below `count`, in order.
static napi_value queue_copies(ModelHandle& handle, const Arguments& arguments, int count, const char* what,
                               void (*copy)(backends::Backend&, int from, int to)) {
  handle.require_open();
  const auto known_ids = [&](const Argument& list) {
    auto ids = list.int32s();
    for (size_t i = 0; i < ids.size(); ++i)
      if (ids[i] < 0 || ids[i] >= count)
        invalid(Path(list.path(), int64_t(i)), "is " + std::to_string(ids[i]) + "; " + what + " are " +
                                                   (count ? "0 to " + std::to_string(count - 1) : "none"));
    return ids;
  };
  auto from = known_ids(arguments.at(0, "from")), to = known_ids(arguments.at(1, "to"));
  if (from.size() != to.size()) invalid("to", "must be as long as from");
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
  const auto spec = lora_spec(arguments.at(0, "spec"), handle_->spec);
  auto values = named_tensors(arguments.at(1, "tensors"), model::adapter_tensors(handle_->spec, spec));
  handle_->require_open();
  auto place = handle_->trainers.load_adapter();
  return handle_->environment->start(
      {.pending = {&handle_->pending}},
      [state = handle_->state, spec, values = std::move(values)] {
        auto adapter = state->backend->load_adapter(spec, adapter_values(state->backend->spec(), spec, values));
        if (!adapter) throw executor::Aborted();
        return adapter;
      },
      [handle = handle_, place = std::move(place)](Js js, AdapterRef adapter) {
        handle->require_open();
        return js.number(handle->adapters.add(std::move(adapter)));
      });
}

napi_value Model::release_adapter(const Arguments& arguments) {
  handle_->require_open();
  const Argument version = arguments.at(0, "version");
  if (!handle_->adapters.remove(version.whole(1, INT32_MAX)))
    invalid(version.path(), "is no adapter version of this model");
  return arguments.js.undefined();
}

napi_value Model::adapter_bytes(const Arguments& arguments) {
  handle_->require_open();
  const Argument version = arguments.at(0, "version");
  const AdapterRef adapter = handle_->adapter(version);
  return arguments.js.number(adapter ? double(adapter->bytes()) : 0);
}

napi_value Model::make_trainer(training::OpenTrainers::Place place,
                               std::function<std::unique_ptr<backends::Trainable>(backends::Backend&)> make) {
  return handle_->environment->start(
      {.pending = {&handle_->pending}},
      [state = handle_->state, make = std::move(make)] {
        auto trainer = std::make_shared<TrainerState>();
        trainer->model = state;
        trainer->trainer = std::make_unique<training::Trainer>(*state->backend, make(*state->backend));
        return trainer;
      },
      [handle = handle_, place = std::move(place)](Js js, std::shared_ptr<TrainerState> trainer) {
        handle->require_open();
        auto opened = std::make_shared<TrainerHandle>();
        opened->model = handle;
        opened->tensors = trainer->trainer->trainable().tensors();
        opened->state = std::move(trainer);
        opened->place = place;
        std::erase_if(handle->opened, [](const auto& known) { return known.expired(); });
        handle->opened.push_back(opened);
        return wrap(*handle->environment, std::make_unique<Trainer>(std::move(opened)));
      });
}

napi_value Model::train_adapter(const Arguments& arguments) {
  const auto spec = lora_spec(arguments.at(0, "spec"), handle_->spec);
  const uint64_t seed = arguments.at(1, "seed").bits64();
  const Argument tensors = arguments.at(2, "tensors");
  std::optional<TensorValues> values;
  if (!tensors.missing()) values = named_tensors(tensors, model::adapter_tensors(handle_->spec, spec));
  handle_->require_open();
  return make_trainer(handle_->trainers.open_adapter(),
                      [spec, seed, values = std::move(values)](backends::Backend& backend) {
                        if (!values) return backend.train_adapter(spec, seed, nullptr);
                        const auto reader = adapter_values(backend.spec(), spec, *values);
                        return backend.train_adapter(spec, seed, &reader);
                      });
}

napi_value Model::train_weights(const Arguments&) {
  handle_->require_open();
  if (!handle_->spec.quantized.empty())
    throw Failure{"invalid_argument", "quantised weights cannot be trained: train an adapter", "config"};
  if (handle_->spec.has_experts())
    throw Failure{"invalid_argument", "weights of experts cannot be trained: train an adapter", "config"};
  if (handle_->spec.token_inputs)
    throw Failure{"invalid_argument", "weights of token inputs cannot be trained: train an adapter", "config"};
  for (const model::LayerSpec& layer : handle_->spec.layers)
    if (layer.attention.sinks)
      throw Failure{"invalid_argument", "sinks of attention cannot be trained: train an adapter", "config"};
  return make_trainer(handle_->trainers.open_weights(handle_->adapters.size()),
                      [](backends::Backend& backend) { return backend.train_weights(); });
}

napi_value Model::keep_training_memory(const Arguments& arguments) {
  const bool keep = arguments.at(0, "keep").boolean();
  handle_->require_open();
  handle_->environment->post(Queue::training, [state = handle_->state, keep] {
    state->backend->keep_training_memory(keep);
    if (!keep) executor::give_back_freed_memory();
  });
  return arguments.js.undefined();
}

napi_value Model::close(const Arguments& arguments) {
  handle_->close();
  return arguments.js.undefined();
}

// ---- loading

namespace {

int64_t place(const Argument& a) { return a.integer(0, int64_t(1) << 52); }

weights::TensorPart tensor_part(const Argument& part) {
  part.object();
  weights::TensorPart read;
  read.path = part.at("file").text(1 << 16);
  read.type = part.at("dtype").text(16);
  read.offset = place(part.at("offset"));
  read.bytes = place(part.at("bytes"));
  if (read.path.empty()) invalid(part.path(), "names no file");
  return read;
}

weights::StoredTensor::Packed packed_parts(const Argument& packed) {
  packed.object();
  weights::StoredTensor::Packed parts;
  parts.packing =
      one_of<weights::Packing>(packed.at("packing"), {{"compressed_tensors", weights::Packing::compressed_tensors},
                                                      {"gptq", weights::Packing::gptq},
                                                      {"gptq_v2", weights::Packing::gptq_v2},
                                                      {"awq", weights::Packing::awq}});
  parts.group = packed.at("group").integer(1, 1 << 24);
  if (const auto scales = packed.given("scales")) parts.scales = tensor_part(*scales);
  if (const auto zeros = packed.given("zeros")) parts.zeros = tensor_part(*zeros);
  return parts;
}

weights::TiledHeads tiled_heads(const Argument& tiled) {
  tiled.object();
  return {tiled.at("heads").integer(1, 1 << 20), tiled.at("groups").integer(1, 1 << 20),
          tiled.at("width").integer(1, 1 << 20), tiled.at("first").integer(0, 1 << 24), tiled.at("columns").boolean()};
}

weights::Strides strides_of(const Argument& strides) {
  strides.object();
  return {place(strides.at("first")), place(strides.at("row")), place(strides.at("column"))};
}

weights::StoredTensor stored_tensor(const Argument& entry) {
  entry.object();
  weights::StoredTensor tensor;
  tensor.name = entry.at("name").text(512);
  tensor.file = entry.at("file").text(1 << 16);
  tensor.type = entry.at("dtype").text(16);
  tensor.offset = place(entry.at("offset"));
  tensor.bytes = place(entry.at("bytes"));
  if (const auto heads = entry.given("interleavedHeads")) tensor.interleaved_heads = heads->integer(1, 1 << 20);
  if (const auto tiled = entry.given("tiledHeads")) tensor.tiled_heads = tiled_heads(*tiled);
  if (const auto negated = entry.given("negatedExp")) tensor.negated_exp = negated->boolean();
  if (const auto strides = entry.given("strides")) tensor.strides = strides_of(*strides);
  if (const auto apart = entry.given("apart")) {
    apart->object();
    tensor.apart = {tensor_part(apart->at("scales")), place(apart->at("first")), place(apart->at("step"))};
  }
  if (const auto packed = entry.given("packed")) tensor.packed = packed_parts(*packed);
  entry.at("shape").each(8, [&](const Argument& a) { tensor.shape.push_back(place(a)); });
  return tensor;
}

std::shared_ptr<weights::WeightFiles> weight_files(const Argument& list, const model::ModelSpec& spec) {
  std::vector<weights::StoredTensor> tensors;
  list.each(1 << 20, [&](const Argument& entry) { tensors.push_back(stored_tensor(entry)); });
  try {
    return std::make_shared<weights::WeightFiles>(tensors, spec);
  } catch (const weights::UnusableTensor& unusable) {
    invalid(unusable.entry < 0 ? list.path() : Path(list.path(), unusable.entry), unusable.problem);
  }
}

backends::TensorReader reader_of(const weights::WeightFiles& files) {
  return {
      [&](const std::string& name, int64_t row0, int64_t rows, float* to) { files.read(name, row0, rows, to); },
      [&](const std::string& name) { return files.stored(name); },
      [&](const std::string& name, int64_t row0, int64_t rows, uint8_t* to) { files.blocks(name, row0, rows, to); }};
}

}  // namespace

napi_value load_model(const Arguments& arguments) {
  const Argument options = arguments.at(0, "options").object();
  const auto device = device_name(options.at("device"));
  const auto spec = model_spec(options.at("config"), tensor_format(options.at("dtype")));
  const int gpu_layers = layers_on_gpu(options.at("gpuLayers"), spec);
  const backends::CacheSize cache(options.at("kvPages").whole(1, 1 << 24),
                                  spec.recurrent() ? options.at("recurrentStates").whole(1, 1 << 20) : 0);
  const auto kernel_set = options.given("kernelSet");
  const auto arithmetic = kernel_set ? kernel_set->text(32) : "";
  const auto files = weight_files(options.at("tensors"), spec);
  std::vector<int32_t> gate_text;
  if (const auto text = options.given("gateText")) gate_text = token_ids(*text, spec.vocab);
  auto control = control_of(arguments.at(1, "cancellation"));
  if (!control) control = std::make_shared<CallControl>();
  auto environment = Environment::of(arguments.js.env);
  return environment->start(
      {.control = control},
      [device, gpu_layers, spec, cache, arithmetic, files, control, gate_text = std::move(gate_text),
       executor = environment->executor().get()] {
        const Path path("options");
        auto state = std::make_shared<ModelState>();
        state->device = backends::open_device(*executor, device, gpu_layers, int(spec.layers.size()));
        try {
          state->device->require(spec);
        } catch (const model::UnsupportedModel& error) {
          invalid(Path(path, "config"), error);
        }
        if (!arithmetic.empty()) {
          const auto known = state->device->arithmetics();
          if (std::none_of(known.begin(), known.end(), [&](const auto& one) { return one.name == arithmetic; }))
            invalid(Path(path, "kernelSet"), "cannot run on this device");
        }
        files->open();
        state->backend = state->device->load(spec, cache, arithmetic, reader_of(*files), [&](double done) {
          control->progress = done;
          return executor->checkpoint();
        });
        if (!state->backend) throw executor::Aborted();
        state->weight_only = state->backend->gate_activations({gate_text});
        state->difference_to_exact = inference::difference_to_exact(*state->backend, gate_text);
        state->stepper = std::make_unique<inference::Stepper>(*state->backend);
        return state;
      },
      [environment, spec, cache](Js js, std::shared_ptr<ModelState> state) {
        auto handle = std::make_shared<ModelHandle>();
        const auto bytes = state->device->memory(spec);
        handle->environment = environment;
        handle->spec = spec;
        handle->pages = cache.pages;
        handle->page_groups = state->backend->page_groups();
        handle->recurrent_states = cache.recurrent_states;
        handle->takes_guesses = cache.recurrent_states == 0 || state->backend->takes_guesses_back();
        handle->bytes = bytes.weights + cache.pages * bytes.page + cache.recurrent_states * bytes.recurrent_state;
        handle->kernel_set = state->backend->name();
        handle->weight_only = state->weight_only;
        handle->difference_to_exact = state->difference_to_exact;
        handle->state = std::move(state);
        return wrap(*environment, std::make_unique<Model>(std::move(handle)));
      });
}

napi_value given_logits_model(const Arguments& arguments) {
  const Argument options = arguments.at(0, "options").object();
  auto handle = std::make_shared<ModelHandle>();
  handle->environment = Environment::of(arguments.js.env);
  handle->given_logits = true;
  handle->spec.vocab = options.at("vocab").whole(1, 1 << 22);
  handle->spec.max_positions = options.at("maxPositions").whole(1, 1 << 24);
  handle->pages = options.at("pages").whole(1, 1 << 24);
  handle->bytes = 0;
  auto state = std::make_shared<ModelState>();
  state->backend = backends::open_sampler(*handle->environment->executor(), handle->spec, handle->pages);
  state->stepper = std::make_unique<inference::Stepper>(*state->backend);
  handle->kernel_set = state->backend->name();
  handle->state = std::move(state);
  return wrap(*handle->environment, std::make_unique<Model>(handle));
}

void define_model(Js js) {
  define_class<Model>(
      js, "Model",
      {describe<&Model::info>("info"), describe<&Model::open_slot>("openSlot"),
       describe<&Model::close_slot>("closeSlot"), describe<&Model::step>("step"),
       describe<&Model::copy_pages>("copyPages"), describe<&Model::copy_recurrent_states>("copyRecurrentStates"),
       describe<&Model::load_adapter>("loadAdapter"), describe<&Model::release_adapter>("releaseAdapter"),
       describe<&Model::adapter_bytes>("adapterBytes"), describe<&Model::train_adapter>("trainAdapter"),
       describe<&Model::train_weights>("trainWeights"), describe<&Model::keep_training_memory>("keepTrainingMemory"),
       describe<&Model::close>("close")});
}

}  // namespace anneal::addon
