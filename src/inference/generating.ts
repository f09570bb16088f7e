// One request between its submission and its last event: opens its choices' sampling state, turns what steps report into
// events, and ends by itself, by its reader or by an abort.

import { randomBytes } from "node:crypto";
import { onAbort } from "../abortListeners.js";
import type { DeviceModel, RowLogprobs } from "../runtime/runtime.js";
import type { Tokenizer } from "../text/index.js";
import { BeamSearch } from "./beamSearch.js";
import { ChoiceOutput, type TokenLogprobs } from "./choiceOutput.js";
import { EventQueue } from "./eventQueue.js";
import type {
  Finish,
  Generation,
  GenerationEvent,
  GenerationRecord,
  GenerationRequest,
  PromptTokenLogprobs,
} from "./request.js";
import { Sequence, type SequenceOrigin } from "./sequence.js";
import { endIds, knownIds } from "./stopping.js";

export interface GeneratingHost {
  branch(parent: Sequence, branch: Sequence): void;
  /** Takes a sequence out of the schedule and frees its pages. */
  finish(sequence: Sequence): void;
  /** The request wants nothing more. */
  ended(): void;
}

export class Generating implements Generation {
  readonly ended: Promise<void>;
  readonly record: GenerationRecord;
  private readonly choices: Sequence[];
  private readonly outputs: ChoiceOutput[];
  private readonly beams: BeamSearch | null;
  private readonly queue: EventQueue;
  private readonly seed: bigint;
  private readonly promptLogprobs: (PromptTokenLogprobs | null)[] | null;
  private unfinished: number;
  private unfollow: (() => void) | null = null;
  private resolveEnded!: () => void;

  constructor(
    private readonly request: GenerationRequest,
    arrival: number,
    tokenizer: Tokenizer,
    private readonly device: DeviceModel,
    private readonly host: GeneratingHost,
  ) {
    const { params, promptTokens, adapter, cacheSalt, useCache, priority } = request;
    // Log-probabilities of forced tokens need a row of logits each.
    const jumpForward = request.grammar !== null && params.logprobs === null;
    const origin: SequenceOrigin = { params, adapter, cacheSalt, useCache, priority, arrival, jumpForward };
    this.queue = new EventQueue(() => this.leave());
    this.ended = new Promise((resolve) => {
      this.resolveEnded = resolve;
    });
    this.record = {
      arrival: performance.now(),
      scheduled: 0,
      firstToken: 0,
      finished: 0,
      cachedTokens: 0,
      outputTokens: new Array<number>(request.n).fill(0),
      finishes: new Array<Finish | null>(request.n).fill(null),
    };
    this.seed = params.seed ?? randomBytes(8).readBigInt64LE();
    this.promptLogprobs =
      params.promptLogprobs === null ? null : new Array<PromptTokenLogprobs | null>(promptTokens.length).fill(null);
    this.choices = [];
    const prompt = Int32Array.from(promptTokens);
    if (params.beam !== null) {
      this.beams = new BeamSearch(origin, prompt, tokenizer, host, device.config.vocab);
      this.outputs = [];
      this.unfinished = 0;
      return;
    }
    this.beams = null;
    for (let i = 0; i < request.n; i++) {
      this.choices.push(new Sequence(origin, i, prompt, this.choices[0] ?? null));
    }
    this.outputs = this.choices.map((choice) => new ChoiceOutput(choice, params, tokenizer, request.streaming));
    this.unfinished = this.choices.length;
  }

  /** The sequences to start with. */
  get sequences(): readonly Sequence[] {
    return this.beams === null ? this.choices : [this.beams.root];
  }

  [Symbol.asyncIterator](): AsyncIterator<GenerationEvent> {
    return this.queue;
  }

  /** Ends the request when `signal` aborts. */
  follow(signal: AbortSignal | undefined): void {
    if (signal !== undefined) this.unfollow = onAbort(signal, () => this.fail(signal.reason));
  }

