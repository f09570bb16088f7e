// Which step of a run is the best by its validation reward, when the run ends for want of a better one, and how it is kept.

import type { AnnealClient } from "../types/client.js";
import type { TrainOptions } from "../types/gather.js";
import type { Checkpoint } from "../types/models.js";
import type { TrainingRun } from "../types/training.js";

/** What the validations of a run have said so far. */
export interface Standing {
  /** null: none had a reward. */
  best: { step: number; reward: number } | null;
  /** Validations since then. */
  waited: number;
}

const REWARD = "val/reward";

/** A validation all of whose rollouts failed has no reward, and is no improvement. */
export function standingAfter(before: Standing, step: number, reward: number | null, threshold = 0): Standing {
  const isBetter = reward !== null && (before.best === null || reward > before.best.reward + threshold);
  return isBetter ? { best: { step, reward }, waited: 0 } : { ...before, waited: before.waited + 1 };
}

/** Of the steps that the run has made, and the one that it began with, as their checkpoints say. */
export async function standingOf<S>(
  client: AnnealClient,
  { model, signal, earlyStopping }: TrainOptions<S>,
  run: TrainingRun,
): Promise<Standing> {
  let standing: Standing = { best: null, waited: 0 };
  for await (const { step, metrics } of client.checkpoints.list(model.id, { limit: 100 }, { signal })) {
    const reward = metrics[REWARD];
    if (step < run.first_step || reward === undefined) continue;
    standing = standingAfter(standing, step, reward, earlyStopping?.threshold);
  }
  return standing;
}

export function endsEarly<S>({ waited }: Standing, { earlyStopping }: TrainOptions<S>): boolean {
  return earlyStopping !== undefined && waited >= earlyStopping.patience;
}

/**
 * Makes the best step the latest, as a new checkpoint, unless the latest is as good already or was not made by the run.
 * @returns the step of the new checkpoint; null: none was made.
 */
export async function keepBest<S>(
  client: AnnealClient,
  options: TrainOptions<S>,
  run: TrainingRun,
  { best }: Standing,
): Promise<number | null> {
  const { model, signal } = options;
  const latest = await latestStep(client, model.id, signal);
  if (best === null || !latest || best.step === latest.step) return null;
  if (latest.metrics[REWARD] === best.reward) return null;
  if (!(await isLastOf(client, options, run, latest.step))) return null;
  return (await client.models.rollback(model.id, best.step, { signal })).step;
}

/** Whether the run made the model's latest checkpoint. */
export async function hasLatest<S>(client: AnnealClient, options: TrainOptions<S>, run: TrainingRun): Promise<boolean> {
  const latest = await latestStep(client, options.model.id, options.signal);
  return latest != null && isLastOf(client, options, run, latest.step);
}

/** Whether the model's last job was one of the run, and made this step. */
async function isLastOf<S>(
  client: AnnealClient,
  { model, signal }: TrainOptions<S>,
  run: TrainingRun,
  step: number,
): Promise<boolean> {
  const query = { model_id: model.id, status: "succeeded", order: "desc", limit: 1 } as const;
  const [last] = (await client.trainingJobs.list(query, { signal })).data;
  return last?.run?.id === run.id && last.step === step;
}

async function latestStep(
  client: AnnealClient,
  modelId: string,
  signal?: AbortSignal,
): Promise<Checkpoint | undefined> {
  return (await client.checkpoints.list(modelId, { limit: 1, order: "desc" }, { signal })).data[0];
}

/** Whether the model's latest checkpoint has been validated: a run may have been cut off just before. */
export async function isValidated<S>(client: AnnealClient, { model, signal }: TrainOptions<S>): Promise<boolean> {
  return (await latestStep(client, model.id, signal))?.metrics[REWARD] !== undefined;
}
