// Models and adapters as files that llama.cpp and what is built on it load.

import { ModelFileError, ValidationError } from "../errors.js";
import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import {
  ggufArchitecture,
  ggufConfig,
  ggufTensorName,
  type NamedArchitecture,
  ROPE_FACTORS,
  type RopeFactors,
} from "../gguf/ggufConfig.js";
import { type GgufTensor, type GgufType, ggufBytes } from "../gguf/ggufFile.js";
import { type VocabularySource, vocabularyMetadata } from "../gguf/vocabularyMetadata.js";
import { readValue, type TypedMetadata, type TypedValue, type WrittenTensor, writeGguf } from "../gguf/writeGguf.js";
import { type ModelSpec, quantizeNumbers } from "../runtime/runtime.js";
import { expertTensor, isRouter } from "./expertTensors.js";
import { isFloatType, narrow } from "./floats.js";
import { modelMetadata } from "./ggufModelMetadata.js";
import { headsInTiles, inOrder, interleavedHeads, rowsInPairs, tiledHeads } from "./ggufOrder.js";
import { isConvolution, storedShape } from "./ggufWeights.js";
import { JsonFields } from "./jsonFields.js";
import { type Adapter, MergedTensors } from "./mergedTensors.js";
import { readModelConfig } from "./modelConfig.js";
import { modelSpec } from "./modelSpec.js";
import { fourBits, SMALL_BLOCK } from "./quantizeFormats.js";
import type { FloatTensorLocation } from "./weightFolder.js";

/** Of matrices; q4_k_m: Q4_K, and Q6_K for those that err most by it. */
export type GgufDtype = "float32" | "float16" | "bfloat16" | "q8_0" | "q4_0" | "q4_k_m";

export interface GgufModelOptions {
  /** Default: as the base stores each. */
  dtype?: GgufDtype;
  /** What the file says that it is called. */
  name: string;
  vocabulary: VocabularySource;
  signal?: AbortSignal;
  /** Told now and then how many bytes of how many are written. */
  onProgress?: (done: number, total: number) => void;
}

/** What llama.cpp calls such a file as a whole. */
const FILE_TYPES: Record<GgufDtype, number> = {
  float32: 0,
  float16: 1,
  q4_0: 2,
  q8_0: 7,
  q4_k_m: 15,
  bfloat16: 32,
};
const QUANTIZATION_VERSION = 2;
/** Numbers that are converted at once: whole blocks of every type. */
const PIECE = 2 ** 14;
/** That are quantised at a time. */
const PIECES_AHEAD = 16;

/**
 * Writes the base model in the folder `source` with an adapter added into its weights.
 * @returns whether llama.cpp splits texts as the model does.
 * @throws ValidationError at `format` for a model that the format cannot tell of; ModelFileError when the base is damaged.
 */
export async function writeGgufModel(
  file: string,
  source: string,
  adapter: Adapter,
  { dtype, name, vocabulary, signal, onProgress }: GgufModelOptions,
): Promise<{ splitsAlike: boolean }> {
  const architecture = await architectureOf(source);
  // As folders have them, experts of gpt-oss are turned.
  if (architecture.experts === "biased") {
    throw notWritten(architecture.modelType, 'the format "gguf_adapter" writes the adapter alone');
  }
  const merged = await MergedTensors.open(source, adapter);
  try {
    const { config } = merged;
    if (config.layers.every(({ attention }) => attention === null)) throw notTold("none of its layers attends");
    const typed = stacked(merged.tensors).map((tensor) => ({ tensor, type: typeOf(tensor, dtype) }));
    const { metadata, factors } = modelMetadata(config, architecture);
    metadata.set("general.name", { string: name });
    metadata.set("general.file_type", { uint32: FILE_TYPES[dtype ?? storedDtype(typed)] });
    if (typed.some(({ type }) => !isFloatType(type))) {
      metadata.set("general.quantization_version", { uint32: QUANTIZATION_VERSION });
    }
    const tokens = vocabularyMetadata(vocabulary, config.vocab, architecture.name);
    for (const [key, value] of tokens.metadata) metadata.set(key, value);
    const tensors = typed.map(({ tensor, type }): WrittenTensor => {
      const { heads, tiled } = orderOf(tensor.name, architecture, config);
      const values = () => {
        const stored = numbersOf(tensor, merged);
        const [rows, columns = 1] = tensor.shape as [number, number?];
        const count = rows * columns;
        if (heads !== null) return inOrder(stored, count / heads, (head) => rowsInPairs(head, rows / heads, columns));
        return tiled === null ? stored : inOrder(stored, count, (all) => headsInTiles(all, columns, tiled));
      };
      const name = ggufTensorName(tensor.name, architecture);
      return { name, shape: tensor.shape, type, content: () => encoded(values(), type) };
    });
    for (const [kind, values] of Object.entries(factors)) {
      tensors.unshift(floatTensor(ROPE_FACTORS[kind as keyof RopeFactors], [values.length], values));
    }
    requireSame(config, metadata, tensors, factors);
    await write(file, metadata, tensors, signal, onProgress);
    return { splitsAlike: tokens.isNamed };
  } finally {
    await merged.close();
  }
}

