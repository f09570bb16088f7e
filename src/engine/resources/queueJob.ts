import { randomUUID } from "node:crypto";
import { NotFoundError } from "../../errors.js";
import { shouldYield, yieldToEventLoop } from "../../eventLoop.js";
import type { JobKind, ModelRecord } from "../../store/records.js";
import type { TrainingJobCreated, TrainingRun } from "../../types/training.js";
import type { EngineCore } from "../core/core.js";

/** Makes a job durable (request first, then its row), gives it to the runner, and answers without waiting for it. */
export async function queueJob(
  core: EngineCore,
  model: ModelRecord,
  kind: JobKind,
  writeRequest: (jobId: string) => void | Promise<void>,
  run: TrainingRun | null = null,
): Promise<TrainingJobCreated> {
  const { store } = core;
  // Writing waits for the disk, and many may come at once.
  while (shouldYield()) await yieldToEventLoop();
  const id = randomUUID();
  try {
    await writeRequest(id);
    store.transaction(() => {
      if (!store.models.get(model.id)) {
        throw new NotFoundError(`model ${model.id} has been deleted`, { code: "model_not_found", param: "model_id" });
      }
      store.jobs.create({ id, kind, modelId: model.id, entity: model.entity, run });
    });
  } catch (error) {
    store.files.remove(store.files.jobFolder(id));
    throw error;
  }
  core.runner.enqueue(id);
  return { id };
}
