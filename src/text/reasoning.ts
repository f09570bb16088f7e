// What a model thinks before it answers, taken apart from the answer as it streams.

import { GEMMA4_THOUGHTS, isGemma4 } from "./gemma4.js";
import { HARMONY_TEXTS, isHarmony } from "./harmony.js";
import { heldLength, TagSearch } from "./toolCalls/tagSearch.js";

/** How a model marks its thoughts. */
export interface ReasoningFormat {
  /** What they begin with; the first one is written where one must be. */
  opens: readonly [string, ...string[]];
  closes: readonly [string, ...string[]];
  /** Whether more may come behind what was said, or called. Default: they come first, and once. */
  again?: boolean;
  /** What models write between thoughts and what follows them. Default: an empty line where marks are tags. */
  gap?: string;
  /** What the answer stands between. */
  answer?: { open: string; close: string };
  /** Where each thought is a message of its own, of which a reply may have several: harmony.ts reads such replies. */
  messages?: {
    /** Stands between a thought and what follows it. */
    next: string;
    /** What an answer begins with. */
    answers: readonly string[];
  };
}

/** gpt-oss. */
export const HARMONY_REASONING: ReasoningFormat = {
  opens: [HARMONY_TEXTS.thoughts.open],
  closes: [HARMONY_TEXTS.thoughts.close],
  messages: { next: HARMONY_TEXTS.next, answers: HARMONY_TEXTS.answers },
};

export const GEMMA4_REASONING: ReasoningFormat = {
  ...{ opens: [GEMMA4_THOUGHTS.open], closes: [GEMMA4_THOUGHTS.close] },
  ...{ again: true, gap: "" },
};

/** One entry per notation; in the order in which templates are asked. */
const REASONING_FORMATS: readonly { format: ReasoningFormat; isTaughtBy(source: string): boolean }[] = [
  { format: HARMONY_REASONING, isTaughtBy: isHarmony },
  { format: GEMMA4_REASONING, isTaughtBy: isGemma4 },
  {
    // Magistral, Ministral 3.
    format: { opens: ["[THINK]"], closes: ["[/THINK]"] },
    isTaughtBy: (source) => source.includes("[THINK]"),
  },
  {
    // Granite 3.2, which shortens the words at times.
    format: {
      opens: ["Here is my thought process:", "Here's my thought process:"],
      closes: ["Here is my response:", "Here's my response:"],
    },
    isTaughtBy: (source) => source.includes("Here is my thought process:"),
  },
  {
    // Granite 3.3.
    format: {
      ...{ opens: ["<think>"], closes: ["</think>"] },
      answer: { open: "<response>", close: "</response>" },
    },
    isTaughtBy: (source) => source.includes("<think>") && source.includes("<response>"),
  },
  {
    format: { opens: ["<think>"], closes: ["</think>"] },
    isTaughtBy: (source) => source.includes("</think>") || source.includes("<think>"),
  },
];

/** Of models whose template says nothing else. */
export const USUAL_REASONING: ReasoningFormat = REASONING_FORMATS.at(-1)!.format;

/** Marks that are tokens of their own in vocabularies of models that think. */
export const REASONING_TOKENS: readonly string[] = ["<think>", "</think>", "[THINK]", "[/THINK]"];

/** How a template writes or asks for thoughts, which its model's answers may begin with; null: they do not. */
export function recogniseReasoning(templateSource: string): ReasoningFormat | null {
  return REASONING_FORMATS.find(({ isTaughtBy }) => isTaughtBy(templateSource))?.format ?? null;
}

/** What of a thought a text ends in, when it has opened one and not closed it; null: it has not. */
export function openThoughtIn(text: string, { opens, closes }: ReasoningFormat): string | null {
  const ends = opens.map((open) => text.lastIndexOf(open) + (text.includes(open) ? open.length : 0));
  const from = Math.max(...ends);
  if (from < 0) return null;
  const thought = text.slice(from);
  return closes.some((close) => thought.includes(close)) ? null : thought;
}

