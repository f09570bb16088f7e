#include "sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "random.h"

namespace anneal {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// Loops over a whole row keep kWide independent lanes, which compilers turn into vector code without changing any result.
constexpr int kWide = 16;

// Better: larger value, or the same value with a lower id.
struct Candidate {
  float value;
  int32_t id;
};
bool better(const Candidate& a, const Candidate& b) { return a.value > b.value || (a.value == b.value && a.id < b.id); }

// The k best entries in falling order. A heap of the k best so far, its worst on top: most entries cost one comparison.
std::vector<Candidate> top_candidates(const float* values, int n, int k) {
  std::vector<Candidate> heap;
  k = std::min(k, n);
  if (k <= 0) return heap;
  heap.reserve(k);
  for (int i = 0; i < n; i++) {
    if (int(heap.size()) == k && i % kWide == 0 && i + kWide <= n) {  // most groups hold nothing better
      const float worst = heap.front().value;
      bool any = false;
      for (int j = 0; j < kWide; j++) any |= values[i + j] > worst;
      if (!any) {
        i += kWide - 1;
        continue;
      }
    }
    const Candidate c{values[i], i};
    if (std::isnan(c.value)) continue;
    if (int(heap.size()) < k) {
      heap.push_back(c);
      std::push_heap(heap.begin(), heap.end(), better);
    } else if (c.value > heap.front().value) {  // an equal value with a higher id never displaces
      std::pop_heap(heap.begin(), heap.end(), better);
      heap.back() = c;
      std::push_heap(heap.begin(), heap.end(), better);
    }
  }
  std::sort_heap(heap.begin(), heap.end(), better);
  return heap;
}

struct Peak {
  int32_t at;    // of the first largest entry; -1 when every entry is masked
  bool has_nan;
};
Peak peak(const float* z, int n) {
  float best[kWide];
  int32_t nans[kWide] = {};
  std::fill(best, best + kWide, kMasked);
  int i = 0;
  for (; i + kWide <= n; i += kWide)
    for (int j = 0; j < kWide; j++) {
      best[j] = z[i + j] > best[j] ? z[i + j] : best[j];
      nans[j] |= z[i + j] != z[i + j];
    }
  for (; i < n; i++) {
    best[0] = z[i] > best[0] ? z[i] : best[0];
    nans[0] |= z[i] != z[i];
  }
  const float top = *std::max_element(best, best + kWide);
  const bool has_nan = std::any_of(nans, nans + kWide, [](int32_t x) { return x != 0; });
  if (top == kMasked) return {-1, has_nan};
  return {int32_t(std::find(z, z + n, top) - z), has_nan};
}

// Sum in double: lanes first, then the lanes in order.
double sum(const float* p, int n) {
  double lanes[kWide] = {};
  int i = 0;
  for (; i + kWide <= n; i += kWide)
    for (int j = 0; j < kWide; j++) lanes[j] += double(p[i + j]);
  for (; i < n; i++) lanes[0] += double(p[i]);
  double total = 0;
  for (double lane : lanes) total += lane;
  return total;
}

// Entries below the k-th largest are masked; ties at the threshold survive.
void keep_top_k(float* z, int n, int k) {
  if (k <= 0 || k >= n) return;
  float threshold;
  if (k <= 1024) {
    const auto top = top_candidates(z, n, k);
    if (int(top.size()) < k) return;
    threshold = top.back().value;
  } else {
    std::vector<float> copy;
    copy.reserve(n);
    for (int i = 0; i < n; i++)
      if (!std::isnan(z[i])) copy.push_back(z[i]);
    if (int(copy.size()) <= k) return;
    std::nth_element(copy.begin(), copy.begin() + k - 1, copy.end(), std::greater<float>());
    threshold = copy[k - 1];
  }
  for (int i = 0; i < n; i++) z[i] = z[i] < threshold ? kMasked : z[i];
}

// p[i] are unnormalised probabilities, p[best] = 1 the largest. In rising order, entries are dropped while the sum of what has been
// dropped is at most (1 - top_p) * total; among equals the higher id goes first; the best one stays.
// Entries below allowance / n are gone whatever the rest is; buckets by exponent and three mantissa bits then find the cut
// among the others without sorting more than one bucket.
void keep_top_p(float* p, int n, float top_p, int32_t best) {
  const double total = sum(p, n), allowance = (1.0 - double(top_p)) * total;
  const float floor = float(allowance / n * (1 - 1e-6));
  double small[kWide] = {};
  std::vector<int32_t> rest;
  rest.reserve(1024);
  for (int i = 0; i < n; i += kWide) {
    const int end = std::min(kWide, n - i);
    bool any = false;
    for (int j = 0; j < end; j++) any |= p[i + j] >= floor;
    for (int j = 0; j < end; j++) {
      const bool below = p[i + j] < floor;
      small[j] += below ? double(p[i + j]) : 0.0;
      if (!any) p[i + j] = 0;
    }
    if (!any) continue;
    for (int j = 0; j < end; j++) {
      if (p[i + j] >= floor && p[i + j] > 0) rest.push_back(i + j);
      else p[i + j] = 0;
    }
  }

  constexpr int kShift = 20, kBuckets = (0x3f800000 >> kShift) + 1;
  auto bucket_of = [](float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    return std::min(int(bits >> kShift), kBuckets - 1);
  };
  double mass[kBuckets] = {}, dropped = 0;
  for (double lane : small) dropped += lane;
  for (int32_t id : rest) mass[bucket_of(p[id])] += p[id];
  int cut = 0;
  while (cut < kBuckets - 1 && dropped + mass[cut] <= allowance) dropped += mass[cut++];

  std::vector<Candidate> edge;
  for (int32_t id : rest) {
    const int bucket = bucket_of(p[id]);
    if (bucket == cut) edge.push_back({p[id], id});
    else if (bucket < cut) p[id] = 0;
  }
  std::sort(edge.begin(), edge.end(), better);
  while (!edge.empty() && dropped + edge.back().value <= allowance) {
    dropped += edge.back().value;
    p[edge.back().id] = 0;
    edge.pop_back();
  }
  p[best] = 1;
}

// Inverse of the cumulative sum in id order: whole blocks first, then inside one.
int32_t draw(const float* p, int n, double u) {
  const int blocks = (n + kLogitBlock - 1) / kLogitBlock;
  std::vector<double> mass(blocks);
  double total = 0;
  for (int b = 0; b < blocks; b++) total += mass[b] = sum(p + b * kLogitBlock, std::min(kLogitBlock, n - b * kLogitBlock));
  double left = u * total;
  int32_t last = -1;
  for (int b = 0; b < blocks; b++) {
    // A block is skipped only when something after it is left to draw.
    if (left >= mass[b] && std::any_of(mass.begin() + b + 1, mass.end(), [](double m) { return m > 0; })) {
      left -= mass[b];
      continue;
    }
    for (int i = b * kLogitBlock, end = std::min(n, (b + 1) * kLogitBlock); i < end; i++) {
      if (!(p[i] > 0)) continue;
      last = i;
      if (left < p[i]) return i;
      left -= p[i];
    }
    if (last >= 0) return last;  // rounding carried u past the block's end
  }
  return last;
}

}  // namespace

