// A decoder language model on one device: weights, KV pages, adapters, and the passes over them.
//
// All calls are made by the dispatcher thread, one at a time, except where "any thread" is said; a step may run inside a training
// pass's pool loop. Arguments have been checked by the caller's boundary against the ranges given here; create() and whatever takes
// memory throw std::runtime_error with a message for people. Trainables and passes must not be used after their decoder is gone; the
// pools given to create() (loading, optimizer steps) and forward() (that pass's backward) must live as long as what was made with them.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../executor/pool.h"
#include "kernels/kernels.h"

namespace anneal::cpu {

using executor::Pool;

enum class Rope : uint8_t { standard, linear, llama3, yarn };

struct RopeConfig {
  Rope type = Rope::standard;
  double theta = 10000, factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;           // llama3
  double original_max_positions = 0;                          // llama3, yarn
  double attention_factor = 0, beta_fast = 32, beta_slow = 1; // yarn; attention_factor 0: 0.1 ln(factor) + 1
  double mscale = 0, mscale_all_dim = 0;                      // yarn; 0: absent
  bool truncate = true;                                       // yarn
};

// Families are data: Llama, Mistral, Qwen2, Qwen3 differ only in these.
struct DecoderConfig {
  int hidden, intermediate, layers, heads, kv_heads, head_dim, vocab, max_positions;
  float rms_eps;
  bool tied_head, qk_norm;
  bool q_bias, k_bias, v_bias, o_bias, mlp_bias;
  RopeConfig rope;
  DType dtype;      // of weights and activations
};

// The seven projections an adapter may target, and their Hugging Face names.
enum Projection : int { kQ, kK, kV, kO, kGate, kUp, kDown, kProjections };

// Reads rows [row0, row0 + rows) of a named two-dimensional tensor (or a vector as one row) as float32.
// Throws std::runtime_error when it cannot. Names are Hugging Face's: model.layers.0.self_attn.q_proj.weight, ...
using TensorReader = std::function<void(const std::string& name, int64_t row0, int64_t rows, float* dst)>;

// A published adapter version: immutable compute copies; shared by sampler and trainer.
class AdapterVersion;
using AdapterRef = std::shared_ptr<const AdapterVersion>;   // null: the base model

// A contiguous run of one sequence's tokens to be computed in a step.
struct StepRun {
  const int32_t* tokens;        // [count]
  int count;
  int position;                 // of the first token
  const int32_t* blocks;        // block table: page ids covering positions 0 .. position + count - 1
  AdapterRef adapter;
  // Rows of logits wanted: 0 none, 1 the last token only, 2 every token.
  int logits;
};

struct LogitsOut {
  float* data;                  // [rows][ld], ld >= 16 * panels_of(vocab); rows in run order
  int64_t ld;
};

struct LoraSpec {
  int rank;
  float alpha;                  // scale = alpha / rank (rslora: alpha / sqrt(rank))
  bool rslora = false;
  bool targets[kProjections] = {};
};

struct OptimizerSettings { float learning_rate, beta1 = 0.9f, beta2 = 0.99f, eps = 1e-8f, weight_decay = 0.1f, max_grad_norm = 0.1f; /* 0: no clipping */ };

// Something whose parameters are trained: an adapter, or all weights of a model.
class Trainable {
 public:
  virtual ~Trainable() = default;
  virtual void zero_grad() = 0;
  // Clips by global norm, one AdamW step (weights of full training decay, norms and biases do not; adapters decay), gradients cleared, compute copies refreshed. Returns the norm before clipping.
  // A non-finite norm leaves parameters untouched, clears gradients, and is returned as it is.
  // Throws Aborted: then the trainable must not be used further, and what was made of it last stays as it is.
  virtual double optim_step(const OptimizerSettings&) = 0;
  // The version made by the latest step: what forward passes of this trainable use, and what publishing hands out. Null for full training.
  virtual AdapterRef version() const = 0;
  virtual int64_t steps() const = 0;
  virtual void set_steps(int64_t) = 0;
  // Tensors by Hugging Face / PEFT name (base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight, or model.layers...), row-major float32.
  struct Tensor { std::string name; int64_t rows, cols; };   // cols 0: a vector of `rows`
  virtual const std::vector<Tensor>& tensors() const = 0;
  enum class Part { value, gradient, moment1, moment2 };         // gradients are read only
  virtual void read(int tensor, Part, float* dst) const = 0;
  virtual void write(int tensor, Part, const float* src) = 0;  // after writing values call refresh()
  virtual void refresh() = 0;                                  // throws Aborted, with the version of before in use
};

// Bytes are 0 where there is no limit. The numbers do not depend on them.
struct PassOptions {
  int64_t keep_bytes = 0;         // layers are kept up to here, and computed again in backward beyond
  int64_t memory_budget = 0;      // the pass never takes more: it is refused with NoRoom
  bool entropy_gradient = false;  // backward may be given gradients by entropies, which costs another product with the head
};
struct NoRoom : std::runtime_error {
  NoRoom(int64_t needed_, int64_t limit) : std::runtime_error("needs at least " + std::to_string(needed_) + " bytes, " + std::to_string(limit) + " are allowed"), needed(needed_) {}
  int64_t needed;
};

// One training row: tokens attend to each other causally. With `prefix >= 0` the row continues the first `prefix_length` tokens
// of row `prefix` (an earlier row of the same call), which are computed once: `tokens` then holds only what follows, and position 0 of
// `tokens` sits at absolute position prefix_length.
struct TrainRow {
  const int32_t* tokens;
  int count;
  int prefix = -1, prefix_length = 0;
  // [count] what the logits of each entry are divided by, above 0; null: 1 everywhere. Logprobs and entropies are those of the softmax
  // at that temperature.
  const float* temperatures = nullptr;
};

// The saved activations of a forward pass over rows, and its results.
// Index t of a row stands for predicting its token t+1 from tokens 0..t (t < count - 1); entry count - 1 is 0.
// In a row with a prefix, the prediction of its first own token belongs to entry prefix_length - 1 and is reported in `first_logprob`.
class TrainPass {
 public:
  virtual ~TrainPass() = default;
  virtual const float* logprobs(int row) const = 0;         // [count] log softmax of raw logits at the next token, natural
  virtual const float* entropies(int row) const = 0;        // [count] nats, full vocabulary
  virtual float first_logprob(int row) const = 0;           // rows with a prefix: of tokens[0] after the prefix; else 0
  virtual float first_entropy(int row) const = 0;
  virtual int64_t bytes() const = 0;                        // of memory that it holds
  // Given dL/dlogprob of every row's entries ([row][t]; null: zeros), of the first_logprobs ([row]; null: zeros), and dL/dentropy of the
  // entries (null: zeros; else the pass was made with their gradient), adds the gradient of L to the trainable's. Entries outside
  // `trained` are ignored. Returns false if aborted (nothing counted). May be called again.
  virtual bool backward(const float* const* dlogprob, const float* dfirst, const float* const* dentropy = nullptr) = 0;
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  // `progress` is given the fraction done; null is returned when it returns false.
  static std::unique_ptr<Decoder> create(const DecoderConfig&, const Kernels&, Pool&, int pages, const TensorReader&, const std::function<bool(double)>& progress);
  // Bytes that create() will take for weights and for each page; for the memory check before loading. Any thread.
  static int64_t weight_bytes(const DecoderConfig&);
  static int64_t page_bytes(const DecoderConfig&);

