// The seam between what anneal does with models and the devices that compute them. A Backend is one model loaded on one
// device; a Device loads models. Ids, block tables, token ids and names cross it; the layouts of weights, pages and
// logits are a device's own.
//
// All calls are made by the dispatcher, one at a time, except where "any thread" is said; a step may run between two
// pieces of a training call. Arguments have been checked by the caller: ids, pages and positions are the model's. What
// takes memory may throw std::bad_alloc. Trainables and passes must not be used after their backend is gone.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "../model/tensors.h"
#include "../sampling/sampling_state.h"
#include "page.h"
#include "page_groups.h"

namespace anneal::backends {

// A published version of an adapter: immutable; shared by sampler and trainer. Made by a backend, for itself.
class Adapter {
 public:
  virtual ~Adapter() = default;
  virtual int64_t bytes() const = 0;  // that serving it takes
};
using AdapterRef = std::shared_ptr<const Adapter>;  // null: the base model

// Row-major float32 values in PEFT order, which live until the call returns: A [rank][inputs], B [outputs][rank].
using AdapterValues = std::function<const float*(int layer, int projection, bool b)>;

// A device that is not there, or lacks what computing needs.
struct UnusableDevice : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// A device that has stopped: its driver was reset, or it was unplugged. What was loaded on it is gone.
struct DeviceLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// A device's own memory does not suffice for a part of what is done ("the model's weights"). Bytes; `available` counts
// what the device says could be taken.
struct NoDeviceMemory : std::runtime_error {
  NoDeviceMemory(const std::string& part_, int64_t needed_, int64_t available_)
      : std::runtime_error(part_ + ": " + std::to_string(needed_) + " bytes of the device's memory are needed, " +
                           std::to_string(available_) + " are free"),
        part(part_),
        needed(needed_),
        available(available_) {}
  std::string part;
  int64_t needed, available;
};

// ---- inference

enum class WantedLogits : uint8_t { none, last, all };

// Tokens at consecutive positions of one sequence, to be computed in a step.
struct Run {
  const int32_t* tokens;  // [count]
  int count;
  int position;           // of the first token
  const int32_t* blocks;  // block table: pages of positions 0 .. position + count - 1, of each group; see page_groups()
  AdapterRef adapter;
  WantedLogits logits;  // of which tokens
  // Where the hidden states of the last `state_count` tokens go, after the final norm: [state_count][hidden], float32.
  float* states = nullptr;
  int state_count = 0;
  // Of a model whose logits are computed elsewhere: rows [vocab] of the wanted tokens.
  const float* given_logits = nullptr;
  // Entries of the block table for each group, where there are several: [groups][block_count].
  int block_count = 0;
  // Of a model with recurrent layers: the state of the sequence, which is that behind `position` tokens, and becomes
  // that behind these. At position 0 it need not hold anything.
  int recurrent = -1;
  // Of these tokens the last so many are guesses, whose logits are wanted: the state becomes that behind the others,
  // until it is told how many of them count. See Backend::keep_guesses().
  int guesses = 0;
  // Of a model whose layers are split among two devices, [count][hidden]: where the residual stream behind this one's
  // layers goes, before the final norm; and where that before them comes from, in the place of the tokens' embeddings.
  float* residual_out = nullptr;
  const float* residual_in = nullptr;

