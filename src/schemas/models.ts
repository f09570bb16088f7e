import * as z from "zod";
import { adapterModuleNames } from "../adapterModules.js";
import { ADAPTER_ALPHA, MAX_ADAPTER_RANK, OPTIMIZER_RANGES, type Range } from "./bounds.js";
import { field, named } from "./fields.js";
import { list } from "./limited.js";
import { name, uuid } from "./names.js";
import { metricRowId } from "./pages.js";
import { settingsObject } from "./validate.js";

const within = ([min, max]: Range) => z.number().min(min).max(max).nullish();

const target = named(
  "AdapterTarget",
  z.enum(adapterModuleNames),
  "A module of layers that an adapter may have, by PEFT's name.",
);

const adapter = named(
  "ModelAdapter",
  settingsObject({
    rank: field(z.int().min(1).max(MAX_ADAPTER_RANK).nullish(), "Rank of the two factors. Default: the engine's, 8."),
    alpha: field(within(ADAPTER_ALPHA), "The product is scaled by alpha / rank. Default: the engine's, 16."),
    targets: field(
      list(target, adapterModuleNames.length).min(1).nullish(),
      "Modules of every layer that have one. Default: the engine's, all that the model has.",
    ),
  }),
  "Of a model's LoRA; what is left out is the engine's `adapter` option.",
);

const optimizer = named(
  "ModelOptimizer",
  settingsObject({
    beta1: field(within(OPTIMIZER_RANGES.beta1), "Decay of the mean of gradients. Default: the engine's, 0.9."),
    beta2: field(within(OPTIMIZER_RANGES.beta2), "Decay of the mean of their squares. Default: the engine's, 0.99."),
    eps: field(within(OPTIMIZER_RANGES.eps), "Added to the divisor; at most 1. Default: the engine's, 1e-8."),
    weight_decay: field(
      within(OPTIMIZER_RANGES.weightDecay),
      "Decoupled decay, times the learning rate. Default: the engine's, 0.1 (RL) or 0 (supervised).",
    ),
    max_grad_norm: field(
      within(OPTIMIZER_RANGES.maxGradNorm),
      "Gradients are clipped to this global norm; 0: not at all. Default: the engine's, 0.1 (RL) or 1 (supervised).",
    ),
  }),
  "AdamW's settings of a model's jobs and sessions; what is left out is the engine's.",
);

const newModel = {
  project: field(name, "The project that keeps the model."),
  name: field(name, "Its name in the project. A ConflictError when it is taken, unless `return_existing`."),
  base_model: field(z.string().min(1), "Id of a base model that this engine serves."),
  entity: field(
    name.nullish(),
    "The team or user that it belongs to. Default: the caller's. A PermissionDeniedError for another, but for the owner.",
  ),
  return_existing: field(
    z.boolean().nullish(),
    "Whether an existing model of that name is returned instead of a conflict, if it has the same base model.",
    { default: false },
  ),
  optimizer: field(
    settingsObject({
      rl: field(optimizer.nullish(), "Of reinforcement learning."),
      sft: field(optimizer.nullish(), "Of supervised fine-tuning."),
    }).nullish(),
    "Kept with the model.",
  ),
};

export const modelCreate = named(
  "ModelCreateParams",
  z.object({ ...newModel, adapter: field(adapter.nullish(), "The adapter that is trained.") }),
  "A model to train: a base model and an untrained adapter.",
);

export const modelImport = named(
  "ModelImportParams",
  z.object({
    ...newModel,
    path: field(
      z.string().min(1),
      "A PEFT adapter folder (`adapter_config.json`, `adapter_model.safetensors`): becomes the model's first checkpoint.",
    ),
  }),
  "A model whose training goes on from an existing adapter.",
);

export const model = named(
  "Model",
  z.object({
    id: field(uuid, "Names it wherever a model id is asked for."),
    entity: field(z.string(), "The team or user that it belongs to."),
    project: field(z.string(), "The project that keeps it."),
    name: field(z.string(), "Its name in the project."),
    base_model: field(z.string(), "Id of the base model that it is trained from."),
    run_id: field(z.string(), "Of the run that its metrics belong to."),
    adapter: field(adapter.optional(), "Of its latest checkpoint, all of it; absent where its file cannot be read."),
    optimizer: field(
      z.object({ rl: optimizer, sft: optimizer }).optional(),
      "What its jobs and sessions train with: its own settings and, for the rest, the engine's.",
    ),
  }),
  "A model that is trained from a base model. `entity/project/name` is unique.",
);

export const modelDeleted = named(
  "ModelDeleted",
  z.object({
    model_id: field(uuid, "Its id, which is unknown from now on."),
    deleted_checkpoints: field(z.int(), "How many checkpoints went with it."),
    deleted_run: field(z.boolean(), "Whether its metrics and trajectories went with it."),
  }),
  "What a deleted model has taken with it.",
);

export const modelEntry = named(
  "ModelEntry",
  z.object({
    id: field(z.string(), "The name that requests use."),
    object: z.literal("model"),
    created: field(z.int(), "Unix time, in seconds."),
    owned_by: field(z.string(), "A trained model's entity."),
    root: field(
      z.string(),
      "Base models: their own id. Trained models: `entity/project/name:stepN`, what the id stands for at this moment.",
    ),
    parent: field(z.string().nullable(), "The base model of a trained model."),
    model_id: field(uuid.nullable(), "Of a trained model: its id for everything else that can be asked about it."),
    max_model_len: field(z.int(), "The context, in tokens."),
  }),
  "An entry of the list of models that can be asked for completions.",
);

