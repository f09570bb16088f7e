// How a request's tokens are drawn: its own fields, then what the model's folder says, then neutral values.

import { ValidationError } from "../../errors.js";
import type { SamplingSettings } from "../../inference/index.js";
import { type SamplingNumbers, samplingNumbers } from "../../samplingNumbers.js";
import type { ChatRequest } from "../../schemas/chat.js";
import type { Tokenizer } from "../../text/index.js";
import type { SamplingSettingsRecord } from "../../types/chat.js";
import type { BaseModel } from "../core/baseModel.js";
import type { ServedModel } from "../core/resolve.js";
import { constraintOf } from "./constraint.js";
import { MAX_LOGPROB_TOKEN_IDS, MAX_LOGPROBS } from "./host.js";
import type { HeldCalls } from "./replyPlan.js";

/** In float32 all tokens are equally likely long before. */
const MAX_TEMPERATURE = 1e30;
/** Beyond these a repeated token is as good as certain, or forbidden. */
const [MIN_PENALTY, MAX_PENALTY] = [1e-6, 1e6];

const clamp = (value: number, min: number, max: number): number => Math.max(min, Math.min(value, max));

/** Trained models are sampled neutrally whatever their base's folder says: training computes its logprobs so. */
function defaultsFor(
  served: ServedModel,
  samplingDefaults: "model" | "neutral",
): Partial<BaseModel["generationConfig"]> {
  return served.trained !== null || samplingDefaults === "neutral" ? {} : served.base.generationConfig;
}

/** Output tokens of a request that sets no limit, when the model's folder does. */
export function defaultMaxTokens(served: ServedModel, samplingDefaults: "model" | "neutral"): number | undefined {
  return defaultsFor(served, samplingDefaults).max_new_tokens;
}

/**
 * Settings of a request whose output limit is known.
 * @throws ValidationError for ids outside the vocabulary and counts above what the engine reports.
 */
export function samplingSettings(
  request: ChatRequest,
  served: ServedModel,
  samplingDefaults: "model" | "neutral",
  maxTokens: number,
): Omit<SamplingSettings, "thinking"> {
  const { tokenizer, config, generationConfig } = served.base;
  const defaults = defaultsFor(served, samplingDefaults);
  const { vocab } = config;
  const logprobs = wantedLogprobs(request, served.trained !== null, vocab);
  return {
    ...drawnBy(request, defaults, vocab),
    seed: request.seed === undefined || request.seed === -1n ? null : request.seed,
    maxTokens,
    minTokens: request.min_tokens,
    eosId: tokenizer.eosId,
    extraEosIds: generationConfig.eos_token_id.filter((id) => id !== tokenizer.eosId),
    ignoreEos: request.ignore_eos,
    stopTokenIds: stopTokenIds(request, vocab),
    stop: request.stop,
    includeStop: request.include_stop_str_in_output,
    skipSpecialTokens: request.skip_special_tokens,
    spacesBetweenSpecialTokens: request.spaces_between_special_tokens,
    logitBias: logitBias(request, vocab),
    allowedTokenIds: allowedTokenIds(request, tokenizer, vocab),
    badWords: badWords(request, tokenizer, vocab),
    logprobs,
    logprobTokenIds: logprobTokenIds(request, vocab),
    promptLogprobs: wantedPromptLogprobs(request, vocab),
    repetitionDetection: repetitionDetection(request),
    beam: request.use_beam_search ? { width: request.n, lengthPenalty: request.length_penalty } : null,
  };
}

/** What is drawn by: the request's own numbers, then the model folder's, then neutral ones. */
function drawnBy(
  request: ChatRequest,
  defaults: Partial<BaseModel["generationConfig"]>,
  vocab: number,
): SamplingNumbers {
  const numbers = Object.fromEntries(
    samplingNumbers.map(({ name, key, neutral }) => [key, request[name] ?? defaults[name] ?? neutral]),
  ) as unknown as SamplingNumbers;
  const { temperature, topK, repetitionPenalty } = numbers;
  return {
    ...numbers,
    temperature: Math.min(temperature, MAX_TEMPERATURE),
    topK: topK <= 0 || topK >= vocab ? 0 : topK,
    repetitionPenalty: clamp(repetitionPenalty, MIN_PENALTY, MAX_PENALTY),
  };
}

/** What of a request changes the distribution that its tokens are drawn from; null when nothing does. */
export function nonNeutralSettings(
  request: ChatRequest,
  settings: SamplingSettings,
  calls: Pick<HeldCalls, "areForced"> | null,
): SamplingSettingsRecord | null {
  const record: SamplingSettingsRecord = {};
  for (const { name, key, neutral } of samplingNumbers) {
    if (settings[key] !== neutral) record[name] = settings[key];
  }
  if (settings.logitBias.length > 0) record.logit_bias = Object.fromEntries(settings.logitBias);
  if (settings.allowedTokenIds !== null) record.allowed_token_ids = settings.allowedTokenIds;
  if (request.bad_words.length > 0) record.bad_words = request.bad_words;
  if (settings.minTokens > 0) record.min_tokens = settings.minTokens;
  if (settings.thinking !== null) record.thinking_token_budget = settings.thinking.tokens;
  if (settings.beam !== null) record.use_beam_search = true;
  const constraint = constraintOf(request);
  if (calls !== null) record.tool_choice = request.tool_choice ?? "auto";
  if (constraint !== null && !calls?.areForced) {
    record[constraint.field] = request[constraint.field as "response_format"];
  }
  return Object.keys(record).length === 0 ? null : record;
}

