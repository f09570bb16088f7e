// What a model thinks before it answers: `<think>` ... `</think>`, taken apart from the answer as it streams.

import { TagSearch } from "./hermesToolParser.js";

const OPEN = "<think>";
const CLOSE = "</think>";
export const REASONING_TAGS = { open: OPEN, close: CLOSE } as const;

/** Whether a template writes and reads `<think>`, so that its model's answers may begin with thoughts. */
export function recogniseReasoning(templateSource: string): boolean {
  return templateSource.includes(CLOSE) || templateSource.includes(OPEN);
}

/** Whether a rendered prompt ends in an open `<think>`, so that the answer begins inside the thoughts. */
export function promptOpensReasoning(prompt: string): boolean {
  return prompt.trimEnd().endsWith(OPEN);
}

/** Whether an answer that is to go on has opened `<think>` and not closed it, so that it goes on inside the thoughts. */
export function isInsideReasoning(answer: string): boolean {
  return answer.trimStart().startsWith(OPEN) && !answer.includes(CLOSE);
}

export interface ReasoningDelta {
  reasoning: string;
  content: string;
}

export interface ReasoningOptions {
  /** The prompt has opened the thoughts already; "midway": and has some of them. Default false. */
  startsInside?: boolean | "midway";
}

/**
 * Separates thoughts from the answer in text that comes in pieces; the pieces' cuts change nothing. Thoughts are only
 * recognised at the beginning. The white space next to the tags belongs to neither side.
 */
export class ReasoningParser {
  private state: "start" | "thinking" | "answer";
  /** At the start: what may be the opening tag. */
  private held = "";
  private readonly closing = new TagSearch(CLOSE);
  /** White space is dropped until the thoughts, or the answer after them, begin. */
  private atBeginning: boolean;

  constructor(options: ReasoningOptions = {}) {
    this.state = options.startsInside ? "thinking" : "start";
    this.atBeginning = options.startsInside === true;
  }

  /** Whether the thoughts have ended, or never began. */
  get isAnswering(): boolean {
    return this.state === "answer";
  }

  push(text: string): ReasoningDelta {
    const delta: ReasoningDelta = { reasoning: "", content: "" };
    let rest = this.state === "start" ? this.start(text) : text;
    if (this.state === "thinking") {
      const { text: thoughts, found } = this.closing.push(this.withoutLeadingSpace(rest));
      delta.reasoning = thoughts;
      rest = found?.after ?? "";
      if (found !== null) {
        this.state = "answer";
        this.atBeginning = true;
      }
    }
    if (this.state === "answer") delta.content = this.withoutLeadingSpace(rest);
    return delta;
  }

  /** What was held back. */
  flush(): ReasoningDelta {
    if (this.state === "thinking") return { reasoning: this.closing.flush(), content: "" };
    const content = this.held;
    this.held = "";
    return { reasoning: "", content };
  }

  /** Gives what follows the opening tag, or all text when there is none. */
  private start(text: string): string {
    const all = this.held + text;
    const trimmed = all.trimStart();
    this.held = "";
    if (trimmed.startsWith(OPEN)) {
      this.state = "thinking";
      this.atBeginning = true;
      return trimmed.slice(OPEN.length);
    }
    if (OPEN.startsWith(trimmed)) {
      this.held = all;
      return "";
    }
    this.state = "answer";
    return all;
  }

  private withoutLeadingSpace(text: string): string {
    if (!this.atBeginning) return text;
    const trimmed = text.trimStart();
    if (trimmed !== "") this.atBeginning = false;
    return trimmed;
  }
}

/** Thoughts and answer of a whole text. */
export function splitReasoning(text: string, options: ReasoningOptions = {}): ReasoningDelta {
  const parser = new ReasoningParser(options);
  const first = parser.push(text);
  const rest = parser.flush();
  return { reasoning: first.reasoning + rest.reasoning, content: first.content + rest.content };
}
