// A folder with an encoder in ONNX: how long its texts may be, how their vectors are made, what its classes are called.

import { type EmbeddingSpec, readEmbeddingFolder } from "../weights/embeddingFolder.js";
import type { JsonFields } from "../weights/jsonFields.js";
import { type OnnxFolder, openOnnxFolder } from "../weights/onnxFolder.js";

/** Which of the last hidden states make a vector. */
export type EncoderPooling = EmbeddingSpec["pooling"];

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
  // Without the files of sentence-transformers the mean, normalised.
  const embedding = await readEmbeddingFolder(folder);
  const positions = config.integer("max_position_embeddings", 1, 2 ** 24, DEFAULT_MAX_TOKENS);
  // RoBERTa's first positions are those of padding.
  const pads = /roberta|camembert|mpnet/.test(config.string("model_type", "")) ? 2 : 0;
  return {
    ...found,
    maxTokens: Math.min(embedding?.maxTokens ?? positions, positions - pads),
    pooling: embedding?.pooling ?? "mean",
    normalize: embedding?.normalize ?? true,
    labels: labelsOf(config),
  };
}

function labelsOf(config: JsonFields): string[] {
  const named = config.object("id2label");
  if (named === null) return [];
  return named.names.sort((a, b) => Number(a) - Number(b)).map((id) => String(named.get(id)));
}
