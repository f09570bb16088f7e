// A model whose matrices are quantised, each in a format of its own: the same promises about bits as for float ones,
// and numbers near those of the model of dequantised weights.
#include <deque>

#include "../../quantization/blocks.h"
#include "decoder_fixture.h"

namespace {

using namespace anneal;

uint64_t state = 88172645463325252ull;
uint64_t random_bits() {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}
float uniform() { return float(int64_t(random_bits() >> 40) - (1 << 23)) * (1.0f / (1 << 23)); }

constexpr TensorFormat kGguf[] = {TensorFormat::q4_k, TensorFormat::q5_k, TensorFormat::q6_k, TensorFormat::q8_0,
                                  TensorFormat::q4_0, TensorFormat::q4_1, TensorFormat::q5_0};
constexpr TensorFormat kIntegers[] = {TensorFormat::int4_32, TensorFormat::int4_64, TensorFormat::int4_128,
                                      TensorFormat::int8_32, TensorFormat::int8_64, TensorFormat::int8_128,
                                      TensorFormat::int4_128};

constexpr TensorFormat kWide[] = {TensorFormat::int16_64, TensorFormat::int16_64, TensorFormat::int16_64,
                                  TensorFormat::int16_64, TensorFormat::int16_64, TensorFormat::int16_64,
                                  TensorFormat::int16_64};

ModelSpec mixed_spec(TensorFormat type, const TensorFormat (&first)[7], TensorFormat embedding, TensorFormat head) {
  ModelSpec m;
  m.hidden = 256, m.vocab = 300, m.max_positions = 512, m.format = type;
  LayerSpec l;
  l.attention.heads = 4, l.attention.kv_heads = 2, l.attention.head_dim = 64, l.attention.qk_norm = true;
  l.attention.k_bias = true;
  l.feed_forward.intermediate = 512;
  m.layers = {l, l};
  const auto name = [&](int layer, int p) { return module_name(layer, module_of(l, p)) + ".weight"; };
  for (int p = kQ; p <= kDown; p++) {
    m.quantized[name(0, p)] = first[p];
    // The second has floats too.
    if (p != kK && p != kUp) m.quantized[name(1, p)] = first[(p + 3) % 7];
  }
  if (&first == &kGguf) m.quantized[name(1, kO)] = TensorFormat::q5_1;
  m.quantized["model.embed_tokens.weight"] = embedding;
  m.quantized["lm_head.weight"] = head;
  return m;
}

// Experts whose matrices differ in format from one to the next, some of floats, and one that every row has, wider than
// they are in the first layer and narrower in the second.
ModelSpec experts_spec(TensorFormat type) {
  ModelSpec m = mixed_spec(type, kGguf, TensorFormat::q6_k, TensorFormat::q4_k);
  for (int l = 0; l < 2; l++)
    for (int p : {kGate, kUp, kDown}) m.quantized.erase(module_name(l, p) + ".weight");
  m.layers[0].experts = {5, 2, 64, Activation::silu, true, 256};
  m.layers[1].experts = {4, 3, 128, Activation::silu, false, 32};
  for (int l = 0; l < 2; l++) {
    m.layers[l].feed_forward = {};
    const ExpertsSpec& experts = *m.layers[l].experts;
    for (int e = 0; e < experts.total(); e++)
      for (int p : {kGate, kUp, kDown}) {
        if (l == 1 && (e + p) % 4 == 0) continue;
        const bool narrow = p == kDown && experts.intermediate_of(e) % 256 != 0;
        m.quantized[expert_tensor(m, l, e, p).name] = narrow ? kGguf[3 + (e + l) % 4] : kGguf[(e + p) % 7];
      }
  }
  return m;
}

// The same with all of 16 bits that can be, the router of the first layer too.
ModelSpec wide_experts_spec(TensorFormat type) {
  ModelSpec m = experts_spec(type);
  for (const TensorShape& t : {router_tensor(m, 0), shared_gate_tensor(m, 0)})
    m.quantized[t.name] = TensorFormat::int16_64;
  for (const TensorShape& t : weight_tensors(m))
    if (t.cols % 64) m.quantized.erase(t.name);
  for (auto& [name, format] : m.quantized) format = TensorFormat::int16_64;
  return m;
}

// Experts with biases in MXFP4, some of floats, and heads with sinks.
ModelSpec biased_experts_spec(TensorFormat type) {
  ModelSpec m = mixed_spec(type, kGguf, TensorFormat::q6_k, TensorFormat::mxfp4);
  for (int l = 0; l < 2; l++) {
    for (int p : {kGate, kUp, kDown}) m.quantized.erase(module_name(l, p) + ".weight");
    m.layers[l].attention.sinks = true, m.layers[l].attention.window = l == 0 ? 30 : 0;
    m.layers[l].experts = {5, 2, 96, Activation::clamped_swiglu, true, 0, true};
    m.layers[l].feed_forward = {};
    for (int e = 0; e < 5; e++)
      for (int p : {kGate, kUp, kDown})
        if (l == 0 || (e + p) % 4) m.quantized[expert_tensor(m, l, e, p).name] = TensorFormat::mxfp4;
  }
  return m;
}

// Weights of a spec: blocks of what is quantised, and numbers of all.
struct Stored {
  Arrays numbers;
  std::map<std::string, std::vector<uint8_t>> blocks;
  const ModelSpec& spec;

