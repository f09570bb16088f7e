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
  const auto number = [&](const char* name) { return settings.at(name).number(-1e30, 1e30); };
  PolicyLossSettings s;
  std::vector<std::pair<const char*, const PolicyObjective*>> objectives;
  for (const PolicyObjective& objective : training::policy_objectives())
    objectives.emplace_back(objective.name, &objective);
  s.objective = one_of<const PolicyObjective*>(settings.at("objective"), objectives);
  s.level = one_of<ImportanceLevel>(settings.at("level"), {{"token", ImportanceLevel::token},
                                                           {"sequence", ImportanceLevel::sequence},
                                                           {"average", ImportanceLevel::average},
                                                           {"geometric_average", ImportanceLevel::geometric_average}});
  s.kl_source = one_of<KlSource>(settings.at("klSource"),
                                 {{"sample", KlSource::sample}, {"current_learner", KlSource::current_learner}});
  s.clip_low = number("clipLow");
  s.clip_high = number("clipHigh");
  s.ratio_cap = number("ratioCap");
  s.mask_outside_clip = settings.at("maskOutsideClip").boolean();
  s.tau = number("tau");
  s.kl_coef = number("klCoef");
  s.truncation = number("truncation");
  s.truncate_by_original = settings.at("truncateByOriginal").boolean();
  return s;
}

}  // namespace

napi_value policy_loss_binding(const Arguments& arguments) {
  const Js js = arguments.js;
  const Argument batch = arguments.at(0, "batch").object();
  const auto settings = settings_of(arguments.at(1, "settings"));
  const auto logprobs = batch.at("logprobs").floats();
  if (logprobs.empty()) invalid(batch.at("logprobs").path(), "must not be empty");
  const auto of_each = [&](const Argument& list, auto values) {
    if (values.size() != logprobs.size()) invalid(list.path(), "must be as long as logprobs");
    return values;
  };
  const auto floats = [&](const char* name) { return of_each(batch.at(name), batch.at(name).floats()); };
  const auto optional = [&](const char* name) { return batch.given(name) ? floats(name) : std::vector<float>(); };
  const auto old = floats("oldLogprobs"), advantages = floats("advantages"), weights = floats("weights");
  const auto reference = optional("reference"), original = optional("original"), entropies = optional("entropies");
  const auto mask = of_each(batch.at("mask"), batch.at("mask").bytes());
  const auto segments = of_each(batch.at("segments"), batch.at("segments").int32s());
  const auto or_null = [](const std::vector<float>& values) { return values.empty() ? nullptr : values.data(); };
  PolicyLossBatch b;
  b.count = int64_t(logprobs.size());
  b.logprobs = logprobs.data();
  b.old_logprobs = old.data();
  b.advantages = advantages.data();
  b.weights = weights.data();
  b.mask = mask.data();
  b.segments = segments.data();
  b.reference = or_null(reference);
  b.original = or_null(original);
  b.entropies = or_null(entropies);
  if (const auto reduction = batch.given("reduction")) b.reduction = reduction->integer(0, int64_t(1) << 52);
  std::vector<float> derivative(logprobs.size());
  PolicyLossMetrics m;
  try {
    m = policy_loss(b, settings, derivative.data());
  } catch (const std::invalid_argument& error) {
    invalid(batch.path(), error.what());
  }
  return js.object({{"dLogprobs", js.floats(derivative)},
                    {"metrics", js.object({{"loss", js.number(m.loss)},
                                           {"entropy", js.number(m.entropy)},
                                           {"klPolicyRef", js.number(m.kl_policy_ref)},
                                           {"probsCorr", js.number(m.probs_corr)},
                                           {"ratioMean", js.number(m.ratio_mean)},
                                           {"ratioMax", js.number(m.ratio_max)},
                                           {"ratioMin", js.number(m.ratio_min)},
                                           {"ratioExactShare", js.number(m.ratio_exact_share)},
                                           {"clipFraction", js.number(m.clip_fraction)},
                                           {"approxKl", js.number(m.approx_kl)},
                                           {"trained", js.number(double(m.trained))},
                                           {"sampled", js.number(double(m.sampled))}})}});
}

}  // namespace anneal::addon