struct Sampler::State {
  SamplingParams params;
  int vocab;
  std::vector<int32_t> outputs;
  std::unordered_map<int32_t, int> counts;  // of output tokens
  std::vector<int32_t> prompt_ids;          // sorted, unique, inside the vocabulary

  bool edits_logits() const {
    const auto& p = params;
    return p.restrict_allowed || !p.bad_words.empty() || int(outputs.size()) < p.min_tokens || !p.bias_ids.empty() || p.repetition_penalty != 1 ||
           p.frequency_penalty != 0 || p.presence_penalty != 0;
  }

  void mask_bad_words(float* z) const {
    for (const auto& word : params.bad_words) {
      if (word.empty() || word.back() < 0 || word.back() >= vocab) continue;
      const size_t prefix = word.size() - 1;
      if (prefix > outputs.size()) continue;
      if (std::equal(word.begin(), word.end() - 1, outputs.end() - prefix)) z[word.back()] = kMasked;
    }
  }

  void penalise(float* z) const {
    const float rho = params.repetition_penalty;
    auto repeat = [&](int32_t id) { z[id] = z[id] > 0 ? z[id] / rho : z[id] * rho; };
    if (rho != 1) {
      for (int32_t id : prompt_ids) repeat(id);
      for (const auto& [id, count] : counts)
        if (!std::binary_search(prompt_ids.begin(), prompt_ids.end(), id)) repeat(id);
    }
    if (params.frequency_penalty != 0)
      for (const auto& [id, count] : counts) z[id] -= params.frequency_penalty * float(count);
    if (params.presence_penalty != 0)
      for (const auto& [id, count] : counts) z[id] -= params.presence_penalty;
  }
};

