// What the inference room is asked for, and what it answers: tokens and settings, no messages.

import type { CompiledGrammar, ThinkingBudget } from "../runtime/runtime.js";
import type { SamplingNumbers } from "../samplingNumbers.js";

/** Stop when the last tokens are `minCount` copies of one pattern of `minPatternSize` to `maxPatternSize` tokens. */
export interface RepetitionDetection {
  maxPatternSize: number;
  minPatternSize: number;
  minCount: number;
}

export interface BeamSettings {
  /** Beams that advance together, and choices answered. */
  width: number;
  /** Final score: cumulative logprob / length ^ lengthPenalty, prompt included in the length. */
  lengthPenalty: number;
}

/** Every setting resolved: no defaults are filled in below this point. */
export interface SamplingSettings extends SamplingNumbers {
  /** null: a random one per request. */
  seed: bigint | null;
  /** Output tokens at most; prompt + maxTokens fits the context. */
  maxTokens: number;
  /** A choice does not end before it has so many, unless no token is permitted any more. */
  minTokens: number;
  /** The tokenizer's own end of sequence, or null. */
  eosId: number | null;
  /** Further ends of sequence named by the model folder. */
  extraEosIds: readonly number[];
  /** Neither `eosId` nor `extraEosIds` end generation. */
  ignoreEos: boolean;
  /** Further tokens that end a choice, named as its stop reason. */
  stopTokenIds: readonly number[];
  /** Strings that end a choice where its text comes to hold one. */
  stop: readonly string[];
  /** The text shows what ended it. */
  includeStop: boolean;
  /** The text leaves special tokens out. */
  skipSpecialTokens: boolean;
  /** Where the text shows them, those side by side have a space between them; of tokenizers that join tokens by spaces. */
  spacesBetweenSpecialTokens: boolean;
  /** Stands before each special token that the text shows. Default "". */
  specialTokenSign?: string;
  /** Additive bias by token id, each in [-100, 100]; ids ascending. */
  logitBias: readonly (readonly [id: number, bias: number])[];
  /** null: no restriction. */
  allowedTokenIds: readonly number[] | null;
  /** Token sequences that no output may contain. */
  badWords: readonly (readonly number[])[];
  /** null: none; k: the logprob of each sampled token and the k most likely. */
  logprobs: number | null;
  /** Of each sampled token, logprobs of itself and of these are listed instead; null: of the most likely. */
  logprobTokenIds: readonly number[] | null;
  /** null: none; k: logprob and rank of each prompt token and the k most likely. */
  promptLogprobs: number | null;
  /** null: repetitions do not end a choice. */
  repetitionDetection: RepetitionDetection | null;
  /** null: reasoning of any length. */
  thinking: ThinkingBudget | null;
  /** null: choices are sampled. */
  beam: BeamSettings | null;
}

/** What one request asks of a model: `n` choices that go on from a prompt. */
export interface GenerationRequest {
  /** The caller's own name for it; nothing here depends on it. */
  requestId: string;
  /** Token ids; not empty. */
  promptTokens: readonly number[];
  /** Adapter version on the device, pinned for the whole request; 0: the base model. */
  adapter: number;
  params: SamplingSettings;
  /** What every choice must match; null: anything. Not with beams. */
  grammar: CompiledGrammar | null;
  /**
   * Tokens that open reasoning: the model may begin with one before what the grammar describes, where it would do so by
   * itself.
   */
  thoughtIds?: Int32Array;
  /** What outputs will be much like: guessed from, as the prompt is, where the device can. Empty: nobody guesses. */
  prediction?: readonly number[];
  /** Choices; each samples with a seed of its own. */
  n: number;
  /** Lower runs earlier; counts under the priority policy only. */
  priority: number;
  /** Cached pages are shared only between requests of equal salt. */
  cacheSalt: string | null;
  /** Whether cached pages may be read (they are filled in any case). */
  useCache: boolean;
  /** True: events as tokens come. False: one event per choice, at its end. */
  streaming: boolean;
  /** Tokens in one event of a streamed choice, but for its first and last. Default 1. */
  streamInterval?: number;
}

/** Parallel arrays, falling probability, ties by lower id. */
export interface TopLogprobs {
  ids: Int32Array;
  logprobs: Float32Array;
}

/** What a step reports of a token besides its id. */
export interface TokenLogprobs {
  /** Raw. */
  logprob: number;
  /** At the request's temperature; nothing at 0 and 1. */
  temperatureLogprob: number;
  top: TopLogprobs | null;
}

/** Of one token of the prompt. */
export interface PromptTokenLogprobs {
  /** Given the tokens before it; natural logarithm, raw. */
  logprob: number;
  /** Tokens at least as likely as this one; 1 is the best. */
  rank: number;
  top: TopLogprobs;
}

/** How a choice has ended. */
export interface Finish {
  reason: "stop" | "length" | "repetition";
  /**
   * The stop token or string, or "repetition_detected"; null for the tokenizer's own end of sequence and for length.
   */
  stopReason: number | string | null;
}

export type GenerationEvent =
  | {
      type: "prompt";
      /** Prompt tokens that were not computed again. */
      cachedTokens: number;
      /** One entry per prompt token, the first null. */
      promptLogprobs: (PromptTokenLogprobs | null)[] | null;
    }
  | {
      type: "tokens";
      /** The choice. */
      index: number;
      text: string;
      tokenIds: number[];
      /** Of `tokenIds`, raw; null when not asked for. */
      logprobs: number[] | null;
      /** Of `tokenIds`, at the request's temperature; null when not asked for, and at temperatures 0 and 1. */
      temperatureLogprobs: number[] | null;
      top: TopLogprobs[] | null;
      finish: Finish | null;
    };

export type TokensEvent = Extract<GenerationEvent, { type: "tokens" }>;

/** How a request went so far. Times in milliseconds of `performance.now()`; 0 until they have come. */
export interface GenerationRecord {
  arrival: number;
  /** When its first step was handed to the device. */
  scheduled: number;
  firstToken: number;
  finished: number;
  cachedTokens: number;
  /** Tokens of the prediction that were tried as what comes next, of all choices; null: there is none. */
  prediction: { accepted: number; rejected: number } | null;
  /** Per choice. */
  outputTokens: number[];
  /** Per choice; null: not ended by itself. */
  finishes: (Finish | null)[];
}

/** One request under way. Leaving the loop over its events aborts it. */
export interface Generation extends AsyncIterable<GenerationEvent> {
  readonly record: Readonly<GenerationRecord>;
  /** Resolves when the request wants nothing more of the device: done, failed, aborted or left. */
  readonly ended: Promise<void>;
}
