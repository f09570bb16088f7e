import type { CheckpointRecord, ModelRecord } from "../../store/records.js";
import { readCheckpoint, toWrite, writeCheckpoint } from "../../training/checkpointFiles.js";
import { stepNotFound, whileThere } from "../core/access.js";
import type { EngineCore } from "../core/core.js";
import { diagnostics } from "../core/diagnostics.js";

/** What was measured of the weights, rather than of the training that made them. */
const OF_WEIGHTS = /^(val|test)\//;

/**
 * Makes what the model was at `step`, its optimizer's state included, its latest checkpoint; all that there are stay. Waits
 * for the model's place, as a job does. @throws NotFoundError
 */
export async function rollBack(
  core: EngineCore,
  model: ModelRecord,
  step: number,
  signal?: AbortSignal,
): Promise<CheckpointRecord> {
  const { store, runner } = core;
  const release = await runner.lease(model.id, signal);
  let temporary: string | null = null;
  try {
    temporary = store.files.temporary();
    const source = store.checkpoints.get(model.id, step);
    const latest = store.checkpoints.latest(model.id);
    if (!source || !latest) throw stepNotFound(model, step);
    if (source.step === latest.step) return source;
    const base = core.baseOf(model);
    const reading = readCheckpoint(store.files.checkpointFolder(model.id, step), base);
    const state = await whileThere(store, model, step, reading);
    await writeCheckpoint(temporary, toWrite(state), base, { parent_step: step, job_id: null });
    const next = latest.step + 1;
    await store.files.commitFolder(temporary, store.files.checkpointFolder(model.id, next));
    const metrics = Object.fromEntries(Object.entries(source.metrics).filter(([name]) => OF_WEIGHTS.test(name)));
    try {
      const made = store.checkpoints.create({ modelId: model.id, step: next, metrics });
      diagnostics.checkpoint.publish({ modelId: model.id, step: next });
      return made;
    } catch (error) {
      store.files.removeCheckpoint(model.id, next);
      throw error;
    }
  } finally {
    if (temporary !== null) store.files.remove(temporary);
    release();
  }
}
