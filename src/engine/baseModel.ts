import type { InferenceLoop } from "../inference/index.js";
import type { DecoderConfig, DeviceModel } from "../runtime/runtime.js";
import type { ChatTemplate, Tokenizer } from "../text/index.js";

/** A loaded Hugging Face folder. */
export interface BaseModel {
  /** The name that requests use. */
  readonly id: string;
  readonly folder: string;
  readonly config: DecoderConfig;
  /** Positions that a sequence may have. */
  readonly contextLength: number;
  readonly tokenizer: Tokenizer;
  /** null: the folder has none, so requests must bring one. */
  readonly template: ChatTemplate | null;
  readonly generationConfig: GenerationDefaults;
  /** Of the weights. */
  readonly hash: string;
  readonly device: DeviceModel;
  readonly loop: InferenceLoop;
  /** Unix seconds. */
  readonly created: number;
}

/** What generation_config.json says. */
export interface GenerationDefaults {
  temperature?: number;
  top_p?: number;
  top_k?: number;
  min_p?: number;
  repetition_penalty?: number;
  max_new_tokens?: number;
  eos_token_id: number[];
}
