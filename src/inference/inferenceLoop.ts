// Schedule, run, postprocess: the loop that serves all requests of one model. Two steps are under way at most: while the
// device computes one, the tokens of the one before are decoded, judged and handed out. The next step starts from tokens
// that stay on the device, so a choice that has just ended costs one discarded row.

import { ClosedError, RateLimitError } from "../errors.js";
import type { DeviceModel, StepOutput, StepSequence } from "../runtime/runtime.js";
import type { Tokenizer } from "../text/index.js";
import { Generating } from "./generating.js";
import { PAGE_SIZE, PagePool } from "./pagePool.js";
import type { Generation, GenerationRequest } from "./request.js";
import { type ScheduledStep, Scheduler } from "./scheduler.js";
import type { Sequence } from "./sequence.js";

export interface InferenceLoopOptions {
  /** Sequences in one step at most. */
  maxSequences: number;
  /** Tokens in one step at most: a longer prompt is spread over steps. */
  tokenBudget: number;
  /** Requests that have not started at most; one more is refused with RateLimitError. */
  maxQueue: number;
  scheduler: "fcfs" | "priority";
  /** Positions a sequence may have. */
  contextLength: number;
}

export interface InferenceStats {
  /** Sequences. */
  running: number;
  waiting: number;
  /** Share of pages in use, 0 to 1. */
  cacheUsage: number;
  pages: number;
  preemptions: number;
  /** Prompt tokens looked up in the prefix cache, and found there. */
  cacheQueries: number;
  cacheHits: number;
  /** Of prompts that have started (cached ones included), and drawn. */
  promptTokens: number;
  generatedTokens: number;
  steps: number;
  /** Rows computed for choices that had ended meanwhile. */
  discardedRows: number;
  /** Tokens over all steps. */
  stepTokens: number;
  /** Steps of at most `le` tokens, cumulative. */
  stepSizes: { le: number; count: number }[];
  /** Seconds the device computed. */
  deviceSeconds: number;
}

interface StepUnderWay {
  runs: Sequence[];
  /** Per run: whether it draws a token, how many forced ones that may take, and the position of its first token. */
  draws: boolean[];
  jumps: number[];
  positions: number[];
  tokens: number;
  output: Promise<StepOutput>;
}

const STEP_SIZES = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, Number.POSITIVE_INFINITY];

const NOTHING = new Int32Array(0);

/** Steps handed to the device before the first of them has come back. */
const STEPS_UNDER_WAY = 2;

export class InferenceLoop {
  /** Positions a sequence may have: what the context and the pages allow. */
  readonly contextLength: number;
  readonly scheduler: "fcfs" | "priority";
  private readonly pool: PagePool;
  private readonly steps: Scheduler;
  private readonly generations = new Set<Generating>();
  private readonly ofSequence = new Map<Sequence, Generating>();
  private readonly underWay: StepUnderWay[] = [];
  private arrivals = 0;
  private unstarted = 0;
  private turning: Promise<void> | null = null;
  private closed = false;
  private readonly stepSizes = new Array<number>(STEP_SIZES.length).fill(0);
  private readonly counts = {
    promptTokens: 0,
    generatedTokens: 0,
    steps: 0,
    discardedRows: 0,
    stepTokens: 0,
    deviceSeconds: 0,
  };

  constructor(
    private readonly device: DeviceModel,
    private readonly tokenizer: Tokenizer,
    private readonly options: InferenceLoopOptions,
  ) {
    this.pool = new PagePool(device.pages);
    this.steps = new Scheduler(this.pool, {
      maxSequences: options.maxSequences,
      tokenBudget: options.tokenBudget,
      policy: options.scheduler,
    });
    this.contextLength = Math.min(options.contextLength, device.pages * PAGE_SIZE);
    this.scheduler = options.scheduler;
  }

  /**
   * Queues a request whose settings are resolved: prompt + maxTokens fit `contextLength`, ids are in the vocabulary.
   * Throws RateLimitError when too many wait, ClosedError after `close`. Iterating rejects with `signal.reason` after
   * an abort; leaving the iteration early aborts.
   */
  submit(request: GenerationRequest, signal?: AbortSignal): Generation {
    if (this.closed) throw new ClosedError("the model has been closed");
    signal?.throwIfAborted();
    if (this.unstarted >= this.options.maxQueue) {
      throw new RateLimitError(`${this.unstarted} requests are waiting already; try again later`, {
        hint: "send fewer requests at once, or raise maxQueue",
      });
    }
    const generation = new Generating(request, this.arrivals++, this.tokenizer, this.device, {
      branch: (parent, branch) => {
        this.ofSequence.set(branch, generation);
        this.steps.addFork(parent, branch);
      },
      finish: (sequence) => this.retire(sequence),
      ended: () => {
        this.generations.delete(generation);
        if (generation.record.scheduled === 0) this.unstarted--;
        this.wake();
      },
    });
    this.generations.add(generation);
    this.unstarted++;
    for (const sequence of generation.sequences) {
      this.ofSequence.set(sequence, generation);
      this.steps.add(sequence);
    }
    generation.follow(signal);
    this.wake();
    return generation;
  }

  stats(): InferenceStats {
    return {
      running: this.steps.running.length,
      waiting: this.steps.waitingCount,
      cacheUsage: 1 - this.pool.free / this.pool.pages,
      pages: this.pool.pages,
      preemptions: this.steps.preemptions,
      cacheQueries: this.steps.prefixCache.queries,
      cacheHits: this.steps.prefixCache.hits,
      ...this.counts,
      stepSizes: STEP_SIZES.map((le, i) => ({ le, count: this.stepSizes[i]! })),
    };
  }

