import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { attention, gemma3, parse, qwen3Moe, refused, sizes } from "../../test/fixtures/modelConfigs.js";

describe("families", () => {
  it("reads Phi-3, in older and newer folders", () => {
    const { num_key_value_heads: _, ...own } = sizes;
    const factors = { short_factor: [1, 1, 1, 1], long_factor: [2, 2, 2, 2] };
    const code = { AutoModelForCausalLM: "modeling_phi3.Phi3ForCausalLM" };
    const phi3 = { ...own, model_type: "phi3", original_max_position_embeddings: 4096, auto_map: code };
    const older = { ...phi3, partial_rotary_factor: 0.5, rope_scaling: { type: "su", ...factors } };
    const newer = {
      ...phi3,
      rope_parameters: { rope_type: "longrope", rope_theta: 1e4, partial_rotary_factor: 0.5, ...factors },
    };
    for (const config of [older, newer]) {
      const [layer] = parse(config).layers;
      expect(layer).toMatchObject({
        attention: { fusedQkv: true, kvHeads: 4, window: 0, rope: { type: "longrope", rotaryShare: 0.5 } },
        feedForward: { fusedGateUp: true },
      });
      expect(layer!.attention!.rope.originalMaxPositions).toBe(4096);
    }
    expect(attention({ ...phi3, sliding_window: 2047 })).toMatchObject({ window: 2047, rope: { type: "default" } });
    expect(refused({ ...older, partial_rotary_factor: 0.2 })).toBe("partial_rotary_factor");
  });

  it("reads Gemma 2 and 3", () => {
    const { layers, ...whole } = parse({ ...gemma3, sliding_window: 512, num_hidden_layers: 7, rope_theta: 5e5 });
    expect(whole).toMatchObject({ normAddsOne: true, tiedHead: true, embeddingScale: 8, embeddingRounds: true });
    expect(layers.map((layer) => layer.attention!.window)).toEqual([512, 512, 512, 512, 512, 0, 512]);
    expect(layers.map((layer) => layer.attention!.rope.theta)).toEqual([1e4, 1e4, 1e4, 1e4, 1e4, 5e5, 1e4]);
    const scale = 1 / 16;
    expect(layers[0]).toMatchObject({ norms: "before_and_after", attention: { qkNorm: true, headDim: 24, scale } });
    // The rope of a layer goes by its type, also where its window is wider than any text.
    const types = { layer_types: ["sliding_attention", "full_attention"], sliding_window: 2 ** 20 };
    const parameters = { sliding_attention: { rope_theta: 7 }, full_attention: { rope_type: "linear", factor: 8 } };
    const ropes = parse({ ...gemma3, ...types, rope_parameters: parameters }).layers.map((l) => l.attention!.rope);
    expect(ropes).toMatchObject([
      { type: "default", theta: 7 },
      { type: "linear", factor: 8, theta: 1e6 },
    ]);
    const gemma2 = { ...sizes, model_type: "gemma2", query_pre_attn_scalar: 144, final_logit_softcapping: null };
    expect(parse(gemma2)).toMatchObject({
      logitSoftCap: 0,
      layers: [{ attention: { softCap: 50, window: 4096, scale: 1 / 12 } }, { attention: { window: 0 } }],
    });
  });

  it("reads layers with experts", () => {
    const experts = { count: 16, perToken: 8, intermediate: 48, activation: "silu", normalized: false };
    const { layers } = parse({ ...qwen3Moe, router_aux_loss_coef: 0.1, output_router_logits: true });
    expect(layers[1]).toMatchObject({ feedForward: null, experts, attention: { qkNorm: true, headDim: 16 } });
    const told = { norm_topk_prob: true, num_experts_per_tok: 3 };
    expect(parse({ ...qwen3Moe, ...told }).layers[0]!.experts).toEqual({ ...experts, normalized: true, perToken: 3 });
    const plain = (config: object) =>
      parse({ ...qwen3Moe, num_hidden_layers: 5, ...config }).layers.map(({ feedForward, experts }) => {
        expect(!feedForward).toBe(Boolean(experts));
        return feedForward?.intermediate ?? null;
      });
    expect(plain({ decoder_sparse_step: 2 })).toEqual([128, null, 128, null, 128]);
    expect(plain({ mlp_only_layers: [0, 3, 9] })).toEqual([128, null, null, 128, null]);
    expect(plain({ decoder_sparse_step: 2, mlp_only_layers: [1] })).toEqual([128, 128, 128, null, 128]);
    expect(plain({ mlp_only_layers: null })).toEqual([null, null, null, null, null]);
    // Written by newer versions; where both are there, transformers takes it.
    const counted = (config: object) => parse({ ...qwen3Moe, ...config }).layers[0]!.experts!.count;
    expect(counted({ num_experts: undefined, num_local_experts: 12 })).toBe(12);
    expect(counted({ num_local_experts: 12 })).toBe(12);
    const windows = (config: object) => parse({ ...qwen3Moe, ...config }).layers.map((l) => l.attention!.window);
    expect(windows({ sliding_window: 100 })).toEqual([0, 0]);
    // It does not look at max_window_layers.
    expect(windows({ use_sliding_window: true, sliding_window: 100, max_window_layers: 1 })).toEqual([100, 100]);
    const whole = parse({ model_type: "qwen3_moe" });
    expect(whole).toMatchObject({ hidden: 2048, vocab: 151_936, maxPositions: 32_768, tiedHead: false });
    expect(whole.layers).toHaveLength(24);
    expect(whole.layers[0]).toMatchObject({
      attention: { heads: 32, kvHeads: 4, headDim: 64 },
      experts: { count: 128, perToken: 8, intermediate: 768, normalized: false },
    });
  });

  it.each([
    [{ num_experts: 0 }, "num_experts"],
    [{ num_local_experts: "8" }, "num_local_experts"],
    [{ num_experts: 1024, num_hidden_layers: 65 }, "num_experts"],
    [{ num_experts: 4 }, "num_experts_per_tok"],
    [{ num_experts_per_tok: 0 }, "num_experts_per_tok"],
    [{ num_experts_per_tok: 17 }, "num_experts_per_tok"],
    [{ moe_intermediate_size: 0 }, "moe_intermediate_size"],
    [{ decoder_sparse_step: 0 }, "decoder_sparse_step"],
    [{ mlp_only_layers: 1 }, "mlp_only_layers"],
    [{ mlp_only_layers: [-1] }, "mlp_only_layers"],
    [{ norm_topk_prob: 1 }, "norm_topk_prob"],
    [{ hidden_act: "gelu" }, "hidden_act"],
  ])("refuses experts as in %j", (change, field) => {
    expect(refused({ ...qwen3Moe, ...change })).toBe(field);
  });

  it("reads layers with an expert that every token has", () => {
    const type = { model_type: "qwen3_5_moe_text", architectures: ["Qwen3_5MoeForCausalLM"] };
    const experts = { count: 256, perToken: 8, intermediate: 512, activation: "silu", normalized: true };
    const whole = parse(type);
    expect(whole).toMatchObject({ hidden: 2048, vocab: 248_320, maxPositions: 32_768, tiedHead: false });
    expect(whole.layers).toHaveLength(40);
    expect(whole.layers[0]).toMatchObject({ attention: null, deltaRule: { valueHeads: 32 } });
    expect(whole.layers[3]).toMatchObject({
      attention: { heads: 16, kvHeads: 2, headDim: 256, qkNorm: true, outputGate: true, rope: { rotaryShare: 0.25 } },
    });
    for (const layer of whole.layers) {
      expect(layer).toMatchObject({ feedForward: null, experts: { ...experts, sharedIntermediate: 512 } });
    }
    // All layers have them, in the same way, whatever other families are told by.
    const others = { mlp_only_layers: [1], decoder_sparse_step: 2, norm_topk_prob: false, num_local_experts: 9 };
    expect(parse({ ...type, ...others })).toEqual(whole);
    const told = { num_experts: 6, num_experts_per_tok: 3, moe_intermediate_size: 26 };
    expect(parse({ ...type, ...told, shared_expert_intermediate_size: 14 }).layers[0]!.experts).toEqual({
      ...{ ...experts, count: 6, perToken: 3, intermediate: 26 },
      sharedIntermediate: 14,
    });
    const architectures = ["Qwen3_5MoeForConditionalGeneration"];
    const tower = { model_type: "qwen3_5_moe", architectures, text_config: { model_type: "qwen3_5_moe_text" } };
    expect(parse({ ...tower, vision_config: {} })).toEqual(whole);
    expect(refused({ ...type, num_experts: 4 })).toBe("num_experts_per_tok");
    expect(refused({ ...type, shared_expert_intermediate_size: 0 })).toBe("shared_expert_intermediate_size");
  });

  it("reads layers whose experts have biases, and heads with sinks", () => {
    const type = { model_type: "gpt_oss", architectures: ["GptOssForCausalLM"] };
    const whole = parse(type);
    expect(whole).toMatchObject({ hidden: 2880, vocab: 201_088, maxPositions: 131_072, tiedHead: false, rmsEps: 1e-5 });
    expect(whole.layers).toHaveLength(36);
    const rope = { type: "yarn", theta: 150_000, factor: 32, originalMaxPositions: 4096, truncate: false };
    const biases = { qBias: true, kBias: true, vBias: true, oBias: true };
    const experts = { count: 128, perToken: 4, intermediate: 2880, activation: "clamped_swiglu", normalized: true };
    for (const [i, layer] of whole.layers.entries()) {
      expect(layer).toMatchObject({
        attention: { heads: 64, kvHeads: 8, headDim: 64, window: i % 2 === 0 ? 128 : 0, sinks: true, rope, ...biases },
        feedForward: null,
        experts: { ...experts, bias: true },
      });
    }
    const told = { num_local_experts: 32, num_experts_per_tok: 2, intermediate_size: 64, sliding_window: 50 };
    const layer_types = ["full_attention", "sliding_attention"];
    const small = parse({ ...type, ...told, num_hidden_layers: 2, layer_types, attention_bias: false });
    expect(small.layers.map(({ attention }) => [attention!.window, attention!.qBias, attention!.oBias])).toEqual([
      [0, false, false],
      [50, false, false],
    ]);
    expect(small.layers[0]!.experts).toMatchObject({ count: 32, perToken: 2, intermediate: 64 });
    for (const change of [
      { swiglu_alpha: 1.5 },
      { swiglu_limit: 5 },
      { num_local_experts: 3 },
      { hidden_act: "gelu" },
    ]) {
      const [field] = Object.keys(change);
      expect(refused({ ...type, ...change })).toBe(field === "num_local_experts" ? "num_experts_per_tok" : field);
    }
  });

  it("reads layers that attend to the keys of others, and token inputs", () => {
    const type = { model_type: "gemma4_text", architectures: ["Gemma4ForCausalLM"] };
    const whole = parse(type);
    expect(whole).toMatchObject({
      ...{ hidden: 2304, vocab: 262_144, maxPositions: 131_072, tiedHead: true, normAddsOne: false },
      ...{ embeddingScale: 48, embeddingRounds: true, logitSoftCap: 0, tokenInputs: 256 },
    });
    expect(whole.layers).toHaveLength(30);
    for (const [i, layer] of whole.layers.entries()) {
      const full = i % 6 === 5;
      expect(layer).toMatchObject({
        attention: {
          ...{ heads: 8, kvHeads: 4, headDim: full ? 512 : 256, window: full ? 0 : 512, scale: 1 },
          ...{ qkNorm: true, vNorm: true },
          rope: full
            ? { type: "proportional", theta: 1_000_000, rotaryShare: 0.25, factor: 1 }
            : { type: "default", theta: 10_000, rotaryShare: 1 },
        },
        ...{ norms: "before_and_after", scaled: true },
        feedForward: { intermediate: 9216, activation: "gelu_tanh" },
      });
      expect(layer.attention).not.toHaveProperty("keysOf");
    }

    // As E2B: the last of each type that has keys serves those that have none.
    const shared = { num_kv_shared_layers: 20, use_double_wide_mlp: true, num_hidden_layers: 35 };
    const layer_types = Array.from({ length: 35 }, (_, i) => (i % 5 === 4 ? "full_attention" : "sliding_attention"));
    const small = parse({ ...type, ...shared, layer_types, final_logit_softcapping: 30 });
    expect(small.logitSoftCap).toBe(30);
    expect(small.layers.slice(0, 15).every(({ attention }) => attention!.keysOf === undefined)).toBe(true);
    expect(small.layers.slice(15).map(({ attention }) => attention!.keysOf)).toEqual(
      layer_types.slice(15).map((kind) => (kind === "full_attention" ? 14 : 13)),
    );
    expect(small.layers.map(({ feedForward }) => feedForward!.intermediate)).toEqual([
      ...Array(15).fill(9216),
      ...Array(20).fill(18_432),
    ]);

    // As 31B: fewer, wider heads where all is seen, whose values are made of their keys.
    const wide = { attention_k_eq_v: true, num_global_key_value_heads: 2, hidden_size_per_layer_input: 0 };
    const large = parse({ ...type, ...wide, use_bidirectional_attention: "vision" });
    expect(large).not.toHaveProperty("tokenInputs");
    expect(large.layers[5]!.attention).toMatchObject({ kvHeads: 2, headDim: 512, valuesFromKeys: true });
    expect(large.layers[4]!.attention).not.toHaveProperty("valuesFromKeys");
    // As newer versions of transformers write it.
    const per_layer_config = Object.fromEntries(
      ["05", "11", "17", "23", "29"].map((layer) => [layer, { head_dim: 512, num_key_value_heads: 2 }]),
    );
    expect(parse({ ...type, ...wide, global_head_dim: 64, per_layer_config })).toEqual(large);
    const tower = { model_type: "gemma4", text_config: { ...type, ...wide }, vision_config: {}, audio_config: null };
    expect(parse(tower)).toEqual(large);

    for (const [change, field] of [
      [{ num_kv_shared_layers: 30 }, "num_kv_shared_layers"],
      [{ num_kv_shared_layers: 25 }, "num_kv_shared_layers"], // leaves no layer that sees all
      [{ enable_moe_block: true }, "enable_moe_block"],
      [{ use_bidirectional_attention: "all" }, "use_bidirectional_attention"],
      [{ vocab_size_per_layer_input: 9 }, "vocab_size_per_layer_input"],
      [{ global_head_dim: 33 }, "global_head_dim"],
      [{ attention_k_eq_v: true, num_global_key_value_heads: 3 }, "num_global_key_value_heads"],
      [{ layer_types: ["conv"], num_hidden_layers: 1 }, "layer_types"],
      [{ per_layer_config: { x: {} } }, "per_layer_config.x"],
      [{ per_layer_config: { 29: { sliding_window: 4 } } }, "per_layer_config.29.sliding_window"],
      [{ per_layer_config: { 29: { head_dim: 64 } }, num_kv_shared_layers: 1 }, "per_layer_config"],
    ] as const) {
      expect(refused({ ...type, ...change }), JSON.stringify(change)).toBe(field);
    }
  });
});

