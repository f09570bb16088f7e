#include "trainer.h"

#include <algorithm>
#include <cmath>

#include "named_tensors.h"

namespace anneal::addon {

// ---- handle

void TrainerHandle::require_open() const {
  model->require_open();
  if (!state) throw Failure{"closed", "the trainer was closed", ""};
}

void TrainerHandle::close() {
  if (!state) return;
  auto& executor = *model->environment->executor();
  pending.close(executor);
  for (auto& known : passes)
    if (auto pass = known.lock(); pass && pass->state) executor.retire(std::move(pass->state));
  passes.clear();
  executor.retire(std::move(state));
  place.reset();
  weights.reset();
}

// ---- rows

namespace {

// Logits divided by these stay far from the limits of float32.
constexpr float kMinTemperature = 1e-6f, kMaxTemperature = 1e6f;

TrainRows read_rows(const Argument& list, const DecoderConfig& config) {
  TrainRows result;
  const uint32_t count = list.array_length(1 << 16);
  if (count == 0) invalid(list.path(), "must not be empty");
  result.rows.reserve(count);
  for (uint32_t i = 0; i < count; ++i)
    list.element(i, [&](Argument entry) {
      entry.object();
      TrainRows::Row row;
      entry.field("tokens", [&](Argument a) {
        row.tokens = a.int32s();
        if (row.tokens.empty()) invalid(a.path(), "must not be empty");
        for (size_t t = 0; t < row.tokens.size(); ++t)
          if (row.tokens[t] < 0 || row.tokens[t] >= config.vocab)
            invalid(Path(a.path(), int64_t(t)), "is " + std::to_string(row.tokens[t]) + "; token ids are 0 to " + std::to_string(config.vocab - 1));
      });
      entry.field("trained", [&](Argument a) {
        if (a.missing()) {
          row.trained.assign(row.tokens.size(), 1);
        } else {
          row.trained = a.bytes();
          if (row.trained.size() != row.tokens.size()) invalid(a.path(), "must be as long as tokens");
        }
        row.trained.back() = 0;
      });
      entry.field("temperatures", [&](Argument a) {
        if (a.missing()) return;
        row.temperatures = a.finite_floats();
        if (row.temperatures.size() != row.tokens.size()) invalid(a.path(), "must be as long as tokens");
        for (size_t t = 0; t < row.temperatures.size(); ++t)
          if (row.temperatures[t] < kMinTemperature || row.temperatures[t] > kMaxTemperature) invalid(Path(a.path(), int64_t(t)), "must be between 1e-6 and 1e6");
      });
      entry.field("prefix", [&](Argument a) {
        if (a.missing()) return;
        row.prefix = int(a.integer(0, INT32_MAX));
        if (row.prefix >= int(i)) invalid(a.path(), "must be the index of an earlier row");
        const auto& shared = result.rows[size_t(row.prefix)];
        if (shared.prefix >= 0) invalid(a.path(), "must be a row without a prefix of its own");
        row.prefix_length = int(entry.field("prefixLength", [&](Argument length) { return length.integer(1, int64_t(shared.tokens.size())); }));
      });
      if (row.prefix_length + int64_t(row.tokens.size()) > config.max_positions)
        invalid(Path(entry.path(), "tokens"), "reach past the model's " + std::to_string(config.max_positions) + " positions");
      result.tokens += int64_t(row.tokens.size());
      result.rows.push_back(std::move(row));
    });
  if (result.tokens > int64_t(1) << 24) invalid(list.path(), "hold more than 16777216 tokens: use several passes");
  return result;
}

// What a pass computed, copied out so that it can be read after its activations have gone.
struct PassValues {
  std::vector<std::vector<float>> logprobs, entropies;
  std::vector<float> first, first_entropy;

  void take(const TrainPass& pass, const TrainRows& rows) {
    for (size_t i = 0; i < rows.rows.size(); ++i) {
      const size_t n = rows.rows[i].tokens.size();
      logprobs.emplace_back(pass.logprobs(int(i)), pass.logprobs(int(i)) + n);
      entropies.emplace_back(pass.entropies(int(i)), pass.entropies(int(i)) + n);
      first.push_back(pass.first_logprob(int(i)));
      first_entropy.push_back(pass.first_entropy(int(i)));
    }
  }

