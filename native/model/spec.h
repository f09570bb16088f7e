// What a model is, whatever computes it: sizes, and layer by layer what each does. Families are data; a table in
// TypeScript makes specs of their configurations, and a device refuses by name what it does not have.
#pragma once
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tensor_format.h"

namespace anneal::model {

// proportional: all of a head turns, and its elements behind the rotary share by nothing.
enum class RopeType : uint8_t { none, standard, linear, llama3, yarn, longrope, proportional };

// Rotary position embedding of one layer, half rotation (element i turns with i + rotary width / 2).
struct RopeSpec {
  RopeType type = RopeType::standard;
  double theta = 10000, factor = 1;
  double rotary_share = 1;                                     // of a head's elements, from the first
  double low_freq_factor = 1, high_freq_factor = 4;            // llama3
  double original_max_positions = 0;                           // llama3, yarn
  double attention_factor = 0, beta_fast = 32, beta_slow = 1;  // yarn; attention_factor 0: 0.1 ln(factor) + 1
  double mscale = 0, mscale_all_dim = 0;                       // yarn; 0: absent
  bool truncate = true;                                        // yarn
  // Turned queries are multiplied with 1 + query_scale ln(1 + floor(position / original_max_positions)); 0: with 1.
  double query_scale = 0;
  // longrope: of each pair's wavelength [rotary / 2]. Which of them count is fixed by the model's positions: the long
  // ones where these are more than the original ones.
  std::vector<double> short_factors, long_factors;
  const std::vector<double>& factors(int max_positions) const {
    return max_positions > original_max_positions ? long_factors : short_factors;
  }
  bool operator==(const RopeSpec&) const = default;
};

// Attention of heads / kv_heads query heads to each key-value head.
struct AttentionSpec {
  int heads = 0, kv_heads = 0, head_dim = 0;
  RopeSpec rope;
  double scale = 0;      // of q.k, see score_scale(); 0: 1 / sqrt(head_dim)
  int window = 0;        // positions that a token sees, itself included; 0: all before it
  double soft_cap = 0;   // scores become cap * tanh(score / cap); 0: as they are
  bool qk_norm = false;  // an RMS norm of every head of q and k, before rope
  bool q_bias = false, k_bias = false, v_bias = false, o_bias = false;
  bool fused_qkv = false;  // stored, and adapted, as one projection
  // Every head of q_proj is followed by a gate, of which the logistic multiplies what the head puts out.
  bool output_gate = false;
  // Every head has a score of its own, which takes part in the softmax of every row and has no value.
  bool sinks = false;
  bool v_norm = false;            // an RMS norm of every head of v, which has no weight
  bool values_from_keys = false;  // there is no v_proj: values are what k_proj puts out
  int keys_of = -1;               // the layer before whose keys and values are attended to; -1: its own

