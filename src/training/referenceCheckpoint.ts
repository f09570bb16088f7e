// The checkpoint that the KL penalty of an RL job is measured against. A job has files of its own of it, since the checkpoint
// may be deleted before the job ends.

import { existsSync } from "node:fs";
import { copyFile, link, readdir } from "node:fs/promises";
import { join } from "node:path";
import { ValidationError } from "../errors.js";
import { throwingFileErrors } from "../fileErrors.js";
import type { Store } from "../store/store.js";
import type { ExperimentalConfig } from "../types/training.js";
import { ADAPTER_FILES, keptStates } from "./checkpointFiles.js";
import { resolvePolicy } from "./policy.js";
import type { TrainingBase } from "./trainingBase.js";

const NAME = /^reference-\d+$/;

export const referenceFolder = (files: Store["files"], jobId: string, step: number): string =>
  join(files.jobFolder(jobId), `reference-${step}`);

/**
 * The step of the model that a configuration's KL penalty is measured against by a job that trains from `from`; null: none.
 * @throws ValidationError
 */
export function referenceStep(config: ExperimentalConfig | null | undefined, from: number): number | null {
  const reference = resolvePolicy(config, from).klReference;
  return reference?.kind === "step" ? reference.step : null;
}

/** @throws ValidationError naming the field that asks for a checkpoint that is not there. */
export function checkReferenceStep(
  store: Store,
  modelId: string,
  config: ExperimentalConfig | null | undefined,
  step: number,
): void {
  if (store.checkpoints.get(modelId, step) !== null) return;
  const field = config?.kl_penalty_reference_step == null ? "kl_penalty_step_lag" : "kl_penalty_reference_step";
  throw ValidationError.at(`experimental_config.${field}`, `the model has no checkpoint at step ${step}`);
}

/** Gives a job the files of the checkpoint that it is measured against, unless it has them. @throws as `checkReferenceStep` does. */
export async function keepReference(
  store: Store,
  job: { id: string; modelId: string },
  config: ExperimentalConfig,
  from: number,
): Promise<void> {
  const step = referenceStep(config, from);
  if (step === null) return;
  const { files } = store;
  const folder = referenceFolder(files, job.id, step);
  if (existsSync(folder)) return;
  checkReferenceStep(store, job.modelId, config, step);
  const temporary = files.temporary();
  try {
    await linkFiles(files.checkpointFolder(job.modelId, step), temporary);
    await files.commitFolder(temporary, folder);
  } catch (error) {
    files.remove(temporary);
    // It may have been deleted meanwhile.
    checkReferenceStep(store, job.modelId, config, step);
    throw error;
  }
}

const linkFiles = throwingFileErrors(
  ([, to]) => to,
  async (from: string, to: string): Promise<void> => {
    for (const name of await readdir(from)) {
      if (!ADAPTER_FILES.includes(name)) continue;
      const [source, target] = [join(from, name), join(to, name)];
      // Not every file system has links.
      await link(source, target).catch(() => copyFile(source, target));
    }
  },
);

/** What a device elsewhere keeps of the reference of a job that ends goes with the last checkpoint that has it. */
export async function discardReference(
  store: Store,
  { device }: TrainingBase,
  job: { id: string; modelId: string },
): Promise<void> {
  if (!device.discardState) return;
  const folders = await referenceFolders(store, job.id);
  if (folders.length === 0) return;
  const others = store.jobs.unfinished(job.modelId).filter(({ id }) => id !== job.id);
  const used = [
    ...store.checkpoints.steps(job.modelId).map((step) => store.files.checkpointFolder(job.modelId, step)),
    ...(await referencesOf(store, others)),
  ];
  const still = await keptStates(used);
  for (const [name, kept] of await keptStates(folders)) if (!still.has(name)) device.discardState(kept);
}

/** Folders of what unfinished jobs are measured against. */
export async function referencesOf(store: Store, jobs: readonly { id: string }[]): Promise<string[]> {
  return (await Promise.all(jobs.map(({ id }) => referenceFolders(store, id)))).flat();
}

async function referenceFolders({ files }: Store, jobId: string): Promise<string[]> {
  const folder = files.jobFolder(jobId);
  const names = await readdir(folder).catch(() => []);
  return names.filter((name) => NAME.test(name)).map((name) => join(folder, name));
}
