import { readCheckpointAdapter, writeCheckpoint } from "../training/checkpointFiles.js";
import type { BaseModel } from "./baseModel.js";

/**
 * Copies a PEFT adapter into an empty folder, as a checkpoint of a model on `base`.
 * @throws ModelFileError when it is no such adapter, or a checkpoint of another base; what loading says when it does not fit.
 */
export async function importAdapter(base: BaseModel, source: string, folder: string): Promise<void> {
  const { spec, tensors: values } = await readCheckpointAdapter(source, base);
  const version = await base.device.loadAdapter(spec, values);
  base.device.releaseAdapter(version);
  await writeCheckpoint(folder, { spec, values, optimizer: null }, base, { parent_step: null, job_id: null });
}
