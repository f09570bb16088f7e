import type { ChatMessageParam } from "./chat.js";
import type { RewardModel } from "./gather.js";
import type { OnnxOptions } from "./options.js";

/** What a reward model reads, and which of its classes is the reward. */
export interface OnnxRewardOptions extends OnnxOptions {
  /** Threads of one run; default: the cores. */
  threads?: number;
  /** The class whose probability is the reward; needed where the model has several. With one class the reward is its logit. */
  label?: string;
  /**
   * What the model is given: the model's last reply (the default), the last question and that reply as a pair, or a text (or a
   * pair) that is made of the conversation.
   */
  input?: "reply" | "pair" | ((messages: readonly ChatMessageParam[]) => string | readonly [string, string]);
}

/** A classifier that scores conversations in a thread of this process. */
export interface OnnxRewardModel extends RewardModel {
  /** Frees its memory; what is under way rejects with ClosedError. */
  close(): void;
}
