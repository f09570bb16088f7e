// Embeddings: texts to tokens, tokens to vectors, vectors to what is answered.

import { ValidationError } from "../../errors.js";
import { shouldYield, yieldToEventLoop } from "../../eventLoop.js";
import { type EmbeddingRequest, embeddingCreate } from "../../schemas/embeddings.js";
import { validateAsync } from "../../schemas/validate.js";
import { Semaphore } from "../../semaphore.js";
import { type KeptTokens, keptTokens } from "../../text/index.js";
import type { EmbeddingList } from "../../types/embeddings.js";
import type { ChatCall, ChatHost } from "../chat/host.js";
import { maxTokenLength } from "../chat/prompt.js";
import { checkTextLength } from "../chat/tokenLimits.js";
import type { ServedModel } from "../core/resolve.js";
import { embeddingList, inputsOf, normalized, shown, wantedSize } from "./vectors.js";

/** Inputs of one request at work together: others' requests come in between. */
const AT_ONCE = 128;
/** Beyond what may be kept of a text, so many characters are looked at, so that the cut changes no token that is kept. */
const ALWAYS_ENCODED = 65_536;

/**
 * The vectors of texts.
 * @throws ValidationError, also for a model that makes none; NotFoundError for an unknown model; RateLimitError when too many
 * requests wait
 */
export async function createEmbeddings(
  host: Pick<ChatHost, "resolve">,
  params: unknown,
  { caller, strict, signal }: ChatCall,
): Promise<EmbeddingList> {
  const request = await validateAsync(embeddingCreate, params, { strict });
  signal?.throwIfAborted();
  const served = await host.resolve(request.model, caller);
  // What fails ends the others.
  const failed = new AbortController();
  const ended = signal === undefined ? failed.signal : AbortSignal.any([signal, failed.signal]);
  try {
    const { size, inputs } = await prepare(request, served, ended);
    const places = new Semaphore(AT_ONCE);
    const requestId = request.request_id || crypto.randomUUID();
    const vectors = await Promise.all(
      inputs.map(async (promptTokens) => {
        const leave = await places.acquire(ended);
        try {
          const { base, adapter } = served;
          const { pooling, normalize } = base.embedding!;
          const input = { requestId, promptTokens, adapter, pooling, priority: request.priority };
          const vector = await base.loop.submitEmbedding(input, ended).vector;
          return shown(normalize ? normalized(vector.subarray(0, size)) : vector.subarray(0, size), request);
        } catch (error) {
          failed.abort(error);
          throw error;
        } finally {
          leave();
        }
      }),
    );
    const promptTokens = inputs.reduce((sum, { length }) => sum + length, 0);
    return embeddingList(requestId, served.trained?.servedName ?? served.base.id, vectors, promptTokens);
  } finally {
    served.release();
  }
}

/** The width of vectors, and the tokens of each input. */
async function prepare(
  request: EmbeddingRequest,
  { base }: ServedModel,
  signal: AbortSignal,
): Promise<{ size: number; inputs: number[][] }> {
  const { embedding: spec, loop, tokenizer, config } = base;
  if (spec === null) {
    throw ValidationError.at(
      "model",
      `${base.id} is no embedding model: its folder has no modules.json`,
      "not_supported",
      {
        hint: "serve one in the layout of sentence-transformers, such as Qwen3-Embedding",
      },
    );
  }
  const size = wantedSize(request, loop.hidden);
  const limit = Math.min(spec.maxTokens ?? loop.contextLength, loop.contextLength);
  const kept = keptCount(request, limit);
  const specials = request.add_special_tokens ? tokenizer.encode("", { addSpecialTokens: true }) : [];
  const encoded = async (text: string, field: string): Promise<number[]> => {
    const longest = () => maxTokenLength(tokenizer);
    checkTextLength(request, text, longest, { context: limit }, field);
    // Of a long text that is cut the end need not be looked at.
    const isCut = kept?.side === "first" && text.length > ALWAYS_ENCODED;
    const looked = isCut ? text.slice(0, kept.count * longest() + ALWAYS_ENCODED) : text;
    const tokens = await tokenizer.encodeAsync(looked, { addSpecialTokens: request.add_special_tokens, signal });
    return kept === null ? tokens : cutAround(tokens, specials, kept);
  };
  const inputs: number[][] = [];
  for (const [i, given] of inputsOf(request.input).entries()) {
    const field = typeof request.input === "string" ? "input" : `input.${i}`;
    let tokens: number[];
    if (typeof given === "string") tokens = await encoded(given, field);
    else {
      const outside = given.find((id) => id >= config.vocab);
      if (outside !== undefined) {
        throw ValidationError.at(field, `token id ${outside} is outside the vocabulary of ${config.vocab} tokens`);
      }
      tokens = kept === null ? given : keptTokens(given, kept);
    }
    if (tokens.length === 0) throw ValidationError.at(field, "has no tokens");
    if (tokens.length > limit) {
      const message = `has ${tokens.length} tokens, more than the ${limit} that the model takes`;
      throw ValidationError.tooLong(field, message, {
        hint: "shorten it, or set truncate_prompt_tokens",
      });
    }
    inputs.push(tokens);
    while (shouldYield()) await yieldToEventLoop();
  }
  return { size, inputs };
}

function keptCount(request: EmbeddingRequest, limit: number): KeptTokens | null {
  const count = request.truncate_prompt_tokens;
  if (count === undefined) return null;
  const field = "truncate_prompt_tokens";
  if (count === 0) throw ValidationError.at(field, "0 leaves nothing");
  if (count > limit) throw ValidationError.at(field, `${count} is more than the ${limit} tokens that the model takes`);
  return { side: request.truncation_side === "left" ? "last" : "first", count: count === -1 ? limit : count };
}

/** Cuts what the tokenizer's own tokens stand around: models read them. */
function cutAround(tokens: number[], specials: readonly number[], { side, count }: KeptTokens): number[] {
  if (tokens.length <= count) return tokens;
  const head = [...specials, 0].findIndex((_, k) => isAround(tokens, specials, k));
  if (head < 0) return keptTokens(tokens, { side, count });
  const tail = specials.length - head;
  const body = tokens.slice(head, tokens.length - tail);
  const room = Math.max(0, count - specials.length);
  const kept = room === 0 ? [] : keptTokens(body, { side, count: room });
  return [...tokens.slice(0, head), ...kept, ...tokens.slice(tokens.length - tail)].slice(0, count);
}

/** Whether the first `k` specials stand before the text and the others after it. */
const isAround = (tokens: readonly number[], specials: readonly number[], k: number): boolean =>
  specials.every((id, i) => id === (i < k ? tokens[i] : tokens[tokens.length - specials.length + i]));