describe("layers with a short convolution", () => {
  const type = { model_type: "lfm2", architectures: ["Lfm2ForCausalLM"] };
  const attends = (config: object) => parse({ ...type, ...config }).layers.map(({ attention }) => attention !== null);
  const small = { hidden_size: 64, num_attention_heads: 4, num_key_value_heads: 2, num_hidden_layers: 3 };

  it("are what a folder that says nothing has not, as its class has it", () => {
    const whole = parse(type);
    expect(whole).toMatchObject({ hidden: 2560, vocab: 65_536, maxPositions: 128_000, tiedHead: true, rmsEps: 1e-5 });
    expect(whole.layers).toHaveLength(32);
    for (const layer of whole.layers) {
      expect(layer).toMatchObject({
        attention: { heads: 32, kvHeads: 8, headDim: 80, qkNorm: true, qBias: false, rope: { theta: 1e6 } },
        feedForward: { intermediate: 8192, activation: "silu", bias: false },
        names: "lfm2",
      });
      expect(layer.shortConvolution).toBeUndefined();
    }
  });

  it("are those that layer_types or full_attn_idxs does not say to attend", () => {
    expect(attends({ ...small, full_attn_idxs: [2] })).toEqual([false, false, true]);
    expect(attends({ ...small, layer_types: ["conv", "full_attention", "conv"], full_attn_idxs: [0] })).toEqual([
      ...[false, true, false],
    ]);
    const [first] = parse({ ...type, ...small, full_attn_idxs: [], conv_L_cache: 4, conv_bias: true }).layers;
    expect(first).toMatchObject({ attention: null, shortConvolution: { width: 64, kernel: 4, bias: true } });
    for (const [field, value] of [
      ["layer_types", ["conv"]],
      ["layer_types", ["conv", "conv", "sliding_attention"]],
      ["full_attn_idxs", [3]],
      ["full_attn_idxs", 1],
      ["conv_L_cache", 0],
      ["conv_bias", 1],
    ] as const) {
      expect(refused({ ...type, ...small, full_attn_idxs: [], [field]: value })).toBe(field);
    }
  });

  it("stand before feed-forwards as wide as a gated one is made of what the folder says", () => {
    const width = (config: object) => parse({ ...type, ...small, ...config }).layers[0]!.feedForward!.intermediate;
    // LFM2-350M, 700M and 1.2B.
    expect([6656, 10_240, 12_288].map((block_ff_dim) => width({ block_ff_dim }))).toEqual([4608, 6912, 8192]);
    expect(width({ intermediate_size: 10_752, block_auto_adjust_ff_dim: false })).toBe(10_752);
    expect(width({ intermediate_size: 100, block_ffn_dim_multiplier: null })).toBe(66);
    expect(width({ intermediate_size: 100, block_ffn_dim_multiplier: 1.5, block_multiple_of: 10 })).toBe(100);
    expect(refused({ ...type, ...small, block_ff_dim: 0 })).toBe("block_ff_dim");
    expect(refused({ ...type, ...small, norm_eps: 0 })).toBe("norm_eps");
    expect(parse({ ...type, ...small, tie_embedding: false }).tiedHead).toBe(false);
    expect(parse({ ...type, ...small, tie_embedding: true, tie_word_embeddings: false }).tiedHead).toBe(true);
  });
});

