// A choice's text taken apart: what it thinks, what it says, which tools it calls.

import { randomBytes } from "node:crypto";
import { createCallsOrTextParser, createToolParser, ReasoningParser, type ToolParser } from "../../text/index.js";
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

function toolParser({ toolFormat, offeredTools, heldCalls }: ReplyPlan, streams: boolean): ToolParser | null {
  if (toolFormat === null) return null;
  return heldCalls === null || heldCalls.areForced
    ? createToolParser(toolFormat, streams, offeredTools)
    : createCallsOrTextParser(toolFormat, streams, offeredTools, heldCalls.beginnings);
}

/** Reads one choice, however its text is cut. */
export class ReplyReader {
  private readonly reasoning: ReasoningParser | null;
  private readonly tools: ToolParser | null;

  /**
   * `thought`: what of a thought the prompt ends in, or null; `streams`: what is read is told at once, so that the pieces of a
   * call go out before it is known to end.
   */
  constructor(
    private readonly plan: ReplyPlan,
    thought: string | null,
    streams: boolean,
  ) {
    const startsInside = thought === null ? false : thought.trim() === "" ? true : "midway";
    this.reasoning = plan.reasoning === null ? null : new ReasoningParser({ startsInside, format: plan.reasoning });
    this.tools = toolParser(plan, streams);
  }

  /** Whether the thoughts have ended, or never began. */
  get isAnswering(): boolean {
    return this.reasoning?.isAnswering ?? true;
  }

  /** Whether the reply has a call that is whole. */
  get hasCalled(): boolean {
    return this.tools !== null && this.tools.firstWhole !== Number.POSITIVE_INFINITY;
  }

  push(text: string): ReplyDelta {
    const thought = this.reasoning?.push(text) ?? { reasoning: "", content: text };
    return this.withTools(thought.reasoning, thought.content, false);
  }

  /** What was held back. */
  end(): ReplyDelta {
    const thought = this.reasoning?.flush() ?? { reasoning: "", content: "" };
    return this.withTools(thought.reasoning, thought.content, true);
  }

  private withTools(reasoning: string, content: string, last: boolean): ReplyDelta {
    const delta: ReplyDelta = { reasoning, content, toolCalls: [] };
    if (this.tools !== null) {
      const read = [this.tools.push(content)];
      if (last) read.push(this.tools.flush());
      delta.content = read.map((one) => one.content).join("");
      for (const { index, name, arguments: text } of read.flatMap((one) => one.toolCalls)) {
        if (this.plan.onlyOneCall && index > this.tools.firstWhole) continue;
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
    }
    return delta;
  }
}
