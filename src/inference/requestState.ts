// A request under way, whatever its sequences do: when it arrived, how it went so far, and how it ends.

import { randomBytes } from "node:crypto";
import { onAbort } from "../abortListeners.js";
import type { RowLogprobs } from "../runtime/runtime.js";
import type { GenerationRecord, GenerationRequest, PromptTokenLogprobs } from "./request.js";
import type { SampledTokens, Sequence, SequenceOwner } from "./sequence.js";

/** What sampling and scoring requests have in common. */
export abstract class RequestState implements SequenceOwner {
  /** Those that have not ended. */
  readonly sequences = new Set<Sequence>();
  readonly seed: bigint;
  readonly jumpForward: boolean;
  /** Resolves when the request wants nothing more of the device. */
  readonly ended: Promise<void>;
  readonly record: GenerationRecord;
  /** One entry per prompt token, the first null; null when not asked for. */
  readonly promptLogprobs: (PromptTokenLogprobs | null)[] | null;
  private resolveEnded!: () => void;
  private stopListening: (() => void) | null = null;

  /** `onEnd`, called once, takes sequences that have not ended out of the schedule. */
  protected constructor(
    readonly request: GenerationRequest,
    readonly arrival: number,
    private readonly onEnd: (request: RequestState) => void,
  ) {
    const { params, promptTokens, grammar, n } = request;
    this.seed = params.seed ?? randomBytes(8).readBigInt64LE();
    // Logprobs of forced tokens need a row of logits each.
    this.jumpForward = grammar !== null && params.logprobs === null;
    this.ended = new Promise((resolve) => {
      this.resolveEnded = resolve;
    });
    this.record = {
      arrival: performance.now(),
      scheduled: 0,
      firstToken: 0,
      finished: 0,
      cachedTokens: 0,
      prediction: request.prediction ? { accepted: 0, rejected: 0 } : null,
      outputTokens: new Array(n).fill(0),
      finishes: new Array(n).fill(null),
    };
    this.promptLogprobs = params.promptLogprobs === null ? null : new Array(promptTokens.length).fill(null);
  }

  endOnAbort(signal: AbortSignal | undefined): void {
    if (signal !== undefined) this.stopListening = onAbort(signal, () => this.fail(signal.reason));
  }

  /** Ends the request before it is done; its reader gets `error`. */
  abstract fail(error: unknown): void;

  abstract sampled(sequence: Sequence, tokens: SampledTokens): boolean;

  get choicesLeft(): number {
    return 0;
  }

  nextChoice(): Sequence | null {
    return null;
  }

  scored(_: Sequence, from: number, rows: readonly RowLogprobs[]): Promise<void> | null {
    const { promptLogprobs } = this;
    for (const [i, { logprob, rank, topIds, topLogprobs }] of rows.entries()) {
      // A row of logits is about the token after it; the last one's is no prompt token.
      const position = from + i + 1;
      if (promptLogprobs === null || position >= promptLogprobs.length) continue;
      promptLogprobs[position] = { logprob, rank, top: { ids: topIds, logprobs: topLogprobs } };
    }
    return null;
  }

  protected get hasEnded(): boolean {
    return this.record.finished > 0;
  }

  /** The first output has come, so the prompt is done. False when that was known. */
  protected endPrefill({ cachedTokens }: Sequence): boolean {
    if (this.record.firstToken > 0) return false;
    this.record.firstToken = performance.now();
    this.record.cachedTokens = cachedTokens;
    return true;
  }

  /** The request wants nothing more, whether it is done or not. */
  end(): void {
    if (this.hasEnded) return;
    this.record.finished = performance.now();
    this.stopListening?.();
    this.onEnd(this);
    this.resolveEnded();
  }
}
