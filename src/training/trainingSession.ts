// The four verbs: everything the training jobs do, in an application's hands.

import { randomUUID } from "node:crypto";
import { untilAborted } from "../abortListeners.js";
import { BadRequestError, ClosedError } from "../errors.js";
import type { Release } from "../semaphore.js";
import type { ChatCompletion } from "../types/chat.js";
import type { RequestOptions } from "../types/client.js";
import type {
  FullSessionOptions,
  LossChoice,
  OptimStepParams,
  RowLogprobs,
  SavedWeights,
  SessionOptions,
  TrainingRow,
  TrainingSession,
} from "../types/trainingSession.js";
import { openAdapterWeights } from "./adapterWeights.js";
import type { LossFunction } from "./forwardBackward.js";
import { openFullWeights, type WeightsHost } from "./fullWeights.js";
import { optimizersOf, type TrainingHost } from "./host.js";
import type { JobRunner } from "./jobRunner.js";
import { Learner } from "./learner.js";
import { crossEntropyLoss, policyGradientLoss, preferenceLoss, withEntropyBonus } from "./losses.js";
import type { Objective } from "./optimizer.js";
import { passLimits } from "./passLimits.js";
import {
  checkedOptimStep,
  checkLoss,
  checkNumbers,
  checkSample,
  checkSessionOptions,
  policyOf,
  toTokenRows,
} from "./sessionInput.js";
import type { CompleteWith, SampleParams, SessionWeights } from "./sessionWeights.js";
import type { TokenRow } from "./tokenRow.js";

const DEFAULT_BETA = 0.1;

/** What the engine does for sessions. */
export interface SessionHost extends WeightsHost {
  /** Answers a completion with one version of the model's adapter. */
  complete: CompleteWith;
  /** Keeps the model's base in memory, whatever is deleted meanwhile. */
  pinBase(): Release;
}

/** Waits for the model's place and opens its latest checkpoint. Rejects with the signal's reason. */
export function openTrainingSession(
  host: TrainingHost,
  runner: JobRunner,
  modelId: string,
  engine: SessionHost,
  options: FullSessionOptions,
): Promise<TrainingSession<SavedWeights>>;
export function openTrainingSession(
  host: TrainingHost,
  runner: JobRunner,
  modelId: string,
  engine: SessionHost,
  options?: SessionOptions,
): Promise<TrainingSession>;
export async function openTrainingSession(
  host: TrainingHost,
  runner: JobRunner,
  modelId: string,
  engine: SessionHost,
  options: SessionOptions | FullSessionOptions = {},
): Promise<TrainingSession | TrainingSession<SavedWeights>> {
  checkSessionOptions(options);
  const { objective = "rl", weights = "adapter", signal } = options;
  const id = randomUUID();
  const leave = await runner.lease(modelId, signal, id);
  const unpin = engine.pinBase();
  const release = () => {
    unpin();
    leave();
  };
  let opened: SessionWeights<unknown> | null = null;
  const open = <Saved>(weights: SessionWeights<Saved>) => {
    opened = weights;
    signal?.throwIfAborted();
    const session = new Session(host, { id, modelId, objective, weights, release, signal });
    session.onClose(runner.register({ id, modelId, openedAt: Date.now(), end: (why: string) => session.end(why) }));
    return session;
  };
  try {
    return weights === "full"
      ? open(await openFullWeights(host, engine, modelId, objective, signal))
      : open(await openAdapterWeights(host, engine.complete, modelId, objective));
  } catch (error) {
    await (opened as SessionWeights<unknown> | null)?.close();
    release();
    throw error;
  }
}

interface SessionParts<Saved> {
  id: string;
  modelId: string;
  objective: Objective;
  weights: SessionWeights<Saved>;
  release: Release;
  signal: AbortSignal | undefined;
}

class Session<Saved> implements TrainingSession<Saved> {
  readonly id: string;
  readonly modelId: string;
  readonly #parts: SessionParts<Saved>;
  readonly #signal: AbortSignal;
  readonly #learner: Learner;
  readonly #ending = new AbortController();
  #last: Promise<unknown> = Promise.resolve();
  readonly #samples = new Set<Promise<unknown>>();
  #closed = false;
  #closing: Promise<void> | null = null;
  #forget: Release = () => undefined;

