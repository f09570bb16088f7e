#include "policy_loss_binding.h"

#include <stdexcept>

#include "../training/policy_loss.h"

namespace anneal::addon {

using training::ImportanceLevel;
using training::KlSource;
using training::PolicyLossBatch;
using training::PolicyLossMetrics;
using training::PolicyLossSettings;
using training::PolicyObjective;

namespace {

PolicyLossSettings settings_of(const Argument& settings) {
  settings.object();
  const auto number = [&](const char* name) {
    return settings.field(name, [](Argument a) { return a.number(-1e30, 1e30); });
  };
  const auto flag = [&](const char* name) { return settings.field(name, [](Argument a) { return a.boolean(); }); };
  PolicyLossSettings s;
  s.objective = settings.field("objective", [](Argument a) {
    std::vector<std::pair<const char*, const PolicyObjective*>> known;
    for (const PolicyObjective& objective : training::policy_objectives())
      known.emplace_back(objective.name, &objective);
    return one_of<const PolicyObjective*>(a, known);
  });
  s.level = settings.field("level", [](Argument a) {
    return one_of<ImportanceLevel>(a, {{"token", ImportanceLevel::token},
                                       {"sequence", ImportanceLevel::sequence},
                                       {"average", ImportanceLevel::average},
                                       {"geometric_average", ImportanceLevel::geometric_average}});
  });
  s.kl_source = settings.field("klSource", [](Argument a) {
    return one_of<KlSource>(a, {{"sample", KlSource::sample}, {"current_learner", KlSource::current_learner}});
  });
  s.clip_low = number("clipLow");
  s.clip_high = number("clipHigh");
  s.ratio_cap = number("ratioCap");
  s.mask_outside_clip = flag("maskOutsideClip");
  s.tau = number("tau");
  s.kl_coef = number("klCoef");
  s.truncation = number("truncation");
  s.truncate_by_original = flag("truncateByOriginal");
  return s;
}

}  // namespace

napi_value policy_loss_binding(const Arguments& arguments) {
  const Js js = arguments.js;
  const Path batch_path("batch"), settings_path("settings");
  const auto batch = arguments.at(0, batch_path);
  batch.object();
  const auto settings = settings_of(arguments.at(1, settings_path));
  size_t count = 0;
  const auto floats = [&](const char* name, bool required) {
    return batch.field(name, [&](Argument a) {
      if (!required && a.missing()) return std::vector<float>();
      auto values = a.floats();
      if (count == 0) count = values.size();
      if (values.size() != count) invalid(a.path(), "must be as long as logprobs");
      if (values.empty()) invalid(a.path(), "must not be empty");
      return values;
    });
  };
  const auto logprobs = floats("logprobs", true), old = floats("oldLogprobs", true),
             advantages = floats("advantages", true), weights = floats("weights", true);
  const auto reference = floats("reference", false), original = floats("original", false),
             entropies = floats("entropies", false);
  const auto mask = batch.field("mask", [](Argument a) { return a.bytes(); });
  const auto segments = batch.field("segments", [](Argument a) { return a.int32s(); });
  if (mask.size() != count) invalid(Path(batch_path, "mask"), "must be as long as logprobs");
  if (segments.size() != count) invalid(Path(batch_path, "segments"), "must be as long as logprobs");
  PolicyLossBatch b;
  b.count = int64_t(count);
  b.logprobs = logprobs.data();
  b.old_logprobs = old.data();
  b.advantages = advantages.data();
  b.weights = weights.data();
  b.mask = mask.data();
  b.segments = segments.data();
  b.reference = reference.empty() ? nullptr : reference.data();
  b.original = original.empty() ? nullptr : original.data();
  b.entropies = entropies.empty() ? nullptr : entropies.data();
  b.reduction = batch.field("reduction", [](Argument a) { return a.missing() ? 0 : a.integer(0, int64_t(1) << 52); });
  std::vector<float> derivative(count);
  PolicyLossMetrics m;
  try {
    m = policy_loss(b, settings, derivative.data());
  } catch (const std::invalid_argument& error) {
    invalid(batch_path, error.what());
  }
  napi_value metrics = js.object();
  const std::pair<const char*, double> values[] = {{"loss", m.loss},
                                                   {"entropy", m.entropy},
                                                   {"klPolicyRef", m.kl_policy_ref},
                                                   {"probsCorr", m.probs_corr},
                                                   {"ratioMean", m.ratio_mean},
                                                   {"ratioMax", m.ratio_max},
                                                   {"ratioMin", m.ratio_min},
                                                   {"ratioExactShare", m.ratio_exact_share},
                                                   {"clipFraction", m.clip_fraction},
                                                   {"approxKl", m.approx_kl},
                                                   {"trained", double(m.trained)},
                                                   {"sampled", double(m.sampled)}};
  for (auto& [name, value] : values) js.set(metrics, name, js.number(value));
  napi_value result = js.object();
  js.set(result, "dLogprobs", js.floats(derivative.data(), count));
  js.set(result, "metrics", metrics);
  return result;
}

}  // namespace anneal::addon
