#include "policy_loss.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace anneal::training {

namespace {

// The clipped ratio, held constant, weights the logprob.
PolicyTerm cispo(double, double clipped, double advantage, double logprob) {
  return {-clipped * advantage * logprob, 0, -clipped * advantage};
}

// The smaller of ratio and clipped ratio, times the advantage.
PolicyTerm ppo(double ratio, double clipped, double advantage, double) {
  const bool active = clipped == ratio || ratio * advantage < clipped * advantage;
  return {-std::min(ratio * advantage, clipped * advantage), active ? -advantage : 0, 0};
}

constexpr PolicyObjective kObjectives[] = {{"cispo", cispo}, {"ppo", ppo}};

struct Segment {
  double difference = 0;  // sum of new - old, then its mean
  double gradient = 0;    // sum over its tokens of d(loss)/d(log sequence ratio)
  int64_t count = 0;
};

struct Token {
  int64_t index;
  int32_t segment;
  double logprob, old, advantage, weight;
  double difference;  // logprob - old
  bool sampled;
};

// Log ratios beyond this carry no information and would overflow float32 gradients (old logprobs may be floored at
// -9999).
constexpr double kMaxLogRatio = 60;

double ratio_of(double log_ratio) { return std::exp(std::clamp(log_ratio, -kMaxLogRatio, kMaxLogRatio)); }

void check(const PolicyLossBatch& batch, const PolicyLossSettings& settings) {
  if (!batch.logprobs || !batch.old_logprobs || !batch.advantages || !batch.weights || !batch.mask || !batch.segments)
    throw std::invalid_argument(
        "a batch of a policy loss needs logprobs, oldLogprobs, advantages, weights, mask and segments");
  if (settings.kl_coef > 0 && !batch.reference)
    throw std::invalid_argument("a KL-shaped advantage needs reference logprobs");
  if (settings.truncation > 0 && settings.truncate_by_original && !batch.original)
    throw std::invalid_argument("truncation by the original logprobs needs original logprobs");
}

std::vector<Token> trained_tokens(const PolicyLossBatch& batch) {
  std::vector<Token> tokens;
  for (int64_t t = 0; t < batch.count; ++t) {
    if (!batch.mask[t]) continue;
    if (batch.segments[t] < 0 || batch.segments[t] > batch.count)
      throw std::invalid_argument("a segment must lie between 0 and the batch's length");
    const double logprob = batch.logprobs[t];
    const bool sampled = !std::isnan(batch.old_logprobs[t]);
    const double old = sampled ? batch.old_logprobs[t] : logprob;
    tokens.push_back(
        {t, batch.segments[t], logprob, old, batch.advantages[t], batch.weights[t], logprob - old, sampled});
  }
  return tokens;
}

std::vector<Segment> segments_of(const std::vector<Token>& tokens) {
  int32_t highest = 0;
  for (const Token& token : tokens) highest = std::max(highest, token.segment);
  std::vector<Segment> segments(static_cast<size_t>(highest) + 1);
  for (const Token& token : tokens) {
    segments[token.segment].difference += token.difference;
    segments[token.segment].count += 1;
  }
  for (Segment& segment : segments)
    if (segment.count > 0) segment.difference /= static_cast<double>(segment.count);
  return segments;
}

double pearson(const std::vector<Token>& tokens, int64_t sampled) {
  if (sampled < 2) return 0;
  double mean_old = 0, mean_new = 0;
  for (const Token& token : tokens) {
    if (!token.sampled) continue;
    mean_old += std::exp(token.old);
    mean_new += std::exp(token.logprob);
  }
  mean_old /= static_cast<double>(sampled);
  mean_new /= static_cast<double>(sampled);
  double both = 0, var_old = 0, var_new = 0;
  for (const Token& token : tokens) {
    if (!token.sampled) continue;
    const double a = std::exp(token.old) - mean_old, b = std::exp(token.logprob) - mean_new;
    both += a * b;
    var_old += a * a;
    var_new += b * b;
  }
  const double spread = std::sqrt(var_old) * std::sqrt(var_new);
  return spread > 0 ? both / spread : 0;
}

void ratio_metrics(const std::vector<Token>& tokens, PolicyLossMetrics& out) {
  double sum = 0, largest = -INFINITY, smallest = INFINITY, kl = 0;
  int64_t exact = 0;
  for (const Token& token : tokens) {
    if (!token.sampled) continue;
    const double ratio = ratio_of(token.difference);
    sum += ratio;
    kl += ratio - 1 - token.difference;
    largest = std::max(largest, ratio);
    smallest = std::min(smallest, ratio);
    exact += token.difference == 0;
    out.sampled += 1;
  }
  if (out.sampled == 0) return;
  const double count = static_cast<double>(out.sampled);
  out.ratio_mean = sum / count;
  out.ratio_max = largest;
  out.ratio_min = smallest;
  out.ratio_exact_share = static_cast<double>(exact) / count;
  out.approx_kl = kl / count;
}

}  // namespace

