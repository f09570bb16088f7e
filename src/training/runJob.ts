// One training job from wherever it stands to its checkpoint.

import { existsSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { NotFoundError } from "../errors.js";
import { streamFile } from "../store/durableFiles.js";
import type { JobRecord } from "../store/records.js";
import type { TrainingEstimate } from "../types/training.js";
import {
  type AdapterState,
  captureState,
  keptOfState,
  readCheckpoint,
  readStateFile,
  stateFile,
  stateOf,
  toWrite,
  type WrittenState,
} from "./checkpointFiles.js";
import { commitCheckpoint } from "./commitCheckpoint.js";
import { estimateJob } from "./estimate.js";
import { optimizersOf, type TrainingHost, type TrainingOptions } from "./host.js";
import { dataCopy, readJobRequest, type StoredRequest } from "./jobRequest.js";
import { Learner } from "./learner.js";
import type { Objective } from "./optimizer.js";
import { passLimits } from "./passLimits.js";
import { finiteNumbers, type Recipe } from "./recipe.js";
import { recipeOf } from "./recipeOf.js";
import { prepareGroups } from "./recordGroups.js";
import { discardReference, keepReference } from "./referenceCheckpoint.js";
import { isRemote, snapshotData } from "./sftData.js";
import { gradientSteps, logBatches, meanLosses } from "./stepMetrics.js";
import { type OpenTrainer, stampsOf } from "./trainers.js";
import type { TrainingBase } from "./trainingBase.js";
import { type Standing, standingAfter } from "./validation.js";

/** Where a job goes on: kept in its row, in the transaction of the step's event. */
interface JobState {
  /** The checkpoint it trains from. */
  from: number;
  /** Optimizer steps made. */
  done: number;
  /** What its held-out data said; null: it has none, or has not been evaluated. */
  standing: Standing | null;
  /** The engine's settings when it began: a job that is taken up by an engine with others goes on with its own. */
  settings: Pick<TrainingOptions, "optimizerStep" | "optimizer"> & Pick<TrainingBase, "contextLength">;
}

interface Run extends OpenTrainer {
  host: TrainingHost;
  job: JobRecord;
  request: StoredRequest;
  state: JobState;
  base: TrainingBase;
  recipe: Recipe;
}

/**
 * Runs a job to its end. What it does follows from its request and the checkpoint it started from, so after an
 * interruption it goes on from the last step whose event exists and makes the same weights. Rejects with the signal's
 * reason when aborted, with the error when it cannot go on; the terminal event of that is the caller's.
 */
export async function runJob(host: TrainingHost, job: JobRecord, signal: AbortSignal): Promise<void> {
  const { store } = host;
  const latest = store.checkpoints.latest(job.modelId);
  if (latest === null) throw new NotFoundError("the model does not exist any more", { code: "model_not_found" });
  const served = await host.base(job.modelId);
  const { optimizerStep } = host.options;
  const optimizer = optimizersOf(host, job.modelId);
  const { contextLength } = served;
  const settings = { optimizerStep, optimizer, contextLength };
  const begun: JobState = { from: latest.step, done: 0, standing: null, settings };
  const stored = job.state as Partial<JobState> | null;
  const state: JobState = { ...begun, ...stored, settings: { ...begun.settings, ...stored?.settings } };
  const base: TrainingBase = { ...served, contextLength: state.settings.contextLength };
  const request = await readJobRequest(store.files, job.id);
  const recipe = await createRecipe(host, job, request, state, base, signal);
  try {
    signal.throwIfAborted();
    const opened = await goOn(host, job, state, base, recipe.objective);
    try {
      await makeSteps({ host, job, request, state, base, recipe, ...opened }, signal);
    } finally {
      opened.close();
    }
  } finally {
    recipe.close();
  }
}

/** What was read is the trainer's alone when this returns: it is as large as what the job has in memory itself. */
async function goOn(
  host: TrainingHost,
  job: JobRecord,
  { from, done }: JobState,
  base: TrainingBase,
  objective: Objective,
): Promise<OpenTrainer> {
  const folder = host.store.files.checkpointFolder(job.modelId, from);
  const resting = done === 0 ? await host.trainers.resume(base, folder, objective) : null;
  if (resting) return resting;
  const parent = await readCheckpoint(folder, base);
  const weights = done > 0 ? await readStateFile(statePath(host, job.id, done), parent.spec) : parent;
  return host.trainers.open(base, weights, objective);
}

async function makeSteps(run: Run, signal: AbortSignal): Promise<void> {
  const { host, recipe, trainer, spec, state } = run;
  const limits = { ...passLimits(run.base, run.host.activationMemory()), signal };
  const learner = new Learner(trainer, state.settings.optimizer[recipe.objective], limits);
  const hasBegun = host.store.events.count(run.job.id, "training_started") > 0;
  const estimate = hasBegun ? null : await estimateJob(recipe, run.base, trainer, learner, limits);
  await recordStart(run, estimate);
  const { validation } = recipe;
  let standing = state.standing;
  /** The best weights, where they are on no disk. */
  let best: AdapterState | null = null;
  if (validation && standing === null && recipe.steps > 0) {
    standing = standingAfter(null, 0, await validation.loss(learner), validation);
  }
  let last: StepEvent | null = null;
  let done = state.done;
  // A step is written to the disk while the next one is computed.
  let committed = Promise.resolve();
  try {
    while (done < recipe.steps) {
      signal.throwIfAborted();
      const data = await recipe.step(done, learner);
      const { differenceToExact } = run.base.device;
      if (differenceToExact > 0) data.logprob_difference_to_exact = differenceToExact;
      done += 1;
      last = { type: "gradient_step", data };
      const isLast = done === recipe.steps;
      let stops = isLast;
      if (validation && (isLast || done % validation.interval === 0)) {
        const loss = await validation.loss(learner);
        if (Number.isFinite(loss)) data["val/loss"] = loss;
        standing = standingAfter(standing, done, loss, validation);
        stops ||= validation.patience !== null && standing.waited >= validation.patience;
      }
      const isBest = validation?.keepBest && standing?.best.done === done;
      // The last step is committed with the checkpoint.
      if (stops) break;
      // One copy of the state at a time.
      await committed;
      let weights: WrittenState | null = null;
      // A home that goes with the process needs no state to resume from.
      if (!host.store.isTemporary) {
        weights = await stateOf(trainer, spec, recipe.objective, { forResuming: true });
      } else if (isBest) {
        if (best?.kept) run.base.device.discardState?.(best.kept);
        best = await captureState(trainer, spec, recipe.objective, { forResuming: true });
      }
      committed = commitStep(run, { done, standing }, last, weights);
      committed.catch(() => undefined);
    }
  } finally {
    await committed;
  }
  signal.throwIfAborted();
  await finish(run, { last, done, standing, best });
}

/** Of supervised data the job keeps a copy. */
async function createRecipe(
  host: TrainingHost,
  job: JobRecord,
  request: StoredRequest,
  state: JobState,
  base: TrainingBase,
  signal: AbortSignal,
): Promise<Recipe> {
  const copy = dataCopy(host.store.files, job.id);
  if (request.kind === "sft" && !existsSync(copy)) {
    const data = isRemote(request.data) ? request.data : resolve(host.store.home, request.data);
    await snapshotData(data, request.name ?? data, copy, signal);
  }
  // A lag counts back from the step that the job trains from, which is known now.
  if (request.kind === "rl") await keepReference(host.store, job, request.config, state.from);
  return recipeOf(host, request, copy, {
    base,
    modelId: job.modelId,
    jobId: job.id,
    from: state.from,
    optimizerStep: state.settings.optimizerStep,
    // Templates may show the time: a resumed job must see the one it began with.
    createdAt: new Date(job.createdAt),
    signal,
    warn: (message) => host.logger.warn(message, { job: job.id }),
  });
}

/** The job's first event, and what its groups say of the step they were sampled at; written once. */
async function recordStart(
  { host, job, request, recipe, state, base }: Run,
  estimate: TrainingEstimate | null,
): Promise<void> {
  const { store, logger } = host;
  const { counts, warnings } = recipe.started;
  const first = store.events.count(job.id, "training_started") === 0;
  const isLogged = first && request.kind === "rl";
  const groups = isLogged ? await prepareGroups(store, job.modelId, state.from, "train", request.groups) : null;
  const write = () => {
    const { kernelSet: kernel_set } = base.device;
    const more = warnings.length > 0 ? { warnings } : {};
    const data = { num_sequences: recipe.steps, ...counts, estimate, kernel_set, ...more };
    store.startJob(job.id, { type: "training_started", data });
    if (!first) return;
    store.jobs.update(job.id, { state });
    groups?.record();
  };
  try {
    store.transaction(write);
  } finally {
    await groups?.discard();
  }
  if (estimate) logger.info("training job begins", { job: job.id, steps: recipe.steps, ...estimate });
  for (const warning of warnings) logger.warn(warning, { job: job.id });
}

function statePath(host: TrainingHost, jobId: string, done: number): string {
  return join(host.store.files.jobFolder(jobId), `state-${done}.safetensors`);
}

type StepEvent = { type: "gradient_step"; data: Record<string, number> };

/** What a device elsewhere keeps of a step that nothing goes on from any more goes with its file. */
async function removeState({ host, job, base }: Run, done: number, stays: string | null = null): Promise<void> {
  const file = statePath(host, job.id, done);
  if (base.device.discardState && existsSync(file)) {
    const kept = await keptOfState(file);
    if (kept && kept.name !== stays) base.device.discardState(kept);
  }
  await rm(file, { force: true });
}

/** What a device elsewhere keeps for a job that ends without a checkpoint: of its steps, and of what it is measured against. */
export async function discardStates(host: TrainingHost, job: JobRecord): Promise<void> {
  const base = await host.base(job.modelId);
  const { device } = base;
  if (!device.discardState) return;
  await discardReference(host.store, base, job);
  const folder = host.store.files.jobFolder(job.id);
  for (const name of await readdir(folder).catch(() => [])) {
    const kept = /^state-\d+\.safetensors$/.test(name) ? await keptOfState(join(folder, name)) : null;
    if (kept) device.discardState(kept);
  }
}

/** The weights after a step are on the disk before its event can be seen. */
async function commitStep(
  run: Run,
  made: Pick<JobState, "done" | "standing">,
  event: StepEvent,
  weights: WrittenState | null,
) {
  const { host, job, state } = run;
  const { store } = host;
  const { done, standing } = made;
  if (weights) await streamFile(statePath(host, job.id, done), stateFile(weights));
  const before = store.jobs.get(job.id)?.state as JobState | null;
  store.commitStep(job.id, { event, state: { ...state, ...made } satisfies JobState });
  // What is still needed: this step, and the best one.
  for (const step of [done - 1, before?.standing?.best.done]) {
    if (step === undefined || step === done || step === standing?.best.done) continue;
    await removeState(run, step);
  }
}

/** The checkpoint's folder first; then its row, the last step's event and the terminal event in one transaction. */
async function finish(run: Run, { last, ...reached }: Reached & { last: StepEvent | null }): Promise<void> {
  const { host, job, request, base, trainer, recipe, state } = run;
  const { store } = host;
  const { done, standing } = reached;
  const step = state.from + 1;
  const result = await weightsToKeep(run, reached);
  const kept = recipe.validation?.keepBest ? standing?.best.loss : last?.data["val/loss"];
  const validated: Record<string, number> = standing && kept !== undefined ? { "val/loss": kept } : {};
  const place = { modelId: job.modelId, step };
  const folder = store.files.checkpointFolder(job.modelId, step);
  const origin = { parent_step: state.from, job_id: job.id };
  const stamps = await commitCheckpoint(host, base, trainer, place, result, origin, () => {
    const stamps = stampsOf(folder);
    if (last) store.commitStep(job.id, { event: last, state: { ...state, done, standing } });
    const steps = gradientSteps(store, job.id);
    const metrics = finiteNumbers({ ...meanLosses(steps), ...validated });
    if (Object.keys(metrics).length > 0) store.metrics.append(job.modelId, step, metrics);
    store.finishJob(job.id, {
      status: "succeeded",
      event: {
        type: "training_ended",
        data: standing ? { best_gradient_step: standing.best.done, ...finiteNumbers(validated) } : {},
      },
      checkpoint: { step, metrics },
    });
    logBatches(store, job, request, step, steps);
    return stamps;
  });
  for (const step of new Set([done - 1, done, standing?.best.done ?? 0])) {
    await removeState(run, step, result.kept?.name);
  }
  await discardReference(store, base, job);
  store.files.remove(store.files.jobFolder(job.id));
  if (keepsLast(run, reached)) await run.leave(folder, stamps);
}

/** What a job has come to. */
interface Reached extends Pick<JobState, "done" | "standing"> {
  /** The best weights, where they are on no disk. */
  best: AdapterState | null;
}

/** Whether the state of the checkpoint is that after the last step, which there was. */
function keepsLast({ recipe }: Run, { done, standing }: Reached): boolean {
  return done > 0 && !(recipe.validation?.keepBest && standing && standing.best.done !== done);
}

/** The state of the checkpoint, whose values the trainer then holds: the best one where that is to be kept, else the last. */
async function weightsToKeep(run: Run, reached: Reached): Promise<WrittenState> {
  const { host, job, recipe, trainer, spec, state, base } = run;
  const first = () => readCheckpoint(host.store.files.checkpointFolder(job.modelId, state.from), base);
  const { done, standing, best } = reached;
  // Moments of another objective, which the trainer left behind, are there still.
  if (done === 0) return toWrite(await first());
  if (keepsLast(run, reached)) return stateOf(trainer, spec, recipe.objective);
  const at = standing!.best;
  if (at.done === 0) host.logger.warn("no step of the training job improved its validation loss", { job: job.id });
  const kept = best ?? (await (at.done === 0 ? first() : readStateFile(statePath(host, job.id, at.done), spec)));
  if (!trainer.elsewhere) {
    await trainer.write("value", kept.values);
    return toWrite(kept);
  }
  await trainer.elsewhere.goBack(kept.kept!);
  return stateOf(trainer, spec, recipe.objective);
}