  // Of how many tokens the logits are wanted, the last ones.
  int logit_rows() const { return logits == WantedLogits::all ? count : logits == WantedLogits::last ? 1 : 0; }
};

// Logits of a step, where the device keeps them: a row for every token of which they were wanted, in the order of runs
// and tokens. Good until the backend's next step.
class Logits {
 public:
  virtual ~Logits() = default;
  int rows = 0;
};

// What is asked of one row of logits: a draw, or the log-probability of a token that is known (of a prompt).
struct RowRequest {
  int row = 0;
  // A draw: by this state, as the output of that index. Null: no draw.
  const sampling::SamplingState* draw = nullptr;
  int output = 0;
  int32_t given = -1;              // as if this token had been drawn
  const uint32_t* mask = nullptr;  // bit i % 32 of word i / 32 permits token i; null: all
  // If the likeliest token of all is none of these (sorted), `other_mask` is used instead.
  std::span<const int32_t> likeliest;
  const uint32_t* other_mask = nullptr;
  // A prompt's token and how many of the most likely ones to report, without a draw.
  int32_t prompt_token = -1;
  int prompt_top = -1;  // -1: nothing is asked about the prompt
};

struct RowResult {
  sampling::Sampled sampled{-1, 0, {}, {}};
  sampling::RowLogprobs prompt{};
};

// ---- training

struct OptimizerSettings {
  float learning_rate, beta1 = 0.9f, beta2 = 0.99f, eps = 1e-8f, weight_decay = 0.1f,
                       max_grad_norm = 0.1f;  // max_grad_norm 0: no clipping
};

// Something whose parameters are trained: an adapter, or all weights of a model.
class Trainable {
 public:
  virtual ~Trainable() = default;
  virtual void zero_grad() = 0;
  // Clips by the global norm, one AdamW step (matrices decay, norms and biases do not), gradients cleared, and the next
  // version made. Returns the norm before clipping; one that is not finite left the parameters as they were, as lack of
  // memory does. Throws Aborted: then the trainable must not be used further, and the version of before stays in use.
  virtual double optim_step(const OptimizerSettings&) = 0;
  // The version made by the latest step: what passes of this trainable use, and what publishing hands out. Null for
  // full training.
  virtual AdapterRef version() const = 0;
  virtual int64_t steps() const = 0;
  virtual void set_steps(int64_t) = 0;
  virtual const std::vector<model::TensorShape>& tensors() const = 0;
  enum class Part : uint8_t { value, gradient, moment1, moment2 };  // gradients are read only
  virtual void read(int tensor, Part, std::span<float> to) const = 0;     // throws Aborted
  virtual void write(int tensor, Part, std::span<const float> from) = 0;  // after writing values call refresh()
  virtual void refresh() = 0;  // throws Aborted, with the version of before in use
  // Nothing is asked of it for some time: the gradient goes, and of memory of passes what goes when it ends.
  virtual void rest() { zero_grad(); }
  // Bytes that it has, or takes in steps to come: masters, gradients, moments, and a version while the next one is
  // made. 0: the device does not tell.
  virtual int64_t bytes() const { return 0; }
};

// One row of a pass: tokens attend to each other causally. With `prefix` >= 0 it continues the first `prefix_length`
// tokens of that earlier row of the pass, which are computed once; `tokens` then are those that follow.
struct TrainRow {
  std::span<const int32_t> tokens;
  std::span<const uint8_t>
      trained;  // entry t: the prediction of token t + 1 from tokens 0..t is wanted; empty: all are
  // What the logits of each entry are divided by, above 0; empty: 1. Logprobs and entropies are those of the softmax at
  // that temperature.
  std::span<const float> temperatures = {};
  int prefix = -1, prefix_length = 0;
};

// Bytes are 0 where there is no limit. The numbers do not depend on them.
struct PassOptions {
  int64_t keep_bytes = 0;     // layers are kept up to here, and computed again in backward beyond
  int64_t memory_budget = 0;  // the pass never takes more: it is refused with NoRoom
  bool entropy_gradient =
      false;  // backward may be given gradients by entropies, which costs another product with the head
};
struct NoRoom : std::runtime_error {
  NoRoom(int64_t needed_, int64_t limit)
      : std::runtime_error("needs at least " + std::to_string(needed_) + " bytes, " + std::to_string(limit) +
                           " are allowed"),
        needed(needed_),
        available(limit) {}
  int64_t needed, available;
};

// The saved activations of a forward pass, and its results. Entry t of a row stands for predicting its token t + 1;
// what is not trained is 0.
class TrainPass {
 public:
  virtual ~TrainPass() = default;
  virtual std::span<const float> logprobs(int row) const = 0;   // natural log softmax of raw logits
  virtual std::span<const float> entropies(int row) const = 0;  // nats, over the whole vocabulary
  virtual int64_t bytes() const = 0;                            // of memory that it holds
  // Given dL/dlogprob of every row's entries (an empty row: zeros), and dL/dentropy (empty: zeros; else the pass was
  // made for it), adds the gradient of L to the trainable's. Returns false if aborted: then nothing counts. May be
  // called again.
  using RowGradients = std::span<const std::span<const float>>;
  virtual bool backward(RowGradients by_logprob, RowGradients by_entropy) = 0;
};

// ----

// What quantised weights are judged by: as much of it as there are pages and positions for.
struct GateText {
  std::span<const int32_t> tokens;
  // Of a model whose layers are split among two devices, [tokens][hidden]: see Run. The head is judged behind the last.
  float* residual_out = nullptr;
  const float* residual_in = nullptr;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const model::ModelSpec& spec() const = 0;
  virtual const char* name() const = 0;  // of the device's arithmetic: "avx512bf16"
  virtual int pages() const = 0;         // of all groups
  // Pages of groups with a window are not read where no token of a run sees them: such entries of a block table may be
  // -1.
  virtual const PageGroups& page_groups() const {
    static const PageGroups whole;
    return whole;
  }
  virtual int recurrent_states() const { return 0; }
  // Whether guesses may be among the tokens of a sequence that has a recurrent state.
  virtual bool takes_guesses_back() const { return false; }
  // Of the logits that a step holds, at most, but for a few rows.
  virtual int64_t logit_bytes() const { return int64_t(64) << 20; }
  // Before anything else is asked: decides by a text which quantised weights are multiplied with activations as they
  // are, since less than 95 % of their products would be left with activations of 8 bits. The names of these; a device
  // that multiplies all alike has none.
  virtual std::vector<std::string> gate_activations(const GateText&) { return {}; }