/** Whether a rendered prompt ends in the mark that opens thoughts, so that the answer begins inside them. */
export function promptOpensReasoning(prompt: string, { opens }: ReasoningFormat = USUAL_REASONING): boolean {
  const end = prompt.trimEnd();
  return opens.some((open) => end.endsWith(open));
}

/** Whether an answer that is to go on has opened its thoughts and not closed them, so that it goes on inside them. */
export function isInsideReasoning(answer: string, format: ReasoningFormat = USUAL_REASONING): boolean {
  const start = answer.trimStart();
  return format.opens.some((open) => start.startsWith(open)) && openThoughtIn(answer, format) !== null;
}

export interface ReasoningDelta {
  reasoning: string;
  content: string;
}

export interface ReasoningOptions {
  /** The prompt has opened the thoughts already; "midway": and has some of them. Default false. */
  startsInside?: boolean | "midway";
  /** Default: `<think>` ... `</think>`. */
  format?: ReasoningFormat;
}

/**
 * Separates thoughts from the answer in text that comes in pieces; the pieces' cuts change nothing. Thoughts are only
 * recognised at the beginning. The white space next to the marks belongs to neither side.
 */
export class ReasoningParser {
  private state: "start" | "thinking" | "answer";
  private readonly format: ReasoningFormat;
  /** At the start: what may be the opening mark. */
  private held = "";
  private readonly closing: TagSearch;
  private readonly answer: AnswerFrame | null;
  /** White space is dropped until the thoughts, or the answer after them, begin. */
  private atBeginning: boolean;

  constructor(options: ReasoningOptions = {}) {
    this.format = options.format ?? USUAL_REASONING;
    this.closing = new TagSearch(this.format.closes);
    this.answer = this.format.answer === undefined ? null : new AnswerFrame(this.format.answer);
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
    if (this.state === "answer") {
      const content = this.withoutLeadingSpace(rest);
      delta.content = this.answer?.push(content) ?? content;
    }
    return delta;
  }

  /** What was held back. */
  flush(): ReasoningDelta {
    if (this.state === "thinking") return { reasoning: this.closing.flush(), content: "" };
    const content = this.held;
    this.held = "";
    return { reasoning: "", content: this.answer === null ? content : this.answer.push(content) + this.answer.flush() };
  }

  /** Gives what follows the opening mark, or all text when there is none. */
  private start(text: string): string {
    const all = this.held + text;
    const trimmed = all.trimStart();
    const open = this.format.opens.find((mark) => trimmed.startsWith(mark));
    this.held = "";
    if (open !== undefined) {
      this.state = "thinking";
      this.atBeginning = true;
      return trimmed.slice(open.length);
    }
    if (this.format.opens.some((mark) => mark.startsWith(trimmed))) {
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

/** Takes away the marks around an answer, with the white space beside them; what has none stays as it is. */
class AnswerFrame {
  private state: "start" | "inside" | "closed" | "outside" = "start";
  private held = "";
  private readonly closing: TagSearch;

  constructor(private readonly marks: { open: string; close: string }) {
    this.closing = new TagSearch([marks.close]);
  }

  push(text: string): string {
    if (this.state === "outside") return text;
    if (this.state === "closed") {
      const rest = text.trimStart();
      if (rest !== "") this.state = "outside";
      return rest;
    }
    if (this.state === "start") {
      this.held += text;
      const trimmed = this.held.trimStart();
      const isShort = trimmed.length < this.marks.open.length;
      if (isShort && heldLength(trimmed, [this.marks.open]) === trimmed.length) return "";
      const isFramed = trimmed.startsWith(this.marks.open);
      const rest = isFramed ? trimmed.slice(this.marks.open.length).trimStart() : this.held;
      if (isFramed && rest === "") return "";
      this.held = "";
      this.state = isFramed ? "inside" : "outside";
      return this.push(rest);
    }
    const { text: content, found } = this.closing.push(text);
    if (found === null) return content;
    this.state = "closed";
    return content + this.push(found.after);
  }

  flush(): string {
    const rest = this.state === "inside" ? this.closing.flush() : this.held;
    this.held = "";
    return rest.trimStart() === this.marks.open ? "" : rest;
  }
}