describe("layers whose experts are scored by logistics", () => {
  const type = { model_type: "lfm2_moe", architectures: ["Lfm2MoeForCausalLM"] };
  const small = { hidden_size: 64, num_attention_heads: 4, num_key_value_heads: 2, num_hidden_layers: 3 };

  it("are all but the first ones, with a short convolution or attention before them", () => {
    const whole = parse(type);
    expect(whole).toMatchObject({ hidden: 2048, vocab: 65_536, tiedHead: true, rmsEps: 1e-5 });
    expect(whole.layers.map(({ experts }) => experts !== undefined)).toEqual([false, false, ...Array(30).fill(true)]);
    // What LFM2 without experts adjusts is as wide as it says.
    expect(whole.layers[0]!.feedForward!.intermediate).toBe(7168);
    expect(whole.layers[2]).toMatchObject({ feedForward: null, names: "lfm2" });
    const experts = { count: 32, perToken: 4, intermediate: 1792, activation: "silu", normalized: true };
    expect(whole.layers[2]!.experts).toEqual({ ...experts, scores: "logistic", scoreBias: true, scale: 1 });
  });

  it("are what a folder says", () => {
    const own = { num_dense_layers: 0, use_expert_bias: false, norm_topk_prob: false, routed_scaling_factor: 2.5 };
    const { layers } = parse({ ...type, ...small, ...own, layer_types: ["conv", "full_attention", "conv"] });
    expect(layers.map(({ attention }) => attention !== null)).toEqual([false, true, false]);
    for (const { experts } of layers) {
      expect(experts).toMatchObject({ scores: "logistic", scoreBias: false, normalized: false, scale: 2.5 });
    }
    for (const [field, value] of [
      ["num_dense_layers", -1],
      ["num_experts_per_tok", 33],
      ["use_expert_bias", 1],
      ["routed_scaling_factor", 0],
      ["moe_intermediate_size", 0],
    ] as const) {
      expect(refused({ ...type, ...small, [field]: value })).toBe(field);
    }
  });
});

