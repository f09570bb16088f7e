import { stat } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { ModelFileError } from "../../errors.js";
import { isGguf } from "../../gguf/ggufFile.js";
import { cachedModel, hubModelOfPath } from "../../hub/hubCache.js";
import { InferenceLoop, type ModelLoop } from "../../inference/index.js";
import type { DeviceModel, ModelSpec, Runtime } from "../../runtime/runtime.js";
import {
  type ChatTemplate,
  compileChatTemplate,
  loadTokenizer,
  TemplateError,
  type TemplateSource,
  type Tokenizer,
  TokenizerError,
} from "../../text/index.js";
import type { ModelOptions } from "../../types/options.js";
import type { ContentHash } from "../../weights/contentHash.js";
import { type EmbeddingSpec, noModelFolder, readEmbeddingFolder, readModelConfig } from "../../weights/index.js";
import { partsBesideText } from "../../weights/partsBesideText.js";
import { diagnostics } from "./diagnostics.js";
import { type GenerationDefaults, readGenerationDefaults, withReplyEnds } from "./generationDefaults.js";
import { planPages, planRecurrentStates } from "./memoryPlan.js";
import { type OpenedWeights, openWeights } from "./openedWeights.js";
import { embeddedModel, type ResolvedOptions } from "./options.js";

/** A loaded folder, or GGUF file. */
export interface BaseModel {
  /** The name that requests use. */
  readonly id: string;
  readonly folder: string;
  /** "onnx": not trained; "remote": computed elsewhere. */
  readonly format: OpenedWeights["format"] | "remote";
  readonly config: ModelSpec;
  /** Positions that a sequence may have. */
  readonly contextLength: number;
  readonly tokenizer: Tokenizer;
  /** null: the folder has none, so requests must bring one. */
  readonly template: ChatTemplate | null;
  readonly generationConfig: GenerationDefaults;
  /** How it makes vectors of texts; null: it is no model of embeddings, but one that chats. */
  readonly embedding: EmbeddingSpec | null;
  /** Of the weights. */
  readonly hash: string;
  /** What tells their files from others; null: nothing does. */
  readonly stamp: string | null;
  /** Hashes them once more, where `hash` is what was read of their files before. */
  readonly reread: ((signal: AbortSignal) => Promise<string>) | null;
  readonly device: DeviceModel;
  readonly loop: ModelLoop;
  /** When its configuration was last written, Unix seconds. */
  readonly created: number;
}

export type { GenerationDefaults };

/** What a model may take. */
export interface MemoryBudget {
  /** Bytes for weights and pages: all there are. */
  total: number;
  /** Its share of them beside other models. Default: all. */
  share?: number;
  /** Default: what there is room and use for. */
  maxPages?: number;
}

/** What the weights of a model hashed to when they were read before; null where their files had another stamp. */
export type LastRead = (id: string, stamp: string) => string | null;

/** @throws ModelFileError */
export async function loadText(folder: string): Promise<{ tokenizer: Tokenizer; template: ChatTemplate | null }> {
  let template: TemplateSource | undefined;
  try {
    const tokenizer = await loadTokenizer(folder);
    template = tokenizer.chatTemplates.get("default");
    return { tokenizer, template: template === undefined ? null : compileChatTemplate(template.text) };
  } catch (cause) {
    if (cause instanceof TokenizerError) throw new ModelFileError(cause.file ?? folder, cause.reason, { cause });
    if (cause instanceof TemplateError) throw new ModelFileError(template!.file, cause.message, { cause });
    throw cause;
  }
}

/** What decides whether a model's activations survive 8 bits: prose, numbers, code and other scripts. */
const GATE_TEXT = `The river rose 3.5 metres in 24 hours; nobody had expected it. "Are you sure?" she asked.
function add(a, b) { return a + b; } // 12 + 30 = 42
Wie spät ist es? 你好，世界。 Où est la gare ? {"name": "Ada", "age": 36}`;
const MAX_GATE_TOKENS = 64;

/** For the next job of a loop: on virtual machines that give memory back to their host, taking it anew is a tenth of a short one. */
export const TRAINING_MEMORY_KEPT_MS = 60_000;

function gateText(tokenizer: Tokenizer, contextLength: number): Int32Array {
  return Int32Array.from(tokenizer.encode(GATE_TEXT).slice(0, Math.min(MAX_GATE_TOKENS, contextLength)));
}

/**
 * The folder at a path, of a model of the hub that the cache of this machine has, or of the embedded model by its id, and what
 * it is called.
 * @throws ModelFileError when there is neither.
 */
export async function findFolder(path: string): Promise<{ folder: string; name: string }> {
  const folder = resolve(path);
  const found = await stat(folder).catch(() => null);
  if (found?.isDirectory()) return { folder, name: basename(folder) };
  if (found?.isFile() && isGguf(folder)) return { folder, name: basename(folder).replace(/\.gguf$/i, "") };
  if (found === null && folder === resolve(embeddedModel.id)) return findFolder(embeddedModel.path);
  const hub = found === null ? hubModelOfPath(folder) : null;
  const cached = hub && cachedModel(hub);
  if (!cached) throw noModelFolder(folder, found !== null);
  return { folder: cached, name: hub.name };
}

