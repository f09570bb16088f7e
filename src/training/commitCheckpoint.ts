// A new checkpoint: first its folder, then its row, then it is served.

import type { Trainer } from "../runtime/runtime.js";
import { type CheckpointMeta, type WrittenState, writeCheckpoint } from "./checkpointFiles.js";
import type { TrainingHost } from "./host.js";
import type { TrainingBase } from "./trainingBase.js";

/**
 * Makes what the trainer holds, `state`, the checkpoint at `step`. `record` writes its row, in a transaction; when it
 * throws there is no checkpoint, and nothing of it stays on disk or device.
 */
export async function commitCheckpoint<T>(
  host: TrainingHost,
  base: TrainingBase,
  trainer: Trainer,
  { modelId, step }: { modelId: string; step: number },
  state: WrittenState,
  origin: Pick<CheckpointMeta, "parent_step" | "job_id">,
  record: () => T,
): Promise<T> {
  const { files, transaction } = host.store;
  const temporary = files.temporary();
  let version: number | null = null;
  let result: T;
  try {
    await writeCheckpoint(temporary, state, base, origin);
    version = await trainer.publish();
    await files.commitFolder(temporary, files.checkpointFolder(modelId, step));
    try {
      result = transaction(record);
    } catch (error) {
      files.removeCheckpoint(modelId, step);
      throw error;
    }
  } catch (error) {
    files.remove(temporary);
    if (version !== null) base.device.releaseAdapter(version);
    throw error;
  }
  host.publishCheckpoint(modelId, step, version);
  return result;
}