  explicit Stored(const ModelSpec& m) : spec(m) {
    for (const TensorShape& t : weight_tensors(m)) {
      Array& a = numbers[t.name];
      a.shape = t.cols ? std::vector<int64_t>{t.rows, t.cols} : std::vector<int64_t>{t.rows};
      a.values.resize(size_t(t.elements()));
      for (float& x : a.values)
        x = t.name.ends_with("mlp.gate.weight") ? uniform()  // few choices near a tie
            : t.cols                            ? 0.08f * uniform()
            : t.name.ends_with(".bias")         ? uniform()
                                                : 1 + 0.2f * uniform();
      const TensorFormat format = m.format_of(t.name);
      if (is_quantized(format)) quantize(format, t, a);
    }
  }
  TensorReader reader() const {
    const auto stored = [this](const std::string& name) {
      return blocks.count(name) ? spec.format_of(name) : TensorFormat::f32;
    };
    return {Loaded::reader(numbers).floats, stored,
            [this](const std::string& name, int64_t row0, int64_t rows, uint8_t* to) {
              const int64_t bytes = quantization::row_bytes(spec.format_of(name), numbers.at(name).shape[1]);
              std::memcpy(to, blocks.at(name).data() + row0 * bytes, size_t(rows * bytes));
            }};
  }

 private:
  void quantize(TensorFormat format, const TensorShape& t, Array& a) {
    const QuantizedFormat& known = quantized_format(format);
    const int64_t bytes = quantization::row_bytes(format, t.cols);
    std::vector<uint8_t>& all = blocks[t.name];
    all.resize(size_t(t.rows * bytes));
    for (int64_t row = 0; row < t.rows; row++) {
      uint8_t* const to = &all[size_t(row * bytes)];
      float* const values = &a.values[size_t(row * t.cols)];
      if (is_integer(format)) {  // any codes of groups with zero points around the middle
        quantization::Block block;
        const int bits = known.bits, middle = 1 << (bits - 1);
        for (int64_t i = 0; i < bytes; i += known.bytes) {
          for (uint8_t& code : block.codes) code = uint8_t(random_bits() & ((1u << bits) - 1));
          block.scale = 0.08f / float(middle) * (1 + 0.5f * uniform());
          block.zero = uint8_t(middle + int(random_bits() % 3) - 1);
          quantization::put_together(format, block, to + i);
        }
      } else if (quantization::can_quantize(format)) {
        quantization::quantize_row(format, values, t.cols, to);
      } else {  // any codes, with scales that make numbers of this size
        const bool k = format == TensorFormat::q5_k;
        const uint16_t d = quantization::narrow_half(k ? 1.6e-4f : 5e-3f),
                       m = quantization::narrow_half(k ? 2.4e-3f : -0.08f);
        for (int64_t i = 0; i < bytes; i++) to[i] = uint8_t(random_bits());
        for (int64_t i = 0; i < bytes; i += known.bytes) {
          if (known.looked_up) {
            to[i] = uint8_t(119 + random_bits() % 3);
            continue;
          }
          std::memcpy(to + i + known.scale_at, &d, 2);
          if (known.minima) std::memcpy(to + i + known.scale_at + 2, &m, 2);
        }
      }
      quantization::dequantize_row(format, to, t.cols, values);
    }
  }
};

struct QuantizedCase {
  ModelSpec spec;
  Stored stored;
  std::string name;
  TestPool &one, &two;

  Loaded load(Isa isa) const { return Loaded(spec, stored.reader(), isa, one); }
  static AdapterRef adapter(Loaded& m) {
    LoraSpec lora{8, 16};
    for (bool& t : lora.targets) t = true;
    std::deque<std::vector<float>> kept;
    state = 77;
    return m.backend->load_adapter(lora, [&](int layer, int p, bool b) {
      const ProjectionShape shape = projection_shape(m.spec, layer, p);
      std::vector<float>& values = kept.emplace_back(size_t(8) * (b ? shape.outputs : shape.inputs));
      for (float& x : values) x = 0.1f * uniform();
      return values.data();
    });
  }

  std::vector<std::vector<float>> gradients(Isa isa, TestPool& pool, const Sequences& rows,
                                            PassOptions options = {}) const {
    Loaded m = load(isa);
    LoraSpec lora{8, 16};
    for (bool& t : lora.targets) t = true;
    auto trainable = m.backend->train_adapter(lora, 3, nullptr);
    for (int step = 0; step < 2; step++) {
      train_on(m, pool, rows, trainable.get(), nullptr, options);
      if (step == 0) trainable->optim_step({1e-2f});
    }
    return gradients_of(*trainable);
  }

