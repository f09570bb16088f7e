// The four verbs: everything the training jobs do, in an application's hands.

import { randomUUID } from "node:crypto";
import { BadRequestError, ClosedError, NotFoundError } from "../errors.js";
import type { AdapterSpec, Trainer } from "../runtime/runtime.js";
import type { Release } from "../semaphore.js";
import type { ChatCompletion } from "../types/chat.js";
import type { Checkpoint } from "../types/models.js";
import type {
  LossChoice,
  OptimStepParams,
  RowLogprobs,
  SessionOptions,
  TrainingRow,
  TrainingSession,
} from "../types/trainingSession.js";
import { captureState, readCheckpoint, restoreTrainer } from "./checkpointFiles.js";
import { commitCheckpoint } from "./commitCheckpoint.js";
import { describeCheckpoint } from "./describeCheckpoint.js";
import type { LossFunction } from "./forwardBackward.js";
import { optimizersOf, type TrainingBase, type TrainingHost } from "./host.js";
import type { JobRunner } from "./jobRunner.js";
import { Learner } from "./learner.js";
import { crossEntropyLoss, policyGradientLoss, preferenceLoss, withEntropyBonus } from "./losses.js";
import type { Objective } from "./optimizer.js";
import { passLimits } from "./passLimits.js";
import { resolvePolicy } from "./policy.js";
import type { TokenRow } from "./rows.js";
import {
  checkedMetrics,
  checkedOptimStep,
  checkLoss,
  checkNumbers,
  checkSample,
  checkSessionOptions,
  toTokenRows,
} from "./sessionInput.js";

const DEFAULT_BETA = 0.1;

type SampleParams = Parameters<TrainingSession["sample"]>[0];

/** How the engine answers a completion with one version of the model's adapter. */
export type CompleteWith = (adapter: number, params: SampleParams, signal?: AbortSignal) => Promise<ChatCompletion>;

/** Waits for the model's place and opens its latest checkpoint. Rejects with the signal's reason. */
export async function openTrainingSession(
  host: TrainingHost,
  runner: JobRunner,
  modelId: string,
  complete: CompleteWith,
  options: SessionOptions = {},
): Promise<TrainingSession> {
  checkSessionOptions(options);
  const { objective = "rl", signal } = options;
  const id = randomUUID();
  const release = await runner.lease(modelId, signal, id);
  let trainer: Trainer | null = null;
  try {
    const latest = host.store.checkpoints.latest(modelId);
    if (latest === null) throw new NotFoundError(`there is no model ${modelId}`, { code: "model_not_found" });
    const base = await host.base(modelId);
    const state = await readCheckpoint(host.store.files.checkpointFolder(modelId, latest.step), base);
    trainer = await restoreTrainer(base.device, state, objective);
    signal?.throwIfAborted();
    const opened = await trainer.publish();
    const { spec } = state;
    const session = new Session({
      id,
      host,
      base,
      modelId,
      trainer,
      spec,
      objective,
      opened,
      release,
      complete,
      signal,
    });
    const end = (why: string) => session.end(why);
    session.onClose(runner.register({ id, modelId, openedAt: Date.now(), end }));
    return session;
  } catch (error) {
    trainer?.close();
    release();
    throw error;
  }
}

interface SessionParts {
  id: string;
  host: TrainingHost;
  base: TrainingBase;
  modelId: string;
  trainer: Trainer;
  spec: AdapterSpec;
  objective: Objective;
  /** Version of the weights the session was opened with. */
  opened: number;
  release: Release;
  complete: CompleteWith;
  signal: AbortSignal | undefined;
}

class Session implements TrainingSession {
  readonly id: string;
  readonly modelId: string;
  readonly #parts: SessionParts;
  readonly #signal: AbortSignal;
  readonly #learner: Learner;
  readonly #ending = new AbortController();
  #last: Promise<unknown> = Promise.resolve();
  readonly #samples = new Set<Promise<unknown>>();
  #closed = false;
  #closing: Promise<void> | null = null;
  #forget: Release = () => undefined;

