// Embeddings by an encoder in ONNX: its thread makes tokens and vectors.

import { ValidationError } from "../../errors.js";
import { shouldYield, yieldToEventLoop } from "../../eventLoop.js";
import { type EmbeddingRequest, embeddingCreate } from "../../schemas/embeddings.js";
import { validateAsync } from "../../schemas/validate.js";
import type { EmbeddingList } from "../../types/embeddings.js";
import type { ServedEncoder } from "../core/servedEncoder.js";
import { embeddingList, inputsOf, normalized, shown, wantedSize } from "./vectors.js";

/** Inputs that are handed over at once: others' requests come in between. */
const AT_ONCE = 128;

/** @throws ValidationError, also for what encoders do not have. */
export async function createEncoderEmbeddings(
  { id, encoder }: ServedEncoder,
  params: unknown,
  { strict, signal }: { strict: boolean; signal?: AbortSignal | undefined },
): Promise<EmbeddingList> {
  const request = await validateAsync(embeddingCreate, params, { strict });
  signal?.throwIfAborted();
  const limit = limitOf(request, encoder.folder.maxTokens);
  const texts = inputsOf(request.input).map((input, i) => {
    if (typeof input === "string") return input;
    const message = "token ids are not taken by encoders in ONNX; give texts";
    throw ValidationError.at(typeof request.input === "string" ? "input" : `input.${i}`, message, "not_supported");
  });
  const vectors: (number[] | string)[] = [];
  let promptTokens = 0;
  for (let from = 0; from < texts.length; from += AT_ONCE) {
    const made = await encoder.embed(texts.slice(from, from + AT_ONCE), limit ?? undefined);
    signal?.throwIfAborted();
    for (const [i, vector] of made.vectors.entries()) {
      while (shouldYield()) await yieldToEventLoop();
      const tokens = made.tokens[i]!;
      if (limit === null && tokens > encoder.folder.maxTokens) {
        const field = typeof request.input === "string" ? "input" : `input.${from + i}`;
        const message = `has more than the ${encoder.folder.maxTokens} tokens that the model takes`;
        throw ValidationError.tooLong(field, message, {
          hint: "shorten it, or set truncate_prompt_tokens",
        });
      }
      promptTokens += Math.min(tokens, limit ?? tokens);
      const size = wantedSize(request, vector.length);
      const part = vector.subarray(0, size);
      vectors.push(shown(encoder.folder.normalize && size < vector.length ? normalized(part) : part, request));
    }
  }
  return embeddingList(request.request_id || crypto.randomUUID(), id, vectors, promptTokens);
}

/** Tokens of a text that are kept; null: a text that is too long is refused. */
function limitOf(request: EmbeddingRequest, most: number): number | null {
  const refuse = (field: string, message: string) => ValidationError.at(field, message, "not_supported");
  if (!request.add_special_tokens) throw refuse("add_special_tokens", "false is not known of encoders in ONNX");
  if (request.truncation_side === "left") throw refuse("truncation_side", '"left" is not known of encoders in ONNX');
  if (request.priority) throw refuse("priority", "encoders in ONNX work in order of arrival");
  const count = request.truncate_prompt_tokens;
  if (count === undefined) return null;
  if (count === 0) throw ValidationError.at("truncate_prompt_tokens", "0 leaves nothing");
  if (count > most) {
    throw ValidationError.at("truncate_prompt_tokens", `${count} is more than the ${most} tokens that the model takes`);
  }
  return count === -1 ? most : count;
}
