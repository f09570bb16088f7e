// Checks the sampler against a plain restatement of its rules: sorts instead of buckets and heaps, doubles instead of
// floats. Linked and run by test/native/programs.test.ts; prints a line per group and exits with 1 when anything
// differs.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <random>

#include "../../sampling/random.h"
#include "sampler.h"

using namespace anneal;
using namespace anneal::cpu;
using namespace anneal::sampling;

namespace {

int failures = 0;
void check(bool ok, const char* what) {
  if (ok) return;
  if (failures++ < 20) std::printf("FAILED: %s\n", what);
}

constexpr double kGone = -INFINITY;

// The distribution the rules describe, in double.
std::vector<double> distribution(const std::vector<float>& logits, const SamplingParams& p,
                                 const std::vector<int32_t>& outputs) {
  const int n = int(logits.size());
  std::vector<double> z(logits.begin(), logits.end());
  if (p.restrict_allowed)
    for (int i = 0; i < n; i++)
      if (!std::count(p.allowed_ids.begin(), p.allowed_ids.end(), i)) z[i] = kGone;
  for (const auto& word : p.bad_words) {
    if (word.size() - 1 > outputs.size()) continue;
    bool match = true;
    for (size_t i = 0; i + 1 < word.size(); i++) match &= outputs[outputs.size() - word.size() + 1 + i] == word[i];
    if (match) z[word.back()] = kGone;
  }
  if (int(outputs.size()) < p.min_tokens)
    for (int id : p.end_ids) z[id] = kGone;
  for (size_t i = 0; i < p.bias_ids.size(); i++) z[p.bias_ids[i]] += p.bias_values[i];
  std::map<int, int> counts;
  for (int id : outputs) counts[id]++;
  for (int i = 0; i < n; i++) {
    const bool in_prompt = std::count(p.prompt.begin(), p.prompt.end(), i) > 0;
    const int c = counts.count(i) ? counts[i] : 0;
    if (in_prompt || c) z[i] = z[i] > 0 ? z[i] / p.repetition_penalty : z[i] * p.repetition_penalty;
    z[i] -= double(p.frequency_penalty) * c + (c ? double(p.presence_penalty) : 0.0);
  }
  const double top = *std::max_element(z.begin(), z.end());
  std::vector<double> q(n);
  if (p.temperature == 0) {
    q[std::max_element(z.begin(), z.end()) - z.begin()] = 1;
    return q;
  }
  for (int i = 0; i < n; i++) q[i] = std::exp((z[i] - top) / p.temperature);
  for (double& x : q)
    if (x < double(p.min_p)) x = 0;
  if (p.top_k > 0 && p.top_k < n) {
    std::vector<double> sorted = z;
    std::sort(sorted.rbegin(), sorted.rend());
    for (int i = 0; i < n; i++)
      if (z[i] < sorted[p.top_k - 1]) q[i] = 0;
  }
  if (p.top_p < 1) {
    std::vector<int> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) { return q[a] < q[b] || (q[a] == q[b] && a > b); });
    const double total = std::accumulate(q.begin(), q.end(), 0.0);
    double sum = 0;
    for (int i = 0; i + 1 < n; i++) {
      sum += q[order[i]];
      if (sum <= (1.0 - double(p.top_p)) * total)
        q[order[i]] = 0;
      else
        break;
    }
  }
  return q;
}

int draw(const std::vector<double>& q, double u) {
  const double total = std::accumulate(q.begin(), q.end(), 0.0);
  double sum = 0;
  int last = -1;
  for (size_t i = 0; i < q.size(); i++) {
    if (q[i] <= 0) continue;
    last = int(i);
    sum += q[i];
    if (u * total < sum) return last;
  }
  return last;
}

}  // namespace

