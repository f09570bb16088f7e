import { z } from "zod";
import { list } from "./limited.js";
import { name, uuid } from "./names.js";
import { metricRowId } from "./pages.js";
import { settingsObject } from "./validate.js";

/** More is no adapter any more. */
export const MAX_ADAPTER_RANK = 1024;
export const PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"] as const;

const adapter = settingsObject({
  rank: z.int().min(1).max(MAX_ADAPTER_RANK).nullish(),
  alpha: z.number().positive().nullish(),
  targets: list(z.enum(PROJECTIONS), PROJECTIONS.length).min(1).nullish(),
});

const optimizer = settingsObject({
  beta1: z.number().min(0).lt(1).nullish(),
  beta2: z.number().min(0).lt(1).nullish(),
  eps: z.number().positive().nullish(),
  weight_decay: z.number().min(0).nullish(),
  max_grad_norm: z.number().min(0).nullish(),
});

const newModel = {
  project: name,
  name,
  base_model: z.string().min(1),
  entity: name.nullish(),
  return_existing: z.boolean().nullish(),
  optimizer: settingsObject({ rl: optimizer.nullish(), sft: optimizer.nullish() }).nullish(),
};

export const modelCreate = z.object({ ...newModel, adapter: adapter.nullish() });

export const modelImport = z.object({ ...newModel, path: z.string().min(1) });

export const model = z.object({
  id: uuid,
  entity: z.string(),
  project: z.string(),
  name: z.string(),
  base_model: z.string(),
  run_id: z.string(),
});

export const modelDeleted = z.object({ model_id: uuid, deleted_checkpoints: z.int(), deleted_run: z.boolean() });

export const modelEntry = z.object({
  id: z.string(),
  object: z.literal("model"),
  created: z.int(),
  owned_by: z.string(),
  root: z.string(),
  parent: z.string().nullable(),
  model_id: uuid.nullable(),
  max_model_len: z.int(),
});

export const modelEntryList = z.object({ object: z.literal("list"), data: z.array(modelEntry) });

export const checkpointsDelete = z.object({ steps: list(z.int(), 1_000_000) });

export const checkpoint = z.object({
  id: uuid,
  step: z.int(),
  metrics: z.record(z.string(), z.number()),
  created_at: z.string(),
  bytes: z.int(),
  path: z.string().optional(),
});

/** Smaller files would be mostly names. */
const MIN_SHARD_BYTES = 2 ** 20;

export const modelExport = z.object({
  path: z.string().min(1),
  step: z.int().min(0).nullish(),
  format: z.enum(["peft", "merged"]).nullish(),
  base_model: z.string().min(1).nullish(),
  dtype: z.enum(["float32", "bfloat16"]).nullish(),
  max_shard_bytes: z.int().min(MIN_SHARD_BYTES).nullish(),
});

export const modelExported = z.object({
  path: z.string(),
  step: z.int(),
  format: z.enum(["peft", "merged"]),
  base_model: z.string(),
});

export const modelRollback = z.object({ step: z.int().min(0) });

/** What was recorded at one time. */
export const metricRow = z.object({
  id: metricRowId,
  step: z.int(),
  metrics: z.record(z.string(), z.number()),
  recorded_at: z.string(),
});

export const checkpointsDeleted = z.object({ deleted_count: z.int(), not_found_steps: list(z.int(), 1_000_000) });

export const keyCreate = z.object({ entity: name.nullish(), name: z.string().max(128).nullish() });

export const apiKey = z.object({
  id: uuid,
  entity: z.string(),
  name: z.string().nullable(),
  prefix: z.string(),
  created_at: z.string(),
  revoked_at: z.string().nullable(),
});

export const apiKeyCreated = apiKey.extend({ key: z.string() });
