#include "row_sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "../../sampling/exact_share.h"
#include "../../sampling/random.h"

namespace anneal::vulkan {

using backends::RowRequest;
using backends::RowResult;
using sampling::SamplingParams;
using sampling::SamplingState;

namespace {

constexpr int kMaxTop = 64;
constexpr int64_t kBlockBytes = 24;  // as shaders/requests.glsl has it

// Invocations of the workgroup that has a row: a row's loads are in flight at once as many as it has.
int threads(const Gpu& gpu) { return std::min(1024, int(std::bit_floor(unsigned(gpu.max_invocations())))); }

// As shaders/requests.glsl has it. What is a list there is a place among words here.
struct Request {
  int32_t row = 0, temporary = 0;
  int32_t draws = 0;
  int32_t given = -1;
  int32_t top = 0;
  int32_t prompt_token = 0, asks_prompt = 0;
  int32_t mask = -1, other_mask = -1;
  int32_t likeliest = 0, likeliest_count = 0;
  int32_t forbidden = 0, forbidden_count = 0;
  int32_t bias = 0, bias_count = 0;  // (id, value)
  int32_t seen = 0, seen_count = 0;  // (id, how often in the output)
  int32_t asked = 0, asked_count = 0;
  float repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  float temperature = 0, least = 0, min_p = 0;
  int32_t top_k = 0;
  uint32_t dropped_low = 0, dropped_high = 0;
  uint32_t random_low = 0, random_high = 0;
  float inverse_temperature = 0;
  int32_t results = 0;
};
enum Result { kUndecided, kToken, kLogprob, kTemperatureLogprob, kPromptLogprob, kRank, kTopCount, kTop };

int wanted_top(const RowRequest& r) { return std::max({r.draw ? r.draw->params().top_logprobs : 0, r.prompt_top, 0}); }

struct Lists {
  int vocab;
  std::vector<uint32_t> words;

  int32_t place() const { return int32_t(words.size()); }
  int32_t ids(std::span<const int32_t> all) {
    const int32_t at = place();
    words.insert(words.end(), all.begin(), all.end());
    return at;
  }
  // What both permit; either may be null.
  int32_t mask(const uint32_t* bits, const std::vector<uint32_t>& allowed) {
    if (!bits && allowed.empty()) return -1;
    const int32_t at = place();
    for (size_t i = 0; i < size_t(vocab + 31) / 32; i++)
      words.push_back((bits ? bits[i] : ~0u) & (allowed.empty() ? ~0u : allowed[i]));
    return at;
  }