describe("layers with a delta rule", () => {
  const qwen = (name: string) => {
    const config = new URL(`../../test/reference/models/${name}/config.json`, import.meta.url);
    return JSON.parse(readFileSync(config, "utf8"));
  };

  it("are those of layer_types, or all but every n-th", () => {
    const rules = (config: object) => parse(config).layers.map(({ deltaRule }) => deltaRule !== undefined);
    expect(rules(qwen("qwen3_5"))).toEqual([true, true, true, false]);
    expect(rules(qwen("qwen3_5_odd"))).toEqual([false, true, true]);
    expect(rules({ ...qwen("qwen3_5"), layer_types: undefined, full_attention_interval: 2 })).toEqual([
      ...[true, false],
      ...[true, false],
    ]);
    expect(parse(qwen("qwen3_5_tower")).layers[0]).toMatchObject({
      attention: null,
      deltaRule: { keyHeads: 1, valueHeads: 3, keyDim: 10, valueDim: 6, kernel: 4 },
    });
  });

  it("are refused by name where they cannot be", () => {
    const config = qwen("qwen3_5");
    expect(refused({ ...config, linear_num_value_heads: 3 })).toBe("linear_num_value_heads");
    expect(refused({ ...config, layer_types: ["linear_attention"] })).toBe("layer_types");
    expect(refused({ ...config, layer_types: Array(4).fill("sliding_attention") })).toBe("layer_types");
  });
});