export const modelEntryList = named(
  "ModelEntryList",
  z.object({ object: z.literal("list"), data: field(z.array(modelEntry), "Base models first.") }),
  "Everything that completions can be asked of.",
);

export const checkpointsDelete = z.object({
  steps: field(list(z.int(), 1_000_000), "Steps whose checkpoints go; the latest step may not be among them."),
});

export const checkpoint = named(
  "Checkpoint",
  z.object({
    id: field(uuid, "Its id, which pages go by."),
    step: field(z.int(), "How many jobs (or saved states) made it; 0 is the untrained adapter."),
    metrics: field(z.record(z.string(), z.number()), "The last value of each metric that was recorded of its step."),
    created_at: field(z.string(), "ISO 8601."),
    bytes: field(z.int(), "Of all its files."),
    path: field(
      z.string().optional(),
      "Its folder on the machine of the engine, a PEFT adapter; not told to others than the owner.",
    ),
  }),
  "A model's weights after a step.",
);

/** Smaller files would be mostly names. */
const MIN_SHARD_BYTES = 2 ** 20;

const exportFormat = z.enum(["peft", "merged", "onnx", "gguf", "gguf_adapter"]);

export const modelExport = named(
  "ModelExportParams",
  z.object({
    path: field(
      z.string().min(1),
      "A folder that is not there, or empty. In process: any path. In a request: an absolute path under a data root.",
    ),
    step: field(z.int().min(0).nullish(), "Default: the latest."),
    format: field(
      exportFormat.nullish(),
      '"peft": the adapter, for a base model that its reader loads too. "merged": a whole model in Hugging Face\'s layout, with the adapter added into the weights. "onnx": the same as a graph for ONNX Runtime, in the layout of transformers.js. "gguf": the same as `model.gguf`, for llama.cpp and what is built on it. "gguf_adapter": the adapter as `adapter.gguf`, for a base model in GGUF.',
      { default: "peft" },
    ),
    base_model: field(
      z.string().min(1).nullish(),
      "What the adapter's configuration calls the base model. Default: its id where that reads `owner/name`, as on a hub, else its folder on this machine.",
    ),
    dtype: field(
      z.enum(["float32", "bfloat16", "float16", "int8", "int4", "q8_0", "q4_0", "q4_k_m"]).nullish(),
      "Of a whole model's weights. Merged: float32 or bfloat16; default: as the base model is stored. ONNX: float32 (the default), float16, or int8 and int4 with a scale for every 32 values. GGUF: float32, float16, bfloat16, q8_0, q4_0 or q4_k_m; default: as the base model is stored.",
    ),
    max_shard_bytes: field(
      z.int().min(MIN_SHARD_BYTES).nullish(),
      "Of one file of weights. Default: 5000000000 merged, 2000000000 in ONNX. GGUF is one file.",
    ),
  }),
  "A checkpoint as a folder for other programs.",
);

export const modelExported = named(
  "ModelExported",
  z.object({
    path: field(z.string(), "The folder."),
    step: field(z.int(), "The checkpoint's step."),
    format: field(exportFormat, "What the folder holds."),
    base_model: field(z.string(), "As in the adapter's configuration."),
    warnings: field(z.array(z.string()), "What its readers do otherwise, for people."),
  }),
  "What was exported.",
);

export const modelRollback = z.object({ step: field(z.int().min(0), "The step to go back to.") });

/** What was recorded at one time. */
export const metricRow = named(
  "MetricRow",
  z.object({
    id: field(metricRowId, "Its id, which pages go by."),
    step: field(z.int(), "The step it was recorded of."),
    metrics: field(z.record(z.string(), z.number()), "Name to value."),
    recorded_at: field(z.string(), "ISO 8601."),
  }),
  "Metrics as they were recorded at one time; a checkpoint shows the last value of each.",
);

export const checkpointsDeleted = named(
  "CheckpointsDeleted",
  z.object({
    deleted_count: field(z.int(), "How many checkpoints are gone."),
    not_found_steps: field(list(z.int(), 1_000_000), "Steps that had none."),
  }),
  "What became of checkpoints that were to be deleted.",
);

export const keyCreate = named(
  "KeyCreateParams",
  z.object({
    entity: field(name.nullish(), "Whose models it is for. Default: the owner's entity."),
    name: field(z.string().max(128).nullish(), "To tell keys apart. Default: none."),
  }),
  "A key for somebody else than the owner.",
);

const key = {
  id: field(uuid, "Its id, to revoke it by."),
  entity: field(z.string(), "Whose models it is for."),
  name: field(z.string().nullable(), "As it was given."),
  prefix: field(z.string(), "The first characters, to tell keys apart."),
  created_at: field(z.string(), "ISO 8601."),
  revoked_at: field(z.string().nullable(), "ISO 8601; null while it is good."),
};

export const apiKey = named(
  "ApiKey",
  z.object(key),
  "An API key's description; the key itself is shown once, when it is made.",
);

export const apiKeyCreated = named(
  "ApiKeyCreated",
  z.object({ ...key, key: field(z.string(), "The key itself: shown here only.") }),
  "A new API key.",
);

export const caller = z.object({
  entity: field(z.string(), "The entity of the request's key."),
  owner: field(z.boolean(), "Whether it is the owner's."),
});

export const baseModelIds = z.array(z.string());

export const apiKeys = z.array(apiKey);
