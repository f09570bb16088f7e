#include "trainer.h"

#include <algorithm>
#include <cmath>

#include "model_options.h"
#include "named_tensors.h"

namespace anneal::addon {

using backends::Trainable;

// ---- rows

namespace {

std::vector<training::Row> read_rows(const Argument& list, const model::ModelSpec& spec) {
  std::vector<training::Row> rows;
  const uint32_t count = list.array_length(1 << 16);
  if (count == 0) invalid(list.path(), "must not be empty");
  for (uint32_t i = 0; i < count; ++i)
    list.element(i, [&](Argument entry) {
      entry.object();
      training::Row& row = rows.emplace_back();
      entry.field("tokens", [&](Argument a) { row.tokens = a.int32s(); });
      entry.field("trained", [&](Argument a) {
        if (a.missing()) return;
        row.trained = a.bytes();
        if (row.trained.size() != row.tokens.size()) invalid(a.path(), "must be as long as tokens");
      });
      entry.field("temperatures", [&](Argument a) {
        if (a.missing()) return;
        row.temperatures = a.finite_floats();
        if (row.temperatures.size() != row.tokens.size()) invalid(a.path(), "must be as long as tokens");
      });
      entry.field("prefix", [&](Argument a) {
        if (a.missing()) return;
        row.prefix = int(a.integer(0, INT32_MAX));
        row.prefix_length =
            int(entry.field("prefixLength", [](Argument length) { return length.integer(1, INT32_MAX); }));
      });
    });
  try {
    training::check(rows, spec);
  } catch (const model::InvalidInput& input) {
    invalid(list.path(), input);
  }
  return rows;
}

napi_value values_out(Js js, const training::RowValues& values) {
  const auto list = [&](const std::vector<std::vector<float>>& rows) {
    napi_value array = js.array(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) js.set(array, uint32_t(i), js.floats(rows[i].data(), rows[i].size()));
    return array;
  };
  napi_value result = js.object();
  js.set(result, "logprobs", list(values.logprobs));
  js.set(result, "entropies", list(values.entropies));
  return result;
}

// What a pass that does not fit is told to its caller.
Failure no_room(const backends::NoRoom& error) {
  return {"insufficient_memory", "a pass over these rows, of at least " + std::to_string(error.needed) + " bytes",
          "memoryBudget", error.needed, error.available};
}

// 0: no limit.
int64_t bytes(const Argument& a) { return a.missing() ? 0 : a.integer(0, int64_t(1) << 52); }

Trainable::Part part_of(const Argument& argument) {
  using Part = Trainable::Part;
  return one_of<Part>(
      argument,
      {{"value", Part::value}, {"gradient", Part::gradient}, {"moment1", Part::moment1}, {"moment2", Part::moment2}});
}

}  // namespace

// ---- trainer

Trainer::Trainer(Js js, std::shared_ptr<TrainerHandle> handle) : handle_(std::move(handle)), memory_(js) {
  // Value, gradient and two moments, float32.
  int64_t elements = 0;
  for (auto& tensor : handle_->tensors) elements += tensor.elements();
  memory_.set(elements * 16);
}

napi_value Trainer::run(std::function<void(TrainerState&)> work, std::function<napi_value(Js)> settle) {
  return handle_->model->environment->start(
      {.pending = {&handle_->pending, &handle_->model->pending}},
      [state = handle_->state, work = std::move(work)] { work(*state); }, std::move(settle));
}

napi_value Trainer::steps(const Arguments& arguments) { return arguments.js.number(double(handle_->steps)); }

napi_value Trainer::tensors(const Arguments& arguments) {
  return named_tensors_out(arguments.js, handle_->tensors, nullptr);
}

napi_value Trainer::forward(const Arguments& arguments) {
  handle_->require_open();
  const Path rows_path("rows"), budget_path("memoryBudget"), cancellation_path("cancellation"),
      entropy_path("entropyGradient"), keep_path("keepBytes");
  const auto entropy = arguments.at(3, entropy_path);
  const backends::PassOptions options{.keep_bytes = bytes(arguments.at(4, keep_path)),
                                      .memory_budget = bytes(arguments.at(1, budget_path)),
                                      .entropy_gradient = !entropy.missing() && entropy.boolean()};
  auto rows = read_rows(arguments.at(0, rows_path), handle_->model->spec);
  auto control = control_of(arguments.at(2, cancellation_path));
  handle_->require_open();
  auto pass = std::make_shared<PassState>(
      PassState{handle_->state, training::Pass(std::move(rows), options, handle_->changes)});
  auto values = std::make_shared<training::RowValues>();
  return handle_->model->environment->start(
      {.control = std::move(control), .pending = {&handle_->pending, &handle_->model->pending}},
      [pass, values] {
        try {
          *values = pass->trainer->trainer->forward(pass->pass);
        } catch (const backends::NoRoom& error) {
          throw no_room(error);
        }
      },
      [handle = handle_, pass, values](Js js) {
        napi_value result = values_out(js, *values);
        handle->require_open();
        js.set(result, "pass", wrap(*handle->model->environment, std::make_unique<Pass>(handle, pass)));
        return result;
      });
}

napi_value Trainer::evaluate(const Arguments& arguments) {
  handle_->require_open();
  const Path rows_path("rows"), adapter_path("adapter"), cancellation_path("cancellation"), budget_path("memoryBudget");
  const backends::PassOptions options{.memory_budget = bytes(arguments.at(3, budget_path))};
  const auto version = arguments.at(1, adapter_path);
  const bool own = version.missing();
  auto adapter = own ? nullptr : handle_->model->adapter(version);
  auto rows = read_rows(arguments.at(0, rows_path), handle_->model->spec);
  auto control = control_of(arguments.at(2, cancellation_path));
  handle_->require_open();
  auto values = std::make_shared<training::RowValues>();
  return handle_->model->environment->start(
      {.control = std::move(control), .pending = {&handle_->pending, &handle_->model->pending}},
      [state = handle_->state, rows = std::move(rows), own, adapter = std::move(adapter), options, values] {
        try {
          *values = state->trainer->evaluate(rows, own ? state->trainer->trainable().version() : adapter, options);
        } catch (const backends::NoRoom& error) {
          throw no_room(error);
        }
      },
      [values](Js js) { return values_out(js, *values); });
}

napi_value Trainer::optim_step(const Arguments& arguments) {
  const Path path("settings");
  const auto settings = optimizer_settings(arguments.at(0, path));
  handle_->require_open();
  ++*handle_->changes;
  auto norm = std::make_shared<double>(0);
  auto steps = std::make_shared<int64_t>(0);
  return run(
      [norm, steps, settings](TrainerState& trainer) {
        *norm = trainer.trainer->trainable().optim_step(settings);
        *steps = trainer.trainer->trainable().steps();
      },
      [handle = handle_, norm, steps](Js js) {
        handle->steps = *steps;
        return js.number(*norm);
      });
}

napi_value Trainer::zero_grad(const Arguments&) {
  handle_->require_open();
  return run([](TrainerState& trainer) { trainer.trainer->trainable().zero_grad(); },
             [](Js js) { return js.undefined(); });
}

napi_value Trainer::publish(const Arguments&) {
  handle_->require_open();
  auto version = std::make_shared<AdapterRef>();
  return run([version](TrainerState& trainer) { *version = trainer.trainer->trainable().version(); },
             [handle = handle_, version](Js js) {
               handle->model->require_open();
               return js.number(*version ? handle->model->adapters.add(std::move(*version)) : 0);
             });
}

napi_value Trainer::read(const Arguments& arguments) {
  const Path path("part");
  const auto part = part_of(arguments.at(0, path));
  handle_->require_open();
  auto values = std::make_shared<TensorValues>();
  return run([values, part](TrainerState& trainer) { *values = trainer.trainer->read(part); },
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
  if (part == Trainable::Part::value) ++*handle_->changes;
  auto now = std::make_shared<int64_t>(0);
  return run(
      [values, part, steps, now](TrainerState& trainer) {
        trainer.trainer->write(part, *values, steps);
        *now = trainer.trainer->trainable().steps();
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

Pass::Pass(std::shared_ptr<TrainerHandle> trainer, std::shared_ptr<PassState> state) : trainer_(std::move(trainer)) {
  holder_->state = std::move(state);
  std::erase_if(trainer_->passes, [](const auto& known) { return known.expired(); });
  trainer_->passes.push_back(holder_);
}

Pass::~Pass() {
  if (holder_->state) trainer_->model->environment->executor()->retire(std::move(holder_->state));
}

napi_value Pass::backward(const Arguments& arguments) {
  const Path logprobs_path("dLogprobs"), entropies_path("dEntropies");
  auto gradients = std::make_shared<training::RowGradients>();
  const auto read = [&](const Argument& list, std::vector<std::vector<float>>& to) {
    for (uint32_t i = 0, rows = list.array_length(1 << 16); i < rows; ++i)
      list.element(i, [&](Argument a) { to.push_back(a.finite_floats()); });
  };
  read(arguments.at(0, logprobs_path), gradients->logprobs);
  const auto entropies = arguments.at(1, entropies_path);
  if (!entropies.missing()) {
    read(entropies, gradients->entropies);
    if (gradients->entropies.empty()) invalid(entropies_path, "must have one array for each row");
  }
  trainer_->require_open();
  if (!holder_->state) throw Failure{"closed", "the pass was closed, or its backward has been called", ""};
  try {
    holder_->state->pass.check(*gradients);
  } catch (const training::InvalidGradient& input) {
    const Path field(input.field), row(field, input.row);
    invalid(input.row < 0 ? field : input.entry < 0 ? row : Path(row, input.entry), input.problem);
  }
  auto state = std::move(holder_->state);
  return trainer_->model->environment->start(
      {.pending = {&trainer_->pending, &trainer_->model->pending}},
      [state, gradients] {
        try {
          state->pass.backward(*gradients);
        } catch (const backends::NoRoom& error) {
          throw no_room(error);
        }
      },
      [](Js js) { return js.undefined(); });
}

napi_value Pass::close(const Arguments& arguments) {
  if (holder_->state) trainer_->model->environment->executor()->retire(std::move(holder_->state));
  return arguments.js.undefined();
}

void define_trainer(Js js) {
  define_class<Trainer>(
      js, "Trainer",
      {describe<Trainer, &Trainer::steps>("steps"), describe<Trainer, &Trainer::tensors>("tensors"),
       describe<Trainer, &Trainer::forward>("forward"), describe<Trainer, &Trainer::evaluate>("evaluate"),
       describe<Trainer, &Trainer::optim_step>("optimStep"), describe<Trainer, &Trainer::zero_grad>("zeroGrad"),
       describe<Trainer, &Trainer::publish>("publish"), describe<Trainer, &Trainer::read>("read"),
       describe<Trainer, &Trainer::write>("write"), describe<Trainer, &Trainer::close>("close")});
  define_class<Pass>(js, "Pass", {describe<Pass, &Pass::backward>("backward"), describe<Pass, &Pass::close>("close")});
}

}  // namespace anneal::addon