int main() {
  FloatMode mode;
  const Kernels& k = *kernels(best_isa(), DType::f32);
  std::mt19937 rng(7);
  auto uniform01 = [&] { return std::uniform_real_distribution<float>(0, 1)(rng); };

  // Known answer of Philox 4x32-10 for a zero key and counter (Random123's published test vectors).
  const auto zero = philox(0, {0, 0, 0, 0});
  check(zero[0] == 0x6627e8d5 && zero[1] == 0xe169c58d && zero[2] == 0xbc57ac4c && zero[3] == 0x9b00dbd8,
        "Philox test vector");

  int compared = 0, borderline = 0;
  for (int round = 0; round < 4000; round++) {
    const int n = 3 + int(rng() % (round % 50 == 0 ? 40000 : 1500));
    std::vector<float> logits(n);
    const bool ties = round % 3 == 0;
    for (float& x : logits) x = ties ? float(int(rng() % 9)) - 4 : 3 * std::normal_distribution<float>()(rng);
    SamplingParams p;
    p.temperature = round % 5 == 0 ? 0 : 0.2f + 1.8f * uniform01();
    if (rng() % 2) p.top_k = 1 + int(rng() % (rng() % 4 ? 40 : n + 10));
    if (rng() % 2) p.top_p = 0.05f + 0.95f * uniform01();
    if (rng() % 3 == 0) p.min_p = 0.3f * uniform01();
    if (rng() % 3 == 0) p.repetition_penalty = 0.5f + 1.5f * uniform01();
    if (rng() % 3 == 0) p.frequency_penalty = 4 * uniform01() - 2;
    if (rng() % 3 == 0) p.presence_penalty = 4 * uniform01() - 2;
    for (int i = 0; i < 5; i++) p.prompt.push_back(int(rng() % n));
    if (rng() % 4 == 0) {
      p.restrict_allowed = true;
      for (int i = 0; i < n; i++)
        if (rng() % 3 == 0) p.allowed_ids.push_back(i);
      if (p.allowed_ids.empty()) p.allowed_ids.push_back(n - 1);
    }
    if (rng() % 3 == 0) p.set_bias({n / 2, 0}, {-5 * uniform01(), 5 * uniform01()});
    p.seed = (uint64_t(rng()) << 32) | rng();
    p.choice = rng() % 4;
    std::vector<int32_t> outputs;
    for (int i = int(rng() % 6); i > 0; i--) outputs.push_back(int(rng() % n));
    if (outputs.size() >= 2 && rng() % 2)
      p.bad_words = {{outputs[outputs.size() - 1], int(rng() % n)}, {outputs[0], outputs[0], 1}, {2}};
    if (rng() % 3 == 0) p.min_tokens = 3, p.end_ids = {0, 1};

    SamplingState state(p, n);
    for (int id : outputs) state.accept(id);
    const std::vector<float> row = logits;
    SamplerScratch scratch;
    scratch.size(n);
    const Sampled got = sample(k, state, row.data(), int(outputs.size()), nullptr, scratch);
    const auto q = distribution(logits, p, outputs);
    const double total = std::accumulate(q.begin(), q.end(), 0.0);
    if (!(total > 0)) {
      check(got.token == -1, "nothing permitted gives -1");
      continue;
    }
    const int want = draw(q, double(uniform53(p.seed, p.choice, uint32_t(outputs.size()), 0)) * 0x1p-53);
    compared++;
    if (got.token != want) {
      // Float32 against double: only a draw within 1e-5 of a boundary, or a cut within 1e-5 of its threshold, may
      // differ.
      borderline++;
      check(p.temperature != 0 || q[got.token] > 0, "greedy token");
    }
  }
  std::printf("%d draws against the plain rules, %d on a rounding boundary\n", compared, borderline);
  check(borderline <= compared / 200, "more than 0.5 % of draws differ from the plain rules");

  // Frequencies follow the distribution: chi-square over 20 tokens at 99.9 % (43.8 for 19 degrees of freedom).
  {
    std::vector<float> logits(20);
    for (float& x : logits) x = std::normal_distribution<float>()(rng);
    SamplingParams p;
    p.seed = 42;
    const auto q = distribution(logits, p, {});
    const double total = std::accumulate(q.begin(), q.end(), 0.0);
    std::vector<int> seen(20);
    SamplingState state(p, 20);
    const int draws = 200000;
    SamplerScratch scratch;
    scratch.size(20);
    for (int i = 0; i < draws; i++) {
      seen[sample(k, state, logits.data(), i, nullptr, scratch).token]++;
    }
    double chi = 0;
    for (int i = 0; i < 20; i++) chi += std::pow(seen[i] - draws * q[i] / total, 2) / (draws * q[i] / total);
    std::printf("chi-square %.1f over 19 degrees of freedom\n", chi);
    check(chi < 43.8, "frequencies");
  }

  // Top lists, ties, grammar masks, rank, hostile values.
  {
    std::vector<float> logits = {1, 3, 3, 2, -1, 3};
    SamplerScratch scratch;
    scratch.size(6);
    SamplingParams p;
    p.temperature = 0;
    p.top_logprobs = 4;
    SamplingState state(p, 6);
    auto row = logits;
    const auto got = sample(k, state, row.data(), 0, nullptr, scratch);
    check(got.token == 1 && got.top_ids == std::vector<int32_t>({1, 2, 5, 3}), "ties go to the lowest id");
    double lse = 0;
    for (float x : logits) lse += std::exp(double(x));
    check(std::fabs(got.logprob - (3 - std::log(lse))) < 1e-6, "logprob");
    const uint32_t mask[1] = {0b001001};
    row = logits;
    check(sample(k, state, row.data(), 0, mask, scratch).token == 3, "grammar mask");
    const uint32_t none[1] = {0};
    row = logits;
    const Sampled empty = sample(k, state, row.data(), 0, none, scratch);
    check(empty.token == -1 && empty.logprob == 0, "empty grammar mask");
    const auto rank = row_logprobs(k, logits.data(), 6, 3, 2, scratch);
    check(rank.rank == 4 && rank.top_ids == std::vector<int32_t>({1, 2}), "rank counts ties");
    row = {NAN, NAN, NAN, NAN, NAN, NAN};
    const Sampled none_of = sample(k, state, row.data(), 0, nullptr, scratch);
    check(none_of.token == -1 && std::isnan(none_of.logprob), "NaN logits permit nothing, and tell of it");
    row = {1, NAN, 2, 3, NAN, 4};
    const uint32_t wrong[1] = {0b010010};
    const Sampled masked = sample(k, state, row.data(), 0, wrong, scratch);
    check(masked.token == -1 && std::isnan(masked.logprob), "nor do those that a mask leaves");
    SamplingParams biased;
    check(biased.set_bias({4, 1, 2}, {1e9f, -200, 3}) == -1 && biased.bias_ids == std::vector<int32_t>({1, 2, 4}) &&
              biased.bias_values == std::vector<float>({-100, 3, 100}),
          "biases are sorted by token, within 100");
    check(biased.set_bias({4, 1, 4}, {1, 1, 2}) == 4, "a bias given twice");
    SamplingParams cold;
    cold.temperature = 1e-30f;
    SamplingState icy(cold, 6);
    row = {1, 2, 5, 4, 0, 3};
    check(sample(k, icy, row.data(), 0, nullptr, scratch).token == 2, "a temperature near zero is nearly greedy");
  }
  std::printf("%s\n", failures ? "FAILED" : "ok");
  return failures != 0;
}
