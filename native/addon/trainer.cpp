#include "trainer.h"

#include <algorithm>
#include <cmath>

#include "model_options.h"
#include "named_tensors.h"

namespace anneal::addon {

using backends::Trainable;

// ---- rows

namespace {

training::Row read_row(const Argument& entry) {
  entry.object();
  training::Row row;
  row.tokens = entry.at("tokens").int32s();
  const auto require_length = [&](const Argument& list, size_t length) {
    if (length != row.tokens.size()) invalid(list.path(), "must be as long as tokens");
  };
  if (const auto trained = entry.given("trained")) {
    row.trained = trained->bytes();
    require_length(*trained, row.trained.size());
  }
  if (const auto temperatures = entry.given("temperatures")) {
    row.temperatures = temperatures->finite_floats();
    require_length(*temperatures, row.temperatures.size());
  }
  if (const auto prefix = entry.given("prefix")) {
    row.prefix = prefix->whole(0, INT32_MAX);
    row.prefix_length = entry.at("prefixLength").whole(1, INT32_MAX);
  }
  return row;
}

std::vector<training::Row> read_rows(const Argument& list, const model::ModelSpec& spec) {
  std::vector<training::Row> rows;
  list.each(1 << 16, [&](const Argument& entry) { rows.push_back(read_row(entry)); });
  if (rows.empty()) invalid(list.path(), "must not be empty");
  try {
    training::check(rows, spec);
  } catch (const model::InvalidInput& input) {
    invalid(list.path(), input);
  }
  return rows;
}

napi_value values_out(Js js, const training::RowValues& values) {
  const auto list = [&](const std::vector<std::vector<float>>& rows) {
    return js.array(rows, [&](const std::vector<float>& row) { return js.floats(row); });
  };
  return js.object({{"logprobs", list(values.logprobs)}, {"entropies", list(values.entropies)}});
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

Trainer::Trainer(std::shared_ptr<TrainerHandle> handle) : handle_(std::move(handle)) {}

template <class Work, class Settle>
napi_value Trainer::start(Work work, Settle settle, std::shared_ptr<CallControl> control) {
  return handle_->model->environment->start(
      {.control = std::move(control), .pending = {&handle_->pending, &handle_->model->pending}},
      [state = handle_->state, work = std::move(work)] { return work(*state->trainer); }, std::move(settle));
}

napi_value Trainer::steps(const Arguments& arguments) { return arguments.js.number(double(handle_->steps)); }

napi_value Trainer::tensors(const Arguments& arguments) { return named_tensors_out(arguments.js, handle_->tensors); }

napi_value Trainer::forward(const Arguments& arguments) {
  handle_->require_open();
  const Argument entropy = arguments.at(3, "entropyGradient");
  const backends::PassOptions options{.keep_bytes = bytes(arguments.at(4, "keepBytes")),
                                      .memory_budget = bytes(arguments.at(1, "memoryBudget")),
                                      .entropy_gradient = !entropy.missing() && entropy.boolean()};
  auto rows = read_rows(arguments.at(0, "rows"), handle_->model->spec);
  auto control = control_of(arguments.at(2, "cancellation"));
  handle_->require_open();
  auto pass = std::make_shared<PassState>(
      PassState{handle_->state, training::Pass(std::move(rows), options, handle_->changes)});
  return start([pass](training::Trainer& trainer) { return trainer.forward(pass->pass); },
               [handle = handle_, pass](Js js, const training::RowValues& values) {
                 napi_value result = values_out(js, values);
                 handle->require_open();
                 js.set(result, "pass", wrap(*handle->model->environment, std::make_unique<Pass>(handle, pass)));
                 return result;
               },
               std::move(control));
}

napi_value Trainer::evaluate(const Arguments& arguments) {
  handle_->require_open();
  const backends::PassOptions options{.memory_budget = bytes(arguments.at(3, "memoryBudget"))};
  const Argument version = arguments.at(1, "adapter");
  const bool own = version.missing();
  auto adapter = own ? nullptr : handle_->model->adapter(version);
  auto rows = read_rows(arguments.at(0, "rows"), handle_->model->spec);
  auto control = control_of(arguments.at(2, "cancellation"));
  handle_->require_open();
  return start(
      [rows = std::move(rows), own, adapter = std::move(adapter), options](training::Trainer& trainer) {
        return trainer.evaluate(rows, own ? trainer.trainable().version() : adapter, options);
      },
      [](Js js, const training::RowValues& values) { return values_out(js, values); }, std::move(control));
}

napi_value Trainer::memory(const Arguments& arguments) {
  handle_->require_open();
  const auto passes = [&](int index, const char* name) {
    std::vector<std::vector<training::Row>> list;
    arguments.at(index, name).each(1 << 16, [&](const Argument& rows) {
      list.push_back(read_rows(rows, handle_->model->spec));
    });
    return list;
  };
  const Argument entropy = arguments.at(3, "entropyGradient");
  const backends::PassOptions options{.memory_budget = bytes(arguments.at(2, "memoryBudget")),
                                      .entropy_gradient = !entropy.missing() && entropy.boolean()};
  auto trained = passes(0, "trained"), evaluated = passes(1, "evaluated");
  handle_->require_open();
  return start(
      [trained = std::move(trained), evaluated = std::move(evaluated), options](training::Trainer& trainer) {
        return trainer.memory(trained, evaluated, options);
      },
      [](Js js, const training::Trainer::Memory& memory) {
        return js.object({{"passes", js.number(double(memory.passes))}, {"state", js.number(double(memory.state))}});
      });
}

napi_value Trainer::optim_step(const Arguments& arguments) {
  const auto settings = optimizer_settings(arguments.at(0, "settings"));
  handle_->require_open();
  ++*handle_->changes;
  return start(
      [settings](training::Trainer& trainer) {
        const double norm = trainer.trainable().optim_step(settings);
        return std::pair(norm, trainer.trainable().steps());
      },
      [handle = handle_](Js js, const std::pair<double, int64_t>& norm_and_steps) {
        handle->steps = norm_and_steps.second;
        return js.number(norm_and_steps.first);
      });
}

napi_value Trainer::zero_grad(const Arguments&) {
  handle_->require_open();
  return start([](training::Trainer& trainer) { trainer.trainable().zero_grad(); },
               [](Js js) { return js.undefined(); });
}

napi_value Trainer::publish(const Arguments&) {
  handle_->require_open();
  return start([](training::Trainer& trainer) { return trainer.trainable().version(); },
               [handle = handle_](Js js, AdapterRef version) {
                 handle->model->require_open();
                 return js.number(version ? handle->model->adapters.add(std::move(version)) : 0);
               });
}

napi_value Trainer::read(const Arguments& arguments) {
  const auto part = part_of(arguments.at(0, "part"));
  const Argument name = arguments.at(1, "tensor");
  const auto& all = handle_->tensors;
  size_t first = 0, count = all.size();
  if (!name.missing()) {
    const std::string wanted = name.text(512);
    while (first < count && all[first].name != wanted) first++;
    if (first == count) invalid(name.path(), "is not the name of a tensor that is trained");
    count = 1;
  }
  handle_->require_open();
  return start([part, first, count](training::Trainer& trainer) { return trainer.read(part, first, count); },
               [handle = handle_, first, count](Js js, TensorValues values) {
                 const auto from = handle->tensors.begin() + int64_t(first);
                 return named_tensors_out(js, {from, from + int64_t(count)}, std::move(values));
               });
}

// In memory that stays from copy to copy: an adapter has a hundred megabytes.
napi_value Trainer::hold(const Arguments&) {
  handle_->require_open();
  auto room = std::exchange(handle_->held, nullptr);
  if (!room) room = std::make_shared<training::HeldState>();
  return start([room](training::Trainer& trainer) { trainer.hold(*room); },
               [handle = handle_, room](Js js) {
                 handle->held = room;
                 return js.undefined();
               });
}

// On JavaScript's thread: whoever reads a copy does not wait for the passes of this trainer and others.
napi_value Trainer::held(const Arguments& arguments) {
  const Argument part_name = arguments.at(0, "part");
  const auto part = part_of(part_name);
  handle_->require_open();
  if (!handle_->held || !handle_->held->contains(part)) invalid(part_name.path(), "is not held");
  const std::vector<float>& values = handle_->held->at(part);
  const auto from = arguments.at(1, "from").integer(0, int64_t(values.size()));
  const Argument to_argument = arguments.at(2, "to");
  const auto to = to_argument.numbers();
  if (to.size() > values.size() - size_t(from))
    invalid(to_argument.path(),
            "is longer than what is held from there on: " + std::to_string(values.size() - size_t(from)));
  std::copy_n(values.begin() + from, to.size(), to.begin());
  return arguments.js.undefined();
}

napi_value Trainer::rest(const Arguments&) {
  handle_->require_open();
  return start([](training::Trainer& trainer) { trainer.trainable().rest(); }, [](Js js) { return js.undefined(); });
}

napi_value Trainer::write(const Arguments& arguments) {
  const Argument part_name = arguments.at(0, "part"), steps_given = arguments.at(2, "steps");
  const auto part = part_of(part_name);
  if (part == Trainable::Part::gradient) invalid(part_name.path(), "must be \"value\", \"moment1\" or \"moment2\"");
  auto values = named_tensors(arguments.at(1, "tensors"), handle_->tensors);
  if (part == Trainable::Part::moment2)
    for (size_t i = 0; i < values.size(); ++i)
      for (float value : values[i])
        if (value < 0) invalid(handle_->tensors[i].name.c_str(), "must not be negative: it is a mean of squares");
  const int64_t steps = steps_given.missing() ? -1 : steps_given.integer(0, int64_t(1) << 52);
  handle_->require_open();
  if (part == Trainable::Part::value) ++*handle_->changes;
  return start(
      [values = std::move(values), part, steps](training::Trainer& trainer) {
        trainer.write(part, values, steps);
        return trainer.trainable().steps();
      },
      [handle = handle_](Js js, int64_t steps) {
        handle->steps = steps;
        return js.undefined();
      });
}

napi_value Trainer::close(const Arguments& arguments) {
  handle_->close();
  return arguments.js.undefined();
}

// What was closed goes before the next task begins.
napi_value Trainer::closed(const Arguments&) {
  return handle_->model->environment->start({}, [] {});
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
  training::RowGradients gradients;
  const auto read = [](const Argument& list, std::vector<std::vector<float>>& to) {
    list.each(1 << 16, [&](const Argument& row) { to.push_back(row.finite_floats()); });
  };
  read(arguments.at(0, "dLogprobs"), gradients.logprobs);
  if (const Argument entropies = arguments.at(1, "dEntropies"); !entropies.missing()) {
    read(entropies, gradients.entropies);
    if (gradients.entropies.empty()) invalid(entropies.path(), "must have one array for each row");
  }
  trainer_->require_open();
  if (!holder_->state) throw Failure{"closed", "the pass was closed, or its backward has been called", ""};
  try {
    holder_->state->pass.check(gradients);
  } catch (const training::InvalidGradient& input) {
    const Path field(input.field), row(field, input.row);
    invalid(input.row < 0 ? field : input.entry < 0 ? row : Path(row, input.entry), input.problem);
  }
  return trainer_->model->environment->start(
      {.pending = {&trainer_->pending, &trainer_->model->pending}},
      [state = std::move(holder_->state), gradients = std::move(gradients)] { state->pass.backward(gradients); });
}

napi_value Pass::close(const Arguments& arguments) {
  if (holder_->state) trainer_->model->environment->executor()->retire(std::move(holder_->state));
  return arguments.js.undefined();
}

void define_trainer(Js js) {
  define_class<Trainer>(
      js, "Trainer",
      {describe<&Trainer::steps>("steps"), describe<&Trainer::tensors>("tensors"),
       describe<&Trainer::forward>("forward"), describe<&Trainer::evaluate>("evaluate"),
       describe<&Trainer::memory>("memory"), describe<&Trainer::optim_step>("optimStep"),
       describe<&Trainer::zero_grad>("zeroGrad"), describe<&Trainer::publish>("publish"),
       describe<&Trainer::read>("read"), describe<&Trainer::hold>("hold"), describe<&Trainer::held>("held"),
       describe<&Trainer::rest>("rest"), describe<&Trainer::write>("write"), describe<&Trainer::close>("close"),
       describe<&Trainer::closed>("closed")});
  define_class<Pass>(js, "Pass", {describe<&Pass::backward>("backward"), describe<&Pass::close>("close")});
}

}  // namespace anneal::addon