function wantedLogprobs(request: ChatRequest, trained: boolean, vocab: number): number | null {
  if (!(request.logprobs ?? trained)) return null;
  if (request.logprob_token_ids !== undefined) return 0;
  return logprobCount(request.top_logprobs ?? 0, "top_logprobs", vocab);
}

function logprobTokenIds(request: ChatRequest, vocab: number): number[] | null {
  const ids = request.logprob_token_ids;
  if (ids === undefined) return null;
  if (ids.length > MAX_LOGPROB_TOKEN_IDS) {
    const message = `${ids.length} are more than the ${MAX_LOGPROB_TOKEN_IDS} tokens that may be named`;
    throw ValidationError.at("logprob_token_ids", message);
  }
  const outside = ids.filter((id) => id < 0 || id >= vocab);
  if (outside.length > 0) throw outsideVocabulary("logprob_token_ids", outside, vocab);
  return [...new Set(ids)];
}

function wantedPromptLogprobs(request: ChatRequest, vocab: number): number | null {
  if (request.stream) return null;
  const count = request.prompt_logprobs ?? (request.echo ? (request.top_logprobs ?? 0) : null);
  return count === null ? null : logprobCount(count, "prompt_logprobs", vocab);
}

/** -1 is the whole vocabulary, where that is not too much. */
function logprobCount(count: number, field: string, vocab: number): number {
  const wanted = count === -1 ? vocab : count;
  if (wanted > MAX_LOGPROBS) {
    throw ValidationError.at(field, `${wanted} are more than the ${MAX_LOGPROBS} that may be asked for`);
  }
  return Math.min(wanted, vocab);
}

function logitBias(request: ChatRequest, vocab: number): [number, number][] {
  const biases = Object.entries(request.logit_bias ?? {}).map(([id, bias]): [number, number] => [
    Number(id),
    clamp(bias, -100, 100),
  ]);
  const outside = biases.map(([id]) => id).filter((id) => id < 0 || id >= vocab);
  if (outside.length > 0) throw outsideVocabulary("logit_bias", outside, vocab);
  // "7" and "07" are one token.
  return [...new Map(biases)].sort(([a], [b]) => a - b);
}

function stopTokenIds(request: ChatRequest, vocab: number): number[] {
  const outside = request.stop_token_ids.filter((id) => id < 0 || id >= vocab);
  if (outside.length > 0) throw outsideVocabulary("stop_token_ids", outside, vocab);
  return [...new Set(request.stop_token_ids)];
}

function allowedTokenIds(request: ChatRequest, tokenizer: Tokenizer, vocab: number): number[] | null {
  if (request.allowed_token_ids === undefined) return null;
  const size = Math.min(tokenizer.vocabSize, vocab);
  const outside = request.allowed_token_ids.filter((id) => id < 0 || id >= size);
  if (outside.length > 0) throw outsideVocabulary("allowed_token_ids", outside, size);
  return [...new Set(request.allowed_token_ids)];
}

/** Characters of all bad words together: encoding them stops everything else. */
const MAX_BAD_WORD_CHARACTERS = 100_000;

function badWords(request: ChatRequest, tokenizer: Tokenizer, vocab: number): number[][] {
  const characters = request.bad_words.reduce((sum, word) => sum + word.length, 0);
  if (characters > MAX_BAD_WORD_CHARACTERS) {
    const message = `${characters} characters are more than the ${MAX_BAD_WORD_CHARACTERS} that all words may have together`;
    throw ValidationError.at("bad_words", message);
  }
  return request.bad_words.flatMap((word, i) => badWord(word, `bad_words.${i}`, tokenizer, vocab));
}

/**
 * The token sequences of a word: as it stands at the start of a text, and after a space where that is as many tokens
 * and begins with another one.
 */
function badWord(word: string, field: string, tokenizer: Tokenizer, vocab: number): number[][] {
  const trimmed = word.trimStart();
  const bare = tokenizer.encode(trimmed);
  if (bare.length === 0) throw ValidationError.at(field, "has no tokens");
  const spaced = tokenizer.encode(` ${trimmed}`);
  const sequences = spaced.length === bare.length && spaced[0] !== bare[0] ? [bare, spaced] : [bare];
  const outside = sequences.flat().filter((id) => id >= vocab);
  if (outside.length > 0) throw outsideVocabulary(field, outside, vocab);
  return sequences;
}

/** Token ids that a message names. */
const MAX_NAMED_IDS = 100;

function outsideVocabulary(field: string, ids: readonly number[], vocab: number): ValidationError {
  const more = ids.length > MAX_NAMED_IDS ? ` and ${ids.length - MAX_NAMED_IDS} more` : "";
  const named = `${ids.slice(0, MAX_NAMED_IDS).join(", ")}${more}`;
  return ValidationError.at(field, `token ids ${named} are outside the vocabulary of ${vocab} tokens`);
}

function repetitionDetection(request: ChatRequest): SamplingSettings["repetitionDetection"] {
  const fields = request.repetition_detection;
  if (fields === undefined || fields.max_pattern_size === 0) return null;
  return {
    maxPatternSize: fields.max_pattern_size,
    minPatternSize: fields.min_pattern_size,
    minCount: fields.min_count,
  };
}
