// A reply's text taken apart as it comes: what it thinks, what it says, which tools it calls.

import type { ToolFormat } from "../toolFormats.js";
import { HarmonyParser } from "./harmony.js";
import { InterleavedReply } from "./interleavedReply.js";
import { type ReasoningDelta, type ReasoningFormat, ReasoningParser } from "./reasoning.js";
import type { OfferedTools, ToolCallPiece, ToolParser } from "./toolCalls/toolCallCollector.js";
import { createCallsOrTextParser, createToolParser, type ParsedToolCall } from "./toolCalls/toolCalls.js";

export interface ReplyPieces extends ReasoningDelta {
  toolCalls: ToolCallPiece[];
}

export interface ReplyParser {
  /** Whether the thoughts have ended for good, or never began. */
  readonly isAnswering: boolean;
  /** As of a `ToolParser`. */
  readonly firstWhole: number;
  push(text: string): ReplyPieces;
  /** What was held back. */
  flush(): ReplyPieces;
}

export interface ReplySyntax {
  /** null: replies have no thoughts. */
  reasoning: ReasoningFormat | null;
  /** null: calls are not looked for. */
  toolFormat: ToolFormat | null;
  /** As of `createToolParser`. */
  offeredTools: OfferedTools | null;
  /** How a reply may begin that is calls, where another than that has a form; null: calls may stand anywhere. Default null. */
  beginnings?: readonly string[] | null;
  /** What is said has a form, if it is no call. Default false. */
  isFormed?: boolean;
  /** Stands before each special token of the text; of replies that are messages. Default "". */
  specialTokenSign?: string;
}

/** What a reply goes on from. */
export interface ReplyStart {
  /** What of a thought the prompt ends in, or null. */
  thought: string | null;
  /** Of the message that the prompt ends in, as `begunMessage` gives it; null: replies are no such messages. */
  begun: string | null;
}

/** `asTheyCome`: as of `createToolParser`. */
export function createReplyParser(
  syntax: ReplySyntax,
  { thought, begun }: ReplyStart,
  asTheyCome: boolean,
): ReplyParser {
  const {
    reasoning,
    toolFormat,
    offeredTools,
    beginnings = null,
    isFormed = false,
    specialTokenSign: sign = "",
  } = syntax;
  const harmony = (offered: OfferedTools | null | "none") =>
    new HarmonyParser({ asTheyCome, offered, isFormed, sign, ...(begun === null ? {} : { begun }) });
  const isHarmony = reasoning?.messages !== undefined;
  if (isHarmony && toolFormat === null) return harmony("none");
  if (isHarmony && toolFormat === "harmony") return harmony(offeredTools);
  const calls = (): ToolParser | null => {
    if (toolFormat === null) return null;
    if (beginnings === null || offeredTools === null) return createToolParser(toolFormat, asTheyCome, offeredTools);
    return createCallsOrTextParser(toolFormat, asTheyCome, offeredTools, beginnings);
  };
  if (isHarmony) return new ThoughtsThenAnswer(harmony("none"), calls());
  const startsInside = thought === null ? false : thought.trim() === "" ? true : "midway";
  if (reasoning?.again && !isFormed) return new InterleavedReply(reasoning, startsInside, calls());
  const thoughts = reasoning === null ? null : new ReasoningParser({ startsInside, format: reasoning });
  return new ThoughtsThenAnswer(thoughts, calls());
}

class ThoughtsThenAnswer implements ReplyParser {
  constructor(
    private readonly thoughts: ReasoningParser | HarmonyParser | null,
    private readonly calls: ToolParser | null,
  ) {}

  get isAnswering(): boolean {
    return this.thoughts?.isAnswering ?? true;
  }

  get firstWhole(): number {
    return this.calls?.firstWhole ?? Number.POSITIVE_INFINITY;
  }

  push(text: string): ReplyPieces {
    return this.withCalls(this.thoughts?.push(text) ?? { reasoning: "", content: text }, false);
  }

  flush(): ReplyPieces {
    return this.withCalls(this.thoughts?.flush() ?? { reasoning: "", content: "" }, true);
  }

  private withCalls({ reasoning, content }: ReasoningDelta, isLast: boolean): ReplyPieces {
    if (this.calls === null) return { reasoning, content, toolCalls: [] };
    const read = [this.calls.push(content)];
    if (isLast) read.push(this.calls.flush());
    const said = read.map((one) => one.content).join("");
    return { reasoning, content: said, toolCalls: read.flatMap((one) => one.toolCalls) };
  }
}

/** Of a whole reply, whose calls come in one piece. */
export function parseReply(
  text: string,
  syntax: ReplySyntax,
  start: ReplyStart = { thought: null, begun: null },
): ReasoningDelta & { toolCalls: ParsedToolCall[] } {
  const parser = createReplyParser(syntax, start, false);
  const deltas = [parser.push(text), parser.flush()];
  return {
    reasoning: deltas.map(({ reasoning }) => reasoning).join(""),
    content: deltas.map(({ content }) => content).join(""),
    toolCalls: deltas
      .flatMap(({ toolCalls }) => toolCalls)
      .map(({ name, arguments: given }) => ({ name: name!, arguments: given })),
  };
}