/** What requests call a folder. */
export function baseModelId(model: ModelOptions, folder: string, name: string): string {
  return model.id ?? (folder === resolve(embeddedModel.path) ? embeddedModel.id : name);
}

/**
 * Loads a folder onto the device. `lastRead`: weights whose files look as they did then are not read for their hash.
 * @throws ModelFileError naming what is wrong with the folder; InsufficientMemoryError before memory is taken.
 */
export async function loadBaseModel(
  runtime: Runtime,
  model: ModelOptions,
  options: ResolvedOptions,
  budget: MemoryBudget,
  lastRead: LastRead = () => null,
): Promise<BaseModel> {
  const started = performance.now();
  const { folder, name } = await findFolder(model.path);
  const id = baseModelId(model, folder, name);
  // All at once; of several faults the one of the weights' folder is told, whichever is found first.
  const reading = [loadText(folder), readGenerationDefaults(folder), readEmbeddingFolder(folder)] as const;
  for (const read of reading) read.catch(() => {});
  const weights = await openWeights(runtime, folder, model, options, budget.total);
  try {
    const [{ tokenizer, template }, generationConfig, embedding] = await Promise.all(reading);
    const { config, needs, dtype } = weights;
    if (tokenizer.vocabSize > config.vocab) {
      throw new ModelFileError(
        isGguf(folder) ? folder : join(folder, "tokenizer.json"),
        `has tokens up to ${tokenizer.vocabSize - 1}, the model only ${config.vocab} of them`,
      );
    }
    const contextLength = Math.min(options.contextLength ?? config.maxPositions, config.maxPositions);
    const limits = { contextLength, maxSequences: options.maxSequences, tokenBudget: options.tokenBudget };
    // A model too large for its share may still fit what there is.
    const bytes = Math.max(budget.share ?? budget.total, Math.min(budget.total, needs.weights * 1.5));
    const kvPages =
      model.kvPages ?? Math.min(planPages(id, needs, bytes, limits), budget.maxPages ?? Number.POSITIVE_INFINITY);
    const progressed = (fraction: number) => diagnostics.modelProgress.publish({ id, fraction, bytes: needs.weights });
    const [device, hashed] = await Promise.all([
      weights.load(
        { kvPages, recurrentStates: planRecurrentStates(needs, bytes, limits) },
        () => gateText(tokenizer, contextLength),
        progressed,
      ),
      hashOf(id, weights.content, lastRead),
    ]);
    // A limit would have to count it.
    if (options.memoryLimit === undefined) device.keepTrainingMemory?.(TRAINING_MEMORY_KEPT_MS);
    const loop = new InferenceLoop(device, tokenizer, {
      maxSequences: options.maxSequences,
      tokenBudget: options.tokenBudget,
      maxQueue: options.maxQueue,
      scheduler: options.scheduler,
      contextLength,
      promptLookup: options.speculation === "prompt_lookup",
    });
    const { mtimeMs } = await stat(isGguf(folder) ? folder : join(folder, "config.json"));
    const seconds = (performance.now() - started) / 1000;
    diagnostics.modelLoad.publish({ id, folder, dtype, bytes: device.bytes, kvPages, seconds });
    const without = partsBesideText(await readModelConfig(folder));
    if (without.length > 0) options.logger.warn("only the text of a model is loaded", { id, without });
    options.logger.info("model loaded", { id, device: device.device, dtype, bytes: device.bytes, kvPages, seconds });
    if (options.precision === "fast") {
      options.logger.info("difference of log-probabilities from exact arithmetic", {
        id,
        mean: device.differenceToExact,
      });
    }
    if (device.weightOnly.length > 0) {
      const tensors = device.weightOnly;
      options.logger.info("weights that are multiplied with activations as they are", { id, tensors });
    }
    return {
      id,
      folder,
      format: weights.format,
      config: device.config,
      contextLength: loop.contextLength,
      tokenizer,
      template,
      generationConfig: withReplyEnds(generationConfig, template, tokenizer),
      embedding,
      ...hashed,
      device,
      loop,
      created: Math.floor(mtimeMs / 1000),
    };
  } catch (error) {
    weights.close();
    throw error;
  }
}

/** SHA-256 takes as long as loading, and where processors have no instructions for it several times as long. */
async function hashOf(
  id: string,
  content: ContentHash,
  lastRead: LastRead,
): Promise<Pick<BaseModel, "hash" | "stamp" | "reread">> {
  const stamp = await content.stamp();
  const known = stamp === null ? null : lastRead(id, stamp);
  if (known === null) return { hash: await content.hash(), stamp, reread: null };
  return { hash: known, stamp, reread: (signal) => content.hashAtLeisure(signal) };
}

export async function closeBaseModel({ tokenizer, loop, device }: BaseModel): Promise<void> {
  await Promise.all([tokenizer.close(), loop.close()]);
  device.close();
}
