// Made of src/schemas/models.ts by `npm run generate`: change those.

/** An API key's description; the key itself is shown once, when it is made. */
export interface ApiKey {
  /** Its id, to revoke it by. */
  id: string;
  /** Whose models it is for. */
  entity: string;
  /** As it was given. */
  name: string | null;
  /** The first characters, to tell keys apart. */
  prefix: string;
  /** ISO 8601. */
  created_at: string;
  /** ISO 8601; null while it is good. */
  revoked_at: string | null;
}

/** A new API key. */
export interface ApiKeyCreated {
  /** Its id, to revoke it by. */
  id: string;
  /** Whose models it is for. */
  entity: string;
  /** As it was given. */
  name: string | null;
  /** The first characters, to tell keys apart. */
  prefix: string;
  /** ISO 8601. */
  created_at: string;
  /** ISO 8601; null while it is good. */
  revoked_at: string | null;
  /** The key itself: shown here only. */
  key: string;
}

/** A model's weights after a step. */
export interface Checkpoint {
  /** Its id, which pages go by. */
  id: string;
  /** How many jobs (or saved states) made it; 0 is the untrained adapter. */
  step: number;
  /** The last value of each metric that was recorded of its step. */
  metrics: Record<string, number>;
  /** ISO 8601. */
  created_at: string;
  /** Of all its files. */
  bytes: number;
  /** Its folder on the machine of the engine, a PEFT adapter; not told to others than the owner. */
  path?: string;
}

/** What became of checkpoints that were to be deleted. */
export interface CheckpointsDeleted {
  /** How many checkpoints are gone. */
  deleted_count: number;
  /** Steps that had none. */
  not_found_steps: number[];
}

/** A key for somebody else than the owner. */
export interface KeyCreateParams {
  /** Whose models it is for. Default: the owner's entity. */
  entity?: string | null;
  /** To tell keys apart. Default: none. */
  name?: string | null;
}

/** Metrics as they were recorded at one time; a checkpoint shows the last value of each. */
export interface MetricRow {
  /** Its id, which pages go by. */
  id: string;
  /** The step it was recorded of. */
  step: number;
  /** Name to value. */
  metrics: Record<string, number>;
  /** ISO 8601. */
  recorded_at: string;
}

/** A module of layers that an adapter may have, by PEFT's name. */
export type AdapterTarget =
  | "q_proj"
  | "k_proj"
  | "v_proj"
  | "qkv_proj"
  | "o_proj"
  | "gate_proj"
  | "up_proj"
  | "gate_up_proj"
  | "down_proj"
  | "in_proj_qkv"
  | "in_proj_z"
  | "in_proj_b"
  | "in_proj_a"
  | "out_proj"
  | "in_proj"
  | "w1"
  | "w3"
  | "w2";

/** Of a model's LoRA; what is left out is the engine's `adapter` option. */
export interface ModelAdapter {
  /** Rank of the two factors. Default: the engine's, 8. */
  rank?: number | null;
  /** The product is scaled by alpha / rank. Default: the engine's, 16. */
  alpha?: number | null;
  /** Modules of every layer that have one. Default: the engine's, all that the model has. */
  targets?: AdapterTarget[] | null;
}

/** AdamW's settings of a model's jobs and sessions; what is left out is the engine's. */
export interface ModelOptimizer {
  /** Decay of the mean of gradients. Default: the engine's, 0.9. */
  beta1?: number | null;
  /** Decay of the mean of their squares. Default: the engine's, 0.99. */
  beta2?: number | null;
  /** Added to the divisor; at most 1. Default: the engine's, 1e-8. */
  eps?: number | null;
  /** Decoupled decay, times the learning rate. Default: the engine's, 0.1 (RL) or 0 (supervised). */
  weight_decay?: number | null;
  /** Gradients are clipped to this global norm; 0: not at all. Default: the engine's, 0.1 (RL) or 1 (supervised). */
  max_grad_norm?: number | null;
}

/** A model that is trained from a base model. `entity/project/name` is unique. */
export interface Model {
  /** Names it wherever a model id is asked for. */
  id: string;
  /** The team or user that it belongs to. */
  entity: string;
  /** The project that keeps it. */
  project: string;
  /** Its name in the project. */
  name: string;
  /** Id of the base model that it is trained from. */
  base_model: string;
  /** Of the run that its metrics belong to. */
  run_id: string;
  /** Of its latest checkpoint, all of it; absent where its file cannot be read. */
  adapter?: ModelAdapter;
  /** What its jobs and sessions train with: its own settings and, for the rest, the engine's. */
  optimizer?: {
    /** AdamW's settings of a model's jobs and sessions; what is left out is the engine's. */
    rl: ModelOptimizer;
    /** AdamW's settings of a model's jobs and sessions; what is left out is the engine's. */
    sft: ModelOptimizer;
  };
}

