// Models from folders of other programs, and as folders for them.

import { randomUUID } from "node:crypto";
import { existsSync, readdirSync, rmdirSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { ValidationError } from "../../errors.js";
import { throwingDiskFull } from "../../fullDisk.js";
import { writeOnnxFolder } from "../../onnx/writeOnnxFolder.js";
import { moveFolder } from "../../store/durableFiles.js";
import { putOnDevice, readAdapter, writeCheckpoint } from "../../training/checkpointFiles.js";
import type { ModelExported, ModelExportParams } from "../../types/models.js";
import { writeAdapterFolder } from "../../weights/adapterFolder.js";
import { writeMergedFolder } from "../../weights/mergedFolder.js";
import type { BaseModel } from "../core/baseModel.js";
import { diagnostics } from "../core/diagnostics.js";
import { embeddedModel } from "../core/options.js";

/**
 * Copies a PEFT adapter into an empty folder, as a checkpoint of a model on `base`.
 * @throws ModelFileError when it is no such adapter, does not fit the base model, or is a checkpoint of another.
 */
export async function importAdapter(base: BaseModel, source: string, folder: string): Promise<void> {
  const { spec, tensors: values } = await readAdapter(source, base, "elsewhere");
  base.device.releaseAdapter(await putOnDevice(base, source, spec, values));
  await writeCheckpoint(folder, { spec, values, optimizer: null }, base, { parent_step: null, job_id: null });
}

/**
 * Writes the adapter in `checkpoint` to `target`, which is there whole or not at all.
 * @throws ValidationError at `path` when something is there already; ModelFileError when the checkpoint is damaged.
 */
export const exportCheckpoint = throwingDiskFull(
  async (
    checkpoint: string,
    target: string,
    base: BaseModel,
    { format = "peft", base_model, dtype, max_shard_bytes }: Omit<ModelExportParams, "path" | "step">,
    signal?: AbortSignal,
  ): Promise<Pick<ModelExported, "path" | "format" | "base_model">> => {
    checkFree(target);
    const adapter = await readAdapter(checkpoint, base, "checkpoint");
    const name = base_model ?? resolvableName(base);
    await mkdir(dirname(target), { recursive: true });
    const temporary = `${target}.${randomUUID()}.part`;
    await mkdir(temporary);
    try {
      const maxBytes = max_shard_bytes ?? undefined;
      if (format === "merged") {
        const type = dtype ? { dtype: oneOf(["float32", "bfloat16"], dtype, format) } : {};
        const onProgress = (done: number, bytes: number) =>
          diagnostics.exportProgress.publish({ path: target, fraction: done / bytes, bytes });
        const options = { ...type, maxShardBytes: maxBytes, signal, onProgress };
        await writeMergedFolder(temporary, base.folder, adapter, options);
      } else if (format === "onnx") {
        const type = dtype ? { dtype: oneOf(["float32", "float16", "int8", "int4"], dtype, format) } : {};
        await writeOnnxFolder(temporary, base.folder, adapter, { ...type, maxFileBytes: maxBytes, signal });
      } else {
        await writeAdapterFolder(temporary, adapter.spec, adapter.tensors, name);
      }
      signal?.throwIfAborted();
      checkFree(target);
      if (existsSync(target)) rmdirSync(target);
      moveFolder(temporary, target);
    } finally {
      await rm(temporary, { recursive: true, force: true });
    }
    return { path: target, format: format ?? "peft", base_model: name };
  },
);

/** @throws ValidationError at `dtype` for one that a format does not have. */
function oneOf<T extends string>(known: readonly T[], dtype: string, format: string): T {
  const found = known.find((one) => one === dtype);
  if (found !== undefined) return found;
  throw ValidationError.at("dtype", `is "${dtype}"; of the format "${format}" there are ${known.join(", ")}`);
}

function checkFree(target: string): void {
  if (!existsSync(target)) return;
  let entries: string[];
  try {
    entries = readdirSync(target);
  } catch {
    throw ValidationError.at("path", `${target} is no folder`);
  }
  if (entries.length > 0) throw ValidationError.at("path", `${target} is not empty`);
}

/**
 * What other programs find the base model by: its id where that is one of a hub (`owner/name`), else its folder on this
 * machine.
 */
function resolvableName({ id, folder }: BaseModel): string {
  return id.includes("/") && id !== embeddedModel.id ? id : folder;
}
