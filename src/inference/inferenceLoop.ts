// Schedule, run, postprocess: the loop that serves all requests of one model. Two steps are in flight at most: while
// the device computes one, the tokens of the one before are detokenized, checked for stops and handed out. The next
// step starts from tokens that stay on the device, so a choice that has just ended costs one discarded row.

import { setImmediate } from "node:timers";
import { BadRequestError, InternalServerError } from "../errors.js";
import { type DeviceModel, type KeptDraw, PUT_OFF, type StepOutput, type StepSequence } from "../runtime/runtime.js";
import type { Tokenizer } from "../text/index.js";
import { type EmbeddingInput, EmbeddingRequest } from "./embeddingRequest.js";
import { type InferenceStats, StepCounts } from "./inferenceStats.js";
import { OpenRequests } from "./openRequests.js";
import { PageGroups } from "./pageGroups.js";
import { PagePool } from "./pagePool.js";
import type { Generation, GenerationRequest } from "./request.js";
import type { RequestState } from "./requestState.js";
import { SamplerSlots } from "./samplerSlots.js";
import { SamplingRequest } from "./samplingRequest.js";
import { type ScheduledStep, Scheduler } from "./scheduler.js";
import { ScoringRequest } from "./scoringRequest.js";
import { MAX_STEPS_IN_FLIGHT, type SampledTokens, type Sequence } from "./sequence.js";

export interface InferenceLoopOptions {
  /** Sequences in one step at most. */
  maxSequences: number;
  /** Tokens in one step at most: a longer prompt is prefilled in chunks. */
  tokenBudget: number;
  /** Requests that have not started at most; one more is refused with RateLimitError. */
  maxQueue: number;
  /** "fcfs": by arrival; "priority": by the request's priority, then arrival. */
  scheduler: "fcfs" | "priority";
  /** Positions a sequence may have. */
  contextLength: number;
  /** What follows is guessed from prompts and outputs, where the device can (prompt lookup). Default false. */
  promptLookup?: boolean;
}

/** A sequence's part of a step in flight. */
interface Run {
  sequence: Sequence;
  /** Position of the first token it computes. */
  position: number;
  samples: boolean;
  /** Tokens at most that come along with the one sampled. */
  maxFurther: number;
}

interface StepInFlight {
  runs: Run[];
  /** Tokens it computes. */
  tokens: number;
  output: Promise<StepOutput>;
  /** Its output has come, or it has failed. */
  isSettled: boolean;
}

const NO_TOKENS = new Int32Array(0);
const NO_DRAWS: readonly KeptDraw[] = [];

/** What others see of a loop, whatever computes its requests. */
export type ModelLoop = Pick<
  InferenceLoop,
  | "contextLength"
  | "policy"
  | "guesses"
  | "hidden"
  | "vocab"
  | "tokenizer"
  | "submit"
  | "submitScoring"
  | "submitEmbedding"
  | "fork"
  | "end"
  | "stats"
  | "close"
>;

/** Serves all requests of one model, together in steps. */
export class InferenceLoop {
  /** Positions a sequence may have: what the context and the pages allow. */
  readonly contextLength: number;
  /** Whether requests are served by arrival or by priority. */
  readonly policy: "fcfs" | "priority";
  /** Whether it guesses tokens to come. */
  readonly guesses: boolean;
  private readonly pool: PagePool;
  private readonly scheduler: Scheduler;
  private readonly slots: SamplerSlots;
  /** Requests that have not ended. */
  private readonly requests = new OpenRequests();
  private readonly inFlight: StepInFlight[] = [];
  private readonly counts = new StepCounts();
  private arrivals = 0;
  private unstarted = 0;
  private serving: Promise<void> | null = null;

  constructor(
    private readonly device: DeviceModel,
    readonly tokenizer: Tokenizer,
    private readonly options: InferenceLoopOptions,
  ) {
    const groups = new PageGroups(device.pageGroups);
    const { maxSequences, tokenBudget, scheduler: policy } = options;
    this.guesses = options.promptLookup === true && device.takesGuesses;
    this.pool = new PagePool(device.pages * groups.count);
    this.scheduler = new Scheduler(
      this.pool,
      { maxSequences, tokenBudget, policy, drafts: this.guesses },
      groups,
      device.recurrentStates,
    );
    this.slots = new SamplerSlots(device);
    this.contextLength = Math.min(options.contextLength, groups.tokensWithin(this.pool.pages, tokenBudget));
    this.policy = options.scheduler;
  }

  /** Width of hidden states; 0: the device does not give any. */
  get hidden(): number {
    return this.device.config.hidden;
  }

  /** Tokens the model knows. */
  get vocab(): number {
    return this.device.config.vocab;
  }

  /**
   * Queues a request whose settings are resolved: prompt + maxTokens fit `contextLength`, ids are in the vocabulary.
   * Iterating rejects with `signal.reason` after an abort; leaving the iteration early aborts.
   * @throws RateLimitError when too many wait; ClosedError after `close`
   */
  submit(request: GenerationRequest, signal?: AbortSignal): Generation {
    this.checkRoom(signal);
    // Twice what a step holds: choices that have been displaced wait, and others take their places.
    const window = 2 * this.options.maxSequences;
    return this.queue(new SamplingRequest(request, this.arrivals++, window, this.tokenizer, this.onEnd), signal);
  }

