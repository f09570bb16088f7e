import { putOnDevice, readAdapter, writeCheckpoint } from "../../training/checkpointFiles.js";
import type { BaseModel } from "../core/baseModel.js";

/**
 * Copies a PEFT adapter into an empty folder, as a checkpoint of a model on `base`.
 * @throws ModelFileError when it is no such adapter, does not fit the base model, or is a checkpoint of another.
 */
export async function importAdapter(base: BaseModel, source: string, folder: string): Promise<void> {
  const { spec, tensors: values } = await readAdapter(source, base, "elsewhere");
  base.device.releaseAdapter(await putOnDevice(base, source, spec, values));
  await writeCheckpoint(folder, { spec, values, optimizer: null }, base, { parent_step: null, job_id: null });
}
