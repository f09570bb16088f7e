// Made of src/schemas/publish.ts by `npm run generate`: change those.

/** One greedy reply of the server, compared with this engine's. */
export interface PublishCheckParams {
  /** What both are asked. 1 to 1024 entries. Default: a short question. */
  messages?:
    | {
        /** Who says it. */
        role: string;
      }[]
    | null;
  /** Tokens that are compared. A whole number, 1 to 4096. Default: 32. */
  max_tokens?: number | null;
  /**
   * By how much a token's logprobs may differ, in nats: 1e-3 holds where both compute in float32, bfloat16 needs a
   * tenth or so. Where the greedy tokens part, the two likeliest must be as close as this. At least 0. Default: 0.1.
   */
  max_logprob_difference?: number | null;
}

/** A checkpoint for a server of another engine. */
export interface ModelPublishParams {
  /**
   * What the server is: one with vLLM's `/v1/load_lora_adapter`, which vLLM has when it was started with
   * `--enable-lora` and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1. Default: "vllm".
   */
  to?: "vllm" | null;
  /** The server's address, such as "http://127.0.0.1:8000", with or without "/v1". Not empty. */
  url: string;
  /** The server's key. Default: none. */
  api_key?: string | null;
  /** Default: the latest. A whole number, at least 0. */
  step?: number | null;
  /** What the server shall call the model: the step is added as `:stepN`. Not empty. Default: `project/name`. */
  name?: string | null;
  /**
   * A folder that the server sees too: the checkpoint is copied into a folder of its own there. Not empty. Default: the
   * server reads the checkpoint where the home keeps it, on this machine.
   */
  shared?: string | null;
  /** The shared folder as the server sees it. Not empty. Default: `shared`. Needs `shared`. */
  server_path?: string | null;
  /**
   * What the copy's configuration calls the base model. Not empty. Default: its id where that reads `owner/name`, else
   * its folder.
   */
  base_model?: string | null;
  /** Whether the name without a step stands for this one from now on, replaced in place under load. Default: true. */
  latest?: boolean | null;
  /** The comparison before the name without a step is replaced; false: none. Default: with its own defaults. */
  check?: false | PublishCheckParams | null;
}

/** What a server serves now. */
export interface ModelPublished {
  /** What the server calls this step. */
  name: string;
  /** The name that stands for the latest; null: it was left alone. */
  latest_name: string | null;
  /** The checkpoint's step. */
  step: number;
  /** The checkpoint's folder as the server sees it. */
  path: string;
  /** What the comparison found; null: there was none. */
  check: {
    /** How many were compared. */
    tokens: number;
    /** How many agree before the first that does not, if any. */
    agreed_tokens: number;
    /** The largest difference of a token's logprobs, in nats. */
    max_logprob_difference: number;
  } | null;
}
