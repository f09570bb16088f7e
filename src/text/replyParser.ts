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
  /** Stands before each special token of the text; of gpt-oss's and Gemma 4's replies. Default "". */
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
    if (beginnings === null || offeredTools === null)
      return createToolParser(toolFormat, asTheyCome, offeredTools, sign);
    return createCallsOrTextParser(toolFormat, asTheyCome, offeredTools, beginnings, sign);
  };
  if (isHarmony) return new ThoughtsThenAnswer(harmony("none"), calls());
  const startsInside = thought === null ? false : thought.trim() === "" ? true : "midway";
  const format = reasoning && signed(reasoning, sign);
  if (format?.again && !isFormed) return withoutSigns(new InterleavedReply(format, startsInside, calls(), sign), sign);
  const thoughts = format === null ? null : new ReasoningParser({ startsInside, format });
  return withoutSigns(new ThoughtsThenAnswer(thoughts, calls()), sign);
}

/** The format of texts in which each mark begins with a special token. */
function signed(format: ReasoningFormat, sign: string): ReasoningFormat {
  const marks = ([first, ...more]: readonly [string, ...string[]]): [string, ...string[]] => [
    sign + first,
    ...more.map((mark) => sign + mark),
  ];
  return { ...format, opens: marks(format.opens), closes: marks(format.closes) };
}

/** What `parser` reads, without signs that are left of tokens that are no marks. */
function withoutSigns(parser: ReplyParser, sign: string): ReplyParser {
  if (sign === "") return parser;
  const strays = new RegExp(`${sign}(?![\\udc00-\\udfff])`, "g");
  const cleared = ({ reasoning, content, toolCalls }: ReplyPieces): ReplyPieces => ({
    reasoning: reasoning.replace(strays, ""),
    content: content.replace(strays, ""),
    toolCalls: toolCalls.map((piece) => ({ ...piece, arguments: piece.arguments.replace(strays, "") })),
  });
  return {
    get isAnswering() {
      return parser.isAnswering;
    },
    get firstWhole() {
      return parser.firstWhole;
    },
    push: (text) => cleared(parser.push(text)),
    flush: () => cleared(parser.flush()),
  };
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