  constructor(parts: SessionParts) {
    this.id = parts.id;
    this.modelId = parts.modelId;
    this.#parts = parts;
    const signal = AbortSignal.any(parts.signal ? [parts.signal, this.#ending.signal] : [this.#ending.signal]);
    this.#signal = signal;
    const limits = { ...passLimits(parts.base, parts.host.activationMemory()), signal };
    this.#learner = new Learner(parts.trainer, optimizersOf(parts.host, parts.modelId)[parts.objective], limits);
  }

  onClose(call: Release): void {
    this.#forget = call;
  }

  async logprobs(rows: readonly TrainingRow[]): Promise<RowLogprobs> {
    const checked = toTokenRows(rows, this.#parts.base);
    return this.#inTurn(() => this.#learner.logprobs(checked));
  }

  async forwardBackward(rows: readonly TrainingRow[], choice: LossChoice) {
    const checked = toTokenRows(rows, this.#parts.base);
    if (rows.length === 0) throw new BadRequestError("rows must not be empty", { param: "rows" });
    checkLoss(choice, rows);
    return this.#inTurn(async () => this.#learner.forwardBackward(checked, await this.#loss(rows, checked, choice)));
  }

  async optimStep(params: OptimStepParams): Promise<{ gradNorm: number }> {
    const settings = checkedOptimStep(params);
    return this.#inTurn(() => this.#learner.optimStep(settings));
  }

  async sample(params: SampleParams): Promise<ChatCompletion> {
    checkSample(params);
    const { trainer, complete, base } = this.#parts;
    // Others may go on as soon as there is a version of the weights.
    const sample = this.#inTurn(() => trainer.publish()).then((version) =>
      complete(version, params, this.#signal).finally(() => base.device.releaseAdapter(version)),
    );
    this.#samples.add(sample);
    return sample.finally(() => this.#samples.delete(sample));
  }

  async saveState(params: { metrics?: Record<string, number> } = {}): Promise<Checkpoint> {
    const metrics = checkedMetrics(params);
    return this.#inTurn(async () => {
      const { host, base, modelId, trainer, spec, objective } = this.#parts;
      const { store } = host;
      const latest = store.checkpoints.latest(modelId);
      if (latest === null) throw deleted(modelId);
      const state = await captureState(trainer, spec, objective);
      const step = latest.step + 1;
      const origin = { parent_step: latest.step, job_id: null };
      const record = await commitCheckpoint(host, base, trainer, { modelId, step }, state, origin, () => {
        if (store.models.get(modelId) === null) throw deleted(modelId);
        if (Object.keys(metrics).length > 0) store.metrics.append(modelId, step, metrics);
        return store.checkpoints.create({ modelId, step, metrics });
      });
      return describeCheckpoint(store.files, record, true);
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled([this.#last, ...this.#samples]);
    const { trainer, base, opened, release } = this.#parts;
    base.device.releaseAdapter(opened);
    trainer.close();
    release();
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
    const result = this.#last.then(work, work);
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
    const { loss, ...settings } = choice;
    const { loss: resolved, entropyCoef } = resolvePolicy({ ...settings, loss_fn: loss }, 0);
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
    const evaluated = (await this.#learner.logprobs(lacking, this.#parts.opened)).logprobs.values();
    return given.map((reference) => reference ?? evaluated.next().value!);
  }
}

function deleted(modelId: string): NotFoundError {
  return new NotFoundError(`the model ${modelId} has been deleted`, { code: "model_not_found" });
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
  if (entropyWeights === undefined) return () => ({ gradient, metrics: {} });
  const entropyGradient = slopesOf(rows, entropyWeights, "entropyWeights");
  return Object.assign(() => ({ gradient, entropyGradient, metrics: {} }), { usesEntropy: true as const });
}

/** Tokens that are not trained have no slope. */
function slopesOf(rows: readonly TokenRow[], lists: readonly ArrayLike<number>[], name: string): Float32Array[] {
  if (lists?.length !== rows.length || rows.some((row, r) => lists[r]?.length !== row.tokens.length)) {
    throw new BadRequestError(`${name} must hold one list per row, as long as the row`, { param: name });
  }
  for (const [r, row] of lists.entries()) checkNumbers(row, `${name}.${r}`);
  return lists.map((row) => Float32Array.from(row));
}