  napi_value out(Js js) const {
    const auto list = [&](const std::vector<std::vector<float>>& rows) {
      napi_value array = js.array(rows.size());
      for (size_t i = 0; i < rows.size(); ++i) js.set(array, uint32_t(i), js.floats(rows[i].data(), rows[i].size()));
      return array;
    };
    napi_value result = js.object();
    js.set(result, "logprobs", list(logprobs));
    js.set(result, "entropies", list(entropies));
    js.set(result, "first", js.floats(first.data(), first.size()));
    js.set(result, "firstEntropy", js.floats(first_entropy.data(), first_entropy.size()));
    return result;
  }
};

Trainable::Part part_of(const Argument& argument) {
  const auto name = argument.text(16);
  if (name == "value") return Trainable::Part::value;
  if (name == "gradient") return Trainable::Part::gradient;
  if (name == "moment1") return Trainable::Part::moment1;
  if (name == "moment2") return Trainable::Part::moment2;
  invalid(argument.path(), "must be \"value\", \"gradient\", \"moment1\" or \"moment2\"");
}

}  // namespace

// ---- trainer

Trainer::Trainer(Js js, std::shared_ptr<TrainerHandle> handle) : handle_(std::move(handle)), memory_(js) {
  // Value, gradient and two moments, float32.
  int64_t elements = 0;
  for (auto& tensor : handle_->tensors) elements += tensor.rows * std::max<int64_t>(1, tensor.cols);
  memory_.set(elements * 16);
}

napi_value Trainer::run(std::function<void(TrainerState&)> work, std::function<napi_value(Js)> settle) {
  return handle_->model->environment->start(
      {.pending = {&handle_->pending, &handle_->model->pending}},
      [state = handle_->state, work = std::move(work)] { work(*state); }, std::move(settle));
}

napi_value Trainer::steps(const Arguments& arguments) { return arguments.js.number(double(handle_->steps)); }

napi_value Trainer::tensors(const Arguments& arguments) { return named_tensors_out(arguments.js, handle_->tensors, nullptr); }

napi_value Trainer::start_pass(const Arguments& arguments, bool keep, const PassOptions& options, std::function<AdapterRef(TrainerState&)> adapter) {
  const Path rows_path("rows"), cancellation_path("cancellation");
  auto pass = std::make_shared<PassState>();
  pass->rows = read_rows(arguments.at(0, rows_path), handle_->model->config);
  pass->entropy_gradient = options.entropy_gradient;
  auto control = control_of(arguments.at(2, cancellation_path));
  handle_->require_open();
  pass->trainer = handle_->state;
  auto values = std::make_shared<PassValues>();
  return handle_->model->environment->start(
      {.control = std::move(control), .pending = {&handle_->pending, &handle_->model->pending}},
      [pass, keep, options, values, adapter = std::move(adapter), executor = handle_->model->environment->executor().get()] {
        const auto& rows = pass->rows.rows;
        std::vector<TrainRow> described;
        std::vector<const uint8_t*> trained;
        std::vector<uint8_t> first_trained;
        for (auto& row : rows) {
          described.push_back({row.tokens.data(), int(row.tokens.size()), row.prefix, row.prefix_length, row.temperatures.empty() ? nullptr : row.temperatures.data()});
          trained.push_back(row.trained.data());
          first_trained.push_back(row.prefix >= 0);
        }
        TrainerState& trainer = *pass->trainer;
        std::unique_ptr<TrainPass> made;
        try {
          made = trainer.model->decoder->forward(*executor, described.data(), int(rows.size()), trained.data(), first_trained.data(),
                                                 keep ? trainer.trainable.get() : nullptr, adapter(trainer), options);
        } catch (const NoRoom& error) {
          throw Failure{"insufficient_memory", std::string("a pass over these rows ") + error.what(), "memoryBudget"};
        }
        if (!made) throw Failure{"aborted", "the forward pass was aborted", ""};
        values->take(*made, pass->rows);
        if (keep) pass->pass = std::move(made);
      },
      [handle = handle_, pass, keep, values](Js js) {
        napi_value result = values->out(js);
        if (keep) {
          handle->require_open();
          auto native = std::make_unique<Pass>(handle, pass);
          js.set(result, "pass", wrap(*handle->model->environment, std::move(native)));
        }
        return result;
      });
}

napi_value Trainer::forward(const Arguments& arguments) {
  handle_->require_open();
  const Path budget_path("memoryBudget"), entropy_path("entropyGradient"), keep_path("keepBytes");
  const auto bytes = [](const Argument& a) { return a.missing() ? 0 : a.integer(0, int64_t(1) << 52); };
  const auto entropy = arguments.at(3, entropy_path);
  const PassOptions options{.keep_bytes = bytes(arguments.at(4, keep_path)),
                            .memory_budget = bytes(arguments.at(1, budget_path)),
                            .entropy_gradient = !entropy.missing() && entropy.boolean()};
  return start_pass(arguments, true, options, [](TrainerState& trainer) { return trainer.trainable->version(); });
}

napi_value Trainer::evaluate(const Arguments& arguments) {
  handle_->require_open();
  const Path adapter_path("adapter");
  const auto argument = arguments.at(1, adapter_path);
  if (argument.missing()) return start_pass(arguments, false, {}, [](TrainerState& trainer) { return trainer.trainable->version(); });
  return start_pass(arguments, false, {}, [adapter = handle_->model->adapter(argument)](TrainerState&) { return adapter; });
}

napi_value Trainer::optim_step(const Arguments& arguments) {
  const Path path("settings");
  const auto settings = optimizer_settings(arguments.at(0, path));
  handle_->require_open();
  ++handle_->generation;
  auto norm = std::make_shared<double>(0);
  auto steps = std::make_shared<int64_t>(0);
  return run(
      [norm, steps, settings](TrainerState& trainer) {
        *norm = trainer.trainable->optim_step(settings);
        *steps = trainer.trainable->steps();
      },
      [handle = handle_, norm, steps](Js js) {
        handle->steps = *steps;
        return js.number(*norm);
      });
}

napi_value Trainer::zero_grad(const Arguments&) {
  handle_->require_open();
  return run([](TrainerState& trainer) { trainer.trainable->zero_grad(); }, [](Js js) { return js.undefined(); });
}

napi_value Trainer::publish(const Arguments&) {
  handle_->require_open();
  auto version = std::make_shared<AdapterRef>();
  return run(
      [version](TrainerState& trainer) { *version = trainer.trainable->version(); },
      [handle = handle_, version](Js js) {
        handle->model->require_open();
        return js.number(*version ? handle->model->add_adapter(std::move(*version)) : 0);
      });
}

napi_value Trainer::read(const Arguments& arguments) {
  const Path path("part");
  const auto part = part_of(arguments.at(0, path));
  handle_->require_open();
  auto values = std::make_shared<TensorValues>();
  return run(
      [values, part](TrainerState& trainer) {
        const auto& tensors = trainer.trainable->tensors();
        for (size_t i = 0; i < tensors.size(); ++i) {
          auto& data = values->emplace_back(size_t(tensors[i].rows * std::max<int64_t>(1, tensors[i].cols)));
          trainer.trainable->read(int(i), part, data.data());
        }
      },
      [handle = handle_, values](Js js) { return named_tensors_out(js, handle->tensors, values.get()); });
}

napi_value Trainer::write(const Arguments& arguments) {
  const Path part_path("part"), tensors_path("tensors"), steps_path("steps");
  const auto part = part_of(arguments.at(0, part_path));
  if (part == Trainable::Part::gradient) invalid(part_path, "must be \"value\", \"moment1\" or \"moment2\"");
  auto values = std::make_shared<TensorValues>(named_tensors(arguments.at(1, tensors_path), handle_->tensors));
  if (part == Trainable::Part::moment2)
    for (size_t i = 0; i < values->size(); ++i)
      for (float value : (*values)[i])
        if (value < 0) invalid(Path(handle_->tensors[i].name.c_str()), "must not be negative: it is a mean of squares");
  const auto argument = arguments.at(2, steps_path);
  const int64_t steps = argument.missing() ? -1 : argument.integer(0, int64_t(1) << 52);
  handle_->require_open();
  if (part == Trainable::Part::value) ++handle_->generation;
  auto now = std::make_shared<int64_t>(0);
  return run(
      [values, part, steps, now](TrainerState& trainer) {
        for (size_t i = 0; i < values->size(); ++i) trainer.trainable->write(int(i), part, (*values)[i].data());
        if (part == Trainable::Part::value) trainer.trainable->refresh();
        if (steps >= 0) trainer.trainable->set_steps(steps);
        *now = trainer.trainable->steps();
      },
      [handle = handle_, now](Js js) {
        handle->steps = *now;
        return js.undefined();
      });
}

napi_value Trainer::close(const Arguments& arguments) {
  handle_->close();
  memory_.set(0);
  return arguments.js.undefined();
}

// ---- pass

Pass::Pass(std::shared_ptr<TrainerHandle> trainer, std::shared_ptr<PassState> state)
    : trainer_(std::move(trainer)), generation_(trainer_->generation) {
  for (auto& row : state->rows.rows) lengths_.push_back(row.tokens.size());
  holder_->state = std::move(state);
  std::erase_if(trainer_->passes, [](const auto& known) { return known.expired(); });
  trainer_->passes.push_back(holder_);
}

Pass::~Pass() {
  if (holder_->state) trainer_->model->environment->executor()->retire(std::move(holder_->state));
}

napi_value Pass::backward(const Arguments& arguments) {
  const Path path("dLogprobs"), first_path("dFirst"), entropies_path("dEntropies");
  struct Weights {
    std::vector<std::vector<float>> rows, entropies;
    std::vector<float> first;
  };
  auto weights = std::make_shared<Weights>();
  const auto read = [&](const Argument& list, std::vector<std::vector<float>>& to) {
    if (list.array_length(1 << 16) != lengths_.size()) invalid(list.path(), "must have one array for each row");
    for (size_t i = 0; i < lengths_.size(); ++i)
      list.element(uint32_t(i), [&](Argument a) {
        to.push_back(a.finite_floats());
        if (to[i].size() != lengths_[i]) invalid(a.path(), "must be as long as the row's logprobs");
      });
  };
  read(arguments.at(0, path), weights->rows);
  const auto entropies = arguments.at(2, entropies_path);
  if (!entropies.missing()) read(entropies, weights->entropies);
  const auto first = arguments.at(1, first_path);
  if (first.missing()) {
    weights->first.assign(lengths_.size(), 0);
  } else {
    weights->first = first.finite_floats();
    if (weights->first.size() != lengths_.size()) invalid(first_path, "must have one entry for each row");
  }
  trainer_->require_open();
  if (!holder_->state) throw Failure{"closed", "the pass was closed, or its backward has been called", ""};
  if (generation_ != trainer_->generation) throw Failure{"conflict", "the weights have changed since this pass: make a new one", ""};
  // What was not asked for has no activations; the last entry of a row predicts nothing.
  const auto require_trained = [&](const std::vector<std::vector<float>>& rows, const Path& path) {
    for (size_t i = 0; i < rows.size(); ++i)
      for (size_t t = 0; t < lengths_[i]; ++t)
        if (rows[i][t] != 0 && !holder_->state->rows.rows[i].trained[t]) invalid(Path(Path(path, int64_t(i)), int64_t(t)), "must be 0: this entry is not trained");
  };
  require_trained(weights->rows, path);
  require_trained(weights->entropies, entropies_path);
  if (!weights->entropies.empty() && !holder_->state->entropy_gradient) invalid(entropies_path, "needs a pass made with entropyGradient");
  auto state = std::move(holder_->state);
  return trainer_->model->environment->start(
      {.pending = {&trainer_->pending, &trainer_->model->pending}},
      [state, weights] {
        std::vector<const float*> rows, entropies;
        for (auto& row : weights->rows) rows.push_back(row.data());
        for (auto& row : weights->entropies) entropies.push_back(row.data());
        const bool complete = state->pass->backward(rows.data(), weights->first.data(), entropies.empty() ? nullptr : entropies.data());
        state->pass.reset();
        if (!complete) throw Failure{"aborted", "the backward pass was aborted", ""};
      },
      [](Js js) { return js.undefined(); });
}

napi_value Pass::close(const Arguments& arguments) {
  if (holder_->state) trainer_->model->environment->executor()->retire(std::move(holder_->state));
  return arguments.js.undefined();
}

void define_trainer(Js js) {
  define_class<Trainer>(js, "Trainer",
                        {describe<Trainer, &Trainer::steps>("steps"), describe<Trainer, &Trainer::tensors>("tensors"), describe<Trainer, &Trainer::forward>("forward"),
                         describe<Trainer, &Trainer::evaluate>("evaluate"), describe<Trainer, &Trainer::optim_step>("optimStep"),
                         describe<Trainer, &Trainer::zero_grad>("zeroGrad"), describe<Trainer, &Trainer::publish>("publish"), describe<Trainer, &Trainer::read>("read"),
                         describe<Trainer, &Trainer::write>("write"), describe<Trainer, &Trainer::close>("close")});
  define_class<Pass>(js, "Pass", {describe<Pass, &Pass::backward>("backward"), describe<Pass, &Pass::close>("close")});
}

}  // namespace anneal::addon
