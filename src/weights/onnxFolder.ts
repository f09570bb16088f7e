// A folder of ONNX in the layout of transformers.js and optimum: config.json and tokenizer beside model*.onnx, which stand in `onnx` or in
// the folder itself.

import { existsSync } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { ModelFileError } from "../errors.js";
import { isGguf } from "../gguf/ggufFile.js";
import { type ContentHash, contentHash } from "./contentHash.js";
import { MODEL_TYPES } from "./families.js";
import { JsonFields } from "./jsonFields.js";

export interface OnnxFolder {
  readonly config: JsonFields;
  /** The graph. */
  readonly file: string;
  /** Of the graph and of the weights beside it. */
  readonly bytes: number;
  /** The graph, and the weights beside it. */
  readonly content: ContentHash;
}

const FOLDERS = ["onnx", ""];

/** Whether the folder holds ONNX, and no weights of Hugging Face's of an architecture that is known. */
export async function isOnnxFolder(folder: string): Promise<boolean> {
  if ((await variantsOf(folder)).size === 0) return false;
  const hasWeights = ["model.safetensors", "model.safetensors.index.json"].some((name) =>
    existsSync(join(folder, name)),
  );
  return !hasWeights || !(await isKnownArchitecture(folder));
}

async function isKnownArchitecture(folder: string): Promise<boolean> {
  // Who reads it next tells what is wrong with it.
  const type = await JsonFields.read(join(folder, "config.json")).then(
    (config) => config.get("model_type"),
    () => null,
  );
  return typeof type !== "string" || MODEL_TYPES.includes(type);
}

/**
 * Finds the graph of a variant ("fp32", "fp16", "q4", "int8", "q8" and so on: what transformers.js calls `dtype`). Default: the
 * one that config.json names, else "fp32", else the only one.
 * @throws ModelFileError naming what is there when the variant is not, or when several could be meant.
 */
export async function openOnnxFolder(folder: string, variant?: string): Promise<OnnxFolder> {
  if (isGguf(folder)) throw new ModelFileError(folder, "is a file of GGUF, and no folder with model*.onnx");
  const config = await JsonFields.read(join(folder, "config.json"));
  const variants = await variantsOf(folder);
  const named = config.object("transformers.js_config")?.get("dtype");
  const [only] = variants.size === 1 ? variants.keys() : [];
  const name = variant ?? [named, "fp32", only].find((one) => variants.has(one as string)) ?? null;
  const file = variants.get(name as string);
  if (file === undefined) {
    const asked = name === null ? "has several variants, one of which must be named" : `has no variant "${name}"`;
    const known = [...variants.keys()].join(", ");
    throw new ModelFileError(folder, variants.size === 0 ? "has no model*.onnx" : `${asked}; there is ${known}`, {
      code: "onnx_variant",
    });
  }
  const files = [file, ...(await dataFiles(file))];
  const sizes = await Promise.all(files.map(async (one) => (await stat(one)).size));
  return {
    config,
    file,
    bytes: sizes.reduce((sum, size) => sum + size, 0),
    content: contentHash(files.map((one, i) => ({ text: "", file: one, offset: 0, bytes: sizes[i]! }))),
  };
}

/** Graphs by what transformers.js calls their `dtype`. */
async function variantsOf(folder: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const place of FOLDERS) {
    for (const entry of (await readdir(join(folder, place)).catch(() => [])).sort()) {
      const suffix = /^model(?:_(\w+))?\.onnx$/.exec(entry);
      if (!suffix) continue;
      const variant = suffix[1] === undefined ? "fp32" : suffix[1] === "quantized" ? "q8" : suffix[1];
      if (!found.has(variant)) found.set(variant, join(folder, place, entry));
    }
  }
  return found;
}

/** Weights that do not stand in the graph: `model.onnx_data`, `model.onnx_data_1`, `model.onnx.data`. */
async function dataFiles(file: string): Promise<string[]> {
  const entries = await readdir(dirname(file));
  const [folder, name] = [dirname(file), basename(file)];
  return entries
    .filter((entry) => entry.startsWith(`${name}_data`) || entry === `${name}.data`)
    .sort()
    .map((entry) => join(folder, entry));
}
