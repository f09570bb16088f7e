// The weights of a folder, opened: what is known of them before they are in memory, and how they get there.

import { availableParallelism } from "node:os";
import { InsufficientMemoryError, ModelFileError } from "../../errors.js";
import { isGguf } from "../../gguf/ggufFile.js";
import { type DeviceModel, type ModelSpec, OnnxDecoder, type Runtime } from "../../runtime/runtime.js";
import type { ModelOptions } from "../../types/options.js";
import type { ContentHash } from "../../weights/contentHash.js";
import { isOnnxFolder, type JsonFields, openOnnxFolder, openWeightFiles } from "../../weights/index.js";
import type { MemoryNeeds } from "./memoryPlan.js";
import type { ResolvedOptions } from "./options.js";

export interface OpenedWeights {
  /** "onnx": not trained. */
  readonly format: "safetensors" | "gguf" | "onnx";
  readonly config: Pick<ModelSpec, "vocab" | "maxPositions">;
  /** `largestPiece`: of the weights, what a device must give at once; 0: no matter. */
  readonly needs: MemoryNeeds & { largestPiece: number };
  /** What they are computed in. */
  readonly dtype: string;
  readonly content: ContentHash;
  /** Once. `gateText` decides which quantised weights are multiplied with activations as they are. */
  load(
    cache: { kvPages: number; recurrentStates: number },
    gateText: () => Int32Array,
    onProgress: (fraction: number) => void,
  ): Promise<DeviceModel>;
  /** Lets go of what has been opened, where it is not loaded. */
  close(): void;
}

/** Whether ONNX Runtime computes a folder, or file, and no device of anneal's own. */
export async function isComputedByOnnx(folder: string, model: ModelOptions): Promise<boolean> {
  return !isGguf(folder) && (model.onnx !== undefined || (await isOnnxFolder(folder)));
}

/** @throws ModelFileError naming what is wrong with the folder; InsufficientMemoryError where `bytes` cannot hold it. */
export async function openWeights(
  runtime: Runtime,
  folder: string,
  model: ModelOptions,
  options: ResolvedOptions,
  bytes: number,
): Promise<OpenedWeights> {
  const kvCache = model.kvCache ?? options.kvCache;
  if (await isComputedByOnnx(folder, model)) {
    if (model.quantize !== undefined) {
      throw new ModelFileError(folder, "is computed as ONNX, which is not quantised here", { param: "quantize" });
    }
    if (kvCache !== "exact") {
      throw new ModelFileError(folder, "is computed as ONNX, whose cache is exact", { param: "kvCache" });
    }
    return openOnnx(folder, model, options, bytes);
  }
  const weights = await openWeightFiles(folder, model.quantize);
  if (weights.textOnly) options.logger.warn("this model also sees; its text alone is loaded", { folder });
  const { tensors } = weights;
  const config = { ...withinContext(weights.config, options.contextLength), ...(kvCache !== "exact" && { kvCache }) };
  const wanted = model.dtype ?? options.dtype;
  const dtype = wanted === "auto" ? weights.dtype : wanted;
  const wantsText = config.quantized !== undefined || options.precision === "fast";
  return {
    format: isGguf(folder) ? "gguf" : "safetensors",
    config,
    needs: runtime.memory(config, dtype),
    dtype,
    content: weights.content,
    load: (cache, gateText, onProgress) =>
      runtime.load({ config, tensors, dtype, ...cache, onProgress, ...(wantsText && { gateText: gateText() }) }),
    close() {},
  };
}

/** Where what a position means depends on how many there can be, for that many. */
function withinContext(config: ModelSpec, contextLength = config.maxPositions): ModelSpec {
  if (config.layers.every(({ attention }) => attention?.rope.type !== "longrope")) return config;
  return { ...config, maxPositions: Math.min(contextLength, config.maxPositions) };
}

/** Positions by the names that configurations give them. */
const POSITIONS = [
  "max_position_embeddings",
  "n_positions",
  "n_ctx",
  "max_sequence_length",
  "max_seq_len",
  "seq_length",
];
/** Of a model that names no end, as those that know distances alone have none. */
const UNNAMED_POSITIONS = 2048;

async function openOnnx(
  folder: string,
  model: ModelOptions,
  options: ResolvedOptions,
  available: number,
): Promise<OpenedWeights> {
  const { variant, executionProvider = "cpu" } = { ...options.onnx, ...model.onnx };
  const { config: whole, file, bytes, content } = await openOnnxFolder(folder, variant);
  if (bytes > available) throw new InsufficientMemoryError(`the graph ${file}`, bytes, available, "models");
  // Of models that see as well, the part that reads and writes.
  const config = whole.object("text_config") ?? whole;
  const maxPositions = positionsOf(config) ?? options.contextLength ?? UNNAMED_POSITIONS;
  const threads = options.threads ?? availableParallelism();
  const decoder = await OnnxDecoder.open({ file, executionProvider, threads });
  try {
    const vocab = decoder.vocab ?? config.integer("vocab_size", 1, 2 ** 22);
    const sizes = { vocab, maxPositions, bytes };
    return {
      format: "onnx",
      config: { vocab, maxPositions },
      needs: { weights: bytes, page: decoder.pageBytes, pageGroups: [0], largestPiece: 0 },
      dtype: executionProvider,
      content,
      load: ({ kvPages }) => decoder.load(sizes, kvPages),
      close: () => decoder.close(),
    };
  } catch (error) {
    decoder.close();
    throw error;
  }
}

function positionsOf(config: JsonFields): number | null {
  const name = POSITIONS.find((one) => config.get(one) !== null);
  return name === undefined ? null : config.integer(name, 1, 2 ** 24);
}
