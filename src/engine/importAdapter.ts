import { join } from "node:path";
import { AnnealError, ModelFileError } from "../errors.js";
import { readAdapter, writeCheckpoint } from "../training/checkpointFiles.js";
import type { BaseModel } from "./baseModel.js";

/**
 * Copies a PEFT adapter into an empty folder, as a checkpoint of a model on `base`.
 * @throws ModelFileError when it is no such adapter, does not fit the base model, or is a checkpoint of another.
 */
export async function importAdapter(base: BaseModel, source: string, folder: string): Promise<void> {
  const { spec, tensors: values } = await readAdapter(source, base, "elsewhere");
  try {
    base.device.releaseAdapter(await base.device.loadAdapter(spec, values));
  } catch (error) {
    if (!(error instanceof AnnealError) || error.status !== 400) throw error;
    // The native core knows tensors, not the file that they came from.
    const { message, param } = error;
    throw new ModelFileError(join(source, "adapter_model.safetensors"), message, { param, cause: error });
  }
  await writeCheckpoint(folder, { spec, values, optimizer: null }, base, { parent_step: null, job_id: null });
}