  /**
   * Queues a request that samples nothing but tells the likeliest tokens to follow the prompt, `candidates` of them, and
   * those to follow each fork.
   * @throws as `submit`
   */
  submitScoring(request: GenerationRequest, candidates: number, signal?: AbortSignal): ScoringRequest {
    this.checkRoom(signal);
    return this.queue(new ScoringRequest(request, this.arrivals++, candidates, this.onEnd), signal);
  }

  /**
   * Queues a request that samples nothing: its hidden states become one vector.
   * @throws as `submit`
   */
  submitEmbedding(request: EmbeddingInput, signal?: AbortSignal): EmbeddingRequest {
    this.checkRoom(signal);
    if (this.hidden === 0) {
      throw new BadRequestError("this model gives logits only, no hidden states that a vector could be made of", {
        code: "no_hidden_states",
        param: "model",
      });
    }
    return this.queue(new EmbeddingRequest(request, this.arrivals++, this.hidden, this.onEnd), signal);
  }

  /** A sequence that goes on from `parent`, which must not have ended, with one more token. They share pages. */
  fork(parent: Sequence, index: number, token: number): Sequence {
    const fork = parent.fork(index, token);
    fork.owner.sequences.add(fork);
    this.scheduler.addFork(parent, fork);
    return fork;
  }

  /** Takes a sequence out of the schedule, and frees its pages and its slot; the request's next choice, if one is left, is queued. */
  end(sequence: Sequence): void {
    if (sequence.state === "finished") return;
    this.scheduler.finish(sequence);
    const { owner } = sequence;
    owner.sequences.delete(sequence);
    this.slots.close(sequence);
    const next = owner.nextChoice();
    if (next !== null) this.scheduler.add(next);
  }

  stats(): InferenceStats {
    const { scheduler, pool } = this;
    let choicesLeft = 0;
    for (const request of this.requests) choicesLeft += request.choicesLeft;
    return {
      running: scheduler.running.length,
      waiting: scheduler.waitingCount + choicesLeft,
      cacheUsage: 1 - pool.free / pool.pages,
      pages: this.device.pages,
      preemptions: scheduler.preemptions,
      cacheQueries: scheduler.prefixCache.queries,
      cacheHits: scheduler.prefixCache.hits,
      ...this.counts.snapshot(),
    };
  }

  /** Ends all requests with an error, and waits for the steps in flight. */
  async close(): Promise<void> {
    this.requests.close();
    await this.serving;
  }

  private checkRoom(signal: AbortSignal | undefined): void {
    this.requests.checkRoom(this.unstarted, this.options.maxQueue, signal);
  }

  private queue<T extends RequestState>(request: T, signal: AbortSignal | undefined): T {
    this.requests.add(request);
    this.unstarted++;
    for (const sequence of request.sequences) this.scheduler.add(sequence);
    request.endOnAbort(signal);
    this.wake();
    return request;
  }

  private readonly onEnd = (request: RequestState): void => {
    for (const sequence of request.sequences) this.end(sequence);
    this.requests.delete(request);
    if (request.record.scheduled === 0) this.unstarted--;
    this.wake();
  };

  private wake(): void {
    // A turn of the event loop later, so that requests that come together start together.
    this.serving ??= new Promise<void>((resolve) => {
      setImmediate(() => void this.serve().then(resolve));
    });
  }

  private async serve(): Promise<void> {
    for (;;) {
      let step: StepInFlight | undefined;
      try {
        while (this.inFlight.length < MAX_STEPS_IN_FLIGHT) {
          const scheduled = this.scheduler.schedule();
          if (scheduled === null) break;
          this.run(scheduled);
        }
        step = this.inFlight.shift();
        if (step === undefined) break;
        await this.postprocess(step, await step.output);
      } catch (error) {
        this.failStep(error, step);
      }
    }
    this.serving = null;
  }

  /** Hands a step to the device, which computes it behind those in flight. */
  private run(step: ScheduledStep): void {
    this.openSlots(step);
    if (step.sequences.length === 0) return;
    const rows = step.sequences.map((sequence) => sequence.row());
    const runs = step.sequences.map((sequence, i) => {
      const { position, sample, maxForced, maxDrafts } = rows[i]!;
      return { sequence, position, samples: sample, maxFurther: maxForced + maxDrafts };
    });
    const output = this.compute(step, rows);
    // Awaited in order; a failure is dealt with there.
    output.catch(() => undefined);
    const tokens = this.count(step);
    this.scheduler.issued(step);
    for (const { sequence, samples, maxFurther } of runs) {
      if (!samples) continue;
      sequence.pending++;
      sequence.pendingFurther += maxFurther;
    }
    this.inFlight.push({ runs, tokens, output, isSettled: false });
  }

