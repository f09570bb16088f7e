// Rows sampled on the first GPU there is, against the processor's sampler: every number of every result.
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>

#include "../cpu/row_sampler.h"
#include "open_gpu.h"
#include "row_sampler.h"

using namespace anneal::vulkan;
namespace backends = anneal::backends;
namespace cpu = anneal::cpu;
namespace sampling = anneal::sampling;

namespace {

struct OneThread final : anneal::executor::Pool {
  int workers() const override { return 1; }
  bool run(int64_t chunks, anneal::executor::ChunkFn f, void* context) override {
    anneal::executor::FloatMode mode;
    for (int64_t i = 0; i < chunks; i++) f(context, i, 0);
    return true;
  }
};

std::mt19937 rng(11);
float uniform01() { return std::uniform_real_distribution<float>(0, 1)(rng); }
int below(int n) { return int(rng() % uint32_t(n)); }

sampling::SamplingParams random_params(int n, int round) {
  sampling::SamplingParams p;
  p.temperature = round % 5 == 0 ? 0 : round % 7 == 0 ? 1 : 0.2f + 1.8f * uniform01();
  if (round % 23 == 0) p.temperature = 1e-30f;
  if (below(2)) p.top_k = 1 + below(below(4) ? 40 : n + 10);
  if (below(2)) p.top_p = round % 11 == 0 ? 0 : 0.05f + 0.95f * uniform01();
  if (below(3) == 0) p.min_p = 0.3f * uniform01();
  if (below(3) == 0) p.repetition_penalty = 0.5f + 1.5f * uniform01();
  if (below(3) == 0) p.frequency_penalty = 4 * uniform01() - 2;
  if (below(3) == 0) p.presence_penalty = 4 * uniform01() - 2;
  for (int i = 0; i < 5; i++) p.prompt.push_back(below(n));
  if (below(4) == 0) {
    p.restrict_allowed = true;
    for (int i = 0; i < n; i++)
      if (below(3) == 0) p.allowed_ids.push_back(i);
  }
  if (below(3) == 0) p.set_bias({n / 2, 0}, {-5 * uniform01(), 5 * uniform01()});
  if (below(3) == 0) p.bad_words = {{below(n)}, {3, 1}};
  if (below(3) == 0) p.min_tokens = 3, p.end_ids = {0, 1, n + 7};
  if (below(2)) p.top_logprobs = below(6);
  if (below(5) == 0) p.top_logprobs = 0, p.logprob_ids = {n - 1, 2, 2};
  p.seed = uint64_t(rng()) << 32 | rng();
  p.choice = rng() % 4;
  return p;
}

float random_logit(int round) {
  switch (round % 4) {
    case 0: return float(below(9)) - 4;  // ties
    case 1: return 0;
    default: return 3 * std::normal_distribution<float>()(rng);
  }
}

bool same(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b); }
bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * 4) == 0);
}
bool same(const backends::RowResult& a, const backends::RowResult& b) {
  return a.sampled.token == b.sampled.token && same(a.sampled.logprob, b.sampled.logprob) &&
         a.sampled.top_ids == b.sampled.top_ids && same(a.sampled.top_logprobs, b.sampled.top_logprobs) &&
         same(a.sampled.temperature_logprob, b.sampled.temperature_logprob) &&
         same(a.prompt.logprob, b.prompt.logprob) && a.prompt.rank == b.prompt.rank &&
         a.prompt.top_ids == b.prompt.top_ids && same(a.prompt.top_logprobs, b.prompt.top_logprobs);
}

// Of `rows` random rows; how many requests' results differ, or are left to the processor without a reason.
int compare(const std::shared_ptr<Gpu>& gpu, int n, int rows) {
  int wrong = 0;
  std::vector<float> logits(size_t(rows) * n);
  std::vector<sampling::SamplingState> states;
  std::vector<std::vector<uint32_t>> masks;
  std::vector<bool> strange(size_t(rows), false);
  for (int row = 0; row < rows; row++) {
    for (int i = 0; i < n; i++) logits[size_t(row) * n + i] = random_logit(row);
    if (row % 4 == 2 && below(3) == 0) logits[size_t(row) * n + below(n)] = -INFINITY;
    strange[size_t(row)] = row % 13 == 12;
    if (strange[size_t(row)]) logits[size_t(row) * n + below(n)] = row % 2 ? NAN : INFINITY;
    states.emplace_back(random_params(n, row), n);
    for (int i = below(6); i > 0; i--) states.back().accept(below(n));
    for (int m = 0; m < 2; m++) {
      masks.emplace_back(size_t(n + 31) / 32);
      for (uint32_t& word : masks.back()) word = row % 17 == 3 ? 0 : rng();
    }
  }
  const int32_t likeliest[] = {0, 1, 2};
  std::vector<backends::RowRequest> requests;
  for (int row = 0; row < rows; row++) {
    backends::RowRequest r;
    r.row = row;
    if (row % 6 != 5) r.draw = &states[size_t(row)], r.output = row;
    if (r.draw && row % 10 == 9) r.given = below(n);
    if (r.draw && row % 3 == 1) r.mask = masks[size_t(2 * row)].data();
    if (r.mask && row % 2) r.likeliest = likeliest, r.other_mask = masks[size_t(2 * row + 1)].data();
    if (row % 5 == 0 || row % 6 == 5) r.prompt_token = below(n), r.prompt_top = row % 3 == 2 ? 70 : below(12);
    requests.push_back(r);
  }

  const int64_t bytes = int64_t(logits.size()) * 4;
  Memory up(gpu, bytes, Memory::Place::upload), there(gpu, bytes);
  std::memcpy(up.mapped<char>(), logits.data(), size_t(bytes));
  Commands commands(gpu);
  commands.copy(up, 0, there, 0, bytes);
  commands.barrier();
  RowSampler sampler(gpu, n);
  sampler.write(requests);
  sampler.record(commands, there.address());
  commands.run();
  std::vector<backends::RowResult> found(requests.size()), wanted(requests.size());
  const std::vector<size_t> left = sampler.read(requests, found);

  OneThread pool;
  cpu::RowSampler own(*cpu::kernels(cpu::best_isa(), cpu::DType::f32), pool, n);
  own.sample([&](int row) { return logits.data() + int64_t(row) * n; }, requests, wanted);
  for (size_t i = 0; i < requests.size(); i++) {
    const bool is_left = std::find(left.begin(), left.end(), i) != left.end();
    const bool may_be = strange[i] || requests[i].prompt_top > 64;
    if (is_left == may_be && (is_left || same(found[i], wanted[i]))) continue;
    if (wrong++ < 8)
      std::printf("%d tokens, request %zu: %s %d, not %d\n", n, i, is_left ? "left" : "drew", found[i].sampled.token,
                  wanted[i].sampled.token);
  }
  return wrong;
}

}  // namespace

int main() {
  if (Gpu::list().empty()) {
    puts("no Vulkan device\nok");
    return 0;
  }
  const auto gpu = open_gpu(0);
  if (!gpu->arithmetic().exact) {
    puts("the Vulkan device has bits of its own\nok");
    return 0;
  }
  int wrong = 0;
  for (const auto& [n, rows] : {std::pair{1, 4}, {5, 40}, {300, 200}, {1537, 200}, {70001, 24}})
    wrong += compare(gpu, n, rows);
  std::printf("%d of the requests were answered otherwise\n%s\n", wrong, wrong == 0 ? "ok" : "failed");
  return wrong != 0;
}
