// A session's adapter: begins with the model's latest checkpoint, and is saved as the next one.

import { ModelFileError, NotFoundError } from "../errors.js";
import type { Store } from "../store/store.js";
import type { Checkpoint } from "../types/models.js";
import { readCheckpoint, stateOf } from "./checkpointFiles.js";
import { commitCheckpoint } from "./commitCheckpoint.js";
import { describeCheckpoint } from "./describeCheckpoint.js";
import type { TrainingHost } from "./host.js";
import type { Objective } from "./optimizer.js";
import { checkedMetrics } from "./sessionInput.js";
import type { CompleteWith, SessionWeights } from "./sessionWeights.js";

/** @throws NotFoundError when the model has been deleted; ModelFileError when its checkpoint is damaged. */
export async function openAdapterWeights(
  host: TrainingHost,
  complete: CompleteWith,
  modelId: string,
  objective: Objective,
): Promise<SessionWeights<Checkpoint>> {
  const { store } = host;
  const latest = store.checkpoints.latest(modelId);
  if (latest === null) throw modelDeleted(modelId);
  const base = await host.base(modelId);
  const folder = store.files.checkpointFolder(modelId, latest.step);
  const open = async () =>
    host.trainers.open(base, await whileModelIsThere(store, modelId, readCheckpoint(folder, base)), objective);
  const { spec, trainer, close } = (await host.trainers.resume(base, folder, objective)) ?? (await open());
  const initialVersion = await trainer.publish().catch((error: unknown) => {
    close();
    throw error;
  });
  return {
    base,
    trainer,
    async snapshot() {
      const version = await trainer.publish();
      return (params, signal) => complete(version, params, signal).finally(() => base.device.releaseAdapter(version));
    },
    // Published versions do not change.
    readyToChange: async () => undefined,
    reference: async (learner, rows) => (await learner.logprobs(rows, initialVersion)).logprobs,
    saving(params) {
      const metrics = checkedMetrics(params);
      return async () => {
        const latest = store.checkpoints.latest(modelId);
        if (latest === null) throw modelDeleted(modelId);
        const step = latest.step + 1;
        const origin = { parent_step: latest.step, job_id: null };
        const state = await stateOf(trainer, spec, objective);
        const record = await commitCheckpoint(host, base, trainer, { modelId, step }, state, origin, () => {
          if (store.models.get(modelId) === null) throw modelDeleted(modelId);
          if (Object.keys(metrics).length > 0) store.metrics.append(modelId, step, metrics);
          return store.checkpoints.create({ modelId, step, metrics });
        });
        return describeCheckpoint(store.files, record, true);
      };
    },
    async close() {
      base.device.releaseAdapter(initialVersion);
      close();
    },
  };
}

/** What is read of a model's latest checkpoint: that goes only with the model, which may be deleted meanwhile. @throws NotFoundError then */
export async function whileModelIsThere<T>(store: Store, modelId: string, reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof ModelFileError && store.models.get(modelId) === null) throw modelDeleted(modelId);
    throw error;
  }
}

export function modelDeleted(modelId: string): NotFoundError {
  return new NotFoundError(`there is no model ${modelId}`, { code: "model_not_found" });
}
