#include "arithmetic_difference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace anneal::inference {
namespace {

std::vector<float> logprobs_of(backends::Backend& backend, std::span<const int32_t> text) {
  const size_t count = (text.size() + backends::kPage - 1) / backends::kPage;
  std::vector<int32_t> blocks(count * size_t(backend.page_groups().count()));
  std::iota(blocks.begin(), blocks.end(), 0);
  backends::Run run{};
  run.tokens = text.data(), run.count = int(text.size()), run.blocks = blocks.data();
  run.recurrent = backend.recurrent_states() > 0 ? 0 : -1;
  run.block_count = int(count), run.logits = backends::WantedLogits::all;
  std::vector<backends::RowRequest> requests(text.size() - 1);
  for (size_t t = 0; t < requests.size(); t++)
    requests[t].row = int(t), requests[t].prompt_token = text[t + 1], requests[t].prompt_top = 0;
  std::vector<backends::RowResult> results(requests.size());
  std::vector<float> logprobs;
  const backends::Logits* logits = backend.step({&run, 1});
  if (!logits || !backend.sample(*logits, requests, results)) return logprobs;
  for (const backends::RowResult& result : results) logprobs.push_back(result.prompt.logprob);
  return logprobs;
}

}  // namespace

double difference_to_exact(backends::Backend& backend, std::span<const int32_t> text) {
  const size_t pages = size_t(backend.pages() / backend.page_groups().count()),
               positions = std::min(pages * backends::kPage, size_t(backend.spec().max_positions));
  text = text.first(std::min(text.size(), positions));
  if (text.size() < 2 || !backend.set_exact(true)) return 0;
  const std::vector<float> exact = logprobs_of(backend, text);
  backend.set_exact(false);
  const std::vector<float> own = logprobs_of(backend, text);
  if (own.empty() || own.size() != exact.size()) return 0;  // aborted
  double sum = 0;
  for (size_t t = 0; t < own.size(); t++) sum += std::fabs(double(own[t]) - double(exact[t]));
  return sum / double(own.size());
}

}  // namespace anneal::inference