  constructor(host: TrainingHost, parts: SessionParts<Saved>) {
    this.id = parts.id;
    this.modelId = parts.modelId;
    this.#parts = parts;
    const signal = AbortSignal.any(parts.signal ? [parts.signal, this.#ending.signal] : [this.#ending.signal]);
    this.#signal = signal;
    const { base, trainer } = parts.weights;
    const limits = { ...passLimits(base, host.activationMemory()), signal };
    this.#learner = new Learner(trainer, optimizersOf(host, parts.modelId)[parts.objective], limits);
  }

  onClose(call: Release): void {
    this.#forget = call;
  }

  async logprobs(rows: readonly TrainingRow[]): Promise<RowLogprobs> {
    const checked = toTokenRows(rows, this.#parts.weights.base);
    return this.#inTurn(() => this.#learner.logprobs(checked));
  }

  async forwardBackward(rows: readonly TrainingRow[], choice: LossChoice) {
    const checked = toTokenRows(rows, this.#parts.weights.base);
    if (rows.length === 0) throw new BadRequestError("rows must not be empty", { param: "rows" });
    checkLoss(choice, rows);
    return this.#inTurn(async () => this.#learner.forwardBackward(checked, await this.#loss(rows, checked, choice)));
  }

  async optimStep(params: OptimStepParams): Promise<{ gradNorm: number }> {
    const settings = checkedOptimStep(params);
    return this.#inTurn(async () => {
      await this.#parts.weights.readyToChange();
      const { gradNorm } = await this.#learner.optimStep(settings);
      return { gradNorm };
    });
  }

  async sample(params: SampleParams, options: RequestOptions = {}): Promise<ChatCompletion> {
    checkSample(params, options);
    const { signal: given } = options;
    given?.throwIfAborted();
    const signal = given ? AbortSignal.any([given, this.#signal]) : this.#signal;
    // Others may go on as soon as there is a version of the weights.
    const version = this.#inTurn(async () => {
      given?.throwIfAborted();
      return { complete: await this.#parts.weights.snapshot() };
    });
    const sample = version.then(({ complete }) => complete(params, signal));
    this.#samples.add(sample);
    const ended = sample.finally(() => this.#samples.delete(sample));
    return untilAborted(ended, given);
  }

  async saveState(params: object = {}): Promise<Saved> {
    const save = this.#parts.weights.saving(params);
    return this.#inTurn(() => save(this.#signal));
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled([this.#last, ...this.#samples]);
    await this.#parts.weights.close();
    this.#parts.release();
    this.#forget();
  }

  /** Closes on behalf of others; calls under way and later ones reject, saying why. */
  end(why: string): Promise<void> {
    this.#ending.abort(new ClosedError(why));
    return this.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** One call at a time, in the order in which they were made. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closed) {
      const why = this.#ending.signal.aborted
        ? this.#ending.signal.reason
        : new ClosedError("the training session was closed");
      return Promise.reject(why);
    }
    const begin = () => {
      this.#signal.throwIfAborted();
      return work();
    };
    const result = this.#last.then(begin, begin);
    this.#last = result.catch(() => undefined);
    return result;
  }

  async #loss(rows: readonly TrainingRow[], checked: TokenRow[], choice: LossChoice): Promise<LossFunction> {
    if ("weights" in choice) return givenGradient(checked, choice);
    if (choice.loss === "cross_entropy") {
      return crossEntropyLoss(checked.map((row, r) => ({ ...row, weights: floats(rows, r, "weights", 1) })));
    }
    if (choice.loss === "dpo") {
      const reference = await this.#reference(rows, checked);
      const pairs = checked.map((row, r) => ({ ...row, reference: reference[r]! }));
      return preferenceLoss(pairs, choice.beta ?? DEFAULT_BETA);
    }
    const { loss: resolved, entropyCoef } = policyOf(choice);
    const reference = resolved.klCoef > 0 ? await this.#reference(rows, checked) : null;
    const policyRows = checked.map((row, r) => ({
      ...row,
      advantages: floats(rows, r, "advantages", 0),
      weights: floats(rows, r, "weights", 1),
      oldLogprobs: floats(rows, r, "oldLogprobs", Number.NaN),
      ...(reference ? { reference: reference[r]! } : {}),
    }));
    return withEntropyBonus(policyGradientLoss(policyRows, resolved), policyRows, entropyCoef);
  }

  async #reference(rows: readonly TrainingRow[], checked: TokenRow[]): Promise<Float32Array[]> {
    const given = rows.map((row, r) => (row.referenceLogprobs ? floats(rows, r, "referenceLogprobs", 0) : null));
    const lacking = checked.filter((_, r) => given[r] === null);
    const evaluated = (await this.#parts.weights.reference(this.#learner, lacking, this.#signal)).values();
    return given.map((reference) => reference ?? evaluated.next().value!);
  }
}

type RowArray = "weights" | "advantages" | "oldLogprobs" | "referenceLogprobs";

function floats(rows: readonly TrainingRow[], r: number, name: RowArray, fallback: number): Float32Array {
  const values = rows[r]![name];
  return values ? Float32Array.from(values) : new Float32Array(rows[r]!.tokens.length).fill(fallback);
}

function givenGradient(
  rows: readonly TokenRow[],
  { weights, entropyWeights }: Extract<LossChoice, { weights: unknown }>,
): LossFunction {
  const gradient = slopesOf(rows, weights, "weights");
  const entropyGradient = entropyWeights && slopesOf(rows, entropyWeights, "entropyWeights");
  const part = (from: number, to: number): LossFunction => {
    const slopes = { gradient: gradient.slice(from, to), entropyGradient: entropyGradient?.slice(from, to) };
    return () => ({ ...slopes, metrics: {} });
  };
  const properties = { usesEntropy: entropyGradient && (true as const), separable: { rowsTogether: 1, part } };
  return Object.assign(part(0, rows.length), properties);
}

/** Tokens that are not trained have no slope. */
function slopesOf(rows: readonly TokenRow[], lists: readonly ArrayLike<number>[], name: string): Float32Array[] {
  if (lists?.length !== rows.length || rows.some((row, r) => lists[r]?.length !== row.tokens.length)) {
    throw new BadRequestError(`${name} must hold one list per row, as long as the row`, { param: name });
  }
  for (const [r, row] of lists.entries()) checkNumbers(row, `${name}.${r}`);
  return lists.map((row) => Float32Array.from(row));
}
