import { describe, expect, it } from "vitest";
import {
  attention,
  gemma3,
  llama,
  mistral,
  parse,
  qwen2,
  qwen3,
  refused,
  sizes,
  smollm3,
} from "../../test/fixtures/modelConfigs.js";
import { JsonFields } from "./jsonFields.js";
import { modelSpec } from "./modelSpec.js";

it.each(["hidden_size", "model_type", "architectures"])("names the file where %s is nested without end", (name) => {
  const deep = JSON.parse(`${"[".repeat(1e5)}${"]".repeat(1e5)}`);
  expect(() => parse({ ...llama, [name]: deep })).toThrow(
    expect.objectContaining({ name: "ModelFileError", reason: "is nested more than 900 deep" }),
  );
});

describe("modelSpec", () => {
  it("fills in what transformers' classes default to", () => {
    const layer = {
      attention: {
        heads: 4,
        kvHeads: 2,
        headDim: 16,
        rope: {
          type: "default",
          theta: 10_000,
          rotaryShare: 1,
          factor: 1,
          lowFreqFactor: 1,
          highFreqFactor: 4,
          originalMaxPositions: 0,
          attentionFactor: 0,
          betaFast: 32,
          betaSlow: 1,
          mscale: 0,
          mscaleAllDim: 0,
          truncate: true,
          queryScale: 0,
          shortFactors: [],
          longFactors: [],
        },
        scale: 0,
        window: 0,
        softCap: 0,
        qkNorm: false,
        qBias: false,
        kBias: false,
        vBias: false,
        oBias: false,
        fusedQkv: false,
        outputGate: false,
      },
      feedForward: { intermediate: 128, activation: "silu", bias: false, fusedGateUp: false },
      norms: "before",
      residualScale: 1,
    };
    expect(parse(llama)).toEqual({
      hidden: 64,
      vocab: 300,
      maxPositions: 8192,
      layers: [layer, layer],
      rmsEps: 1e-6,
      normAddsOne: false,
      tiedHead: false,
      embeddingScale: 1,
      embeddingRounds: false,
      logitScale: 1,
      logitSoftCap: 0,
    });
    expect(attention(qwen3)).toMatchObject({ headDim: 128, qkNorm: true, qBias: false });
    expect(attention(qwen2)).toMatchObject({ headDim: 16, qBias: true, kBias: true, vBias: true, oBias: false });
    const { num_key_value_heads: _, ...withoutGroups } = llama;
    expect(attention(withoutGroups).kvHeads).toBe(4);
    const groups = (model_type: string) =>
      attention({ ...withoutGroups, model_type, architectures: undefined, num_attention_heads: 32 }).kvHeads;
    const families = ["llama", "phi3", "granite", "mistral", "ministral", "qwen2", "qwen3", "smollm3", "gemma2"];
    expect(families.map(groups)).toEqual([32, 32, 32, 8, 8, 32, 32, 4, 4]);
    const phi3 = { ...llama, model_type: "phi3", architectures: undefined };
    expect(parse(phi3).rmsEps).toBe(1e-5);
    const long = { type: "longrope", short_factor: Array(8).fill(1), long_factor: Array(8).fill(1) };
    expect(attention({ ...phi3, rope_scaling: long }).rope.originalMaxPositions).toBe(4096);
    const ministral3 = { ...llama, model_type: "ministral3", architectures: undefined };
    expect(attention({ ...ministral3, rope_theta: 1e4, rope_scaling: null }).rope).toMatchObject({
      type: "yarn",
      theta: 1e6,
    });
    expect(attention({ ...llama, architectures: undefined }).heads).toBe(4);
  });

  it("takes biases where a family may have them", () => {
    const biased = parse({ ...llama, attention_bias: true, mlp_bias: true }).layers[0]!;
    expect(biased).toMatchObject({ attention: { qBias: true, oBias: true }, feedForward: { bias: true } });
    const qwen = parse({ ...qwen3, attention_bias: true }).layers[0]!;
    expect(qwen).toMatchObject({ attention: { qBias: true, oBias: true }, feedForward: { bias: false } });
  });

  it("reads both spellings of rotary embeddings", () => {
    const llama3 = { factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 2048 };
    const wanted = { type: "llama3", theta: 500_000, factor: 8, originalMaxPositions: 2048 };
    const older = { rope_theta: 500_000, rope_scaling: { type: "llama3", ...llama3 } };
    const newer = { rope_parameters: { rope_theta: 500_000, rope_type: "llama3", ...llama3 } };
    expect(attention({ ...llama, ...older }).rope).toMatchObject(wanted);
    expect(attention({ ...llama, ...newer }).rope).toMatchObject(wanted);
    const yarn = { rope_type: "yarn", original_max_position_embeddings: 2048 };
    expect(attention({ ...qwen3, rope_scaling: yarn }).rope).toMatchObject({ factor: 4, originalMaxPositions: 2048 });
    expect(attention({ ...qwen3, rope_scaling: { ...yarn, factor: 3, truncate: false } }).rope).toMatchObject({
      factor: 3,
      truncate: false,
    });
  });

  it("takes rope_scaling where rope_parameters stand beside it", () => {
    const yarn = { rope_type: "yarn", factor: 4, original_max_position_embeddings: 2048 };
    const both = { rope_parameters: { rope_type: "default", rope_theta: 1e6 }, rope_scaling: yarn };
    expect(attention({ ...qwen3, ...both }).rope).toMatchObject({ type: "yarn", factor: 4, theta: 10_000 });
    expect(attention({ ...qwen3, ...both, rope_scaling: {} }).rope).toMatchObject({ type: "default", theta: 1e6 });
    const parameters = { full_attention: { rope_theta: 5e5 }, sliding_attention: { rope_theta: 7 } };
    const layer_types = ["sliding_attention", "full_attention"];
    const gemma = {
      ...gemma3,
      layer_types,
      rope_parameters: parameters,
      rope_scaling: { rope_type: "linear", factor: 8 },
    };
    expect(parse(gemma).layers.map((layer) => layer.attention!.rope)).toMatchObject([
      { type: "default", theta: 7 },
      { type: "linear", theta: 5e5, factor: 8 },
    ]);
  });

  it("takes the original context of the whole model before that of a scaling", () => {
    const told = { original_max_position_embeddings: 1024 };
    const scaling = { factor: 4, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 2048 };
    for (const rope_type of ["llama3", "yarn"]) {
      const { low_freq_factor: _, high_freq_factor: __, ...yarn } = scaling;
      const rope_scaling = { rope_type, ...(rope_type === "yarn" ? yarn : scaling) };
      expect(attention({ ...llama, ...told, rope_scaling }).rope.originalMaxPositions).toBe(1024);
      expect(attention({ ...llama, rope_scaling }).rope.originalMaxPositions).toBe(2048);
      const { original_max_position_embeddings: ___, ...untold } = rope_scaling;
      expect(attention({ ...llama, rope_scaling: untold }).rope.originalMaxPositions).toBe(8192);
    }
  });

  it("takes layers without rope, each fourth where config.json does not say", () => {
    const ropes = (config: object) =>
      parse({ ...smollm3, ...config }).layers.map(({ attention }) => attention!.rope.type);
    expect(ropes({})).toEqual(["default", "default", "default", "none", "default"]);
    expect(ropes({ no_rope_layer_interval: 2 })).toEqual(["default", "none", "default", "none", "default"]);
    const yarn = { rope_type: "yarn", original_max_position_embeddings: 2048 };
    const layers = { no_rope_layers: [0, 0, 1, 0, 0], no_rope_layer_interval: 2 };
    expect(ropes({ ...layers, rope_scaling: yarn })).toEqual(["none", "none", "yarn", "none", "none"]);
    expect(parse(smollm3).tiedHead).toBe(true);
    expect(attention(smollm3).rope.theta).toBe(2e6);
  });

  it("gives layers the windows that transformers gives them", () => {
    const windows = (config: object) => parse(config).layers.map((layer) => layer.attention!.window);
    const { sliding_window: _, ...untold } = mistral;
    expect(windows(untold)).toEqual([4096, 4096]);
    expect(windows(mistral)).toEqual([0, 0]);
    expect(windows({ ...mistral, sliding_window: 100 })).toEqual([100, 100]);
    expect(windows({ ...mistral, sliding_window: 100, layer_types: ["full_attention", "full_attention"] })).toEqual([
      100, 100,
    ]);
    const on = { use_sliding_window: true, sliding_window: 100 };
    expect(windows({ ...qwen2, ...on, max_window_layers: 1 })).toEqual([0, 100]);
    expect(windows({ ...qwen2, ...on })).toEqual([0, 0]);
    expect(windows({ ...qwen2, ...on, use_sliding_window: false, max_window_layers: 0 })).toEqual([0, 0]);
    expect(windows({ ...qwen3, use_sliding_window: true, max_window_layers: 0 })).toEqual([4096, 4096]);
    const types = ["sliding_attention", "full_attention"];
    expect(windows({ ...qwen3, ...on, layer_types: types })).toEqual([100, 0]);
    const ministral = { ...mistral, model_type: "ministral", architectures: ["MinistralForCausalLM"] };
    expect(windows({ ...ministral, sliding_window: 64, layer_types: types })).toEqual([64, 0]);
    expect(windows({ ...smollm3, ...on, no_rope_layers: [1, 0, 1, 1, 0] })).toEqual([0, 100, 0, 0, 100]);
    // One that no sequence can outgrow changes nothing.
    expect(windows({ ...mistral, sliding_window: 8192 })).toEqual([0, 0]);
  });

  it("reads the spellings of rotary embeddings that are met", () => {
    const rope = (config: object) => attention(config).rope;
    const dynamic = { rope_scaling: { type: "dynamic", factor: 2 } };
    expect(rope({ ...llama, ...dynamic })).toEqual(rope(llama));
    expect(rope({ ...qwen2, rope_scaling: { type: "mrope", mrope_section: [2, 3, 3] } })).toEqual(rope(qwen2));
    const yarn = { type: "yarn", factor: 4, original_max_position_embeddings: 2048, finetuned: true };
    expect(rope({ ...llama, rope_scaling: yarn })).toMatchObject({ type: "yarn", factor: 4 });
    const factors = { short_factor: Array(8).fill(1.5), long_factor: Array(8).fill(3) };
    const long = { ...llama, original_max_position_embeddings: 4096, rope_scaling: { type: "su", ...factors } };
    expect(rope(long)).toMatchObject({
      type: "longrope",
      originalMaxPositions: 4096,
      shortFactors: factors.short_factor,
    });
    expect(rope(long).attentionFactor).toBeCloseTo(Math.sqrt(1 + Math.log(2) / Math.log(4096)), 12);
  });

  it("reads the text of a folder that is more, with what transformers defaults to", () => {
    const architectures = ["Gemma3ForConditionalGeneration"];
    const text = { model_type: "gemma3_text", hidden_size: 2560, num_hidden_layers: 34 };
    const spec = parse({ model_type: "gemma3", architectures, text_config: text, vision_config: {} });
    expect(spec).toMatchObject({ hidden: 2560, vocab: 262_208, maxPositions: 131_072, tiedHead: true });
    expect(spec.layers).toHaveLength(34);
    expect(spec.layers[0]!.attention).toMatchObject({ heads: 8, kvHeads: 4, headDim: 256, window: 4096 });
    expect(refused({ model_type: "gemma3", architectures })).toBe("text_config");
    const capped = { ...text, final_logit_softcapping: 30 };
    expect(parse({ ...sizes, ...capped }).logitSoftCap).toBe(30);
    expect(parse({ model_type: "gemma3", text_config: capped }).logitSoftCap).toBe(0);
    const ties = (model_type: string, whole?: boolean, tie_word_embeddings?: boolean) =>
      parse({ model_type, tie_word_embeddings: whole, text_config: { ...sizes, tie_word_embeddings } }).tiedHead;
    expect(["gemma3", "qwen3_5", "mistral3"].map((type) => ties(type))).toEqual([true, false, true]);
    expect([ties("gemma3", true, false), ties("qwen3_5", false, true), ties("mistral3", false)]).toEqual([
      true,
      true,
      false,
    ]);
    const mistral3 = { model_type: "mistral3", vision_config: {} };
    const ministral3 = parse({ ...mistral3, text_config: { model_type: "ministral3", num_hidden_layers: 26 } });
    const rope = { type: "yarn", factor: 16, originalMaxPositions: 16_384, queryScale: 0.1 };
    expect(ministral3.layers[25]!.attention).toMatchObject({ heads: 32, kvHeads: 8, window: 0, rope });
    expect(parse({ ...mistral3, text_config: { ...sizes, sliding_window: null } }).layers).toHaveLength(2);
    expect(refused({ ...mistral3, text_config: { ...sizes, model_type: "llama" } })).toBe("text_config.model_type");
  });

  it("knows models by the names that they have without a head", () => {
    const named = (config: object, name: string) => refused({ ...sizes, ...config, architectures: [name] });
    expect(named({ model_type: "qwen3" }, "Qwen3Model")).toBe(null);
    expect(named({ model_type: "gemma3_text" }, "Gemma3TextModel")).toBe(null);
    expect(named({ model_type: "qwen3_5_text" }, "Qwen3_5TextModel")).toBe(null);
    expect(named({ model_type: "qwen3_5_moe_text" }, "Qwen3_5MoeTextModel")).toBe(null);
    expect(named({ model_type: "gemma3_text" }, "Gemma3Model")).toBe("architectures");
  });

  // It says over how many devices a matrix was split in pretraining, as in Llama 2's first folders: what it computes is the same.
  it("does not look at pretraining_tp", () => {
    expect(parse({ ...llama, pretraining_tp: 2 })).toEqual(parse(llama));
  });

  it("takes odd widths", () => {
    const odd = modelSpec(
      new JsonFields("config.json", { ...llama, hidden_size: 63, head_dim: 16, intermediate_size: 127 }),
    );
    expect(odd).toMatchObject({ hidden: 63, layers: [{ feedForward: { intermediate: 127 } }, {}] });
  });

  it("knows activations by every name that transformers has for them", () => {
    expect(parse({ ...llama, hidden_act: "swish" })).toEqual(parse(llama));
    const gemma2 = { ...sizes, model_type: "gemma2" };
    expect(parse({ ...gemma2, hidden_activation: "gelu_new" })).toEqual(parse(gemma2));
  });

  it.each<[string, object]>([
    ["model_type", { ...llama, model_type: "gemma" }],
    ["model_type", { ...llama, model_type: "constructor" }],
    ["model_type", { ...llama, model_type: undefined }],
    ["architectures", { ...llama, architectures: ["LlamaForSequenceClassification"] }],
    ["architectures", { ...qwen3, architectures: ["Qwen2ForCausalLM"] }],
    ["use_bidirectional_attention", { ...sizes, model_type: "gemma3_text", use_bidirectional_attention: true }],
    ["hidden_activation", { ...sizes, model_type: "gemma2", hidden_activation: "relu" }],
    ["hidden_act", { ...llama, hidden_act: "gelu" }],
    ["auto_map", { ...llama, auto_map: { AutoModelForCausalLM: "modeling.py" } }],
    ["attention_bias", { ...mistral, attention_bias: true }],
    ["attention_bias", { ...qwen2, attention_bias: false }],
    ["mlp_bias", { ...qwen3, mlp_bias: true }],
    ["sliding_window", { ...mistral, sliding_window: "all" }],
    ["no_rope_layers", { ...smollm3, no_rope_layers: [1, 1, 1, 0] }],
    ["no_rope_layers", { ...smollm3, no_rope_layers: [1, 1, 1, 0, 2] }],
    ["no_rope_layers", { ...smollm3, no_rope_layers: 4 }],
    ["layer_types", { ...qwen3, layer_types: ["full_attention", "sliding_attention"] }],
    ["layer_types", { ...qwen3, layer_types: ["full_attention"] }],
    ["layer_types", { ...llama, layer_types: ["full_attention", "sliding_attention"] }],
    ["layer_types", { ...mistral, layer_types: ["full_attention", "sliding_attention"] }],
    ["layer_types", { ...qwen3, layer_types: ["full_attention", "linear_attention"] }],
    ["partial_rotary_factor", { ...llama, partial_rotary_factor: 0.5 }],
    ["rope_parameters.partial_rotary_factor", { ...llama, rope_parameters: { partial_rotary_factor: 0.5 } }],
    ["rope_scaling.rope_type", { ...llama, rope_scaling: { rope_type: "proportional", factor: 2 } }],
    ["rope_scaling.short_factor", { ...llama, rope_scaling: { type: "longrope" } }],
    ["rope_scaling.llama_4_scaling_beta", { ...llama, rope_scaling: { type: "yarn", llama_4_scaling_beta: 0.1 } }],
    [
      "rope_parameters.llama_4_scaling_beta",
      { ...llama, model_type: "ministral3", architectures: undefined, rope_parameters: { llama_4_scaling_beta: 0.1 } },
    ],
    [
      "rope_scaling.short_factor",
      { ...llama, rope_scaling: { type: "longrope", original_max_position_embeddings: 64, short_factor: [1, 2] } },
    ],
    ["rope_scaling.factor", { ...llama, rope_scaling: { rope_type: "linear" } }],
    ["rope_scaling.short_factor", { ...llama, rope_scaling: { rope_type: "linear", factor: 2, short_factor: [1] } }],
    ["rope_scaling.low_freq_factor", { ...llama, rope_scaling: { rope_type: "llama3", factor: 2 } }],
    ["rope_parameters", { ...llama, rope_parameters: [] }],
    [
      "rope_parameters.full_attention.truncate",
      { ...sizes, model_type: "gemma3_text", rope_parameters: { full_attention: { type: "yarn", truncate: false } } },
    ],
    ["hidden_size", { ...llama, hidden_size: 66 }],
    ["hidden_size", { ...llama, hidden_size: "64" }],
    ["hidden_size", { ...llama, hidden_size: undefined }],
    ["intermediate_size", { ...llama, intermediate_size: 2 ** 31 }],
    ["num_key_value_heads", { ...llama, num_key_value_heads: 3 }],
    ["num_hidden_layers", { ...llama, num_hidden_layers: 0 }],
    ["num_hidden_layers", { ...llama, num_hidden_layers: 1.5 }],
    ["vocab_size", { ...llama, vocab_size: -1 }],
    ["head_dim", { ...llama, head_dim: 15 }],
    ["rms_norm_eps", { ...llama, rms_norm_eps: 0 }],
    ["rope_theta", { ...llama, rope_theta: 0.5 }],
    ["rope_parameters.rope_theta", { ...llama, rope_parameters: { rope_theta: 0.5 } }],
    ["tie_word_embeddings", { ...llama, tie_word_embeddings: "yes" }],
  ])("names %s", (field, config) => {
    expect(refused(config)).toBe(field);
  });
});
