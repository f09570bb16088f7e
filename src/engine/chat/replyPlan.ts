// What a reply may consist of beside text: thoughts, and tool calls that it makes or must make.

import { ValidationError } from "../../errors.js";
import type { ChatRequest } from "../../schemas/chat.js";
import {
  type ChatTemplate,
  GEMMA4_MARKS,
  GEMMA4_REASONING,
  HARMONY_MARKS,
  HARMONY_REASONING,
  type OfferedTools,
  placeInMessage,
  type ReasoningFormat,
  type ReplyStart,
  recogniseReasoning,
  recogniseToolFormat,
  TOOL_SYNTAX,
  type Tokenizer,
  type ToolFormat,
  USUAL_REASONING,
} from "../../text/index.js";
import { behind, callsOrForm, constraintOf, jsonFormOf, type RequestConstraint } from "./constraint.js";
import type { ChatHost } from "./host.js";
import { toolCallConstraint } from "./toolCallConstraint.js";
import { type CallMode, callMode, offeredTools } from "./toolChoice.js";

export interface ReplyPlan {
  /** What thoughts look like that the model's replies may begin with; null: they do not. */
  reasoning: ReasoningFormat | null;
  /** null: calls are not looked for. */
  toolFormat: ToolFormat | null;
  /** The functions that may be called. */
  offeredTools: OfferedTools;
  /** Whether what it says has a form, unless it calls. */
  isFormed: boolean;
  /** Calls after the first whole one are dropped. */
  onlyOneCall: boolean;
  /** Whether the marks that are looked for are special tokens, which text leaves out otherwise. */
  needsSpecialTokens: boolean;
  /** Stands before each special token of the text, where only tokens are marks; "": nothing does. */
  specialTokenSign: string;
  /** What stands before an answer and before a call that the reply must consist of, where replies are messages; else null. */
  heads: ReplyHeads | null;
  /** Calls that are held to what the tools declare; null: none has to be made, and what is called is as the model likes. */
  heldCalls: HeldCalls | null;
}

/** One of each list; of an empty one nothing. */
export interface ReplyHeads {
  answer: readonly string[];
  call: readonly string[];
}

export interface HeldCalls {
  /** What the reply must be: calls, or where they are not forced, calls or a text in the form that the request asks for. */
  constraint: RequestConstraint;
  areForced: boolean;
  /** How a reply that is calls may begin. */
  beginnings: readonly string[];
}

/** @throws ValidationError when calls are asked for and cannot be read, or a form from where none can begin. */
export function planReply(
  host: ChatHost,
  request: ChatRequest,
  template: Pick<ChatTemplate, "source">,
  tokenizer: Tokenizer,
  start: ReplyStart,
): ReplyPlan {
  const format = host.toolParser === "auto" ? recogniseToolFormat(template.source) : host.toolParser;
  const shown = format === "harmony" ? HARMONY_REASONING : recogniseReasoning(template.source);
  const reasoning = shown ?? (start.thought === null ? null : USUAL_REASONING);
  const known = format === "none" ? null : format;
  const tools = offeredTools(request);
  const byDefault = tools.length > 0 && known !== null ? "auto" : "none";
  const choice = callMode(request) ?? byDefault;
  if (choice !== "none" && known === null) throw noToolParser(host.toolParser);
  const toolFormat = choice === "none" ? null : known;
  const several = request.parallel_tool_calls === undefined || request.parallel_tool_calls === true;
  const form = constraintOf(request);
  const isHeld = toolFormat !== null && (choice !== "auto" || jsonFormOf(request) !== null);
  const heads = reasoning === null ? null : replyHeads(reasoning, start, isHeld ? "tool_choice" : form?.field);
  const isSpecial = (mark: string) => {
    const id = tokenizer.tokenToId(mark);
    return id !== null && tokenizer.specialIds.has(id);
  };
  return {
    reasoning,
    toolFormat,
    offeredTools: new Map(tools.map((tool) => [tool.function.name, tool.function.parameters])),
    isFormed: form !== null && (choice === "none" || choice === "auto"),
    onlyOneCall: !several,
    needsSpecialTokens: marks(reasoning, toolFormat).some(isSpecial),
    specialTokenSign: signedMarks(reasoning, toolFormat)?.every(isSpecial) ? SIGN : "",
    heads,
    heldCalls: isHeld ? heldCalls(request, choice, toolFormat, template.source, several, heads) : null,
  };
}

/** The marks of replies whose parsers tell them from the same texts in what is said; null: it is another parser. */
function signedMarks(reasoning: ReasoningFormat | null, toolFormat: ToolFormat | null): readonly string[] | null {
  if (reasoning?.messages !== undefined) return HARMONY_MARKS;
  const areGemma4s = reasoning === GEMMA4_REASONING && (toolFormat === null || toolFormat === "gemma4");
  return areGemma4s ? GEMMA4_MARKS : null;
}

/** The first half of a character, which no text of tokens holds alone. */
const SIGN = "\ud800";

/** `field`: what of the request holds the reply to something; undefined: nothing does. */
function replyHeads(
  { closes, messages }: ReasoningFormat,
  { thought, begun }: ReplyStart,
  field: string | undefined,
): ReplyHeads | null {
  if (messages === undefined) return null;
  const place = placeInMessage(begun ?? "");
  const isOpen = place === "text" && thought === null;
  if (isOpen) return { answer: [], call: closes.map((close) => close + messages.next) };
  if (field !== undefined && (place === "header" || place === "end")) {
    const message =
      "needs a prompt that ends where a message of the assistant, or its text, begins: the chat template's does not";
    throw ValidationError.at(field, message, "not_supported");
  }
  return { answer: messages.answers, call: [] };
}

/** A text has a form only if it is one: where calls are as the model likes, they may come instead of it. */
function heldCalls(
  request: ChatRequest,
  choice: CallMode,
  format: ToolFormat,
  templateSource: string,
  several: boolean,
  heads: ReplyHeads | null,
): HeldCalls {
  const texts = TOOL_SYNTAX[format].texts(templateSource);
  const asked = choice === "auto" ? jsonFormOf(request) : null;
  const tools = offeredTools(request);
  const name = typeof choice === "object" ? choice.name : null;
  const ofCalls = format === "harmony" ? heads?.call : heads?.answer;
  const calls = behind(ofCalls, toolCallConstraint(texts, tools, name, several, request.tools));
  const form = asked && behind(heads?.answer, asked);
  return {
    constraint: form === null ? calls : callsOrForm(calls, form),
    areForced: form === null,
    beginnings: tools.map((tool) => texts.open + texts.head(tool.function.name)),
  };
}

function noToolParser(option: ChatHost["toolParser"]): ValidationError {
  const why =
    option === "auto"
      ? "the chat template shows no known format of tool calls"
      : "the engine reads no tool calls from replies";
  return ValidationError.at("tool_choice", `${why}: only "none" is possible`, "not_supported", {
    hint: 'set the engine option toolParser (--tool-parser), for example to "auto" or "hermes"',
  });
}

function marks(reasoning: ReasoningFormat | null, format: ToolFormat | null): string[] {
  const { opens, closes, answer } = reasoning ?? { opens: [], closes: [] };
  const calls = format === null ? [] : TOOL_SYNTAX[format].marks;
  return [...opens, ...closes, ...Object.values(answer ?? {}), ...calls];
}
