// A folder with an encoder in ONNX: how long its texts may be, how their vectors are made, what its classes are called.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ModelFileError } from "../errors.js";
import { JsonFields } from "../weights/jsonFields.js";
import { type OnnxFolder, openOnnxFolder } from "../weights/onnxFolder.js";

/** Which of the last hidden states make a vector. */
export type EncoderPooling = "mean" | "cls" | "last";

export interface EncoderFolder extends OnnxFolder {
  /** Of one text, or of a pair. */
  maxTokens: number;
  pooling: EncoderPooling;
  /** Vectors are scaled to length 1. */
  normalize: boolean;
  /** Names of classes by index. */
  labels: string[];
}

/** Texts are cut to so many tokens where the folder does not say. */
const DEFAULT_MAX_TOKENS = 512;

/** @throws ModelFileError */
export async function openEncoderFolder(folder: string, variant?: string): Promise<EncoderFolder> {
  const found = await openOnnxFolder(folder, variant);
  const { config } = found;
  const sentence = await optional(join(folder, "sentence_bert_config.json"));
  const positions = config.integer("max_position_embeddings", 1, 2 ** 24, DEFAULT_MAX_TOKENS);
  // RoBERTa's first positions are those of padding.
  const pads = /roberta|camembert|mpnet/.test(config.string("model_type", "")) ? 2 : 0;
  return {
    ...found,
    maxTokens: Math.min(sentence?.integer("max_seq_length", 1, 2 ** 24, positions) ?? positions, positions - pads),
    ...(await poolingOf(folder)),
    labels: labelsOf(config),
  };
}

async function optional(file: string): Promise<JsonFields | null> {
  try {
    return await JsonFields.read(file);
  } catch (error) {
    if (error instanceof ModelFileError && (error.cause as NodeJS.ErrnoException | undefined)?.code === "ENOENT")
      return null;
    throw error;
  }
}

const POOLINGS: Record<string, EncoderPooling> = {
  pooling_mode_mean_tokens: "mean",
  pooling_mode_cls_token: "cls",
  pooling_mode_lasttoken: "last",
};

/** As sentence-transformers has it; without its files the mean, normalised. */
async function poolingOf(folder: string): Promise<Pick<EncoderFolder, "pooling" | "normalize">> {
  const file = await optional(join(folder, "1_Pooling", "config.json"));
  if (file === null) return { pooling: "mean", normalize: true };
  const on = file.names.filter((name) => name.startsWith("pooling_mode_") && file.get(name) === true);
  const pooling = on.length === 1 ? POOLINGS[on[0]!] : undefined;
  if (pooling === undefined) {
    return file.fail("pooling_mode", `is ${on.join(", ") || "absent"}; known are mean, cls and last token`);
  }
  const modules = await readFile(join(folder, "modules.json"), "utf8").catch(() => "");
  return { pooling, normalize: /"sentence_transformers\.models\.Normalize"/.test(modules) };
}

function labelsOf(config: JsonFields): string[] {
  const named = config.object("id2label");
  if (named === null) return [];
  return named.names.sort((a, b) => Number(a) - Number(b)).map((id) => String(named.get(id)));
}
