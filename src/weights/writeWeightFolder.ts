// A Hugging Face model folder written anew: weights from wherever they come, all else as in the folder of another model.

import { copyFile, open, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { elementCount } from "../elementCount.js";
import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import { jsonText, parseJsonText, withoutByteOrderMark } from "../json.js";
import { familyNamed, towerNamed } from "./families.js";
import type { FloatType } from "./floats.js";
import { safetensorsHeader } from "./safetensors.js";

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

/** As `transformers` cuts weights into files. */
export const DEFAULT_SHARD_BYTES = 5e9;

export const BYTES: Record<FloatType, number> = { F32: 4, BF16: 2, F16: 2 };
const NAMES: Record<FloatType, string> = { F32: "float32", BF16: "bfloat16", F16: "float16" };

/** Elements that are read, converted and written at once. */
export const BLOCK = 2 ** 16;

/** A tensor as it is to be written. */
export interface OutputTensor {
  name: string;
  shape: readonly number[];
  dtype: FloatType;
}

export interface WriteOptions {
  /** Of one weight file in bytes, its header and a single larger tensor excepted. Default 5e9. */
  maxShardBytes?: number;
  signal?: AbortSignal;
  /** Told now and then how many bytes of how many are written. */
  onProgress?: (done: number, total: number) => void;
}

/**
 * Fills the existing folder `target`: the tensors, whose bytes `blocksOf` tells piece by piece, and from the folder `source` its
 * configuration, tokenizer and templates. The type of the first tensor is that of the model.
 */
export async function writeWeightFolder<T extends OutputTensor>(
  target: string,
  source: string,
  tensors: readonly T[],
  blocksOf: (tensor: T) => AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  { maxShardBytes = DEFAULT_SHARD_BYTES, signal, onProgress }: WriteOptions,
): Promise<void> {
  const total = tensors.reduce((sum, tensor) => sum + bytesOf(tensor), 0);
  let done = 0;
  const written = (bytes: number) => {
    signal?.throwIfAborted();
    done += bytes;
    onProgress?.(done, total);
  };
  const shards = intoShards(tensors, maxShardBytes);
  const weightMap: Record<string, string> = {};
  for (const [index, shard] of shards.entries()) {
    const file = shardName(index, shards.length);
    for (const { name } of shard) weightMap[name] = file;
    await writeShard(join(target, file), shard, blocksOf, written);
  }
  if (shards.length > 1) {
    const index = {
      metadata: { total_size: total },
      weight_map: weightMap,
    };
    await writeJson(join(target, "model.safetensors.index.json"), index);
  }
  const config = await readTextConfig(source);
  const key = "dtype" in config ? "dtype" : "torch_dtype";
  const tie_word_embeddings = !tensors.some(({ name }) => name === "lm_head.weight");
  await writeJson(join(target, "config.json"), { ...config, tie_word_embeddings, [key]: NAMES[tensors[0]!.dtype] });
  await copyTextFiles(target, source);
}

/** config.json of a folder, of a model that also sees the text's. Numbers keep their spelling: transformers tells 30.0 from 30. */
export async function readTextConfig(folder: string): Promise<Record<string, unknown>> {
  const text = await readFile(join(folder, "config.json"), "utf8");
  return textConfig(parseJsonText(withoutByteOrderMark(text), "spellings") as Record<string, unknown>);
}

/** Of a model that also sees, the text's: nothing else of it is written. */
export function textConfig(config: Record<string, unknown>): Record<string, unknown> {
  const type = config.model_type as string;
  const tower = towerNamed(type);
  if (!tower) return config;
  const text = config.text_config as Record<string, unknown>;
  const { eos_token_id, bos_token_id, pad_token_id } = config;
  const whole = { eos_token_id, bos_token_id, pad_token_id };
  const given = Object.fromEntries(Object.entries(whole).filter(([, value]) => value !== undefined));
  const family = (text.model_type as string | undefined) ?? tower.texts[0]!;
  return {
    ...given,
    ...text,
    ...tower.ignored,
    architectures: [familyNamed(family)!.architecture],
    model_type: family,
  };
}

/** Tokenizer, templates and generation settings, as far as `source` has them. */
export async function copyTextFiles(target: string, source: string): Promise<void> {
  for (const name of OTHER_FILES) {
    await copyFile(join(source, name), join(target, name)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
    });
  }
}

const bytesOf = ({ shape, dtype }: OutputTensor) => elementCount(shape) * BYTES[dtype];

export const writeJson = (file: string, value: unknown) => writeFile(file, `${jsonText(value, 2)}\n`);

function intoShards<T extends OutputTensor>(tensors: readonly T[], maxBytes: number): T[][] {
  const shards: T[][] = [];
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

async function writeShard<T extends OutputTensor>(
  file: string,
  tensors: readonly T[],
  blocksOf: (tensor: T) => AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  written: (bytes: number) => void,
): Promise<void> {
  const output = await open(file, "wx");
  try {
    const entries = tensors.map((tensor) => ({ ...tensor, bytes: bytesOf(tensor) }));
    await output.appendFile(safetensorsHeader(entries, { format: "pt" }));
    for (const tensor of tensors) {
      for await (const block of blocksOf(tensor)) {
        await output.appendFile(block);
        written(block.byteLength);
        while (shouldYield()) await yieldToEventLoop();
      }
    }
    await output.sync();
  } finally {
    await output.close();
  }
}