  void check(const Sequences& rows) const {
    const std::vector<int32_t>& tokens = rows[0];
    Loaded reference = load(best_isa());
    for (bool adapted : {false, true}) {
      const AdapterRef adapter = adapted ? QuantizedCase::adapter(reference) : nullptr;
      const std::string what = name + (adapted ? " with adapter" : "");
      const std::vector<float> wanted = logits_of(reference, one, tokens, adapter, 100000);
      for (int chunk : {1, 2, 5, 33, 64})
        for (TestPool* pool : {&one, &two})
          expect(same_bits(logits_of(reference, *pool, tokens, adapter, chunk), wanted),
                 what + ": prefill in chunks of " + std::to_string(chunk));
      for (Isa isa : kIsas) {
        if (!kernels(isa, dtype_of(spec.format)) || isa == best_isa()) continue;
        Loaded other = load(isa);
        const AdapterRef same = adapted ? QuantizedCase::adapter(other) : nullptr;
        expect(same_bits(logits_of(other, two, tokens, same, 50), wanted), what + " on " + isa_name(isa));
      }
      const TrainRow row{.tokens = tokens};
      auto pass = reference.backend->forward({&row, 1}, nullptr, adapter, {});
      const std::vector<float> predicted(pass->logprobs(0).begin(), pass->logprobs(0).end() - 1);
      expect(
          same_bits(predicted, logprobs_from(*kernels(best_isa(), dtype_of(spec.format)), wanted, tokens, spec.vocab)),
          what + ": logprobs of evaluation");
      // The same numbers as floats, with activations that were not rounded to 8 bits.
      if (adapted) continue;
      ModelSpec floats = spec;
      floats.quantized.clear();
      Loaded dequantized(floats, stored.numbers, best_isa(), one);
      below(relative_difference(wanted, logits_of(dequantized, one, tokens, nullptr, 1000)), 0.05,
            what + ": dequantised logits");
    }
    const auto wanted = gradients(best_isa(), one, rows);
    expect(gradients(best_isa(), two, rows) == wanted, name + " gradients: two workers");
    expect(gradients(best_isa(), two, rows, {.keep_bytes = 1}) == wanted, name + " gradients: layers computed again");
    for (Isa isa : kIsas)
      if (kernels(isa, dtype_of(spec.format)) && isa != best_isa())
        expect(gradients(isa, two, rows) == wanted, name + " gradients: " + isa_name(isa));
    const int64_t weights = CpuDevice(one).memory(spec).weights;
    int64_t vectors = 0;
    size_t panels = 0;
    for (const TensorShape& t : weight_tensors(spec)) {
      const TensorFormat format = spec.format_of(t.name);
      const int64_t row = is_quantized(format) ? quantization::row_bytes(format, t.cols)
                                               : t.cols * (format == TensorFormat::f32 ? 4 : 2);
      // Panels of 16 rows, each of whole vectors.
      if (t.cols)
        panels += size_t(panels_of(int(t.rows)) * ((16 * row + 63) / 64 * 64));
      else
        vectors += 4 * t.rows;
    }
    const int64_t bytes = vectors + Buffer::taken_for(panels);
    expect(weights == bytes, name + ": takes " + std::to_string(weights) + " bytes for " + std::to_string(bytes));
  }
};

}  // namespace

void check_quantized_models() {
  TestPool one(1), two(2);
  Sequences rows;
  for (int length : {90, 21}) {
    std::vector<int32_t>& row = rows.emplace_back();
    for (int i = 0; i < length; i++) row.push_back(int32_t(random_bits() % 300));
  }
  for (TensorFormat type : {TensorFormat::f32, TensorFormat::bf16}) {
    const std::string compute = type == TensorFormat::f32 ? " float32" : " bfloat16";
    const ModelSpec blocks = mixed_spec(type, kGguf, TensorFormat::q6_k, TensorFormat::q4_k);
    QuantizedCase{blocks, Stored(blocks), "quantised" + compute, one, two}.check(rows);
    const ModelSpec integers = mixed_spec(type, kIntegers, TensorFormat::int8_128, TensorFormat::int4_64);
    QuantizedCase{integers, Stored(integers), "integers" + compute, one, two}.check(rows);
    const ModelSpec experts = experts_spec(type);
    QuantizedCase{experts, Stored(experts), "quantised experts" + compute, one, two}.check(rows);
    const ModelSpec wide = mixed_spec(type, kWide, TensorFormat::int16_64, TensorFormat::int16_64);
    QuantizedCase{wide, Stored(wide), "16 bits" + compute, one, two}.check(rows);
    const ModelSpec wide_experts = wide_experts_spec(type);
    QuantizedCase{wide_experts, Stored(wide_experts), "experts of 16 bits" + compute, one, two}.check(rows);
    const ModelSpec biased = biased_experts_spec(type);
    QuantizedCase{biased, Stored(biased), "quantised experts with biases" + compute, one, two}.check(rows);
  }
}
