#include "sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "../../sampling/exact_share.h"
#include "../../sampling/random.h"

namespace anneal::cpu {

using sampling::SamplingParams;
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// Better: larger value, or the same value with a lower id.
struct Candidate {
  float value;
  int32_t id;
};
bool better(const Candidate& a, const Candidate& b) { return a.value > b.value || (a.value == b.value && a.id < b.id); }

// Integers in the order of the values: the bits, those of negative numbers turned over.
uint32_t ordered(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return bits ^ (uint32_t(int32_t(bits) >> 31) | 0x80000000u);
}

int blocks_of(int n) { return (n + kLogitBlock - 1) / kLogitBlock; }

// A row, with the maxima of its blocks' lanes.
struct Row {
  const Kernels& kernels;
  const float* x;
  int n;
  const std::vector<float>& maxima;

  float block_maximum(int block) const {
    return *std::max_element(&maxima[block * kLanes], &maxima[block * kLanes] + kLanes);
  }

  float maximum() const { return *std::max_element(maxima.begin(), maxima.begin() + blocks_of(n) * kLanes); }

  int32_t first(float value) const {
    int b = 0;
    while (block_maximum(b) != value) b++;
    return int32_t(std::find(x + b * kLogitBlock, x + n, value) - x);
  }

  // A value that at least k entries reach, and few more: the k-th largest of the maxima of that many groups of entries
  // or more.
  float reached_by(int k) const {
    const int blocks = blocks_of(n);
    if (k > blocks * kLanes) return kMasked;
    std::vector<float> groups;
    if (k > blocks)
      groups.assign(maxima.begin(), maxima.begin() + blocks * kLanes);
    else
      for (int b = 0; b < blocks; b++) groups.push_back(block_maximum(b));
    std::nth_element(groups.begin(), groups.begin() + k - 1, groups.end(), std::greater<float>());
    return groups[k - 1];
  }

  // The k-th largest value, 1 <= k <= n, of a row without NaN.
  float kth_largest(int k, std::vector<int32_t>& ids) const {
    if (k <= blocks_of(n) * kLanes) return best(k, ids).back().value;
    // Too many for the maxima to tell anything: entries are counted by the upper bits of their
    // values, then only those of one count are put in order.
    constexpr int kShift = 18;
    std::vector<int32_t> counts(size_t(1) << (32 - kShift));
    for (int i = 0; i < n; i++) counts[ordered(x[i]) >> kShift]++;
    uint32_t at = uint32_t(counts.size()) - 1;
    for (; k > counts[at]; at--) k -= counts[at];
    std::vector<float> equals;
    equals.reserve(counts[at]);
    for (int i = 0; i < n; i++)
      if (ordered(x[i]) >> kShift == at) equals.push_back(x[i]);
    std::nth_element(equals.begin(), equals.begin() + k - 1, equals.end(), std::greater<float>());
    return equals[k - 1];
  }

