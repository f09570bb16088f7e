/** A model that is trained from a base model. `entity/project/name` is unique. */
export interface Model {
  id: string;
  entity: string;
  project: string;
  name: string;
  base_model: string;
  run_id: string;
}

/** AdamW's settings of a model's jobs and sessions; what is left out is the engine's. */
export interface ModelOptimizer {
  beta1?: number | null;
  beta2?: number | null;
  eps?: number | null;
  weight_decay?: number | null;
  /** Gradients are clipped to it; 0: not at all. */
  max_grad_norm?: number | null;
}

interface NewModel {
  /** `[A-Za-z0-9._-]`, 1 to 128 characters, not "." or "..": the same rule for `name` and `entity`. */
  project: string;
  name: string;
  /** Id of a base model that this engine serves. */
  base_model: string;
  /** Default: the caller's entity. */
  entity?: string | null;
  /** An existing model of that name is returned instead of a conflict, if it has the same base model. */
  return_existing?: boolean | null;
  /** Kept with the model. */
  optimizer?: { rl?: ModelOptimizer | null; sft?: ModelOptimizer | null } | null;
}

export interface ModelCreateParams extends NewModel {
  /**
   * Of the model's LoRA: rank 1 to 1024, alpha (outputs are scaled by alpha / rank), and which projections of every layer
   * have one. What is left out is the engine's `adapter` option: rank 8, alpha 16, all seven.
   */
  adapter?: { rank?: number | null; alpha?: number | null; targets?: AdapterTarget[] | null } | null;
}

export type AdapterTarget = "q_proj" | "k_proj" | "v_proj" | "o_proj" | "gate_proj" | "up_proj" | "down_proj";

export interface ModelImportParams extends NewModel {
  /** A PEFT adapter folder (`adapter_config.json`, `adapter_model.safetensors`): becomes the model's first checkpoint. */
  path: string;
}

export interface ModelDeleted {
  model_id: string;
  deleted_checkpoints: number;
  deleted_run: boolean;
}

/** An entry of the list of models that can be asked for completions. */
export interface ModelEntry {
  id: string;
  object: "model";
  /** Unix seconds. */
  created: number;
  owned_by: string;
  /** Base models: their own id. Trained models: `entity/project/name:stepN`, what the id stands for at this moment. */
  root: string;
  /** The base model of a trained model. */
  parent: string | null;
  /** Of a trained model: its id for everything else that can be asked about it. */
  model_id: string | null;
  /** In tokens. */
  max_model_len: number;
}

export interface ModelEntryList {
  object: "list";
  data: ModelEntry[];
}

export interface Checkpoint {
  id: string;
  step: number;
  metrics: Record<string, number>;
  /** ISO 8601. */
  created_at: string;
  /** Of all its files. */
  bytes: number;
  /** Its folder on the machine of the engine, a PEFT adapter; not told to others than the owner. */
  path?: string;
}

export interface ModelExportParams {
  /** A folder that is not there, or empty. In process: any path. In a request: an absolute path under a data root. */
  path: string;
  /** Default: the latest. */
  step?: number | null;
  /**
   * "peft": the adapter, for a base model that its reader loads too. "merged": a whole model in Hugging Face's layout, with the
   * adapter added into the weights. Default "peft".
   */
  format?: "peft" | "merged" | null;
  /**
   * What the adapter's configuration calls the base model. Default: its id where that reads `owner/name`, as on a hub, else its
   * folder on this machine.
   */
  base_model?: string | null;
  /** Of merged weights. Default: as the base model is stored. */
  dtype?: "float32" | "bfloat16" | null;
  /** Of one file of merged weights. Default 5e9. */
  max_shard_bytes?: number | null;
}

export interface ModelExported {
  path: string;
  step: number;
  format: "peft" | "merged";
  /** As in the adapter's configuration. */
  base_model: string;
}

export interface CheckpointsDeleted {
  deleted_count: number;
  not_found_steps: number[];
}

/** An API key's description; the key itself is shown once, when it is made. */
export interface ApiKey {
  id: string;
  entity: string;
  name: string | null;
  /** The first characters, to tell keys apart. */
  prefix: string;
  created_at: string;
  revoked_at: string | null;
}

export interface ApiKeyCreated extends ApiKey {
  key: string;
}

/** Metrics as they were recorded at one time; a checkpoint shows the last value of each. */
export interface MetricRow {
  id: string;
  step: number;
  metrics: Record<string, number>;
  /** ISO 8601. */
  recorded_at: string;
}
