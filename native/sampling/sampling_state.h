// What a choice's next token is drawn by, on whatever device: the parameters of its request, and what has been drawn so
// far.
//
// Order of the filters (greedy stops after the penalties): grammar mask, allowed ids, bad words, min_tokens, logit
// bias, penalties (repetition, frequency, presence), temperature, min-p, top-k, top-p, draw. Ties go to the lowest id.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <variant>
#include <vector>

namespace anneal::sampling {

struct SamplingParams {
  float temperature = 1;  // 0: greedy
  float top_p = 1;
  int top_k = 0;  // 0: off
  float min_p = 0;
  float repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  uint64_t seed = 0;
  uint32_t choice = 0;               // index of the choice: its own stream of draws
  int min_tokens = 0;                // until then `end_ids` are masked
  std::vector<int32_t> end_ids;      // sorted
  std::vector<int32_t> bias_ids;     // sorted, unique
  std::vector<float> bias_values;    // clamped to [-100, 100]
  std::vector<int32_t> allowed_ids;  // sorted, unique; empty with `restrict_allowed` false: no restriction
  bool restrict_allowed = false;
  std::vector<std::vector<int32_t>> bad_words;
  std::vector<int32_t> prompt;       // for the repetition penalty
  int top_logprobs = -1;             // how many of the most likely tokens to report; -1: none
  std::vector<int32_t> logprob_ids;  // report the token drawn and these instead

  // As many values as ids. Returns a token that is named twice, or -1.
  int32_t set_bias(const std::vector<int32_t>& ids, const std::vector<float>& values);
};

// A number that JavaScript gives by this name: where it goes, and which values are taken.
struct SamplingNumber {
  const char* name;
  std::variant<float SamplingParams::*, int SamplingParams::*> member;  // int: whole numbers only
  double min, max;
};

inline constexpr SamplingNumber kSamplingNumbers[] = {
    {"temperature", &SamplingParams::temperature, 0, 3e38},
    {"topP", &SamplingParams::top_p, 0, 1},
    {"topK", &SamplingParams::top_k, 0, INT32_MAX},
    {"minP", &SamplingParams::min_p, 0, 1},
    {"repetitionPenalty", &SamplingParams::repetition_penalty, 1e-6, 1e6},
    {"frequencyPenalty", &SamplingParams::frequency_penalty, -1e6, 1e6},
    {"presencePenalty", &SamplingParams::presence_penalty, -1e6, 1e6},
};

struct Sampled {
  int32_t token;  // -1: no token is permitted
  // Raw log softmax of the model's logits, before everything above; NaN where these, or all that are permitted, are no
  // numbers.
  float logprob;
  std::vector<int32_t> top_ids;  // falling probability, ties by lower id; or as logprob_ids say
  std::vector<float> top_logprobs;
  // Log softmax of the model's logits divided by the temperature, for training at it; NaN where nothing is reported, or
  // the temperature is 0 or 1.
  float temperature_logprob = std::numeric_limits<float>::quiet_NaN();
};

// Raw log probabilities of a prompt token and the k most likely tokens of its row.
struct RowLogprobs {
  float logprob;
  int32_t rank;  // tokens with logprob >= this one's; 1 is the best
  std::vector<int32_t> top_ids;
  std::vector<float> top_logprobs;
};
class SamplingState {
 public:
  SamplingState(SamplingParams params, int vocab);
  void accept(int32_t token);  // appends to the outputs
  void take_back(int count);   // the last outputs

  const SamplingParams& params() const { return params_; }
  int vocab() const { return vocab_; }
  const std::vector<int32_t>& outputs() const { return outputs_; }
  // Bit i % 32 of word i / 32 permits id i; empty: all are allowed.
  const std::vector<uint32_t>& allowed() const { return allowed_; }
  struct Seen {
    int32_t id;
    bool in_prompt;
    int count;
  };
  // Whether what has come makes tokens less likely, or more: a penalty is set.
  bool penalises() const {
    return params_.repetition_penalty != 1 || params_.frequency_penalty != 0 || params_.presence_penalty != 0;
  }
  // Where there are penalties, ids of the outputs, and of the prompt where repetition is penalised.
  const std::vector<Seen>& seen() const { return seen_; }
  bool too_few() const { return int(outputs_.size()) < params_.min_tokens; }
  bool edits_logits() const;
  // Whether allowed ids, bad words and min_tokens leave the next token to be `token`.
  bool permits(int32_t token) const;
  // Calls `forbid` with each token that would complete a bad word.
  template <class F> void bad_words(F&& forbid) const {
    for (const auto& word : params_.bad_words) {
      if (word.empty() || word.back() < 0 || word.back() >= vocab_) continue;
      const size_t prefix = word.size() - 1;
      if (prefix > outputs_.size()) continue;
      if (std::equal(word.begin(), word.end() - 1, outputs_.end() - prefix)) forbid(word.back());
    }
  }

 private:
  Seen& see(int32_t id);
  SamplingParams params_;
  int vocab_;
  std::vector<uint32_t> allowed_;
  std::vector<int32_t> outputs_;
  std::vector<Seen> seen_;
  std::unordered_map<int32_t, int> seen_at_;
};

}  // namespace anneal::sampling
