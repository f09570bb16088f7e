// Replies that may think again behind what they said, or called.

import { type ReasoningDelta, type ReasoningFormat, ReasoningParser } from "./reasoning.js";
import { heldLength } from "./toolCalls/tagSearch.js";
import type { ToolCallPiece, ToolDelta, ToolParser } from "./toolCalls/toolCallCollector.js";

/** Between two thoughts, and between two texts with a thought between them. */
const BREAK = "\n\n";

export interface InterleavedDelta extends ReasoningDelta {
  toolCalls: ToolCallPiece[];
}

/**
 * Takes a reply apart as its text comes, however it is cut. Within a call marks of thoughts are text, unless a `sign` tells that
 * they are tokens; elsewhere one that closes none is nothing.
 */
export class InterleavedReply {
  /** More thoughts may come. */
  readonly isAnswering = false;
  private thoughts: ReasoningParser;
  private readonly marks: readonly string[];
  private readonly mark: RegExp;
  /** Marks are tokens, which no text of a call is. */
  private readonly areCertain: boolean;
  /** What may be the beginning of a mark. */
  private tail = "";
  private delta: InterleavedDelta = { reasoning: "", content: "", toolCalls: [] };
  private readonly hasTold = { reasoning: false, content: false };
  /** A break stands before what comes next. */
  private readonly isApart = { reasoning: false, content: false };

  constructor(
    private readonly format: ReasoningFormat,
    startsInside: boolean | "midway",
    private readonly calls: ToolParser | null,
    sign: string,
  ) {
    this.thoughts = new ReasoningParser({ format, startsInside });
    this.marks = [...format.opens, ...format.closes];
    this.mark = new RegExp(this.marks.map((mark) => mark.replace(/[\\^$.|?+()[\]{}]/g, "\\$&")).join("|"));
    this.areCertain = sign !== "";
  }

  get firstWhole(): number {
    return this.calls?.firstWhole ?? Number.POSITIVE_INFINITY;
  }

  push(text: string): InterleavedDelta {
    for (let rest: string | null = text; rest !== null; ) {
      const { reasoning, content } = this.thoughts.push(rest);
      this.tell("reasoning", reasoning);
      rest = this.readAnswer(content);
    }
    return this.take();
  }

  flush(): InterleavedDelta {
    const { reasoning, content } = this.thoughts.flush();
    this.tell("reasoning", reasoning);
    this.say(this.tail + content);
    this.tail = "";
    if (this.calls !== null) this.tellCalls(this.calls.flush());
    return this.take();
  }

  /** Up to the mark that opens thoughts again; gives what stands behind it, or null where none does. */
  private readAnswer(text: string): string | null {
    let rest = this.tail + text;
    for (let next = this.mark.exec(rest); next !== null; next = this.mark.exec(rest)) {
      const { 0: mark, index } = next;
      this.say(rest.slice(0, index));
      rest = rest.slice(index + mark.length);
      if (this.calls?.isInCall && !this.areCertain) this.say(mark);
      else if (this.format.opens.includes(mark)) {
        this.thinkAgain();
        return rest;
      }
    }
    this.tail = rest.slice(rest.length - heldLength(rest, this.marks));
    this.say(rest.slice(0, rest.length - this.tail.length));
    return null;
  }

  private thinkAgain(): void {
    this.tail = "";
    if (this.calls !== null) this.tellCalls(this.calls.flush());
    this.thoughts = new ReasoningParser({ format: this.format, startsInside: true });
    this.isApart.reasoning = this.hasTold.reasoning;
    this.isApart.content = this.hasTold.content;
  }

  private say(text: string): void {
    if (text === "") return;
    if (this.calls === null) this.tell("content", text);
    else this.tellCalls(this.calls.push(text));
  }

  private tellCalls({ content, toolCalls }: ToolDelta): void {
    this.tell("content", content);
    this.delta.toolCalls.push(...toolCalls);
  }

  private tell(field: "reasoning" | "content", text: string): void {
    if (text === "") return;
    this.delta[field] += this.isApart[field] ? BREAK + text : text;
    this.isApart[field] = false;
    this.hasTold[field] = true;
  }

  private take(): InterleavedDelta {
    const { delta } = this;
    this.delta = { reasoning: "", content: "", toolCalls: [] };
    return delta;
  }
}
