// A choice's text taken apart: what it thinks, what it says, which tools it calls.

import { randomBytes } from "node:crypto";
import { createReplyParser, type ReplyParser, type ReplyPieces, type ReplyStart } from "../../text/index.js";
import type { ToolFormat } from "../../toolFormats.js";
import type { ToolCallDelta } from "../../types/chat.js";
import type { ReplyPlan } from "./replyPlan.js";

export interface ReplyDelta {
  reasoning: string;
  content: string;
  toolCalls: ToolCallDelta[];
}

/** Templates of Mistral refuse other ids than of nine letters and digits, whoever is sent the conversation next. */
function newCallId(format: ToolFormat): string {
  return format === "mistral" ? randomBytes(5).toString("hex").slice(1) : `call_${randomBytes(12).toString("hex")}`;
}

/** Reads one choice, however its text is cut. */
export class ReplyReader {
  private readonly parser: ReplyParser;

  /** `streams`: what is read is told at once, so that the pieces of a call go out before it is known to end. */
  constructor(
    private readonly plan: ReplyPlan,
    start: ReplyStart,
    streams: boolean,
  ) {
    const { heldCalls } = plan;
    const beginnings = heldCalls === null || heldCalls.areForced ? null : heldCalls.beginnings;
    this.parser = createReplyParser({ ...plan, beginnings }, start, streams);
  }

  /** Whether the thoughts have ended, or never began. */
  get isAnswering(): boolean {
    return this.parser.isAnswering;
  }

  /** Whether the reply has a call that is whole. */
  get hasCalled(): boolean {
    return this.parser.firstWhole !== Number.POSITIVE_INFINITY;
  }

  push(text: string): ReplyDelta {
    return this.delta(this.parser.push(text));
  }

  /** What was held back. */
  end(): ReplyDelta {
    return this.delta(this.parser.flush());
  }

  private delta({ reasoning, content, toolCalls }: ReplyPieces): ReplyDelta {
    const delta: ReplyDelta = { reasoning, content, toolCalls: [] };
    for (const { index, name, arguments: text } of toolCalls) {
      if (this.plan.onlyOneCall && index > this.parser.firstWhole) continue;
      delta.toolCalls.push(
        name === undefined
          ? { index, function: { arguments: text } }
          : {
              index,
              id: newCallId(this.plan.toolFormat!),
              type: "function",
              function: { name, arguments: text },
            },
      );
    }
    return delta;
  }
}
