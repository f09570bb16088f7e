// Rows, passes and the policy's loss, over a small random model on the processor. Linked and run by
// test/native/programs.test.ts.
#include "../backends/cpu/decoder_fixture.h"
#include "../model/invalid_input.h"
#include "open_trainers.h"
#include "policy_loss.h"
#include "trainer.h"

using namespace anneal::training;
using anneal::model::InvalidInput;

namespace {

ModelSpec small_model() {
  ModelSpec m;
  m.hidden = 24, m.vocab = 50, m.max_positions = 200, m.tied_head = true;
  LayerSpec l;
  l.attention.heads = 2, l.attention.kv_heads = 1, l.attention.head_dim = 8;
  l.feed_forward.intermediate = 33;
  m.layers.assign(2, l);
  // Its second layer sees no positions.
  m.layers[1].attention.rope.type = RopeType::none;
  m.layers[1].attention.scale = 0.25;
  return m;
}

Arrays random_weights(const ModelSpec& m) {
  Arrays weights;
  uint64_t seed = 1;
  for (const TensorShape& t : weight_tensors(m)) {
    Array& a = weights[t.name];
    a.shape = t.cols ? std::vector<int64_t>{t.rows, t.cols} : std::vector<int64_t>{t.rows};
    for (int64_t i = 0; i < t.elements(); i++) {
      seed = seed * 6364136223846793005ull + 1442695040888963407ull;
      a.values.push_back(t.cols ? (float(seed >> 40) / float(1 << 24) - 0.5f) * 0.6f : 1.0f);
    }
  }
  return weights;
}

std::string refused(std::vector<Row> rows) {
  try {
    check(rows, small_model());
  } catch (const InvalidInput& input) {
    return std::to_string(input.entry) + "." + input.field +
           (input.element < 0 ? "" : "." + std::to_string(input.element));
  }
  return "";
}

void checks_rows() {
  const std::vector<int32_t> some = {1, 2, 3};
  expect(refused({{.tokens = {}}}) == "0.tokens", "a row without tokens");
  expect(refused({{.tokens = {1, 50}}}) == "0.tokens.1", "a token beyond the vocabulary");
  expect(refused({{.tokens = some, .trained = {1}}}) == "0.trained", "too few marks");
  expect(refused({{.tokens = some, .temperatures = {1, 0, 1}}}) == "0.temperatures.1", "a temperature of zero");
  expect(refused({{.tokens = some, .prefix = 0, .prefix_length = 1}}) == "0.prefix", "a row that continues itself");
  expect(refused({{.tokens = some}, {.tokens = some, .prefix = 0, .prefix_length = 4}}) == "1.prefixLength",
         "a prefix longer than its row");
  expect(refused({{.tokens = std::vector<int32_t>(201, 1)}}) == "0.tokens", "a row past the model's positions");
  std::vector<Row> good = {{.tokens = some}, {.tokens = some, .prefix = 0, .prefix_length = 2}};
  check(good, small_model());
  expect(good[0].trained == std::vector<uint8_t>{1, 1, 0}, "every token but the last predicts one");
}

// One number that a gradient is checked with: the sum of all logprobs, by a step along it.
void descends(Loaded& m, TestPool& pool) {
  LoraSpec lora{4, 8};
  for (bool& target : lora.targets) target = true;
  Trainer trainer(*m.backend, m.backend->train_adapter(lora, 3, nullptr));
  std::vector<Row> rows = {{.tokens = {1, 2, 3, 4, 5, 6}}, {.tokens = {9, 8}, .prefix = 0, .prefix_length = 3}};
  check(rows, m.spec);
  double before = 0, after = 0;
  for (int step = 0; step < 20; step++) {
    Pass pass(rows, {});
    const RowValues values = trainer.forward(pass);
    const RowValues evaluated = trainer.evaluate(rows, trainer.trainable().version());
    expect(values.logprobs == evaluated.logprobs && values.entropies == evaluated.entropies,
           "evaluation has the forward pass's numbers");
    double sum = 0;
    RowGradients gradients;
    for (size_t r = 0; r < rows.size(); r++) {
      gradients.logprobs.emplace_back(rows[r].tokens.size(), 0.0f);
      for (size_t t = 0; t < rows[r].tokens.size(); t++)
        if (rows[r].trained[t]) sum -= values.logprobs[r][t], gradients.logprobs[r][t] = -1;
    }
    (step == 0 ? before : after) = sum;
    pass.check(gradients);
    pass.backward(gradients);
    trainer.trainable().optim_step({.learning_rate = 1e-2f, .max_grad_norm = 0});
  }
  expect(after < 0.7 * before, "the loss falls from " + std::to_string(before) + " to " + std::to_string(after));

  Pass pass(rows, {});
  trainer.forward(pass);
  const auto asks = [&](RowGradients g) -> std::string {
    try {
      pass.check(g);
    } catch (const InvalidGradient& input) {
      return input.field + std::to_string(input.row) + "." + std::to_string(input.entry);
    }
    return "";
  };
  expect(asks({.logprobs = {std::vector<float>(5), std::vector<float>(2)}}) == "dLogprobs0.-1",
         "a gradient that is too short");
  expect(asks({.logprobs = {std::vector<float>(6), {0, 1}}}) == "dLogprobs1.1", "a gradient of what is not trained");
  expect(asks({.logprobs = {std::vector<float>(6)}}) == "dLogprobs-1.-1", "gradients of fewer rows");
  const std::vector<std::vector<float>> zeros = {std::vector<float>(6), std::vector<float>(2)};
  expect(asks({.logprobs = zeros, .entropies = zeros}) == "dEntropies-1.-1", "gradients by entropies not asked for");
  expect(asks({.logprobs = zeros}).empty(), "gradients that a pass can take");

  const WeightChanges changes = std::make_shared<int64_t>(5);
  Pass before_change(rows, {}, changes);
  ++*changes;
  Pass after_change(rows, {}, changes);
  bool stale = false;
  try {
    before_change.check({.logprobs = zeros});
  } catch (const anneal::model::Conflict&) {
    stale = true;
  }
  expect(stale, "a pass over weights that have changed since is refused");
  after_change.check({.logprobs = zeros});

  Pass tight(rows, {.memory_budget = 1});
  bool refused = false;
  try {
    trainer.forward(tight);
  } catch (const NoRoom& error) {
    refused = error.needed > 1;
  }
  expect(refused, "a pass without room is refused");
  pool.abort_after = pool.runs + 1;
  bool aborted = false;
  try {
    Pass ended(rows, {});
    trainer.forward(ended);
  } catch (const Aborted&) {
    aborted = true;
  }
  pool.abort_after = 0;
  expect(aborted, "an aborted pass says so");
}

// What passes are said to take before they do is what they have when they are over: the most of each, one after the
// other, also where memory is short.
void plans_memory(const Arrays& weights, Pool& pool) {
  const auto rows_of = [](int count, int length) {
    std::vector<std::vector<int32_t>> tokens;
    for (int r = 0; r < count; r++) {
      tokens.emplace_back();
      for (int t = 0; t < length; t++) tokens.back().push_back((r * 7 + t) % 50);
    }
    return tokens;
  };
  // Many pages, many tokens, and few of either.
  const std::vector<std::vector<std::vector<int32_t>>> tokens = {rows_of(40, 3), rows_of(2, 190), rows_of(1, 5)};
  std::vector<std::vector<anneal::backends::TrainRow>> passes;
  for (const auto& rows : tokens) {
    passes.emplace_back();
    for (const auto& row : rows) passes.back().push_back({.tokens = row, .trained = {}});
  }
  LoraSpec lora{20, 4};
  lora.targets[kQ] = lora.targets[kDown] = true;
  // On a model whose memory of passes begins empty.
  const auto compare = [&](const PassOptions& options) {
    Loaded m(small_model(), weights, best_isa(), pool);
    const auto trainable = m.backend->train_adapter(lora, 3, nullptr);
    const int64_t planned = m.backend->pass_bytes(passes, passes, trainable.get(), options);
    int64_t most = 0;
    for (const auto& rows : passes) {
      const auto pass = m.backend->forward(rows, trainable.get(), nullptr, options);
      std::vector<std::vector<float>> ones;
      for (const auto& row : rows) {
        ones.emplace_back(row.tokens.size(), 1.0f);
        ones.back().back() = 0;
      }
      const std::vector<std::span<const float>> slopes(ones.begin(), ones.end());
      pass->backward(slopes, options.entropy_gradient ? slopes : std::vector<std::span<const float>>());
      most = std::max(most, pass->bytes());
    }
    for (const auto& rows : passes)
      most = std::max(most, m.backend->forward(rows, nullptr, trainable->version(), options)->bytes());
    expect(planned == most, "planned " + std::to_string(planned) + " bytes, taken " + std::to_string(most) +
                                " within " + std::to_string(options.memory_budget));
    expect(trainable->bytes() > 0, "what is trained is counted");
    return planned;
  };
  const int64_t all = compare({});
  expect(compare({.entropy_gradient = true}) > all, "gradients by entropies take more");
  expect(compare({.keep_bytes = 1}) < all, "layers that are computed again take less");
  compare({.memory_budget = all - 1});
  int64_t least = 0;
  try {
    compare({.memory_budget = 1});
  } catch (const NoRoom& error) {
    least = error.needed;
  }
  expect(least > 1, "passes without room are refused before they take any");
}

// The gradient of all weights, against differences of the loss.
void differentiates(const Arrays& weights, Pool& pool) {
  const ModelSpec spec = small_model();
  std::vector<Row> rows = {{.tokens = {1, 2, 3, 4, 5, 6, 7, 8}}};
  check(rows, spec);
  const auto loss = [&](const Arrays& w) {
    Loaded m(spec, w, best_isa(), pool);
    Trainer trainer(*m.backend, m.backend->train_weights());
    double sum = 0;
    const RowValues values = trainer.evaluate(rows, nullptr);
    for (float x : values.logprobs[0]) sum -= x;
    return sum;
  };
  Loaded m(spec, weights, best_isa(), pool);
  Trainer trainer(*m.backend, m.backend->train_weights());
  Pass pass(rows, {});
  trainer.forward(pass);
  RowGradients gradients{.logprobs = {std::vector<float>(8, -1.0f)}, .entropies = {}};
  gradients.logprobs[0].back() = 0;
  pass.backward(gradients);
  for (size_t i = 0; i < trainer.trainable().tensors().size(); i++) {
    const TensorShape& t = trainer.trainable().tensors()[i];
    std::vector<float> g(size_t(t.elements()));
    trainer.trainable().read(int(i), Trainable::Part::gradient, g);
    const size_t at = size_t(
        std::max_element(g.begin(), g.end(), [](float a, float b) { return std::abs(a) < std::abs(b); }) - g.begin());
    Arrays up = weights, down = weights;
    up[t.name].values[at] += 5e-3f, down[t.name].values[at] -= 5e-3f;
    const double difference = (loss(up) - loss(down)) / 1e-2;
    below(std::abs(difference - g[at]), 2e-2 * std::abs(g[at]) + 2e-3,
          "derivative by " + t.name + " " + std::to_string(g[at]) + " for " + std::to_string(difference));
  }
}

// What was read and is written again is in use at once, with its step count.
void writes(Loaded& m) {
  LoraSpec lora{2, 4};
  lora.targets[kQ] = lora.targets[kDown] = true;
  std::vector<Row> rows = {{.tokens = {1, 2, 3, 4, 5, 6}}};
  check(rows, m.spec);
  const auto trained = [&](Trainer& trainer) {
    Pass pass(rows, {});
    trainer.forward(pass);
    RowGradients gradients{.logprobs = {std::vector<float>(6, -1.0f)}, .entropies = {}};
    gradients.logprobs[0].back() = 0;
    pass.backward(gradients);
    trainer.trainable().optim_step({.learning_rate = 1e-1f, .max_grad_norm = 0});
  };
  Trainer one(*m.backend, m.backend->train_adapter(lora, 3, nullptr)),
      two(*m.backend, m.backend->train_adapter(lora, 4, nullptr));
  trained(one);
  using Part = Trainable::Part;
  for (Part part : {Part::value, Part::moment1, Part::moment2})
    two.write(part, one.read(part, 0, one.trainable().tensors().size()), 1);
  expect(two.trainable().steps() == 1, "the steps written");
  const auto logprobs = [&](Trainer& t) { return t.evaluate(rows, t.trainable().version()).logprobs; };
  expect(logprobs(one) == logprobs(two), "the values written are those evaluated");
  trained(one), trained(two);
  expect(logprobs(one) == logprobs(two), "and go on alike");
}

// A copy is of when it was made, in memory that another one may have had; a trainer that has rested goes on.
void holds(Loaded& m) {
  LoraSpec lora{4, 8};
  for (bool& target : lora.targets) target = true;
  Trainer trainer(*m.backend, m.backend->train_adapter(lora, 3, nullptr));
  Trainable& trainable = trainer.trainable();
  const size_t count = trainable.tensors().size();
  const auto joined = [&](Trainable::Part part) {
    std::vector<float> all;
    for (const auto& values : trainer.read(part, 0, count)) all.insert(all.end(), values.begin(), values.end());
    return all;
  };
  using Part = Trainable::Part;
  HeldState held{{Part::value, std::vector<float>(3, 1.0f)}, {Part::moment2, std::vector<float>(1 << 20, 1.0f)}};
  for (int i = 0; i < 2; ++i) {
    trainer.hold(held);
    expect(held.at(Part::value) == joined(Part::value), "values");
    expect(held.at(Part::moment1) == joined(Part::moment1), "first moments");
    expect(held.at(Part::moment2) == joined(Part::moment2), "second moments");
    Pass pass({{.tokens = {1, 2, 3, 4}, .trained = {1, 1, 1, 0}}}, {});
    trainer.forward(pass);
    pass.backward({.logprobs = {{-1, 1, -1, 0}}, .entropies = {}});
    if (i == 0) trainable.optim_step({.learning_rate = 1e-1f, .max_grad_norm = 0});
  }
  expect(held.at(Part::value) == joined(Part::value), "a gradient changes no value");
  trainable.rest();
  for (float value : joined(Part::gradient)) expect(value == 0, "of one that rests no gradient stays");
  expect(held.at(Part::value) == joined(Part::value), "and all values");
}

std::string conflict(const std::function<void()>& call) {
  try {
    call();
  } catch (const anneal::model::Conflict& error) {
    return error.what();
  }
  return "";
}

void keeps_trainers_apart() {
  OpenTrainers open;
  OpenTrainers::Place first = open.open_adapter(), second = open.open_adapter();
  expect(conflict([&] { open.open_weights(0); }).starts_with("another trainer"), "weights beside adapters' trainers");
  first.reset();
  expect(!conflict([&] { open.open_weights(0); }).empty(), "while one is left");
  second.reset();
  expect(conflict([&] { open.open_weights(1); }).starts_with("adapters of this model"),
         "weights under loaded adapters");
  OpenTrainers::Place weights = open.open_weights(0);
  expect(!conflict([&] { open.open_adapter(); }).empty(), "an adapter beside the weights");
  expect(!conflict([&] { open.open_weights(0); }).empty(), "the weights twice");
  expect(!conflict([&] { open.load_adapter(); }).empty(), "loading an adapter meanwhile");
  weights.reset();
  OpenTrainers::Place loading = open.load_adapter();
  expect(conflict([&] { open.open_weights(0); }).starts_with("adapters of this model"),
         "weights under an adapter that is being loaded");
  loading.reset();
  expect(conflict([&] {
           open.load_adapter();
           open.open_adapter();
           open.open_weights(0);
         }).empty(),
         "all is free again");
}

void weighs_policies() {
  const float logprobs[] = {-1, -2}, old[] = {-1, -2}, advantages[] = {1, -1}, weights[] = {1, 1};
  const uint8_t mask[] = {1, 1};
  const int32_t segments[] = {0, 0};
  PolicyLossBatch row;
  row.count = 2, row.logprobs = logprobs, row.old_logprobs = old, row.advantages = advantages, row.weights = weights,
  row.mask = mask, row.segments = segments;
  float d[2];
  const PolicyLossMetrics metrics = policy_loss(row, {}, d);
  expect(metrics.ratio_mean == 1 && metrics.ratio_exact_share == 1, "fresh samples have ratios of exactly one");
  expect(d[0] < 0 && d[1] > 0 && d[0] == -d[1], "and gradients by advantage alone");

  // Every objective's derivatives are differences of its term, on both sides of the clip bounds.
  for (const PolicyObjective& objective : policy_objectives())
    for (double ratio : {0.5, 0.9, 1.1, 1.7})
      for (double advantage : {-2.0, 3.0}) {
        const double clipped = std::clamp(ratio, 0.8, 1.2), logprob = -1.5, step = 1e-6;
        const bool inside = clipped == ratio;
        const auto value = [&](double r, double l) {
          return objective.term(r, inside ? r : clipped, advantage, l).value;
        };
        const PolicyTerm term = objective.term(ratio, clipped, advantage, logprob);
        const double by_logprob = (value(ratio, logprob + step) - value(ratio, logprob - step)) / (2 * step);
        expect(std::abs(by_logprob - term.by_logprob) < 1e-6,
               std::string(objective.name) + ": derivative by the logprob");
        // One that holds the ratio constant has none by it.
        const double by_ratio = (value(ratio + step, logprob) - value(ratio - step, logprob)) / (2 * step);
        expect(term.by_ratio == 0 ? !inside || term.by_logprob != 0 || by_ratio == 0
                                  : std::abs(by_ratio - term.by_ratio) < 1e-6,
               std::string(objective.name) + ": derivative by the ratio");
      }
}

}  // namespace

int main() {
  TestPool pool(2);
  const Arrays weights = random_weights(small_model());
  Loaded m(small_model(), weights, best_isa(), pool);
  checks_rows();
  descends(m, pool);
  plans_memory(weights, pool);
  differentiates(weights, pool);
  writes(m);
  holds(m);
  keeps_trainers_apart();
  weighs_policies();
  return anneal::report_failures();
}
