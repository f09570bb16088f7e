import { z } from "zod";
import { NotFoundError } from "../../errors.js";
import { uuid } from "../../schemas/names.js";
import { validate } from "../../schemas/validate.js";
import type { JobRecord, ModelRecord } from "../../store/records.js";
import type { Store } from "../../store/store.js";
import { type Caller, checkEntity } from "./caller.js";

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