  /** Settings that the device refuses end their own request only. */
  private openSlots(step: ScheduledStep): void {
    for (const sequence of step.sequences) {
      if (sequence.state === "finished") continue;
      try {
        this.slots.open(sequence);
      } catch (error) {
        sequence.owner.fail(error);
      }
    }
    step.sequences = step.sequences.filter((sequence) => sequence.state === "running");
  }

  /** Async, so that what the device throws at once is the step's failure too. */
  private async compute({ copies: { from, to } }: ScheduledStep, rows: StepSequence[]): Promise<StepOutput> {
    if (from.length > 0) this.device.copyPages(Int32Array.from(from), Int32Array.from(to));
    const states = this.scheduler.recurrentStates.takeCopies();
    if (states.from.length > 0) {
      this.device.copyRecurrentStates(Int32Array.from(states.from), Int32Array.from(states.to));
    }
    return this.device.step(rows);
  }

  /** Counts a step, and those that start with it; the tokens it computes. */
  private count({ sequences }: ScheduledStep): number {
    const now = performance.now();
    let tokens = 0;
    for (const { chunk, promptLength, owner } of sequences) {
      tokens += chunk;
      if (owner.record.scheduled > 0) continue;
      owner.record.scheduled = now;
      this.unstarted--;
      this.counts.promptTokens += promptLength;
    }
    this.counts.step(tokens);
    return tokens;
  }

  private async postprocess(step: StepInFlight, output: StepOutput): Promise<void> {
    this.settle(step);
    this.counts.deviceSeconds += output.seconds;
    const drafted = this.countDrafts(output);
    this.scheduler.prefillLimit.observe(step.tokens + drafted, output.seconds);
    for (const [i, { sequence, position, samples, maxFurther }] of step.runs.entries()) {
      const forced = output.forced[i] ?? NO_TOKENS;
      const guesses = output.drafts?.[i] ?? null;
      const kept = guesses?.kept ?? NO_DRAWS;
      if (samples) {
        sequence.pending--;
        sequence.settleFurther(kept.length, forced.length, maxFurther);
      }
      if (sequence.state === "finished") {
        this.counts.discardedRows++;
        continue;
      }
      const rows = output.prompt[i] ?? null;
      if (rows !== null) await sequence.owner.scored(sequence, position, rows);
      const states = output.states[i] ?? null;
      if (states !== null && sequence.owner.readHiddenStates!(sequence, position, states)) this.end(sequence);
      if (!samples) continue;
      if (output.tokens[i] === PUT_OFF) {
        sequence.putOff();
        continue;
      }
      const logprob = output.logprobs[i]!;
      if (Number.isNaN(logprob)) {
        sequence.owner.fail(notNumbers());
        continue;
      }
      if (guesses) sequence.countGuesses(guesses);
      this.counts.generatedTokens += kept.length + 1 + forced.length;
      this.counts.stepTokens += forced.length;
      const last = {
        token: output.tokens[i]!,
        logprob,
        temperatureLogprob: output.temperatureLogprobs[i]!,
        top: output.top[i] ?? null,
      };
      const hasEnded =
        kept.some((draw) => sequence.owner.sampled(sequence, sampledTokens(draw, NO_TOKENS))) ||
        sequence.owner.sampled(sequence, sampledTokens(last, forced));
      if (hasEnded) this.end(sequence);
    }
  }

  /** Counts what a step has guessed; the tokens it computed so. */
  private countDrafts({ drafts = [] }: StepOutput): number {
    let drafted = 0;
    for (const one of drafts) {
      if (one === null) continue;
      drafted += one.count;
      this.counts.drafts++;
      this.counts.keptTokens += one.kept.length;
    }
    this.counts.draftedTokens += drafted;
    this.counts.stepTokens += drafted;
    return drafted;
  }

  /** The device is done with a step, whatever came of it: slots that only it still named are closed. Once for each step. */
  private settle(step: StepInFlight): void {
    if (step.isSettled) return;
    step.isSettled = true;
    for (const { sequence } of step.runs) {
      sequence.inFlight--;
      if (sequence.state === "finished") this.slots.close(sequence);
    }
  }

  /** After a failed step nobody knows what its pages hold: all that runs ends with the error. */
  private failStep(error: unknown, step: StepInFlight | undefined): void {
    if (step !== undefined) this.settle(step);
    const sequences = [...(step?.runs ?? []).map((run) => run.sequence), ...this.scheduler.running];
    const broken = new Set(sequences.filter((one) => one.state !== "finished").map((one) => one.owner));
    for (const request of broken) request.fail(error);
    this.pool.forgetAll();
    this.scheduler.recurrentStates.forgetAll();
  }
}

function sampledTokens({ token, ...logprobs }: KeptDraw, forced: Int32Array): SampledTokens {
  return { token, forced, logprobs };
}

/** What was computed is no number, and what follows would be none either. */
function notNumbers(): InternalServerError {
  return new InternalServerError("the model's logits are not finite numbers", {
    code: "logits_not_finite",
    hint: "its weights, or an adapter's, make numbers too large for the type that they are computed in: try dtype float32, or an earlier checkpoint",
  });
}