  virtual const DecoderConfig& config() const = 0;
  virtual int pages() const = 0;

  // Runs tokens through the model, writing their keys and values into pages, and logits of the wanted rows. Returns false if aborted.
  virtual bool step(Pool&, const StepRun* runs, int count, LogitsOut) = 0;
  virtual void copy_page(int from, int to) = 0;
  virtual void clear_page(int page) = 0;     // zeros: a page must be cleared before a new sequence writes its first slot (done inside step at slot 0 as well)

  // Adapters. Row-major float32 values in PEFT order, which live until the call returns: lora_A [rank][in], lora_B [out][rank] per (layer, target).
  using AdapterValues = std::function<const float*(int layer, Projection, bool b)>;
  // Null if aborted.
  virtual AdapterRef load_adapter(Pool&, const LoraSpec&, const AdapterValues&) = 0;
  // A trainable adapter; A from kaiming-uniform(a = sqrt 5) with the counter-based generator keyed by seed, B zero (or the values given).
  virtual std::unique_ptr<Trainable> train_adapter(const LoraSpec&, uint64_t seed, const AdapterValues* values) = 0;
  // All weights trained in place (float32 masters beside the compute weights). No adapters or other training at the same time.
  virtual std::unique_ptr<Trainable> train_weights() = 0;

  // Forward over rows with activations kept. `trainable` null: evaluation of `adapter` only (no backward). `trained[row][t]` says which entries need
  // logprobs at all (others are 0 and cost no head pass); null: all. Pages for K and V are the pass's own, not the cache's.
  // Returns null if aborted; throws NoRoom.
  virtual std::unique_ptr<TrainPass> forward(Pool&, const TrainRow* rows, int count, const uint8_t* const* trained, const uint8_t* first_trained,
                                             Trainable* trainable, const AdapterRef& adapter, const PassOptions&) = 0;
  static int64_t activation_bytes_per_token(const DecoderConfig&);
};

}  // namespace anneal::cpu
