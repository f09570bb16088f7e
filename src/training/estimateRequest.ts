// What a job would take, told without running it.

import { NotFoundError } from "../errors.js";
import { Semaphore } from "../semaphore.js";
import type { JobEstimate } from "../types/training.js";
import { whileModelIsThere } from "./adapterWeights.js";
import { readCheckpoint } from "./checkpointFiles.js";
import { estimateJob } from "./estimate.js";
import { optimizersOf, type TrainingHost } from "./host.js";
import type { StoredRequest } from "./jobRequest.js";
import { Learner } from "./learner.js";
import { passLimits } from "./passLimits.js";
import { recipeOf } from "./recipeOf.js";

/** Estimates hold rows and a trainer, as jobs do: they take turns. */
const turns = new Semaphore(1);

/**
 * What a job would take that began now, from the model's latest checkpoint; nothing of it is trained. `data` as of
 * `recipeOf`. Rejects with what the job would fail with before its first step, and with the signal's reason.
 */
export async function estimateRequest(
  host: TrainingHost,
  modelId: string,
  request: StoredRequest,
  data: string,
  signal: AbortSignal,
): Promise<JobEstimate> {
  const { store, options } = host;
  const release = await turns.acquire(signal);
  try {
    const latest = store.checkpoints.latest(modelId);
    if (latest === null) throw new NotFoundError("the model does not exist any more", { code: "model_not_found" });
    const base = await host.base(modelId);
    const recipe = await recipeOf(host, request, data, {
      base,
      modelId,
      jobId: null,
      from: latest.step,
      optimizerStep: options.optimizerStep,
      createdAt: new Date(),
      signal,
      warn: () => undefined,
    });
    try {
      const reading = readCheckpoint(store.files.checkpointFolder(modelId, latest.step), base);
      const state = await whileModelIsThere(store, modelId, reading);
      const { trainer, close } = await host.trainers.open(base, state, recipe.objective);
      try {
        const limits = { ...passLimits(base, host.activationMemory()), signal };
        const learner = new Learner(trainer, optimizersOf(host, modelId)[recipe.objective], limits);
        const estimate = await estimateJob(recipe, base, trainer, learner, limits);
        return { steps: recipe.steps, ...estimate, warnings: recipe.started.warnings };
      } finally {
        close();
      }
    } finally {
      recipe.close();
    }
  } finally {
    release();
  }
}