  /** Ends what is under way with an error, and waits for the steps in flight. */
  async close(): Promise<void> {
    this.closed = true;
    const error = new ClosedError("the model has been closed");
    for (const generation of [...this.generations]) generation.fail(error);
    await this.turning;
  }

  private wake(): void {
    // A turn of the event loop later, so that requests that come together start together.
    this.turning ??= new Promise<void>((resolve) => {
      setImmediate(() => void this.turn().then(resolve));
    });
  }

  private async turn(): Promise<void> {
    for (;;) {
      let step: StepUnderWay | undefined;
      try {
        while (this.underWay.length < STEPS_UNDER_WAY && this.issue());
        step = this.underWay.shift();
        if (step === undefined) break;
        await this.postprocess(step, await step.output);
      } catch (error) {
        this.breakOff(error, step);
      }
    }
    this.turning = null;
  }

  /** Hands one more step to the device; false when there is nothing to run. */
  private issue(): boolean {
    const step = this.steps.schedule();
    if (step === null) return false;
    this.openSlots(step);
    if (step.sequences.length === 0) return true;
    const rows = step.sequences.map((sequence) => sequence.row());
    const draws = rows.map((row) => row.sample);
    const jumps = rows.map((row) => row.jump);
    const positions = rows.map((row) => row.position);
    const output = this.runOnDevice(step, rows);
    // Awaited in order; a failure is dealt with there.
    output.catch(() => undefined);
    const tokens = this.started(step);
    this.steps.issued(step);
    for (const [i, sequence] of step.sequences.entries()) {
      if (!draws[i]) continue;
      sequence.pending++;
      sequence.pendingForced += jumps[i]!;
    }
    this.underWay.push({ runs: step.sequences, draws, jumps, positions, tokens, output });
    return true;
  }

  private async runOnDevice(step: ScheduledStep, rows: StepSequence[]): Promise<StepOutput> {
    const { from, to } = step.copies;
    if (from.length > 0) this.device.copyPages(Int32Array.from(from), Int32Array.from(to));
    return this.device.step(rows);
  }

  /** Sampling settings that the device refuses end their own request only. */
  private openSlots(step: ScheduledStep): void {
    for (const sequence of step.sequences) {
      if (sequence.slot >= 0 || sequence.candidates > 0 || sequence.state === "finished") continue;
      const generation = this.generationOf(sequence);
      try {
        generation.openSlot(sequence);
      } catch (error) {
        generation.fail(error);
      }
    }
    step.sequences = step.sequences.filter((sequence) => sequence.state === "running");
  }

  /** Counts a step; the tokens it computes. */
  private started(step: ScheduledStep): number {
    this.counts.steps++;
    const now = performance.now();
    let tokens = 0;
    for (const sequence of step.sequences) {
      tokens += sequence.chunk;
      const generation = this.generationOf(sequence);
      if (generation.record.scheduled > 0) continue;
      generation.record.scheduled = now;
      this.unstarted--;
      this.counts.promptTokens += sequence.promptLength;
    }
    this.counts.stepTokens += tokens;
    for (let i = STEP_SIZES.length - 1; i >= 0 && tokens <= STEP_SIZES[i]!; i--) this.stepSizes[i]!++;
    return tokens;
  }

  private async postprocess(step: StepUnderWay, output: StepOutput): Promise<void> {
    this.counts.deviceSeconds += output.seconds;
    this.steps.prefillLimit.observe(step.tokens, output.seconds);
    for (let i = 0; i < step.runs.length; i++) {
      const sequence = step.runs[i]!;
      const drew = step.draws[i]!;
      const forced = output.forced[i] ?? NOTHING;
      sequence.inFlight--;
      if (drew) {
        sequence.pending--;
        sequence.settleForced(forced.length, step.jumps[i]!);
      }
      if (sequence.state === "finished") {
        this.counts.discardedRows++;
        this.closeSlot(sequence);
        continue;
      }
      const generation = this.generationOf(sequence);
      const rows = output.prompt[i] ?? null;
      if (rows !== null) await generation.rows(sequence, step.positions[i]!, rows);
      if (!drew) continue;
      this.counts.generatedTokens += 1 + forced.length;
      this.counts.stepTokens += forced.length;
      generation.drew(sequence, output.tokens[i]!, forced, {
        logprob: output.logprobs[i]!,
        temperatureLogprob: output.temperatureLogprobs[i]!,
        top: output.top[i] ?? null,
      });
    }
  }

  /** After a failed step nobody knows what its pages hold: all that runs ends with the error. */
  private breakOff(error: unknown, step: StepUnderWay | undefined): void {
    const runs = step?.runs ?? [];
    for (const sequence of runs) {
      sequence.inFlight--;
      if (sequence.state === "finished") this.closeSlot(sequence);
    }
    const broken = new Set([...runs, ...this.steps.running].map((sequence) => this.ofSequence.get(sequence)));
    for (const generation of broken) generation?.fail(error);
    this.pool.forgetAll();
  }

  private generationOf(sequence: Sequence): Generating {
    return this.ofSequence.get(sequence)!;
  }

  private retire(sequence: Sequence): void {
    if (sequence.state === "finished") return;
    this.steps.finish(sequence);
    this.ofSequence.delete(sequence);
    this.closeSlot(sequence);
  }

  private closeSlot(sequence: Sequence): void {
    // A step in flight may still name it; the last of them closes it.
    if (sequence.inFlight > 0) return;
    if (sequence.slot >= 0) this.device.closeSlot(sequence.slot);
    sequence.slot = -1;
  }
}
