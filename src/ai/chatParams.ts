// A call of the `ai` package as a chat completion's parameters.

import { ValidationError } from "../errors.js";
import type { ChatCompletionCreateParams, ChatMessageParam } from "../types/chat.js";
import { withoutUndefined } from "../withoutAbsent.js";
import type { CallOptions, PromptMessage, PromptPart, ProviderOptions, ToolOutput, Warning } from "./specification.js";

/**
 * What an application gives the engine by the engine's own names.
 * @throws ValidationError for one of the fields that are `set` here.
 */
export function ownOptions(providerOptions: ProviderOptions | undefined, set: readonly string[]): object {
  const own = providerOptions?.anneal ?? {};
  const issues = set
    .filter((name) => own[name] !== undefined)
    .map((name) => ({
      loc: ["providerOptions", "anneal", name],
      msg: "is set by the call itself: leave it out",
      type: "value_error",
    }));
  if (issues.length > 0) throw new ValidationError(issues);
  return own;
}

/** @throws ValidationError for parts of a prompt that are no text, and options that the call itself sets. */
export function chatParams(
  model: string,
  options: CallOptions,
): { params: ChatCompletionCreateParams; warnings: Warning[] } {
  const { tools = [], toolChoice, responseFormat: format, reasoning, providerOptions } = options;
  const functions = tools.flatMap((tool) => (tool.type === "function" ? [tool] : []));
  const warnings = tools.flatMap((tool): Warning[] =>
    tool.type === "function"
      ? []
      : [{ type: "unsupported", feature: `tool ${tool.id}`, details: "tools are functions of the application" }],
  );
  const params = {
    model,
    messages: options.prompt.flatMap(messagesOf),
    max_completion_tokens: options.maxOutputTokens,
    temperature: options.temperature,
    top_p: options.topP,
    top_k: options.topK,
    presence_penalty: options.presencePenalty,
    frequency_penalty: options.frequencyPenalty,
    seed: options.seed,
    stop: options.stopSequences,
    reasoning_effort: reasoning === "provider-default" ? undefined : reasoning,
    tools:
      functions.length === 0
        ? undefined
        : functions.map(({ name, description, inputSchema, strict }) => ({
            type: "function",
            function: { name, description, parameters: inputSchema, strict },
          })),
    tool_choice:
      functions.length === 0
        ? undefined
        : toolChoice?.type === "tool"
          ? { type: "function", function: { name: toolChoice.toolName } }
          : toolChoice?.type,
    response_format:
      format?.type !== "json"
        ? undefined
        : format.schema === undefined
          ? { type: "json_object" }
          : {
              type: "json_schema",
              json_schema: { name: format.name ?? "response", schema: format.schema, strict: true },
            },
    // Fields of chat completions that the package has no name for.
    ...ownOptions(providerOptions, ["model", "messages", "stream", "stream_options"]),
  };
  return { params: withoutUndefined(params) as unknown as ChatCompletionCreateParams, warnings };
}

function messagesOf(message: PromptMessage): ChatMessageParam[] {
  switch (message.role) {
    case "system":
      return [{ role: "system", content: message.content }];
    case "user":
      return [{ role: "user", content: textOf(message.content) }];
    case "assistant": {
      const calls = message.content.filter(({ type }) => type === "tool-call");
      const thoughts = message.content.filter(({ type }) => type === "reasoning");
      const said = message.content.filter(({ type }) => type !== "tool-call" && type !== "reasoning");
      return [
        {
          role: "assistant",
          content: said.length === 0 && calls.length > 0 ? null : textOf(said),
          ...(thoughts.length > 0 ? { reasoning: textOf(thoughts) } : {}),
          ...(calls.length > 0 ? { tool_calls: calls.map(callOf) } : {}),
        },
      ];
    }
    case "tool":
      return message.content.flatMap((part): ChatMessageParam[] =>
        part.type === "tool-result"
          ? [{ role: "tool", tool_call_id: part.toolCallId!, content: outputText(part.output!) }]
          : [],
      );
  }
}

/** Parts of one message; the package splits what applications write as one text. */
function textOf(parts: readonly PromptPart[]): string {
  const other = parts.find(({ type }) => type !== "text" && type !== "reasoning");
  if (other !== undefined) {
    throw ValidationError.at(
      "prompt",
      `parts of the type "${other.type}" are not available: only texts are`,
      "not_supported",
    );
  }
  return parts.map(({ text }) => text ?? "").join("");
}

function callOf({ toolCallId, toolName, input }: PromptPart): object {
  const text = typeof input === "string" ? input : JSON.stringify(input ?? {});
  return { id: toolCallId, type: "function", function: { name: toolName, arguments: text } };
}

function outputText(output: ToolOutput): string {
  switch (output.type) {
    case "text":
    case "error-text":
      return output.value;
    case "json":
    case "error-json":
      return JSON.stringify(output.value);
    case "execution-denied":
      return output.reason ?? "The call was not permitted.";
    case "content":
      return textOf(output.value);
  }
}