  openSlot(sequence: Sequence): void {
    const { params } = this.request;
    sequence.slot = this.device.openSlot({
      temperature: params.temperature,
      topP: params.topP,
      topK: params.topK,
      minP: params.minP,
      repetitionPenalty: params.repetitionPenalty,
      frequencyPenalty: params.frequencyPenalty,
      presencePenalty: params.presencePenalty,
      // As the request with the next seed would draw, and so on; seeds go round at 64 bits.
      seed: BigInt.asIntN(64, this.seed + BigInt(sequence.index)),
      choice: 0,
      minTokens: params.minTokens,
      endIds: params.minTokens > 0 ? endIds(params, this.device.config.vocab) : new Int32Array(0),
      biasIds: Int32Array.from(params.logitBias, ([id]) => id),
      biasValues: Float32Array.from(params.logitBias, ([, bias]) => bias),
      allowedIds: params.allowedTokenIds === null ? null : Int32Array.from(new Set(params.allowedTokenIds)).sort(),
      badWords: params.badWords.map((word) => Int32Array.from(word)),
      prompt: params.repetitionPenalty === 1 ? new Int32Array(0) : Int32Array.from(this.request.promptTokens),
      topLogprobs: params.logprobs ?? -1,
      logprobIds: params.logprobTokenIds === null ? null : Int32Array.from(params.logprobTokenIds),
      thinking: params.thinking,
      grammar: this.request.grammar?.matcher() ?? null,
      stopIds: knownIds(params.stopTokenIds, this.device.config.vocab),
      thoughtIds: this.request.thoughtIds ?? new Int32Array(0),
    });
  }

  /** Logprobs of prompt tokens from position `from` on, or the row a beam goes on from. */
  async rows(sequence: Sequence, from: number, rows: RowLogprobs[]): Promise<void> {
    if (sequence.candidates > 0 && from === sequence.length - 1) {
      this.begin();
      const hasEnded = await this.beams!.report(sequence, rows[rows.length - 1]!, (choice) => {
        this.record.outputTokens[choice.index] = choice.tokenIds.length;
        this.record.finishes[choice.index] = choice.finish;
        this.queue.push(choice);
      });
      if (hasEnded) this.complete();
      return;
    }
    for (const [i, row] of rows.entries()) {
      const position = from + i + 1;
      if (this.promptLogprobs === null || position >= this.promptLogprobs.length) continue;
      const top = { ids: row.topIds, logprobs: row.topLogprobs };
      this.promptLogprobs[position] = { logprob: row.logprob, rank: row.rank, top };
    }
  }

  /** A choice drew `token` and took the `forced` ones after it; -1: no token was permitted, which ends it. */
  drew(sequence: Sequence, token: number, forced: Int32Array, logprobs: TokenLogprobs): void {
    this.begin();
    const output = this.outputs[sequence.index]!;
    let finish: Finish | null;
    if (token < 0) finish = output.end({ reason: "stop", stopReason: null });
    else {
      finish = this.append(sequence, token, logprobs);
      for (let i = 0; i < forced.length && finish === null; i++) {
        finish = this.append(sequence, forced[i]!, { logprob: 0, temperatureLogprob: 0, top: null });
      }
    }
    if (finish !== null) {
      this.host.finish(sequence);
      this.record.finishes[sequence.index] = finish;
      this.unfinished--;
    }
    const { streaming, streamInterval = 1 } = this.request;
    if (finish !== null || (streaming && output.isDue(streamInterval))) this.queue.push(output.take(finish));
    if (this.unfinished === 0) this.complete();
  }

  private append(sequence: Sequence, token: number, logprobs: TokenLogprobs): Finish | null {
    sequence.append(token);
    this.record.outputTokens[sequence.index]!++;
    return this.outputs[sequence.index]!.add(logprobs);
  }

  /** Ends everything; the reader gets `error`. */
  fail(error: unknown): void {
    this.queue.fail(error);
    this.leave();
  }

  /** The first output has come: the prompt is done. */
  private begin(): void {
    if (this.record.firstToken > 0) return;
    this.record.firstToken = performance.now();
    const { cachedTokens } = this.sequences[0]!;
    this.record.cachedTokens = cachedTokens;
    this.queue.push({ type: "prompt", cachedTokens, promptLogprobs: this.promptLogprobs });
  }

  private complete(): void {
    this.queue.end();
    this.leave();
  }

  private leave(): void {
    if (this.record.finished > 0) return;
    this.record.finished = performance.now();
    this.unfollow?.();
    for (const sequence of this.choices) this.host.finish(sequence);
    this.beams?.stop();
    this.host.ended();
    this.resolveEnded();
  }
}
