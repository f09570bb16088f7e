// What a folder is, before anything of it is loaded.

import { resolve } from "node:path";
import { elementCount } from "../../elementCount.js";
import { ModelFileError } from "../../errors.js";
import { PAGE_SIZE } from "../../inference/index.js";
import { openRuntime, type Runtime } from "../../runtime/runtime.js";
import { probeTurns, recogniseReasoning, recogniseToolFormat } from "../../text/index.js";
import type { ModelInspection } from "../../types/inspection.js";
import type { ModelOptions } from "../../types/options.js";
import { openWeightFiles, readModelConfig } from "../../weights/index.js";
import { partsBesideText } from "../../weights/partsBesideText.js";
import { findFolder, loadText } from "./baseModel.js";
import { readGenerationDefaults, withReplyEnds } from "./generationDefaults.js";
import { pagesOfContext } from "./memoryPlan.js";
import { openWeights } from "./openedWeights.js";
import { embeddedModel, resolveOptions } from "./options.js";
import { findEncoder } from "./servedEncoder.js";

/** Contexts whose memory is told, in tokens, beside the model's longest. */
const CONTEXTS = [2048, 8192, 32_768, 131_072];

/** What of a model's options decides how much memory it takes. */
type HowLoaded = Pick<ModelOptions, "dtype" | "quantize" | "kvCache" | "onnx">;

/** As `inspectModel` of engine/inspection.ts. */
export async function inspectModel(model: string, loaded: HowLoaded = {}): Promise<ModelInspection> {
  const runtime = openRuntime({});
  const { folder, name } = await findFolder(model);
  const encoder = await findEncoder(folder, { path: folder, ...loaded }, loaded.onnx?.variant);
  if (encoder !== null) {
    throw new ModelFileError(encoder, "makes vectors or classes of texts, and replies to nobody", {
      code: "encoder",
      hint: "open an engine with it and ask for embeddings, or take it as a reward model: reward: onnxReward(folder)",
    });
  }
  const [{ tokenizer, template }, defaults, config] = await Promise.all([
    loadText(folder),
    readGenerationDefaults(folder),
    readModelConfig(folder),
  ]);
  try {
    const weights = await inspectWeights(runtime, { path: folder, ...loaded });
    const reasoning = template && recogniseReasoning(template.source);
    const toolFormat = template && recogniseToolFormat(template.source);
    const ends = withReplyEnds(defaults, template, tokenizer).eos_token_id;
    const endIds = new Set([...(tokenizer.eosId === null ? [] : [tokenizer.eosId]), ...ends]);
    const endTexts = Array.from(endIds, (id) => tokenizer.tokenText(id));
    const { specialTokens } = tokenizer;
    return {
      id: folder === resolve(embeddedModel.path) ? embeddedModel.id : name,
      path: folder,
      architecture: firstText(config.get("architectures")),
      model_type: firstText(config.get("model_type")),
      left_out: partsBesideText(config),
      ...weights,
      chat_template: tokenizer.chatTemplates.get("default")?.file ?? null,
      tool_parser: toolFormat,
      reasoning: reasoning && { open: reasoning.opens[0], close: reasoning.closes[0] },
      thinking_switches: SWITCHES.filter((word) => template?.reads(word)),
      end_tokens: endTexts,
      turns: template ? probeTurns({ template, specialTokens, ends: endTexts, reasoning, toolFormat }) : [],
    };
  } finally {
    await tokenizer.close();
  }
}

/** What templates call the fields that switch thoughts. */
const SWITCHES = ["enable_thinking", "thinking", "reasoning_effort"];

type Weights = Pick<ModelInspection, "format" | "parameters" | "dtype" | "quantized" | "context_length" | "memory">;

async function inspectWeights(runtime: Runtime, model: ModelOptions): Promise<Weights> {
  const options = resolveOptions({});
  const { tokenBudget } = options;
  const opened = await openWeights(runtime, model.path, model, options, Number.POSITIVE_INFINITY);
  try {
    const { format, dtype, config, needs } = opened;
    const { maxPositions } = config;
    const contexts = [...CONTEXTS.filter((tokens) => tokens < maxPositions), maxPositions].map((tokens) => ({
      tokens,
      bytes: needs.weights + pagesOfContext(needs, tokens, tokenBudget) * needs.page + (needs.recurrentState ?? 0),
    }));
    const memory = {
      weights: needs.weights,
      per_token: needs.page / PAGE_SIZE,
      contexts,
      training_per_token: needs.activationPerToken ?? null,
    };
    const common = { format, dtype, context_length: maxPositions };
    if (format === "onnx") return { ...common, quantized: [], parameters: null, memory };
    const { config: spec, tensors } = await openWeightFiles(model.path, model.quantize);
    const formats = new Map(spec.quantized?.map((entry) => [entry.tensor, entry.format]));
    const sizes = new Map<string, number>();
    let parameters = 0;
    for (const { name, shape } of tensors) {
      const size = elementCount(shape);
      const quantized = formats.get(name);
      if (quantized !== undefined) sizes.set(quantized, (sizes.get(quantized) ?? 0) + size);
      parameters += size;
    }
    const bySize = [...sizes].sort(([, a], [, b]) => b - a);
    return { ...common, quantized: bySize.map(([type]) => type), parameters, memory };
  } finally {
    opened.close();
  }
}

const firstText = (value: unknown): string | null => {
  const first = Array.isArray(value) ? value[0] : value;
  return typeof first === "string" ? first : null;
};
