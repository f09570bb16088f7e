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

// -1 when every entry is masked.
int32_t argmax(const float* z, int n) {
  float best = kMasked;
  int32_t at = -1;
  for (int i = 0; i < n; i++)
    if (z[i] > best) best = z[i], at = i;
  return at;
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
  for (int i = 0; i < n; i++)
    if (z[i] < threshold) z[i] = kMasked;
}

// p[i] are unnormalised probabilities with maximum 1 and sum `total`. In rising order, entries are dropped while the sum of
// what has been dropped is at most (1 - top_p) * total; among equals the higher id goes first; the last one stays.
// Buckets by exponent and three mantissa bits find the cut without sorting more than one bucket.
void keep_top_p(float* p, int n, float top_p, double total) {
  if (top_p >= 1) return;
  constexpr int kShift = 20, kBuckets = (0x3f800000 >> kShift) + 1;
  static_assert(kBuckets < 2048);
  const double allowance = (1.0 - double(top_p)) * total;
  double mass[kBuckets] = {};
  auto bucket_of = [](float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    return std::min(int(bits >> kShift), kBuckets - 1);
  };
  for (int i = 0; i < n; i++)
    if (p[i] > 0) mass[bucket_of(p[i])] += p[i];
  double dropped = 0;
  int cut = 0;
  while (cut < kBuckets - 1 && dropped + mass[cut] <= allowance) dropped += mass[cut++];

  std::vector<Candidate> edge;
  int32_t best = -1;
  for (int i = 0; i < n; i++) {
    if (!(p[i] > 0)) continue;
    if (best < 0 || p[i] > p[best]) best = i;
    const int b = bucket_of(p[i]);
    if (b == cut) edge.push_back({p[i], i});
  }
  const float best_p = best >= 0 ? p[best] : 0;
  std::sort(edge.begin(), edge.end(), better);
  for (int i = 0; i < n; i++)
    if (p[i] > 0 && bucket_of(p[i]) < cut) p[i] = 0;
  while (!edge.empty() && dropped + edge.back().value <= allowance) {
    dropped += edge.back().value;
    p[edge.back().id] = 0;
    edge.pop_back();
  }
  if (best >= 0) p[best] = best_p;
}

// Inverse of the cumulative sum in id order.
int32_t draw(const float* p, int n, double u) {
  double total = 0;
  for (int begin = 0; begin < n; begin += kLogitBlock) {
    double block = 0;
    for (int i = begin, end = std::min(n, begin + kLogitBlock); i < end; i++) block += p[i];
    total += block;
  }
  double left = u * total;
  int32_t last = -1;
  for (int begin = 0; begin < n; begin += kLogitBlock) {
    const int end = std::min(n, begin + kLogitBlock);
    double block = 0;
    for (int i = begin; i < end; i++) block += p[i];
    if (left >= block) {
      if (block > 0)
        for (int i = end - 1; i >= begin; i--)
          if (p[i] > 0) {
            last = i;
            break;
          }
      left -= block;
      continue;
    }
    for (int i = begin; i < end; i++) {
      if (!(p[i] > 0)) continue;
      last = i;
      if (left < p[i]) return i;
      left -= p[i];
    }
  }
  return last;  // rounding carried u past the end
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
    for (int i = 0; i < n; i++)
      if (!(grammar_mask[i >> 5] >> (i & 31) & 1)) z[i] = kMasked;
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

  const int32_t best = argmax(z, n);
  if (best < 0) return out;
  if (p.temperature == 0) {
    out.token = best;
  } else {
    const float top = z[best];
    if (top == std::numeric_limits<float>::infinity()) {
      out.token = best;
    } else {
      // Subtracting the maximum first keeps tiny temperatures finite; the distribution is the same.
      if (p.temperature != 1)
        for (int i = 0; i < n; i++) z[i] = (z[i] - top) / p.temperature;
      const float shift = p.temperature == 1 ? top : 0;
      // Top-k before min-p: both keep an upper part of the same order, so either order leaves the smaller part.
      keep_top_k(z, n, p.top_k);
      for (int i = 0; i < n; i++)
        if (std::isnan(z[i])) z[i] = kMasked;
      kernels.exp_shifted(z, n, shift, z);
      if (p.min_p > 0)
        for (int i = 0; i < n; i++)
          if (z[i] < p.min_p) z[i] = 0;
      if (p.top_p < 1) {
        double total = 0;
        for (int i = 0; i < n; i++) total += z[i];
        keep_top_p(z, n, p.top_p, total);
      }
      out.token = draw(z, n, uniform(p.seed, p.choice, uint32_t(position), 0));
      if (out.token < 0) out.token = best;
    }
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
