// What a training session trains, and what it makes of it: an adapter, or all weights.

import type { Trainer } from "../runtime/runtime.js";
import type { ChatCompletion } from "../types/chat.js";
import type { TrainingSession } from "../types/trainingSession.js";
import type { Learner } from "./learner.js";
import type { TokenRow } from "./tokenRow.js";
import type { TrainingBase } from "./trainingBase.js";

export type SampleParams = Parameters<TrainingSession["sample"]>[0];

/** How the engine answers a completion with one version of the model's adapter. */
export type CompleteWith = (adapter: number, params: SampleParams, signal?: AbortSignal) => Promise<ChatCompletion>;

/** A completion by weights that stay as they are. */
export type Complete = (params: SampleParams, signal: AbortSignal) => Promise<ChatCompletion>;

/** `Saved`: what saving answers with. Calls come one after the other. */
export interface SessionWeights<Saved> {
  readonly base: TrainingBase;
  readonly trainer: Trainer;
  /** Answers once, with the weights as they are now. */
  snapshot(): Promise<Complete>;
  /** Resolves when nothing that was begun needs the weights as they are. */
  readyToChange(): Promise<void>;
  /** Logprobs by the weights that the session was opened with. */
  reference(learner: Learner, rows: readonly TokenRow[], signal: AbortSignal): Promise<Float32Array[]>;
  /** Checks what to save, at once. @throws BadRequestError */
  saving(params: object): (signal: AbortSignal) => Promise<Saved>;
  close(): Promise<void>;
}
