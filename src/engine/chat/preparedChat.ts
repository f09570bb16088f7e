// A request that has passed every check: what is needed to run it and to write its answer.

import type { GenerationRequest } from "../../inference/index.js";
import type { Tokenizer } from "../../text/index.js";
import type { SamplingSettingsRecord } from "../../types/chat.js";
import type { ReplyReader } from "./replyReader.js";
import type { ThoughtTokens } from "./thoughtTokens.js";

export interface PreparedChat {
  /** `chatcmpl-...` */
  id: string;
  /** Unix seconds. */
  created: number;
  /** As the answer names it. */
  model: string;
  fingerprint: string;
  tokenizer: Tokenizer;
  generation: GenerationRequest;
  /** Choices in the answer. */
  n: number;
  role: string;
  /** Text of the last message, to stand before each choice's; null: none. */
  echo: string | null;
  returnTokenIds: boolean;
  /** Each choice carries the prompt's ids too, for those who keep choices only and train on them. */
  promptIdsInChoices: boolean;
  tokensAsIds: boolean;
  /** Reasoning, logprobs and token ids of a reply that reasons are withheld. */
  hideReasoning: boolean;
  includeUsage: boolean;
  continuousUsage: boolean;
  samplingRecord: SamplingSettingsRecord | null;
  /** Whether thoughts or calls are looked for in the text. */
  readsReply: boolean;
  /** Takes a choice's text apart; one per choice. */
  newReader(): ReplyReader;
  /** Counts a choice's thoughts; one per choice. null: the model does not think. */
  newThoughtTokens: (() => ThoughtTokens) | null;
}
