// A request that samples nothing: of each of its sequences it tells the likeliest next tokens. It begins with the
// prompt; whoever has submitted it chooses tokens, and forks sequences that go on with them (`InferenceLoop.fork`).

import type { RowLogprobs } from "../runtime/runtime.js";
import type { GenerationRequest } from "./request.js";
import { RequestState } from "./requestState.js";
import { Sequence } from "./sequence.js";

/** The likeliest tokens to follow a sequence. */
export interface NextTokens {
  sequence: Sequence;
  row: RowLogprobs;
}

/** A tree of sequences under way; its leaves are told of by `next`. */
export class ScoringRequest extends RequestState {
  readonly root: Sequence;
  private reader: { resolve(next: NextTokens): void; reject(error: unknown): void } | null = null;
  /** Lets the loop go on, which waits until what it has told has been read. */
  private resumeLoop: (() => void) | null = null;
  private error: unknown;

  /** `candidates`: how many of the likeliest tokens are told of each sequence. */
  constructor(request: GenerationRequest, arrival: number, candidates: number, onEnd: (request: RequestState) => void) {
    super(request, arrival, onEnd);
    this.root = new Sequence(this, 0, Int32Array.from(request.promptTokens), null, candidates);
    this.sequences.add(this.root);
  }

  /**
   * Of the next sequence that has been computed. A sequence that was preempted may be told of twice. The loop schedules no
   * further step between what it tells and the next call, so forks made meanwhile take part in that step. Rejects with
   * the error that has ended the request.
   */
  next(): Promise<NextTokens> {
    this.letLoopGoOn();
    if (this.hasEnded) return Promise.reject(this.error);
    return new Promise((resolve, reject) => {
      this.reader = { resolve, reject };
    });
  }

  /** @throws what has ended the request */
  throwIfEnded(): void {
    if (this.hasEnded) throw this.error;
  }

  override scored(sequence: Sequence, from: number, rows: readonly RowLogprobs[]): Promise<void> | null {
    // Of a prompt whose logprobs are asked for, chunks before the last token are told of as well.
    if (from !== sequence.length - 1) return super.scored(sequence, from, rows);
    this.endPrefill(this.root);
    this.reader!.resolve({ sequence, row: rows[rows.length - 1]! });
    this.reader = null;
    return new Promise((resolve) => {
      this.resumeLoop = resolve;
    });
  }

  sampled(): boolean {
    throw new Error("a scoring request samples nothing");
  }

  fail(error: unknown): void {
    if (this.hasEnded) return;
    this.error = error;
    this.end();
    this.reader?.reject(error);
    this.reader = null;
  }

  override end(): void {
    super.end();
    this.letLoopGoOn();
  }

  private letLoopGoOn(): void {
    this.resumeLoop?.();
    this.resumeLoop = null;
  }
}
