// The tokens of one assistant turn: which ids, with which logprobs, after which prompt.

import { ValidationError } from "../errors.js";
import type { TrajectoryChoice, TrajectoryLogprob } from "../types/trajectories.js";

export interface TokenNames {
  readonly vocabSize: number;
  /** The id whose text is exactly these bytes, or null. */
  idOfBytes(bytes: Uint8Array): number | null;
}

export interface SampledTokens {
  ids: number[];
  /** One per id, natural logarithms, at `temperature`; null: none were recorded. */
  logprobs: number[] | null;
  /** What the tokens are trained at: 1 unless the choice recorded its logprobs at the temperature that it was sampled with. */
  temperature: number;
  /** The prompt that was sampled from; null: it was not recorded. */
  promptIds: number[] | null;
}

/** Beyond these a softmax is as good as one-hot or uniform, and teaches nothing. */
export const MIN_TRAINED_TEMPERATURE = 1e-2;
export const MAX_TRAINED_TEMPERATURE = 1e2;

export function isTrainable(temperature: number): boolean {
  return temperature >= MIN_TRAINED_TEMPERATURE && temperature <= MAX_TRAINED_TEMPERATURE;
}

const TOKEN_ID = /^token_id:(\d{1,10})$/;

/** Entries of `logprobs.content`; null when the choice has none. An empty list with nothing sampled counts as none. */
export function recordedLogprobs(choice: TrajectoryChoice): readonly TrajectoryLogprob[] | null {
  const content = choice.logprobs?.content;
  return content && content.length > 0 ? content : null;
}

/**
 * What a choice recorded of its sampling, or null when it holds neither logprobs nor token ids.
 * @throws ValidationError naming the place under `path` ("trajectory_groups.0...") when ids and logprobs do not agree,
 * an id is outside the vocabulary, or a token cannot be told.
 */
export function sampledTokens(choice: TrajectoryChoice, names: TokenNames, path: string): SampledTokens | null {
  const entries = recordedLogprobs(choice);
  const given = choice.token_ids ?? null;
  if (entries === null && given === null) return null;
  const ids = given ?? entries!.map((entry, i) => idOfEntry(entry, names, `${path}.logprobs.content.${i}.token`));
  if (entries && entries.length !== ids.length) {
    const counts = `${entries.length} logprobs but ${ids.length} token ids`;
    throw ValidationError.at(`${path}.token_ids`, `the choice has ${counts}: they must be of the same tokens`);
  }
  if (entries && given) checkNamedIds(entries, given, `${path}.logprobs.content`);
  checkIds(ids, names, `${path}.token_ids`);
  const promptIds = choice.prompt_token_ids ?? null;
  if (promptIds) checkIds(promptIds, names, `${path}.prompt_token_ids`);
  const temperature = recordedTemperature(choice, entries);
  const field = temperature === null ? "logprob" : "temperature_logprob";
  const logprobs = entries?.map((entry, i) => {
    const logprob = entry[field];
    if (logprob != null && Number.isFinite(Math.fround(logprob)) && logprob <= 1e-3) return logprob;
    throw ValidationError.at(`${path}.logprobs.content.${i}.${field}`, "must be a finite number, at most 0");
  });
  return { ids, logprobs: logprobs ?? null, temperature: temperature ?? 1, promptIds };
}

/** What a choice was sampled with, when it says what its tokens' logprobs were then; null: they are to be trained at 1. */
function recordedTemperature(choice: TrajectoryChoice, entries: readonly TrajectoryLogprob[] | null): number | null {
  const { temperature } = (choice.sampling_settings ?? {}) as { temperature?: unknown };
  if (typeof temperature !== "number" || entries?.[0]?.temperature_logprob == null) return null;
  return isTrainable(temperature) ? temperature : null;
}

/** The id that an entry's token says it is; null: it is a text. */
function namedId({ token }: TrajectoryLogprob): number | null {
  const match = TOKEN_ID.exec(token);
  return match && Number(match[1]);
}

function checkNamedIds(entries: readonly TrajectoryLogprob[], ids: readonly number[], path: string): void {
  for (const [i, entry] of entries.entries()) {
    const named = namedId(entry);
    if (named === null || named === ids[i]) continue;
    throw ValidationError.at(`${path}.${i}.token`, `is "${entry.token}", but token_ids holds ${ids[i]} there`);
  }
}

function idOfEntry(entry: TrajectoryLogprob, names: TokenNames, path: string): number {
  const named = namedId(entry);
  if (named !== null) return named;
  const bytes = entry.bytes ? Uint8Array.from(entry.bytes) : new TextEncoder().encode(entry.token);
  const id = names.idOfBytes(bytes);
  if (id !== null) return id;
  const message = `"${entry.token}" is no token of the model: ask for completions with return_tokens_as_token_ids`;
  throw ValidationError.at(path, message);
}

function checkIds(ids: readonly number[], names: TokenNames, path: string): void {
  const bad = ids.findIndex((id) => !Number.isInteger(id) || id < 0 || id >= names.vocabSize);
  if (bad >= 0) {
    throw ValidationError.at(`${path}.${bad}`, `must be a token id below ${names.vocabSize}, got ${ids[bad]}`);
  }
}
