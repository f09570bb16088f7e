// Whose request it is, and what it may reach: entities, models, jobs, files of this machine.

import { realpathSync } from "node:fs";
import { tmpdir } from "node:os";
import { relative, sep } from "node:path";
import * as z from "zod";
import { ModelFileError, NotFoundError, PermissionDeniedError } from "../../errors.js";
import { uuid } from "../../schemas/names.js";
import { validate } from "../../schemas/validate.js";
import { isKept } from "../../store/homeFolder.js";
import type { JobRecord, ModelRecord } from "../../store/records.js";
import type { Store } from "../../store/store.js";
import type { FileRights, Reader } from "../../training/host.js";

/** Whose request it is. The owner may act in any entity; others only in their own. */
export interface Caller {
  /** The entity of what the caller makes and of bare names. */
  entity: string;
  owner: boolean;
}

/**
 * Of the prefix cache: `wanted` by a request. What others than the owner ask is shared among those of their entity alone, for
 * `cached_tokens`, and the time that a reply takes, would tell each what the others asked.
 */
export const cacheSalt = ({ entity, owner }: Caller, wanted: string | null | undefined): string | null =>
  owner ? (wanted ?? null) : `${entity}\n${wanted ?? ""}`;

/** How an engine is looked at: on whose behalf, and whether unknown parameters are errors (in process) or ignored (the wire). */
export interface View {
  caller: Caller;
  strict: boolean;
}

/** @throws PermissionDeniedError unless the caller may act in the entity. */
export function checkEntity(caller: Caller, entity: string, param = "entity"): void {
  if (caller.owner || caller.entity === entity) return;
  throw new PermissionDeniedError(`the API key belongs to "${caller.entity}", not to "${entity}"`, { param });
}

const modelPath = z.object({ model_id: uuid });
const jobPath = z.object({ training_job_id: uuid });

/**
 * A model by the id a caller gave.
 * @throws ValidationError, NotFoundError, PermissionDeniedError
 */
export function accessModel(store: Store, caller: Caller, modelId: string): ModelRecord {
  validate(modelPath, { model_id: modelId }, { from: "path" });
  const model = store.models.get(modelId.toLowerCase());
  if (!model) throw new NotFoundError(`no model ${modelId}`, { code: "model_not_found", param: "model_id" });
  checkEntity(caller, model.entity, "model_id");
  return model;
}

/** A job by the id a caller gave. Throws as accessModel does. */
export function accessJob(store: Store, caller: Caller, jobId: string): JobRecord {
  validate(jobPath, { training_job_id: jobId }, { from: "path" });
  const job = store.jobs.get(jobId.toLowerCase());
  if (!job) throw new NotFoundError(`no training job ${jobId}`, { param: "training_job_id" });
  checkEntity(caller, job.entity, "training_job_id");
  return job;
}

export function stepNotFound(model: ModelRecord, step: number): NotFoundError {
  return new NotFoundError(`${model.name} has no step ${step}`, { code: "step_not_found", param: "step" });
}

/** What is read of a checkpoint, which may be deleted meanwhile. @throws NotFoundError then */
export async function whileThere<T>(store: Store, model: ModelRecord, step: number, reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (!(error instanceof ModelFileError) || store.checkpoints.get(model.id, step)) throw error;
    throw stepNotFound(model, step);
  }
}

/** The application that opened the engine names files in its own calls; all other requests are somebody's with a key. */
export function readerOf({ caller, strict }: View): Reader {
  if (!caller.owner) return "other";
  return strict ? "application" : "owner";
}

/**
 * The application reads what its process may read. The owner reads under the data roots: those that the operator named
 * (`dataRoots`, real paths), else the home and the system's temporary folder. Others read under roots that the operator named
 * only, never through links in a folder, and nothing that the engine keeps in its home.
 */
export function fileRights(reader: Reader, home: string, dataRoots: readonly string[] | null): FileRights {
  if (reader === "application") return { reader, roots: null, followLinks: true, isHidden: () => false };
  const folder = realpathSync(home);
  if (reader === "owner") {
    const roots = dataRoots ?? [folder, realpathSync(tmpdir())];
    return { reader, roots, followLinks: true, isHidden: () => false };
  }
  const isHidden = (path: string) => isKept(relative(folder, path).split(sep)[0]!);
  return { reader, roots: dataRoots ?? [], followLinks: false, isHidden };
}