  // The k best entries (all that are no NaN, if fewer), the worst of them last, the others in any order.
  std::vector<Candidate> best(int k, std::vector<int32_t>& ids) const {
    std::vector<Candidate> found;
    if (k <= 0) return found;
    const int count = kernels.ids_at_least(x, n, maxima.data(), reached_by(std::min(k, n)), ids.data());
    found.reserve(count);
    for (int i = 0; i < count; i++) found.push_back({x[ids[i]], ids[i]});
    if (count > k) {
      std::nth_element(found.begin(), found.begin() + k - 1, found.end(), better);
      found.resize(k);
    } else if (count > 0) {
      std::iter_swap(std::max_element(found.begin(), found.end(), better), found.end() - 1);
    }
    return found;
  }
};

// The most likely tokens of a row in falling order.
template <class Out> void report_best(const Row& row, int k, float lse, std::vector<int32_t>& ids, Out& out) {
  auto best = row.best(k, ids);
  std::sort(best.begin(), best.end(), better);
  for (const Candidate& c : best) {
    out.top_ids.push_back(c.id);
    out.top_logprobs.push_back(c.value - lse);
  }
}

// The token drawn, then the others that were asked for, in the order given.
void report_chosen(const std::vector<int32_t>& ids, const float* logits, float lse, Sampled& out) {
  const auto report = [&](int32_t id) {
    out.top_ids.push_back(id);
    out.top_logprobs.push_back(logits[id] - lse);
  };
  if (ids.empty()) return;
  report(out.token);
  for (int32_t id : ids)
    if (id != out.token) report(id);
}

// Floats from here on are multiples of the sampler's unit: what is smaller is rounded to one, and sums are exact.
constexpr float kCoarse = 0x1p-8f;
static_assert(kCoarse * std::numeric_limits<float>::epsilon() == sampling::kProbabilityUnit);

double share_of(double total, uint64_t fraction) {
  return double(sampling::exact_share(uint64_t(total / sampling::kProbabilityUnit), fraction)) *
         sampling::kProbabilityUnit;
}

// p[i] are unnormalised probabilities, p[best] = 1 the largest. In rising order, entries are dropped while the sum of
// what has been dropped is at most (1 - top_p) * total; among equals the higher id goes first; the best one stays. All
// sums in double are exact.
//
// The value where that ends is first enclosed between two others, by sums of everything below a few thresholds (good to
// 2^-18, so that decisions closer than that are left open), then found among the few entries in between.
void keep_top_p(const Kernels& kernels, float* p, int n, float top_p, int32_t best, SamplerScratch& scratch) {
  constexpr double kSure = 1 + 0x1p-18;
  constexpr int kFew = 256;
  double* masses = scratch.masses.data();
  double total = 0;
  for (int b = 0; b < blocks_of(n); b++) total += masses[b];
  const double allowance = share_of(total, sampling::fraction_below(top_p));

  // Bits of positive floats are in the order of their values. Everything below `low` goes: n values under allowance / n
  // do at once. `high` stays.
  auto value = [](uint32_t bits) { return std::bit_cast<float>(bits); };
  uint32_t low =
      std::bit_cast<uint32_t>(std::max(float(allowance / n * (1 - 1e-6)), std::numeric_limits<float>::min()));
  uint32_t high = std::bit_cast<uint32_t>(1.0f) + 1;
  double below_low = 0, below_high = total;
  for (bool guess = false; below_high - below_low > kFew * double(value(low)); guess = true) {
    const uint32_t range = high - low;
    uint32_t at[kLimits] = {low + range / 5, low + range / 5 * 2, low + range / 5 * 3, low + range / 5 * 4};
    if (guess) {  // close around where the sum would be reached if it rose evenly
      const double part = std::clamp((allowance - below_low) / (below_high - below_low), 0.04, 0.96);
      at[1] = low + uint32_t(range * (part - 1.0 / 32)), at[2] = low + uint32_t(range * (part + 1.0 / 32));
      at[0] = low + (at[1] - low) / 2, at[3] = at[2] + (high - at[2]) / 2;
    }
    float limits[kLimits];
    double sums[kLimits];
    for (int j = 0; j < kLimits; j++) limits[j] = value(at[j]);
    kernels.sums_below(p, n, masses, limits, sums);
    for (int j = 0; j < kLimits; j++) {
      if (at[j] > low && sums[j] * kSure <= allowance) low = at[j], below_low = sums[j];
      if (at[j] < high && sums[j] > allowance * kSure) {
        high = at[j], below_high = sums[j];
        break;
      }
    }
    if (high - low >= range) break;
  }

  double dropped;
  const int count = kernels.ids_between(p, n, masses, value(low), value(high), scratch.ids.data(), &dropped);
  std::vector<Candidate> edge;
  edge.reserve(count);
  for (int i = 0; i < count; i++) edge.push_back({p[scratch.ids[i]], scratch.ids[i]});
  if (!std::is_sorted(edge.begin(), edge.end(), better)) std::sort(edge.begin(), edge.end(), better);
  for (; !edge.empty() && dropped + edge.back().value <= allowance; edge.pop_back()) {
    dropped += edge.back().value;
    if (edge.back().id != best) p[edge.back().id] = 0;
  }
  kernels.drop_below(p, n, value(low), masses);
}

// Inverse of the cumulative sum in id order: whole blocks first, then inside one. `random`: uniform below 2^53.
int32_t draw(const float* p, int n, const std::vector<double>& masses, uint64_t random) {
  const int blocks = blocks_of(n);
  double left = 0;
  for (int b = 0; b < blocks; b++) left += masses[b];
  left = share_of(left, random);  // below the sum
  int b = 0;
  for (; b + 1 < blocks && left >= masses[b]; b++) left -= masses[b];
  int32_t i = b * kLogitBlock;
  for (; i + 1 < n && left >= p[i]; i++) left -= p[i];
  return i;
}

// The same operations, in the same order, as the head of a training pass makes at this temperature. Overwrites
// scratch.row.
void report_temperature(const Kernels& kernels, const SamplingParams& p, const float* logits, int n,
                        SamplerScratch& scratch, Sampled& out) {
  if (p.top_logprobs < 0 || p.temperature == 0 || p.temperature == 1) return;
  float* z = scratch.row.data();
  kernels.scale(logits, n, 1.0f / p.temperature, z);
  out.temperature_logprob = z[out.token] - kernels.log_sum_exp(z, n);
}

void penalise(const SamplingState& s, float* z) {
  if (!s.penalises()) return;
  const SamplingParams& p = s.params();
  for (const auto& [id, in_prompt, count] : s.seen()) {
    if (p.repetition_penalty != 1 && (in_prompt || count > 0))
      z[id] = z[id] > 0 ? z[id] / p.repetition_penalty : z[id] * p.repetition_penalty;
    if (count == 0) continue;
    if (p.frequency_penalty != 0) z[id] -= p.frequency_penalty * float(count);
    if (p.presence_penalty != 0) z[id] -= p.presence_penalty;
  }
}

}  // namespace