  // Of one whose arithmetic has bits of its own by choice: from here on, for steps, the exact one or its own. False: it
  // knows one only.
  virtual bool set_exact(bool) { return false; }
  // Whether memory of training passes stays for the next trainer when one has ended. False, as at first: what was kept
  // is given back.
  virtual void keep_training_memory(bool) {}

  // Runs tokens through the model, writing their keys and values into pages. Runs write different pages and states.
  // Null if aborted.
  virtual const Logits* step(std::span<const Run>) = 0;
  // A step may be left to be done together with its samples. Called where making the requests for these takes long: the
  // device begins meanwhile.
  virtual void start() {}
  // Answers the requests, one result each. False if aborted.
  virtual bool sample(const Logits&, std::span<const RowRequest>, std::span<RowResult>) = 0;
  // Behind how many of its guesses each of the latest step's runs goes on: moves their recurrent states there. False if
  // aborted.
  virtual bool keep_guesses(std::span<const int> /* kept */) { return true; }
  virtual void copy_page(int from, int to) = 0;
  virtual void copy_recurrent_state(int /* from */, int /* to */) {}

  // Null if aborted.
  virtual AdapterRef load_adapter(const model::LoraSpec&, const AdapterValues&) = 0;

  // A trainable adapter; A kaiming-uniform (a = sqrt 5) from a counter-based generator keyed by seed, B zero; or the
  // values given.
  virtual std::unique_ptr<Trainable> train_adapter(const model::LoraSpec&, uint64_t seed,
                                                   const AdapterValues* values) = 0;
  // All weights, trained in place. No adapters or other training at the same time.
  virtual std::unique_ptr<Trainable> train_weights() = 0;
  // Forward over rows with activations kept, for a backward into `trainable`'s gradients; null: an evaluation of
  // `adapter`. Keys and values go to pages of the pass's own. Null if aborted; throws NoRoom.
  virtual std::unique_ptr<TrainPass> forward(std::span<const TrainRow>, Trainable* trainable, const AdapterRef& adapter,
                                             const PassOptions&) = 0;
  // The most bytes that passes over these rows hold, one after the other: forward passes and their backward for
  // `trainable`, and evaluations. Takes none of it. Throws NoRoom. 0: the device does not tell.
  virtual int64_t pass_bytes(std::span<const std::vector<TrainRow>> /* trained */,
                             std::span<const std::vector<TrainRow>> /* evaluated */, Trainable* /* trainable */,
                             const PassOptions&) {
    return 0;
  }
};

// Reads rows [row0, row0 + rows) of a named tensor (a vector as one row). Throws when it cannot.
struct TensorReader {
  std::function<void(const std::string& name, int64_t row0, int64_t rows, float* to)> floats;
  // How a tensor is stored, and its rows as they are, of bfloat16 or a quantised one. Without these all are floats.
  std::function<model::TensorFormat(const std::string& name)> stored = {};
  std::function<void(const std::string& name, int64_t row0, int64_t rows, uint8_t* to)> blocks = {};
};

struct ModelMemory {
  int64_t weights, page, activations_per_token;  // bytes; of a page in all groups
  PageGroups groups = {};
  int64_t recurrent_state = 0;  // bytes of one
};

// What sequences of a model have room for.
struct CacheSize {
  int pages, recurrent_states;
  CacheSize(int pages_, int recurrent_states_ = 0) : pages(pages_), recurrent_states(recurrent_states_) {}
};

// A way of computing. Exact ones all give the same bits; the others have bits of their own.
struct Arithmetic {
  std::string name;
  bool exact;
};

class Device {
 public:
  virtual ~Device() = default;
  // Throws UnsupportedModel, naming the field of the spec that asks for what the device does not have. Any thread, as
  // memory().
  virtual void require(const model::ModelSpec&) const = 0;
  virtual ModelMemory memory(const model::ModelSpec&) const = 0;
  // Ways of computing that this machine can run, the best of each kind last.
  virtual std::vector<Arithmetic> arithmetics() const = 0;
  // `arithmetic`: the name of one of those, empty for the best exact one. `progress` is given the fraction done; null
  // is returned when it returns false.
  virtual std::unique_ptr<Backend> load(const model::ModelSpec&, CacheSize, const std::string& arithmetic,
                                        const TensorReader&, const std::function<bool(double)>& progress) const = 0;
  // Bytes of the device's own memory that could be taken now.
  virtual int64_t available_memory() const = 0;
};

}  // namespace anneal::backends
