// What a model is, beside its tokenizer, as the metadata of a GGUF file.

import { turningFactors } from "../gguf/gemma4Config.js";
import { LOGISTIC, llama3Factors, type NamedArchitecture, type RopeFactors } from "../gguf/ggufConfig.js";
import type { TypedValue } from "../gguf/writeGguf.js";
import type { AttentionSpec, DeltaRuleSpec, ModelSpec } from "../runtime/runtime.js";

type SetKey = (key: string, value: TypedValue) => void;

/** Of a model some of whose layers attend; with the factors of rotary embeddings, which are tensors. */
export function modelMetadata(
  config: ModelSpec,
  architecture: NamedArchitecture,
): { metadata: Map<string, TypedValue>; factors: RopeFactors } {
  const { name, gemma, sharedKeys } = architecture;
  const attentions = config.layers.flatMap(({ attention }) => attention ?? []);
  const windowed = attentions.find(({ window }) => window > 0);
  const attention = attentions.find(({ window }) => window === 0) ?? attentions[0]!;
  const metadata = new Map<string, TypedValue>([
    ["general.architecture", { string: name }],
    ["general.type", { string: "model" }],
  ]);
  const set: SetKey = (key, value) => metadata.set(`${name}.${key}`, value);
  set("block_count", { uint32: config.layers.length });
  set("context_length", { uint32: config.maxPositions });
  set("embedding_length", { uint32: config.hidden });
  set("vocab_size", { uint32: config.vocab });
  setFeedForwards(config, architecture, set);
  set("attention.head_count", { uint32: attention.heads });
  const kvHeads = architecture.shortConvolution ? config.layers.map((layer) => layer.attention?.kvHeads ?? 0) : null;
  set("attention.head_count_kv", ofLayers(kvHeads ?? attentions.map((each) => each.kvHeads)));
  setHeads(attention, "", set);
  set("attention.layer_norm_rms_epsilon", { float32: config.rmsEps });
  if (windowed && (gemma || sharedKeys || name === "phi3")) {
    set("attention.sliding_window", { uint32: windowed.window });
  }
  if (gemma) setGemma(attentions, gemma, set);
  if (sharedKeys) setSharedKeys(config, attentions, windowed ?? attention, set);
  // Where a file of Gemma 4 does not say, llama.cpp caps at 30.
  if (config.logitSoftCap !== 0 || sharedKeys) set("final_logit_softcapping", { float32: config.logitSoftCap });
  const deltaRule = config.layers.find((layer) => layer.deltaRule)?.deltaRule;
  if (deltaRule) setDeltaRule(config, deltaRule, attention, set);
  const convolution = config.layers.find((layer) => layer.shortConvolution)?.shortConvolution;
  if (convolution) set("shortconv.l_cache", { uint32: convolution.kernel });
  if (architecture.multipliers) {
    set("attention.scale", { float32: attention.scale });
    set("embedding_scale", { float32: config.embeddingScale });
    set("residual_scale", { float32: config.layers[0]!.residualScale });
    set("logit_scale", { float32: 1 / config.logitScale });
  }
  return { metadata, factors: setScaling(attention, set) };
}

/** One number where they are the same in all layers. */
const ofLayers = (numbers: readonly number[]): TypedValue =>
  numbers.every((number) => number === numbers[0]) ? { uint32: numbers[0]! } : { int32s: numbers };

function setFeedForwards({ layers }: ModelSpec, { experts: kind }: NamedArchitecture, set: SetKey): void {
  const experts = layers.find((layer) => layer.experts)?.experts;
  if (experts) {
    set("expert_count", { uint32: experts.count });
    set("expert_used_count", { uint32: experts.perToken });
    set("expert_feed_forward_length", { uint32: experts.intermediate });
    if (experts.sharedIntermediate) set("expert_shared_feed_forward_length", { uint32: experts.sharedIntermediate });
  }
  if (experts?.scores === "logistic") {
    set("expert_gating_func", { uint32: LOGISTIC });
    set("leading_dense_block_count", { uint32: layers.findIndex((layer) => layer.experts) });
    set("feed_forward_length", { uint32: layers[0]!.feedForward?.intermediate ?? experts.intermediate });
    return;
  }
  // Where all layers have experts: what a token sees of them, or of each.
  const widths = layers.map(
    ({ feedForward }) => feedForward?.intermediate ?? experts!.intermediate * (kind === "all" ? 1 : experts!.perToken),
  );
  set("feed_forward_length", ofLayers(widths));
}

