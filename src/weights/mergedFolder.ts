// A base model with an adapter added into its weights, as a Hugging Face folder that needs no adapter any more.

import { copyFile, type FileHandle, open, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ModelFileError } from "../errors.js";
import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import type { AdapterSpec, ElementType, NamedTensors, TensorLocation } from "../runtime/runtime.js";
import { narrow, widen } from "./floats.js";
import { safetensorsHeader } from "./safetensors.js";
import { openWeightFolder } from "./weightFolder.js";

type StoredType = TensorLocation["dtype"];

/** What a folder holds beside its weights and their configuration. */
const OTHER_FILES = [
  "generation_config.json",
  "tokenizer.json",
  "tokenizer_config.json",
  "tokenizer.model",
  "special_tokens_map.json",
  "added_tokens.json",
  "vocab.json",
  "merges.txt",
  "chat_template.jinja",
  "chat_template.json",
];

const BYTES: Record<StoredType, number> = { F32: 4, BF16: 2, F16: 2 };
const NAMES: Record<StoredType, string> = { F32: "float32", BF16: "bfloat16", F16: "float16" };

/** Elements that are read, merged and written at once. */
const BLOCK = 2 ** 16;

export interface MergeOptions {
  /** Of all tensors. Default: as the base stores each. */
  dtype?: ElementType;
  /** Of one weight file in bytes, its header and a single larger tensor excepted. */
  maxShardBytes: number;
  signal?: AbortSignal;
}

/**
 * Fills the existing folder `target` from the base model in `source`: W + scale * B A for every projection of the adapter,
 * summed in double precision and rounded once to the type it is stored in; everything else as it is.
 * @throws ModelFileError when a file of the base is damaged.
 */
export async function writeMergedFolder(
  target: string,
  source: string,
  adapter: { spec: AdapterSpec; tensors: NamedTensors },
  { dtype, maxShardBytes, signal }: MergeOptions,
): Promise<void> {
  const { tensors } = await openWeightFolder(source);
  const stored = (tensor: TensorLocation): StoredType =>
    dtype === undefined ? tensor.dtype : dtype === "float32" ? "F32" : "BF16";
  const bytesOf = (tensor: TensorLocation) => count(tensor.shape) * BYTES[stored(tensor)];
  const shards = intoShards(tensors, bytesOf, maxShardBytes);
  const weightMap: Record<string, string> = {};
  for (const [index, shard] of shards.entries()) {
    const file = shardName(index, shards.length);
    for (const { name } of shard) weightMap[name] = file;
    await writeShard(join(target, file), shard, stored, adapter, signal);
  }
  if (shards.length > 1) {
    const index = {
      metadata: { total_size: tensors.reduce((sum, tensor) => sum + bytesOf(tensor), 0) },
      weight_map: weightMap,
    };
    await writeJson(join(target, "model.safetensors.index.json"), index);
  }
  const config = JSON.parse(await readFile(join(source, "config.json"), "utf8")) as Record<string, unknown>;
  const key = "dtype" in config ? "dtype" : "torch_dtype";
  await writeJson(join(target, "config.json"), { ...config, [key]: NAMES[stored(tensors[0]!)] });
  for (const name of OTHER_FILES) {
    await copyFile(join(source, name), join(target, name)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
    });
  }
}

const count = (shape: readonly number[]) => shape.reduce((product, size) => product * size, 1);

const writeJson = (file: string, value: unknown) => writeFile(file, `${JSON.stringify(value, null, 2)}\n`);

function intoShards(
  tensors: readonly TensorLocation[],
  bytesOf: (tensor: TensorLocation) => number,
  maxBytes: number,
): TensorLocation[][] {
  const shards: TensorLocation[][] = [];
  let held = Number.POSITIVE_INFINITY;
  for (const tensor of tensors) {
    const bytes = bytesOf(tensor);
    if (held + bytes > maxBytes) {
      shards.push([]);
      held = 0;
    }
    shards.at(-1)!.push(tensor);
    held += bytes;
  }
  return shards;
}

function shardName(index: number, shards: number): string {
  if (shards === 1) return "model.safetensors";
  const number = (value: number) => String(value).padStart(5, "0");
  return `model-${number(index + 1)}-of-${number(shards)}.safetensors`;
}

async function writeShard(
  file: string,
  tensors: readonly TensorLocation[],
  stored: (tensor: TensorLocation) => StoredType,
  adapter: { spec: AdapterSpec; tensors: NamedTensors },
  signal: AbortSignal | undefined,
): Promise<void> {
  const output = await open(file, "wx");
  const inputs = new Map<string, FileHandle>();
  try {
    const entries = tensors.map((tensor) => ({
      name: tensor.name,
      shape: tensor.shape,
      dtype: stored(tensor),
      bytes: count(tensor.shape) * BYTES[stored(tensor)],
    }));
    await output.appendFile(safetensorsHeader(entries, { format: "pt" }));
    for (const tensor of tensors) {
      const input = inputs.get(tensor.file) ?? (await open(tensor.file));
      inputs.set(tensor.file, input);
      const delta = deltaOf(tensor, adapter);
      const total = count(tensor.shape);
      for (let from = 0; from < total; from += BLOCK) {
        signal?.throwIfAborted();
        const to = Math.min(from + BLOCK, total);
        const raw = await readBlock(input, tensor, from, to);
        if (delta === null && stored(tensor) === tensor.dtype) {
          await output.appendFile(raw);
          continue;
        }
        const values = Float64Array.from(widen(tensor.dtype, raw));
        delta?.(values, from);
        await output.appendFile(narrow(stored(tensor), values));
        while (shouldYield()) await yieldToEventLoop();
      }
    }
    await output.sync();
  } finally {
    for (const input of inputs.values()) await input.close();
    await output.close();
  }
}

async function readBlock(input: FileHandle, tensor: TensorLocation, from: number, to: number): Promise<Uint8Array> {
  const size = BYTES[tensor.dtype];
  const raw = new Uint8Array((to - from) * size);
  for (let done = 0; done < raw.length; ) {
    const { bytesRead } = await input.read(raw, done, raw.length - done, tensor.offset + from * size + done);
    if (bytesRead === 0) throw new ModelFileError(tensor.file, `ends inside ${tensor.name}`, { param: tensor.name });
    done += bytesRead;
  }
  return raw;
}

/** Adds the adapter's part to values of a row-major [out, in] weight, the first of which is at `from`; null: it has none. */
function deltaOf(
  { name, shape }: TensorLocation,
  { spec, tensors }: { spec: AdapterSpec; tensors: NamedTensors },
): ((values: Float64Array, from: number) => void) | null {
  const module = `base_model.model.${name.replace(/\.weight$/, "")}`;
  const a = tensors.get(`${module}.lora_A.weight`)?.data;
  const b = tensors.get(`${module}.lora_B.weight`)?.data;
  if (!a || !b) return null;
  const { rank, alpha, rslora } = spec;
  const scale = alpha / (rslora ? Math.sqrt(rank) : rank);
  const columns = shape[1]!;
  return (values, from) => {
    for (let at = 0; at < values.length; ) {
      const row = Math.floor((from + at) / columns);
      const column = (from + at) % columns;
      const length = Math.min(columns - column, values.length - at);
      for (let r = 0; r < rank; r++) {
        const factor = scale * b[row * rank + r]!;
        if (factor === 0) continue;
        const start = r * columns + column;
        for (let i = 0; i < length; i++) values[at + i]! += factor * a[start + i]!;
      }
      at += length;
    }
  };
}