  void edits(const RowRequest& r, Request& out) {
    const SamplingState& s = *r.draw;
    const SamplingParams& p = s.params();
    out.mask = mask(r.mask, s.allowed());
    if (r.other_mask) {
      out.other_mask = mask(r.other_mask, s.allowed());
      out.likeliest = ids(r.likeliest), out.likeliest_count = int32_t(r.likeliest.size());
    }
    out.forbidden = place();
    s.bad_words([&](int32_t id) { words.push_back(uint32_t(id)); });
    if (s.too_few())
      for (int32_t id : p.end_ids)
        if (id >= 0 && id < vocab) words.push_back(uint32_t(id));
    out.forbidden_count = place() - out.forbidden;
    out.bias = place(), out.bias_count = int32_t(p.bias_ids.size());
    for (size_t i = 0; i < p.bias_ids.size(); i++)
      words.push_back(uint32_t(p.bias_ids[i])), words.push_back(std::bit_cast<uint32_t>(p.bias_values[i]));
    if (!s.penalises()) return;
    out.repetition_penalty = p.repetition_penalty;
    out.frequency_penalty = p.frequency_penalty, out.presence_penalty = p.presence_penalty;
    out.seen = place(), out.seen_count = int32_t(s.seen().size());
    for (const auto& [id, in_prompt, count] : s.seen()) words.push_back(uint32_t(id)), words.push_back(uint32_t(count));
  }
};

void set_draw(const RowRequest& r, int vocab, Request& out) {
  const SamplingParams& p = r.draw->params();
  out.temperature = flushed(p.temperature);
  // e^least is below min_p, by more than a rounding: what is above is compared itself.
  out.least = p.min_p > 0 ? std::log(p.min_p) - 1e-3f : -std::numeric_limits<float>::infinity();
  out.min_p = p.min_p;
  out.top_k = p.top_k < vocab ? p.top_k : 0;
  const uint64_t dropped = p.top_p < 1 ? sampling::fraction_below(p.top_p) : 0,
                 random = sampling::uniform53(p.seed, p.choice, uint32_t(r.output), 0);
  out.dropped_low = uint32_t(dropped), out.dropped_high = uint32_t(dropped >> 32);
  out.random_low = uint32_t(random), out.random_high = uint32_t(random >> 32);
}

// The numbers that the shader draws by. The host draws rows for which another one is set.
constexpr decltype(sampling::SamplingNumber::member) kDrawnBy[] = {&SamplingParams::temperature,
                                                                   &SamplingParams::top_p,
                                                                   &SamplingParams::top_k,
                                                                   &SamplingParams::min_p,
                                                                   &SamplingParams::repetition_penalty,
                                                                   &SamplingParams::frequency_penalty,
                                                                   &SamplingParams::presence_penalty};

bool draws(const SamplingParams& params) {
  static const SamplingParams neutral;
  return std::all_of(std::begin(sampling::kSamplingNumbers), std::end(sampling::kSamplingNumbers), [&](const auto& n) {
    return std::find(std::begin(kDrawnBy), std::end(kDrawnBy), n.member) != std::end(kDrawnBy) ||
           std::visit([&](auto member) { return params.*member == neutral.*member; }, n.member);
  });
}

}  // namespace

bool RowSampler::write(std::span<const RowRequest> requests) {
  asked_.clear(), at_.clear();
  std::vector<Request> all;
  Lists lists{vocab_, {}};
  int32_t results = 0, temporaries = 0;
  for (size_t i = 0; i < requests.size(); i++) {
    const RowRequest& r = requests[i];
    if (wanted_top(r) > kMaxTop || (!r.draw && r.prompt_top < 0)) continue;
    if (r.draw && !draws(r.draw->params())) continue;
    Request out{.row = r.row, .top = std::min(wanted_top(r), vocab_), .results = results};
    if (r.prompt_top >= 0) out.asks_prompt = 1, out.prompt_token = r.prompt_token;
    if (r.draw) {
      const SamplingParams& p = r.draw->params();
      out.draws = 1, out.given = r.given;
      out.asked = lists.ids(p.logprob_ids), out.asked_count = int32_t(p.logprob_ids.size());
      const float temperature = flushed(p.temperature);
      if (p.top_logprobs >= 0 && temperature != 0 && temperature != 1) out.inverse_temperature = 1.0f / temperature;
      if (r.given < 0) {
        lists.edits(r, out);
        set_draw(r, vocab_, out);
        out.temporary = temporaries++;
      }
    }
    results += kTop + 2 * out.top + out.asked_count;
    asked_.push_back(i), at_.push_back(out.results);
    all.push_back(out);
  }
  if (all.empty()) return false;

  const int64_t request_bytes = int64_t(all.size() * sizeof(Request)), list_bytes = int64_t(lists.words.size()) * 4;
  MemoryPlan plan(gpu_, "sampling " + std::to_string(all.size()) + " rows");
  const auto grow = [&](Memory& memory, int64_t bytes, Memory::Place place) {
    if (memory.bytes() < bytes) plan.add(memory, bytes + bytes / 2, place);
  };
  grow(given_, request_bytes + list_bytes, Memory::Place::upload);
  plan.add(temporaries_, int64_t(temporaries) * vocab_ * 4);
  plan.add(blocks_, int64_t(all.size()) * blocks_of_row(vocab_) * kBlockBytes);
  grow(found_, int64_t(results) * 4, Memory::Place::readback);
  plan.take();
  std::memcpy(given_.mapped<char>(), all.data(), size_t(request_bytes));
  if (list_bytes > 0) std::memcpy(given_.mapped<char>() + request_bytes, lists.words.data(), size_t(list_bytes));
  lists_at_ = request_bytes;
  return true;
}

void RowSampler::add_key(RecordingKey& key) const {
  key.insert(key.end(), {asked_.size(), given_.address(), temporaries_.address(), blocks_.address(), found_.address()});
}

void RowSampler::record(Commands& commands, uint64_t logits) const {
  const struct {
    uint64_t logits, requests, blocks;
    int32_t n, padding;
  } of_blocks{logits, given_.address(), blocks_.address(), vocab_, 0};
  commands.dispatch(gpu_->pipeline(Shader::kSampleBlocks), of_blocks, groups_of_row(vocab_), int64_t(asked_.size()));
  commands.barrier();
  const struct {
    uint64_t logits, requests, lists, rows, results, blocks;
    int32_t n, padding;
  } parameters{logits,
               given_.address(),
               given_.address() + uint64_t(lists_at_),
               temporaries_.address(),
               found_.address(),
               blocks_.address(),
               vocab_,
               0};
  commands.dispatch(gpu_->pipeline(Shader::kSample, {}, {uint32_t(threads(*gpu_))}), parameters,
                    int64_t(asked_.size()));
}

std::vector<size_t> RowSampler::read(std::span<const RowRequest> requests, std::span<RowResult> results) {
  std::vector<size_t> left;
  size_t next = 0;
  for (size_t i = 0; i < requests.size(); i++) {
    const RowRequest& r = requests[i];
    if (!r.draw && r.prompt_top < 0) continue;
    const bool recorded = next < asked_.size() && asked_[next] == i;
    const int32_t* const words = recorded ? found_.mapped<int32_t>() + at_[next++] : nullptr;
    if (!words || words[kUndecided]) {
      left.push_back(i);
      continue;
    }
    const auto number = [&](int at) { return std::bit_cast<float>(words[at]); };
    const int top = words[kTopCount];
    const auto report_top = [&](int count, auto& to) {
      for (int j = 0; j < std::min(count, top); j++)
        to.top_ids.push_back(words[kTop + j]), to.top_logprobs.push_back(number(kTop + top + j));
    };
    if (r.prompt_top >= 0) {
      results[i].prompt = {number(kPromptLogprob), words[kRank], {}, {}};
      report_top(r.prompt_top, results[i].prompt);
    }
    if (!r.draw) continue;
    const SamplingParams& p = r.draw->params();
    sampling::Sampled& sampled = results[i].sampled = {words[kToken], 0, {}, {}};
    report_top(p.top_logprobs, sampled);
    if (sampled.token < 0) continue;
    sampled.logprob = number(kLogprob);
    if (!p.logprob_ids.empty()) {
      sampled.top_ids.push_back(sampled.token), sampled.top_logprobs.push_back(sampled.logprob);
      for (size_t j = 0; j < p.logprob_ids.size(); j++) {
        if (p.logprob_ids[j] == sampled.token) continue;
        sampled.top_ids.push_back(p.logprob_ids[j]);
        sampled.top_logprobs.push_back(number(kTop + 2 * top + int(j)));
      }
    }
    const float temperature = flushed(p.temperature);
    if (p.top_logprobs >= 0 && temperature != 0 && temperature != 1)
      sampled.temperature_logprob = number(kTemperatureLogprob);
  }
  return left;
}

}  // namespace anneal::vulkan