std::span<const PolicyObjective> policy_objectives() { return kObjectives; }

PolicyLossMetrics policy_loss(const PolicyLossBatch& batch, const PolicyLossSettings& settings, float* dlogprobs) {
  check(batch, settings);
  std::fill(dlogprobs, dlogprobs + batch.count, 0.0f);
  PolicyLossMetrics metrics;
  std::vector<Token> tokens = trained_tokens(batch);
  metrics.trained = static_cast<int64_t>(tokens.size());
  if (tokens.empty()) return metrics;
  std::vector<Segment> segments = segments_of(tokens);
  const double trained = static_cast<double>(batch.reduction > 0 ? batch.reduction : metrics.trained);
  const double lo = settings.clip_low, hi = settings.clip_high;

  if (settings.kl_coef > 0) {
    const auto k = [&](const Token& token) {
      const double source = settings.kl_source == KlSource::sample ? token.old : token.logprob;
      return source - static_cast<double>(batch.reference[token.index]);
    };
    for (const Token& token : tokens) metrics.kl_policy_ref += k(token);
    metrics.kl_policy_ref /= trained;
    for (Token& token : tokens) token.advantage += settings.kl_coef * (metrics.kl_policy_ref - k(token));
  }

  // How log ratio = own * (token difference) + shared * (segment's mean difference) for the multiplicative levels.
  const bool multiplicative = settings.level != ImportanceLevel::average;
  double own = 1, shared = 0;
  if (settings.level == ImportanceLevel::sequence) own = 0, shared = 1;
  if (settings.level == ImportanceLevel::geometric_average) own = 0.5, shared = 0.5;

  std::vector<double> gradient(tokens.size(), 0.0);
  double loss = 0, entropy = 0;
  int64_t clipped = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    Token& token = tokens[i];
    Segment& segment = segments[token.segment];
    double ratio, by_token, by_segment;  // the ratio, and its derivatives with respect to the two log ratios
    if (multiplicative) {
      ratio = ratio_of(own * token.difference + shared * segment.difference);
      by_token = own * ratio;
      by_segment = shared * ratio;
    } else {
      by_token = 0.5 * ratio_of(token.difference);
      by_segment = 0.5 * ratio_of(segment.difference);
      ratio = by_token + by_segment;
    }
    if (ratio < lo || ratio > hi) clipped += 1;
    if (settings.ratio_cap > 0 && ratio > settings.ratio_cap) ratio = settings.ratio_cap, by_token = by_segment = 0;
    if (settings.mask_outside_clip && !(lo < ratio && ratio < hi)) ratio = by_token = by_segment = 0;

    const double advantage = token.advantage - settings.tau * token.difference;
    const double bounded = std::min(std::max(ratio, lo), hi);
    const PolicyTerm term = settings.objective->term(ratio, bounded, advantage, token.logprob);
    double scale = token.weight;
    if (settings.truncation > 0) {
      double r = ratio;
      if (settings.truncate_by_original) {
        const double original = batch.original[token.index];
        r = ratio_of(token.old - (std::isnan(original) ? token.logprob : original));
      }
      scale *= std::min(r, settings.truncation);
    }
    loss += term.value * scale;
    gradient[i] = scale * (term.by_logprob + term.by_ratio * by_token);
    segment.gradient += scale * term.by_ratio * by_segment;
    if (batch.entropies) entropy += static_cast<double>(batch.entropies[token.index]) * token.weight;
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Segment& segment = segments[tokens[i].segment];
    const double total = gradient[i] + segment.gradient / static_cast<double>(segment.count);
    dlogprobs[tokens[i].index] = static_cast<float>(total / trained);
  }

  metrics.loss = loss / trained;
  metrics.entropy = entropy / trained;
  metrics.clip_fraction = static_cast<double>(clipped) / trained;
  ratio_metrics(tokens, metrics);
  metrics.probs_corr = pearson(tokens, metrics.sampled);
  return metrics;
}

}  // namespace anneal::training