Sampler::Sampler(SamplingParams params, int vocab) : state_(std::make_unique<State>()) {
  state_->vocab = vocab;
  if (params.repetition_penalty != 1) {
    auto& ids = state_->prompt_ids;
    for (int32_t id : params.prompt)
      if (id >= 0 && id < vocab) ids.push_back(id);
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  }
  params.prompt = {};
  state_->params = std::move(params);
}

Sampler::~Sampler() = default;

const SamplingParams& Sampler::params() const { return state_->params; }
int Sampler::outputs() const { return int(state_->outputs.size()); }

void Sampler::accept(int32_t token) {
  state_->outputs.push_back(token);
  state_->counts[token]++;
}

void Sampler::rewind(int outputs) {
  auto& all = state_->outputs;
  while (int(all.size()) > outputs) {
    auto it = state_->counts.find(all.back());
    if (--it->second == 0) state_->counts.erase(it);
    all.pop_back();
  }
}

Sampled Sampler::sample(const Kernels& kernels, float* logits, int position, const uint32_t* grammar_mask, float* scratch) {
  const State& s = *state_;
  const SamplingParams& p = s.params;
  const int n = s.vocab;
  Sampled out{-1, 0, {}, {}};

  const float lse = kernels.log_sum_exp(logits, n);
  if (p.top_logprobs > 0)
    for (const auto& c : top_candidates(logits, n, p.top_logprobs)) {
      out.top_ids.push_back(c.id);
      out.top_logprobs.push_back(c.value - lse);
    }

  float* z = logits;
  if (grammar_mask || s.edits_logits() || p.temperature != 0) {
    std::memcpy(scratch, logits, sizeof(float) * n);
    z = scratch;
  }
  if (grammar_mask)
    for (int i = 0; i < n; i += 32) {  // most words permit nothing, or everything
      const uint32_t permitted = grammar_mask[i >> 5];
      const int end = std::min(n, i + 32);
      if (permitted == 0) std::fill(z + i, z + end, kMasked);
      else if (~permitted != 0)
        for (int j = i; j < end; j++)
          if (!(permitted >> (j & 31) & 1)) z[j] = kMasked;
    }
  if (p.restrict_allowed) {
    int32_t next = 0;
    for (int32_t id : p.allowed_ids) {
      std::fill(z + next, z + id, kMasked);
      next = id + 1;
    }
    std::fill(z + next, z + n, kMasked);
  }
  s.mask_bad_words(z);
  if (outputs() < p.min_tokens)
    for (int32_t id : p.end_ids)
      if (id >= 0 && id < n) z[id] = kMasked;
  for (size_t i = 0; i < p.bias_ids.size(); i++) z[p.bias_ids[i]] += p.bias_values[i];
  s.penalise(z);

  const auto [best, has_nan] = peak(z, n);
  if (best < 0) return out;
  const float top = z[best];
  if (p.temperature == 0 || top == std::numeric_limits<float>::infinity()) {
    out.token = best;
  } else {
    if (has_nan)
      for (int i = 0; i < n; i++)
        if (std::isnan(z[i])) z[i] = kMasked;
    // Subtracting the maximum before dividing keeps tiny temperatures finite; the distribution is the same.
    if (p.temperature != 1)
      for (int i = 0; i < n; i++) z[i] = (z[i] - top) / p.temperature;
    // Top-k before min-p: both keep an upper part of the same order, so either order leaves the smaller part.
    keep_top_k(z, n, p.top_k);
    kernels.exp_shifted(z, n, p.temperature == 1 ? top : 0, z);
    if (p.min_p > 0)
      for (int i = 0; i < n; i++) z[i] = z[i] < p.min_p ? 0 : z[i];
    if (p.top_p < 1) keep_top_p(z, n, p.top_p, best);
    out.token = draw(z, n, uniform(p.seed, p.choice, uint32_t(position), 0));
    if (out.token < 0) out.token = best;
  }
  out.logprob = logits[out.token] - lse;
  return out;
}

RowLogprobs row_logprobs(const Kernels& kernels, const float* logits, int vocab, int32_t token, int top) {
  RowLogprobs out{0, 0, {}, {}};
  const float lse = kernels.log_sum_exp(logits, vocab);
  if (token >= 0 && token < vocab) {
    const float value = logits[token];
    out.logprob = value - lse;
    for (int i = 0; i < vocab; i++) out.rank += logits[i] >= value;
  }
  for (const auto& c : top_candidates(logits, vocab, top)) {
    out.top_ids.push_back(c.id);
    out.top_logprobs.push_back(c.value - lse);
  }
  return out;
}

}  // namespace anneal
