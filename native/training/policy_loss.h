// The policy-gradient loss of a batch and its derivative with respect to every log-probability.
//
// A batch is what shares one reduction: the rows of a trajectory group, laid end to end. Entry t of every array is
// about the same predicted token, whose logprob is logprobs[t]: nothing is shifted here. Pure arithmetic: any thread,
// no allocation kept, sums in float64.
#pragma once
#include <cstdint>
#include <span>

namespace anneal::training {

// What a token adds to the loss, and the derivatives of that by the ratio (where that is not held constant) and by the
// logprob.
struct PolicyTerm {
  double value, by_ratio, by_logprob;
};
// `clipped`: the ratio within the clip bounds.
struct PolicyObjective {
  const char* name;
  PolicyTerm (*term)(double ratio, double clipped, double advantage, double logprob);
};
// The default first.
std::span<const PolicyObjective> policy_objectives();

// Which ratio is clipped: of the token, of its whole segment (geometric mean), or a mean of the two.
enum class ImportanceLevel : uint8_t { token, sequence, average, geometric_average };
// Whose log-probabilities the KL-shaped advantage compares with the reference.
enum class KlSource : uint8_t { sample, current_learner };

struct PolicyLossSettings {
  const PolicyObjective* objective = &policy_objectives()[0];
  ImportanceLevel level = ImportanceLevel::token;
  double clip_low = 0, clip_high = 5;  // bounds of the ratio: 1 - epsilon, 1 + epsilon_high
  double ratio_cap = 0;                // > 0: the ratio is at most this, for every token
  bool mask_outside_clip = false;      // the ratio counts as 0 unless clip_low < ratio < clip_high
  double tau = 0;                      // advantage -= tau * (new - old), the difference held constant
  double kl_coef = 0;                  // > 0: advantage += kl_coef * (mean k - k), k = source - reference
  KlSource kl_source = KlSource::sample;
  double truncation = 0;              // > 0: each term is scaled by min(ratio, truncation), held constant
  bool truncate_by_original = false;  // that ratio is exp(old - original) instead
};

// All arrays have `count` entries. NaN in `old_logprobs` or `original` means none: the new one, held constant.
struct PolicyLossBatch {
  int64_t count = 0;
  const float* logprobs = nullptr;
  const float* old_logprobs = nullptr;
  const float* advantages = nullptr;
  const float* weights = nullptr;
  const uint8_t* mask = nullptr;      // nonzero: trained; everything else is read only where this is set
  const int32_t* segments = nullptr;  // 0 <= segment <= count; equal values are one sequence
  const float* reference = nullptr;   // needed if kl_coef > 0
  const float* original = nullptr;    // needed if truncate_by_original
  const float* entropies = nullptr;   // may be null: the metric is then 0
  int64_t reduction = 0;              // what means over trained entries divide by; 0: their number
};

// Means over the trained entries unless said otherwise. "Sampled" entries are those whose old logprob is known.
struct PolicyLossMetrics {
  double loss = 0;           // sum(l * w) / trained
  double entropy = 0;        // sum(H * w) / trained
  double kl_policy_ref = 0;  // mean k; 0 without kl_coef
  double probs_corr = 0;     // Pearson correlation of exp(old), exp(new); 0 below 2 sampled or without spread
  double ratio_mean = 1, ratio_max = 1, ratio_min = 1;  // exp(new - old) of sampled entries
  double ratio_exact_share = 1;  // share of sampled entries whose new logprob equals the old one bit for bit
  double clip_fraction = 0;      // share of trained entries whose ratio lies outside the clip bounds
  double approx_kl = 0;          // mean over sampled of ratio - 1 - log ratio
  int64_t trained = 0, sampled = 0;
};

// Writes d(loss)/d(logprob) to dlogprobs[count] (0 where the mask is). Throws std::invalid_argument for a missing array
// or a segment out of range.
PolicyLossMetrics policy_loss(const PolicyLossBatch&, const PolicyLossSettings&, float* dlogprobs);

}  // namespace anneal::training