/** Writes the adapter alone, for a base model in GGUF. @throws ValidationError at `format` for a base that GGUF does not have. */
export async function writeGgufAdapter(
  file: string,
  source: string,
  config: ModelSpec,
  { spec, tensors }: Adapter,
  signal?: AbortSignal,
): Promise<void> {
  const architecture = await architectureOf(source);
  const { rank, alpha, rslora } = spec;
  const metadata = new Map<string, TypedValue>([
    ["general.architecture", { string: architecture.name }],
    ["general.type", { string: "adapter" }],
    ["adapter.type", { string: "lora" }],
    // Which is divided by the rank where it is used.
    ["adapter.lora.alpha", { float32: rslora ? alpha * Math.sqrt(rank) : alpha }],
  ]);
  const written = [...tensors].map(([name, { data, shape }]) => {
    const [, module, matrix] = /^base_model\.model\.(.+)\.lora_([AB])\.weight$/.exec(name)!;
    const { heads, tiled } = orderOf(`${module}.weight`, architecture, config);
    const [rows, columns] = [shape[0]!, shape[1]!];
    let values: ArrayLike<number> = data;
    if (matrix === "B" && heads !== null) values = rowsInPairs(Float64Array.from(data), rows / heads, columns);
    if (tiled?.columns === (matrix === "A")) values = headsInTiles(Float64Array.from(data), columns, tiled);
    const stored = ggufTensorName(`${module}.weight`, architecture);
    return floatTensor(`${stored}.lora_${matrix!.toLowerCase()}`, shape, values);
  });
  await write(file, metadata, written, signal);
}

async function architectureOf(source: string): Promise<NamedArchitecture> {
  const type = (await readModelConfig(source)).string("model_type");
  const found = ggufArchitecture(type);
  if (found) return found;
  throw notWritten(type);
}

const notWritten = (type: string, hint?: string) =>
  ValidationError.at("format", `models of the type "${type}" are not written as GGUF yet`, "value_error", { hint });

async function write(
  file: string,
  metadata: TypedMetadata,
  tensors: readonly WrittenTensor[],
  signal?: AbortSignal,
  onProgress?: (done: number, total: number) => void,
): Promise<void> {
  const total = tensors.reduce((sum, { type, shape }) => sum + ggufBytes(type, shape), 0);
  let done = 0;
  await writeGguf(file, metadata, tensors, async (bytes) => {
    signal?.throwIfAborted();
    done += bytes;
    onProgress?.(done, total);
    while (shouldYield()) await yieldToEventLoop();
  });
}

// ---- that nothing is lost

/** That the file, read again, is this model: what GGUF has no key for is refused, never left out. */
function requireSame(
  config: ModelSpec,
  metadata: TypedMetadata,
  tensors: readonly WrittenTensor[],
  factors: RopeFactors,
): void {
  const file = "GGUF";
  const entries = tensors.map(({ name, shape, type }): [string, GgufTensor] => {
    return [name, { file, type, shape: [...shape], offset: 0, bytes: 0 }];
  });
  const read = { file, metadata: new Map([...metadata].map(([key, value]) => [key, readValue(value)])) };
  let told: ModelSpec;
  try {
    told = modelSpec(new JsonFields(file, ggufConfig({ ...read, tensors: new Map(entries) }, factors)));
  } catch (error) {
    throw error instanceof ModelFileError ? notTold(error.reason) : error;
  }
  const place = difference(config, told, "");
  if (place !== null) throw notTold(`its ${place} is lost`);
}

const notTold = (reason: string) => ValidationError.at("format", `GGUF cannot tell of this model: ${reason}`);

/** Numbers of metadata have 24 bits. */
const TOLERANCE = 1e-6;

