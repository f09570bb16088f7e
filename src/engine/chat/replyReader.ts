// A choice's text taken apart: what it thinks, what it says, which tools it calls.

import type { ChatRequest } from "../../schemas/chat.js";
import type { ToolCallDelta } from "../../types/chat.js";
import type { BaseModel } from "../baseModel.js";
import type { ChatHost } from "./host.js";

export interface ReplyDelta {
  reasoning: string;
  content: string;
  toolCalls: ToolCallDelta[];
}

export interface ReplyReader {
  push(text: string): ReplyDelta;
  /** What was held back. */
  end(): ReplyDelta;
}

/** Text of a model that neither reasons nor calls tools: all of it is content. */
export class PlainReader implements ReplyReader {
  push(text: string): ReplyDelta {
    return { reasoning: "", content: text, toolCalls: [] };
  }

  end(): ReplyDelta {
    return { reasoning: "", content: "", toolCalls: [] };
  }
}

export interface ReplyReaders {
  /** Whether the model's replies may begin with reasoning. */
  reasons: boolean;
  /** Whether the marks that readers look for are special tokens, which text usually leaves out. */
  needSpecialTokens: boolean;
  open(): ReplyReader;
}

export function replyReaders(_host: ChatHost, _request: ChatRequest, _base: BaseModel): ReplyReaders {
  return { reasons: false, needSpecialTokens: false, open: () => new PlainReader() };
}
