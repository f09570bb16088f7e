// A request that samples nothing: the hidden states of its prompt, after the final norm, become one vector.

import { NEUTRAL_NUMBERS } from "../samplingNumbers.js";
import type { SamplingSettings } from "./request.js";
import { RequestState } from "./requestState.js";
import { Sequence } from "./sequence.js";

/** Which hidden states make the vector: that of the last token, or of the first ("cls"), or the mean of all. */
export type Pooling = "last" | "cls" | "mean";

export interface EmbeddingInput {
  requestId: string;
  /** Token ids; not empty. */
  promptTokens: readonly number[];
  /** Adapter version on the device, pinned for the whole request; 0: the base model. */
  adapter: number;
  pooling: Pooling;
  /** Lower runs earlier; counts under the priority policy only. */
  priority: number;
}

const NOTHING_SAMPLED: SamplingSettings = {
  ...NEUTRAL_NUMBERS,
  seed: 0n,
  maxTokens: 0,
  minTokens: 0,
  eosId: null,
  extraEosIds: [],
  ignoreEos: false,
  stopTokenIds: [],
  stop: [],
  includeStop: false,
  skipSpecialTokens: true,
  spacesBetweenSpecialTokens: true,
  logitBias: [],
  allowedTokenIds: null,
  badWords: [],
  logprobs: null,
  logprobTokenIds: null,
  promptLogprobs: null,
  repetitionDetection: null,
  thinking: null,
  beam: null,
};

export class EmbeddingRequest extends RequestState {
  /** The vector, not normalised. Rejects with what has ended the request before. */
  readonly vector: Promise<Float32Array>;
  private resolve!: (vector: Float32Array) => void;
  private reject!: (error: unknown) => void;
  private readonly pooling: Pooling;
  private readonly sum: Float64Array;
  private tokensRead = 0;

  constructor(
    { promptTokens, adapter, pooling, priority, requestId }: EmbeddingInput,
    arrival: number,
    private readonly hidden: number,
    onEnd: (request: RequestState) => void,
  ) {
    const request = { requestId, promptTokens, adapter, priority, params: NOTHING_SAMPLED, grammar: null, n: 1 };
    // States of tokens that are found in the cache are not computed again.
    super({ ...request, cacheSalt: null, useCache: pooling === "last", streaming: false }, arrival, onEnd);
    this.pooling = pooling;
    this.sum = new Float64Array(hidden);
    this.vector = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    // Whoever asked may have gone.
    this.vector.catch(() => undefined);
    const prompt = Int32Array.from(promptTokens);
    this.sequences.add(new Sequence(this, 0, prompt, null, 0, pooling === "last" ? "last" : "all"));
  }

  /** Sums in order of position, so that the vector does not depend on how the prompt was cut. */
  readHiddenStates(sequence: Sequence, from: number, states: Float32Array): boolean {
    const { hidden, sum, pooling } = this;
    const { promptLength } = sequence;
    if (pooling === "last") this.tokensRead = promptLength - 1;
    // After a preemption tokens come again.
    const known = pooling === "last" ? 0 : this.tokensRead - from;
    for (let at = known * hidden; at < states.length; at += hidden) {
      if (pooling !== "cls" || this.tokensRead === 0) for (let i = 0; i < hidden; i++) sum[i]! += states[at + i]!;
      this.tokensRead++;
    }
    if (this.tokensRead < promptLength) return false;
    this.endPrefill(sequence);
    const count = pooling === "mean" ? promptLength : 1;
    this.resolve(Float32Array.from(sum, (value) => value / count));
    this.end();
    return true;
  }

  fail(error: unknown): void {
    if (this.hasEnded) return;
    this.reject(error);
    this.end();
  }

  sampled(): boolean {
    throw new Error("a request for an embedding samples nothing");
  }
}