/** Of layers that see all, or (`_swa`) a window. */
function setHeads({ headDim, rope }: AttentionSpec, of: "" | "_swa", set: SetKey): void {
  // Where a rope is told by factors of all frequencies, it turns all.
  const turned = rope.type === "proportional" ? headDim : Math.trunc(headDim * rope.rotaryShare);
  set(`attention.key_length${of}`, { uint32: headDim });
  set(`attention.value_length${of}`, { uint32: headDim });
  set(`rope.dimension_count${of}`, { uint32: turned });
  set(`rope.freq_base${of}`, { float32: rope.theta });
}

function setGemma(
  attentions: readonly AttentionSpec[],
  { pattern }: NonNullable<NamedArchitecture["gemma"]>,
  set: SetKey,
): void {
  const isWindowed = attentions.map(({ window }) => window > 0);
  const [full, windowed] = [attentions[isWindowed.indexOf(false)], attentions[isWindowed.indexOf(true)]];
  if (windowed && isWindowed.some((is, i) => is !== i % pattern < pattern - 1)) {
    set("attention.sliding_window_pattern", { booleans: isWindowed });
  }
  if (windowed && full && windowed.rope.theta !== full.rope.theta) {
    set("rope.freq_base_swa", { float32: windowed.rope.theta });
  }
  const { softCap } = attentions[0]!;
  if (softCap !== 0) set("attn_logit_softcapping", { float32: softCap });
}

function setSharedKeys(
  config: ModelSpec,
  attentions: readonly AttentionSpec[],
  windowed: AttentionSpec,
  set: SetKey,
): void {
  setHeads(windowed, "_swa", set);
  set("attention.sliding_window_pattern", { booleans: attentions.map(({ window }) => window > 0) });
  set("attention.shared_kv_layers", { uint32: attentions.filter(({ keysOf }) => keysOf !== undefined).length });
  set("embedding_length_per_layer_input", { uint32: config.tokenInputs ?? 0 });
}

function setDeltaRule(
  { layers }: ModelSpec,
  { keyHeads, valueHeads, keyDim, valueDim, kernel }: DeltaRuleSpec,
  { headDim, rope }: AttentionSpec,
  set: SetKey,
): void {
  set("ssm.conv_kernel", { uint32: kernel });
  set("ssm.state_size", { uint32: keyDim });
  set("ssm.group_count", { uint32: keyHeads });
  set("ssm.time_step_rank", { uint32: valueHeads });
  set("ssm.inner_size", { uint32: valueHeads * valueDim });
  const interval = layers.findIndex(({ attention }) => attention) + 1;
  set("full_attention_interval", { uint32: interval });
  if (layers.some(({ attention }, i) => (attention !== null) !== ((i + 1) % interval === 0))) {
    set("attention.recurrent_layers", { booleans: layers.map(({ attention }) => attention === null) });
  }
  // Pairs that turn take their position from these three by turns, which are one number in text.
  const pairs = Math.trunc(headDim * rope.rotaryShare) / 2;
  set("rope.dimension_sections", { int32s: [...[0, 1, 2].map((first) => Math.ceil((pairs - first) / 3)), 0] });
}

function setScaling({ rope, headDim }: AttentionSpec, set: SetKey): RopeFactors {
  if (rope.type === "linear" || rope.type === "yarn") {
    set("rope.scaling.type", { string: rope.type });
    set("rope.scaling.factor", { float32: rope.factor });
  }
  if (rope.type === "yarn") {
    set("rope.scaling.yarn_beta_fast", { float32: rope.betaFast });
    set("rope.scaling.yarn_beta_slow", { float32: rope.betaSlow });
  }
  if (rope.type === "yarn" || rope.type === "longrope") {
    set("rope.scaling.original_context_length", { uint32: rope.originalMaxPositions });
  }
  if (rope.type === "longrope") {
    set("rope.scaling.attn_factor", { float32: rope.attentionFactor });
    return { short: Float32Array.from(rope.shortFactors), long: Float32Array.from(rope.longFactors) };
  }
  if (rope.type === "llama3") return { llama3: Float32Array.from(llama3Factors(rope.factor, rope.theta, headDim)) };
  return rope.type === "proportional" ? { llama3: turningFactors(headDim, rope.rotaryShare) } : {};
}