  float score_scale() const;
  // Elements of a head that turn with its position.
  int rotary() const { return rope.type == RopeType::proportional ? head_dim : int(head_dim * rope.rotary_share); }
  int group() const { return heads / kv_heads; }  // query heads of a key-value head
  int q_width() const { return heads * head_dim; }
  int q_stride() const { return output_gate ? 2 * head_dim : head_dim; }  // from head to head of what q_proj puts out
  int kv_width() const { return kv_heads * head_dim; }
};

// Gated delta rule (Yang, Kautz, Hatamizadeh 2024), after a short convolution over the tokens: every value head has a
// state in the place of keys and values. A key head is that of value_heads / key_heads value heads.
struct DeltaRuleSpec {
  int key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  int kernel = 0;  // tokens of the convolution
  int group() const { return value_heads / key_heads; }
  int value_width() const { return value_heads * value_dim; }
  int conv_width() const { return 2 * key_heads * key_dim + value_width(); }
};

constexpr int kMaxConvolution = 16;  // tokens

// A gated short convolution. What its first projection puts out is b, c and x, one after the other; the second is given
// c times a causal depthwise convolution, over the tokens, of b times x: a sequence has the last products of b and x as
// its state, in the place of keys and values.
struct ShortConvolutionSpec {
  int width = 0;      // of each of the three
  int kernel = 0;     // tokens
  bool bias = false;  // of the convolution and of both projections
};

// clamped_swiglu: of gate up to 7 and up from -7 to 7, gate * logistic(1.702 gate) * (up + 1).
enum class Activation : uint8_t { silu, gelu_tanh, clamped_swiglu };

// down(activation(gate(x)) * up(x)), or down(activation(gate(x), up(x)))
struct FeedForwardSpec {
  int intermediate = 0;
  Activation activation = Activation::silu;
  bool bias = false;
  bool fused_gate_up = false;  // stored, and adapted, as one projection
};

// The sum of the feed-forwards of `per_token` of `count` experts, each times its weight: the router's logits, a product
// of the same input, choose the largest, and are their weights by softmax, or each by its logistic.
struct ExpertsSpec {
  int count = 0, per_token = 0;
  int intermediate = 0;  // of each
  Activation activation = Activation::silu;
  bool normalized = true;  // the weights of those chosen are divided by their sum
  // Of a further expert, which every row has, by the logistic of a logit of its own; 0: there is none. It counts as
  // the last.
  int shared_intermediate = 0;
  bool bias = false;  // of the router and of each expert's products
  // Weights are `scale` times the logistic of their logits, divided by their sum where normalized; with a score bias,
  // those are chosen whose logistic and bias together are largest.
  bool logistic = false, score_bias = false;
  double scale = 1;
  int shared() const { return shared_intermediate > 0; }
  int total() const { return count + shared(); }
  int per_row() const { return per_token + shared(); }
  int intermediate_of(int expert) const { return expert == count ? shared_intermediate : intermediate; }
  // Elements of a row's activations from one of its experts to the next: whole panels.
  int stride() const {
    const int widest = intermediate > shared_intermediate ? intermediate : shared_intermediate;
    return (widest + 15) / 16 * 16;
  }
};

// Where a layer normalises: before attention and feed-forward (input_layernorm, post_attention_layernorm), or what they
// put out as well.
enum class NormPlacement : uint8_t { before, before_and_after };

// How a layer's tensors, and what adapters target of it, are called: as most families do, or as LFM2.
enum class LayerNames : uint8_t { usual, lfm2 };

// One layer: x += attention(norm(x)), x += feed_forward(norm(x)), and where the model has token inputs
// x += norm(out(activation(gate(x)) * token input)). A new kind of layer is a field here, and a forward
// and a backward in each backend that has it.
struct LayerSpec {
  AttentionSpec attention;
  std::optional<DeltaRuleSpec> delta_rule;  // in the place of attention, which then says nothing
  FeedForwardSpec feed_forward;
  std::optional<ExpertsSpec> experts;  // in the place of the feed-forward, which then says nothing
  NormPlacement norms = NormPlacement::before;
  double residual_scale = 1;  // of what attention and feed-forward add
  bool scaled = false;        // what the layer puts out is multiplied with a number of its own
  LayerNames names = LayerNames::usual;
  // Likewise in the place of attention.
  std::optional<ShortConvolutionSpec> short_convolution;
  bool attends() const { return !delta_rule && !short_convolution; }
  // A convolution of one token has none.
  bool has_state() const { return delta_rule || (short_convolution && short_convolution->kernel > 1); }
};

struct ModelSpec {
  int hidden = 0, vocab = 0, max_positions = 0;
  std::vector<LayerSpec> layers;
  float rms_eps = 1e-6f;
  bool norm_adds_one = false;  // norms multiply by 1 + weight
  bool tied_head = false;      // the head's weight is the embedding's
  double embedding_scale = 1, logit_scale = 1;
  bool embedding_rounds = false;  // the scale and scaled embeddings are rounded to the format
  double logit_soft_cap = 0;      // 0: none
  int token_inputs = 0;  // width of what every layer is given of a token beside the residual stream; 0: nothing
  TensorFormat format = TensorFormat::f32;  // of activations, pages, and the weights that are not named below
  std::unordered_map<std::string, TensorFormat> quantized;  // matrices by name
  KvCache kv_cache = KvCache::exact;
  // Whether sequences have a state beside their keys and values.
  bool recurrent() const {
    for (const LayerSpec& layer : layers)
      if (layer.has_state()) return true;
    return false;
  }
  // The layer whose keys and values a layer attends to.
  int keys_layer(int layer) const {
    const int of = layers[size_t(layer)].attention.keys_of;
    return of < 0 ? layer : of;
  }
  // Whether another layer attends to a layer's keys and values.
  bool keys_are_shared(int layer) const {
    for (const LayerSpec& other : layers)
      if (other.attention.keys_of == layer) return true;
    return false;
  }
  // Whether layers choose among experts.
  bool has_experts() const {
    for (const LayerSpec& layer : layers)
      if (layer.experts) return true;
    return false;
  }
  TensorFormat format_of(const std::string& tensor) const {
    const auto found = quantized.find(tensor);
    return found == quantized.end() ? format : found->second;
  }
};

// What a spec asks for and a device does not have, or what no model can be.
struct UnsupportedModel : std::runtime_error {
  UnsupportedModel(std::string field_, std::string problem_)
      : std::runtime_error(field_ + " " + problem_), field(std::move(field_)), problem(std::move(problem_)) {}
  std::string field, problem;
};

// Throws UnsupportedModel for sizes that fit no model.
void check(const ModelSpec&);

}  // namespace anneal::model
