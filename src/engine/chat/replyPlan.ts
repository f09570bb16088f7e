// What a reply may consist of beside text: thoughts, and tool calls that it makes or must make.

import { ValidationError } from "../../errors.js";
import type { ChatRequest } from "../../schemas/chat.js";
import {
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
import type { RequestConstraint } from "./constraint.js";
import type { ChatHost } from "./host.js";
import { toolCallConstraint } from "./toolCallConstraint.js";

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
  /** The calls that the reply must be; null: none has to be made. */
  forcedCalls: RequestConstraint | null;
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
  const byDefault = (request.tools ?? []).length > 0 && known !== null ? "auto" : "none";
  const choice = request.tool_choice ?? byDefault;
  if (choice !== "none" && known === null) throw noToolParser(host.toolParser);
  const toolFormat = choice === "none" ? null : known;
  const forced = choice === "required" || typeof choice === "object";
  const name = typeof choice === "object" ? choice.function.name : null;
  const several = request.parallel_tool_calls === undefined || request.parallel_tool_calls === true;
  return {
    reasoning,
    toolFormat,
    offeredTools: new Map((request.tools ?? []).map((tool) => [tool.function.name, tool.function.parameters])),
    onlyOneCall: !several,
    needsSpecialTokens: marks(reasoning, toolFormat).some((mark) => {
      const id = tokenizer.tokenToId(mark);
      return id !== null && tokenizer.specialIds.has(id);
    }),
    forcedCalls:
      forced && toolFormat !== null
        ? toolCallConstraint(TOOL_SYNTAX[toolFormat].texts(template.source), request.tools!, name, several)
        : null,
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