/** Where two values differ first; null: nowhere. */
function difference(a: unknown, b: unknown, path: string): string | null {
  if (typeof a === "number" && typeof b === "number") {
    return Math.abs(a - b) <= TOLERANCE * Math.max(Math.abs(a), Math.abs(b)) ? null : path;
  }
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return a === b ? null : path;
  for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
    const [left, right] = [a, b].map((value) => (value as Record<string, unknown>)[key]);
    const found = difference(left, right, path === "" ? key : `${path}.${key}`);
    if (found !== null) return found;
  }
  return null;
}

// ---- its numbers

const FLOATS = { float32: "F32", float16: "F16", bfloat16: "BF16" } as const;

/** A tensor as it is written: one of the model, or the matrices of all experts of a layer, one after the other. */
interface Stacked {
  name: string;
  shape: readonly number[];
  parts: FloatTensorLocation[];
}

function stacked(tensors: readonly FloatTensorLocation[]): Stacked[] {
  const found = new Map<string, FloatTensorLocation[]>();
  for (const tensor of tensors) {
    const matrix = expertTensor(tensor.name);
    const name = matrix?.stacked ?? tensor.name;
    const parts = found.get(name) ?? [];
    parts[matrix?.expert ?? 0] = tensor;
    found.set(name, parts);
  }
  return Array.from(found, ([name, parts]) => {
    const [first] = parts;
    const shape = storedShape(first!.name, first!.shape);
    return { name, parts, shape: name === first!.name ? shape : [parts.length, ...shape] };
  });
}

/** As the file has them, in the order of the folder. */
async function* numbersOf({ name, parts }: Stacked, merged: MergedTensors): AsyncGenerator<Float64Array> {
  const addsOne =
    merged.config.normAddsOne && name.endsWith("norm.weight") && !name.endsWith(".linear_attn.norm.weight");
  const isRate = name.endsWith(".A_log");
  for (const part of parts) {
    for await (const values of merged.values(part)) {
      if (addsOne) yield values.map((value) => value + 1);
      else if (isRate) yield values.map((value) => -Math.exp(value));
      else yield values;
    }
  }
}

function orderOf(name: string, { interleaved, deltaRule }: NamedArchitecture, config: ModelSpec) {
  return {
    heads: interleaved ? interleavedHeads(name, config) : null,
    tiled: deltaRule ? tiledHeads(name, config) : null,
  };
}

/** Vectors, routers and convolutions are of float32 in every such file; rows that are no whole blocks are not quantised. */
function typeOf({ name, shape, parts }: Stacked, dtype: GgufDtype | undefined): GgufType {
  const columns = shape.at(-1)!;
  if (shape.length === 1 || isRouter(name) || isConvolution(name)) return "F32";
  if (dtype === undefined) {
    const stored = parts[0]!.dtype;
    return parts.every((part) => part.dtype === stored) ? stored : "F32";
  }
  if (dtype === "float32" || dtype === "float16" || dtype === "bfloat16") return FLOATS[dtype];
  if (columns % SMALL_BLOCK !== 0) return "F16";
  return dtype === "q8_0" ? "Q8_0" : dtype === "q4_0" ? "Q4_0" : fourBits(name, columns);
}

function storedDtype(typed: readonly { tensor: Stacked; type: GgufType }[]): GgufDtype {
  const { type } = typed.find(({ tensor }) => tensor.shape.length > 1)!;
  return type === "F32" ? "float32" : type === "F16" ? "float16" : "bfloat16";
}

async function* encoded(values: AsyncIterable<Float64Array>, type: GgufType): AsyncGenerator<Uint8Array> {
  // Those that are quantised meanwhile, in the order in which they are written.
  const ahead: Promise<Uint8Array>[] = [];
  try {
    for await (const block of values) {
      for (let at = 0; at < block.length; at += PIECE) {
        const piece = block.subarray(at, at + PIECE);
        if (isFloatType(type)) yield narrow(type, piece);
        else if (ahead.push(quantizeNumbers(type, new Float32Array(piece))) > PIECES_AHEAD) yield await ahead.shift()!;
      }
    }
    while (ahead.length > 0) yield await ahead.shift()!;
  } finally {
    await Promise.allSettled(ahead);
  }
}

const floatTensor = (name: string, shape: readonly number[], values: ArrayLike<number>): WrittenTensor => ({
  name,
  shape,
  type: "F32",
  content: () => [new Uint8Array(Float32Array.from(values).buffer)],
});
