// What a reply may consist of beside text: thoughts, and tool calls that it makes or must make.

import { ValidationError } from "../../errors.js";
import type { ChatRequest } from "../../schemas/chat.js";
import {
  type CallTexts,
  type ChatTemplate,
  type OfferedTools,
  type ReasoningFormat,
  recogniseReasoning,
  recogniseToolFormat,
  TOOL_SYNTAX,
  type Tokenizer,
  type ToolFormat,
  USUAL_REASONING,
} from "../../text/index.js";
import { callsOrForm, jsonFormOf, type RequestConstraint } from "./constraint.js";
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
  /** Calls after the first whole one are dropped. */
  onlyOneCall: boolean;
  /** Whether the marks that are looked for are special tokens, which text leaves out otherwise. */
  needsSpecialTokens: boolean;
  /** Calls that are held to what the tools declare; null: none has to be made, and what is called is as the model likes. */
  heldCalls: HeldCalls | null;
}

export interface HeldCalls {
  /** What the reply must be: calls, or where they are not forced, calls or a text in the form that the request asks for. */
  constraint: RequestConstraint;
  areForced: boolean;
  /** How a reply that is calls may begin. */
  beginnings: readonly string[];
}

/**
 * `thought`: what of a thought the prompt ends in, or null.
 * @throws ValidationError when calls are asked for and cannot be read.
 */
export function planReply(
  host: ChatHost,
  request: ChatRequest,
  template: Pick<ChatTemplate, "source">,
  tokenizer: Tokenizer,
  thought: string | null,
): ReplyPlan {
  const reasoning = recogniseReasoning(template.source) ?? (thought === null ? null : USUAL_REASONING);
  const format = host.toolParser === "auto" ? recogniseToolFormat(template.source) : host.toolParser;
  const known = format === "none" ? null : format;
  const tools = offeredTools(request);
  const byDefault = tools.length > 0 && known !== null ? "auto" : "none";
  const choice = callMode(request) ?? byDefault;
  if (choice !== "none" && known === null) throw noToolParser(host.toolParser);
  const toolFormat = choice === "none" ? null : known;
  const several = request.parallel_tool_calls === undefined || request.parallel_tool_calls === true;
  return {
    reasoning,
    toolFormat,
    offeredTools: new Map(tools.map((tool) => [tool.function.name, tool.function.parameters])),
    onlyOneCall: !several,
    needsSpecialTokens: marks(reasoning, toolFormat).some((mark) => {
      const id = tokenizer.tokenToId(mark);
      return id !== null && tokenizer.specialIds.has(id);
    }),
    heldCalls:
      toolFormat === null ? null : heldCalls(request, choice, TOOL_SYNTAX[toolFormat].texts(template.source), several),
  };
}

/** A text has a form only if it is one: where calls are as the model likes, they may come instead of it. */
function heldCalls(request: ChatRequest, choice: CallMode, texts: CallTexts, several: boolean): HeldCalls | null {
  const form = choice === "auto" ? jsonFormOf(request) : null;
  if (choice === "auto" && form === null) return null;
  const tools = offeredTools(request);
  const name = typeof choice === "object" ? choice.name : null;
  const calls = toolCallConstraint(texts, tools, name, several, request.tools);
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