void SamplerScratch::size(int vocab) {
  row.resize(vocab), ids.resize(vocab);
  maxima.resize(blocks_of(vocab) * kLanes), masses.resize(blocks_of(vocab));
}

Sampled sample(const Kernels& kernels, const SamplingState& s, const float* logits, int position, const uint32_t* mask,
               SamplerScratch& scratch) {
  const SamplingParams& p = s.params();
  const int n = s.vocab();
  Sampled out{-1, 0, {}, {}};

  const float lse = kernels.log_sum_exp(logits, n);
  const bool is_edited = mask || s.edits_logits();
  Row row{kernels, logits, n, scratch.maxima};
  bool has_nan = false;
  if (p.top_logprobs > 0 || !is_edited) has_nan = kernels.lane_maxima(logits, n, scratch.maxima.data());
  if (p.top_logprobs > 0) report_best(row, p.top_logprobs, lse, scratch.ids, out);

  float* z = scratch.row.data();
  if (is_edited) {
    const float* from = logits;
    for (const uint32_t* permitted : {p.restrict_allowed ? s.allowed().data() : nullptr, mask})
      if (permitted) kernels.keep_permitted(std::exchange(from, z), n, permitted, z);
    if (from == logits) std::memcpy(z, logits, sizeof(float) * n);
    s.bad_words([&](int32_t id) { z[id] = kMasked; });
    if (s.too_few())
      for (int32_t id : p.end_ids)
        if (id >= 0 && id < n) z[id] = kMasked;
    for (size_t i = 0; i < p.bias_ids.size(); i++) z[p.bias_ids[i]] += p.bias_values[i];
    penalise(s, z);
    row.x = z;
    has_nan = kernels.lane_maxima(z, n, scratch.maxima.data());
  }

  const float top = row.maximum();
  if (top == kMasked) {
    if (has_nan) out.logprob = std::numeric_limits<float>::quiet_NaN();
    return out;
  }
  const int32_t best = row.first(top);
  if (p.temperature == 0 || top == std::numeric_limits<float>::infinity()) {
    out.token = best;
  } else {
    if (has_nan) {
      std::transform(row.x, row.x + n, z, [](float v) { return std::isnan(v) ? kMasked : v; });
      row.x = z;
    }
    // Subtracting the maximum before dividing keeps tiny temperatures finite; the distribution is the same.
    Probabilities how{top, p.temperature, kMasked, p.min_p, kCoarse};
    // e^least is below min_p, by more than a rounding: only saves looking.
    if (p.min_p > 0) how.least = std::log(p.min_p) - 1e-3f;
    // Top-k before min-p: both keep an upper part of the same order, so either order leaves the smaller part. Ties at
    // the k-th survive.
    if (p.top_k > 0 && p.top_k < n)
      how.least = std::max(how.least, (row.kth_largest(p.top_k, scratch.ids) - top) / p.temperature);
    kernels.probabilities(row.x, n, scratch.maxima.data(), how, z, scratch.masses.data());
    if (p.top_p < 1) keep_top_p(kernels, z, n, p.top_p, best, scratch);
    out.token = draw(z, n, scratch.masses, sampling::uniform53(p.seed, p.choice, uint32_t(position), 0));
  }
  out.logprob = logits[out.token] - lse;
  report_chosen(p.logprob_ids, logits, lse, out);
  report_temperature(kernels, p, logits, n, scratch, out);
  return out;
}

Sampled given(const Kernels& kernels, const SamplingState& s, const float* logits, int32_t token,
              SamplerScratch& scratch) {
  Sampled out{token, 0, {}, {}};
  const float lse = kernels.log_sum_exp(logits, s.vocab());
  if (s.params().top_logprobs > 0) {
    kernels.lane_maxima(logits, s.vocab(), scratch.maxima.data());
    report_best({kernels, logits, s.vocab(), scratch.maxima}, s.params().top_logprobs, lse, scratch.ids, out);
  }
  out.logprob = logits[token] - lse;
  report_chosen(s.params().logprob_ids, logits, lse, out);
  report_temperature(kernels, s.params(), logits, s.vocab(), scratch, out);
  return out;
}

RowLogprobs row_logprobs(const Kernels& kernels, const float* logits, int vocab, int32_t token, int top,
                         SamplerScratch& scratch) {
  RowLogprobs out{0, 0, {}, {}};
  const float lse = kernels.log_sum_exp(logits, vocab);
  if (token >= 0 && token < vocab) {
    const float value = logits[token];
    out.logprob = value - lse;
    for (int i = 0; i < vocab; i++) out.rank += logits[i] >= value;
  }
  if (top > 0) {
    kernels.lane_maxima(logits, vocab, scratch.maxima.data());
    report_best({kernels, logits, vocab, scratch.maxima}, top, lse, scratch.ids, out);
  }
  return out;
}

}  // namespace anneal::cpu
