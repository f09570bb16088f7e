// The model that adapters are trained for.

import type { DeviceModel } from "../runtime/runtime.js";
import type { ChatTemplate, Tokenizer } from "../text/index.js";

/** A loaded base model. */
export interface TrainingBase {
  readonly id: string;
  /** Of the weights: a checkpoint can only go on from the base it was made from. */
  readonly hash: string;
  /** In tokens. */
  readonly contextLength: number;
  readonly device: DeviceModel;
  readonly tokenizer: Tokenizer;
  readonly template: ChatTemplate | null;
  readonly generationConfig: { readonly eos_token_id: readonly number[] };
}