/** A model to train: a base model and an untrained adapter. */
export interface ModelCreateParams {
  /** The project that keeps the model. */
  project: string;
  /** Its name in the project. A ConflictError when it is taken, unless `return_existing`. */
  name: string;
  /** Id of a base model that this engine serves. Not empty. */
  base_model: string;
  /**
   * The team or user that it belongs to. Default: the caller's. A PermissionDeniedError for another, but for the owner.
   */
  entity?: string | null;
  /**
   * Whether an existing model of that name is returned instead of a conflict, if it has the same base model. Default:
   * false.
   */
  return_existing?: boolean | null;
  /** Kept with the model. */
  optimizer?: {
    /** Of reinforcement learning. */
    rl?: ModelOptimizer | null;
    /** Of supervised fine-tuning. */
    sft?: ModelOptimizer | null;
  } | null;
  /** The adapter that is trained. */
  adapter?: ModelAdapter | null;
}

/** What a deleted model has taken with it. */
export interface ModelDeleted {
  /** Its id, which is unknown from now on. */
  model_id: string;
  /** How many checkpoints went with it. */
  deleted_checkpoints: number;
  /** Whether its metrics and trajectories went with it. */
  deleted_run: boolean;
}

/** An entry of the list of models that can be asked for completions. */
export interface ModelEntry {
  /** The name that requests use. */
  id: string;
  object: "model";
  /** Unix time, in seconds. */
  created: number;
  /** A trained model's entity. */
  owned_by: string;
  /** Base models: their own id. Trained models: `entity/project/name:stepN`, what the id stands for at this moment. */
  root: string;
  /** The base model of a trained model. */
  parent: string | null;
  /** Of a trained model: its id for everything else that can be asked about it. */
  model_id: string | null;
  /** The context, in tokens. */
  max_model_len: number;
}

/** Everything that completions can be asked of. */
export interface ModelEntryList {
  object: "list";
  /** Base models first. */
  data: ModelEntry[];
}

/** A checkpoint as a folder for other programs. */
export interface ModelExportParams {
  /**
   * A folder that is not there, or empty. In process: any path. In a request: an absolute path under a data root. Not
   * empty.
   */
  path: string;
  /** Default: the latest. A whole number, at least 0. */
  step?: number | null;
  /**
   * "peft": the adapter, for a base model that its reader loads too. "merged": a whole model in Hugging Face's layout,
   * with the adapter added into the weights. "onnx": the same as a graph for ONNX Runtime, in the layout of
   * transformers.js. "gguf": the same as `model.gguf`, for llama.cpp and what is built on it. "gguf_adapter": the
   * adapter as `adapter.gguf`, for a base model in GGUF. Default: "peft".
   */
  format?: "peft" | "merged" | "onnx" | "gguf" | "gguf_adapter" | null;
  /**
   * What the adapter's configuration calls the base model. Not empty. Default: its id where that reads `owner/name`, as
   * on a hub, else its folder on this machine.
   */
  base_model?: string | null;
  /**
   * Of a whole model's weights. Merged: float32 or bfloat16; default: as the base model is stored. ONNX: float32 (the
   * default), float16, or int8 and int4 with a scale for every 32 values. GGUF: float32, float16, bfloat16, q8_0, q4_0
   * or q4_k_m; default: as the base model is stored.
   */
  dtype?: "float32" | "bfloat16" | "float16" | "int8" | "int4" | "q8_0" | "q4_0" | "q4_k_m" | null;
  /**
   * Of one file of weights. A whole number, at least 1048576. Default: 5000000000 merged, 2000000000 in ONNX. GGUF is
   * one file.
   */
  max_shard_bytes?: number | null;
}

/** What was exported. */
export interface ModelExported {
  /** The folder. */
  path: string;
  /** The checkpoint's step. */
  step: number;
  /** What the folder holds. */
  format: "peft" | "merged" | "onnx" | "gguf" | "gguf_adapter";
  /** As in the adapter's configuration. */
  base_model: string;
  /** What its readers do otherwise, for people. */
  warnings: string[];
}

/** A model whose training goes on from an existing adapter. */
export interface ModelImportParams {
  /** The project that keeps the model. */
  project: string;
  /** Its name in the project. A ConflictError when it is taken, unless `return_existing`. */
  name: string;
  /** Id of a base model that this engine serves. Not empty. */
  base_model: string;
  /**
   * The team or user that it belongs to. Default: the caller's. A PermissionDeniedError for another, but for the owner.
   */
  entity?: string | null;
  /**
   * Whether an existing model of that name is returned instead of a conflict, if it has the same base model. Default:
   * false.
   */
  return_existing?: boolean | null;
  /** Kept with the model. */
  optimizer?: {
    /** Of reinforcement learning. */
    rl?: ModelOptimizer | null;
    /** Of supervised fine-tuning. */
    sft?: ModelOptimizer | null;
  } | null;
  /**
   * A PEFT adapter folder (`adapter_config.json`, `adapter_model.safetensors`): becomes the model's first checkpoint.
   * Not empty.
   */
  path: string;
}
