// What is asked for and answered of vectors, whatever makes them.

import { ValidationError } from "../../errors.js";
import type { EmbeddingRequest } from "../../schemas/embeddings.js";
import type { EmbeddingList } from "../../types/embeddings.js";

/** Of one request. */
const MAX_INPUTS = 2048;

export function inputsOf(input: EmbeddingRequest["input"]): readonly (string | number[])[] {
  if (typeof input === "string") return [input];
  if (input.every((one): one is number => typeof one === "number")) return [input];
  if (input.length > MAX_INPUTS)
    throw ValidationError.at("input", `${input.length} are more than ${MAX_INPUTS} inputs`);
  const mixed = input.findIndex((one) => typeof one !== typeof input[0]);
  if (mixed >= 0) throw ValidationError.at(`input.${mixed}`, "is of another kind than the inputs before");
  return input as (string | number[])[];
}

/** How many of a vector's numbers are wanted. @throws ValidationError for more than there are */
export function wantedSize({ dimensions }: EmbeddingRequest, width: number): number {
  const size = dimensions ?? width;
  if (size > width) throw ValidationError.at("dimensions", `${size} are more than the ${width} that vectors have`);
  return size;
}

export function normalized(vector: Float32Array): Float32Array {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  // As PyTorch does, so that a vector of zeros stays one.
  return vector.map((value) => value / Math.max(length, 1e-12));
}

export function shown(vector: Float32Array, { encoding_format }: EmbeddingRequest): number[] | string {
  if (encoding_format === "float") return [...vector];
  const bytes = Buffer.alloc(vector.length * 4);
  for (const [i, value] of vector.entries()) bytes.writeFloatLE(value, i * 4);
  return bytes.toString("base64");
}

export function embeddingList(
  requestId: string,
  model: string,
  vectors: readonly (number[] | string)[],
  promptTokens: number,
): EmbeddingList {
  return {
    id: `embd-${requestId}`,
    object: "list",
    created: Math.floor(Date.now() / 1000),
    model,
    data: vectors.map((embedding, index) => ({ object: "embedding", index, embedding })),
    usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
  };
}
