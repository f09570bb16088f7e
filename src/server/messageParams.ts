// A message's request as that of a chat completion.

import { jsonText } from "../json.js";
import { relocatedFault } from "../relocatedFault.js";
import type { MessageCountRequest, MessageRequest } from "../schemas/messages.js";
import { withoutNull } from "../withoutAbsent.js";

type Content = MessageCountRequest["messages"][number]["content"];
type Prompt = Pick<
  MessageCountRequest,
  "messages" | "system" | "tools" | "tool_choice" | "thinking" | "output_config" | "chat_template_kwargs" | "model"
>;

interface ChatMessage {
  role: string;
  content?: string | { type: "text"; text: string }[];
  reasoning?: string;
  tool_calls?: object[];
  tool_call_id?: string;
}

export function chatParams(request: MessageRequest): Record<string, unknown> {
  const { max_tokens, stop_sequences, stream, temperature, top_p, top_k, cache_salt, thinking, output_config } =
    request;
  const schema = output_config?.format?.schema;
  return withoutNull({
    ...promptParams(request),
    max_completion_tokens: max_tokens,
    stop: stop_sequences,
    temperature,
    top_p,
    top_k,
    cache_salt,
    thinking_token_budget: thinking?.type === "enabled" ? thinking.budget_tokens : undefined,
    response_format: schema && { type: "json_schema", json_schema: { name: "reply", schema } },
    stream,
    stream_options: stream ? { include_usage: true, continuous_usage_stats: true } : undefined,
  });
}

/** What the prompt is made of. */
export function promptParams(request: Prompt): Record<string, unknown> {
  const {
    model,
    messages,
    system,
    tools,
    tool_choice: choice,
    thinking,
    output_config,
    chat_template_kwargs,
  } = request;
  const leading: ChatMessage[] = system === undefined ? [] : [{ role: "system", content: textOf(system, "") }];
  return withoutNull({
    model,
    messages: [...leading, ...messages.flatMap(({ role, content }) => chatMessages(role, content))],
    continue_final_message: endsInText(messages.at(-1)) ? true : undefined,
    tools: tools?.map(({ name, description, input_schema, strict }) => {
      const parameters = { type: "object", ...input_schema };
      return { type: "function", function: withoutNull({ name, description, parameters, strict }) };
    }),
    tool_choice: choice && toolChoice(choice),
    parallel_tool_calls: choice?.disable_parallel_tool_use ? false : undefined,
    reasoning_effort: output_config?.effort ?? (thinking?.type === "disabled" ? "none" : undefined),
    chat_template_kwargs,
  });
}

/** Faults of the chat completion's fields, as those of the message's. */
export function asMessageFault(error: unknown, request: Prompt): unknown {
  return relocatedFault(error, (path) => renamed(path, request), "shorten the messages");
}

function renamed(path: string[], { output_config }: Prompt): string[] {
  const [head, second, ...rest] = path;
  if (head === "max_completion_tokens") return ["max_tokens"];
  if (head === "stop") return ["stop_sequences", ...path.slice(1)];
  if (head === "thinking_token_budget") return ["thinking", "budget_tokens"];
  if (head === "continue_final_message") return ["messages"];
  if (head === "reasoning_effort") return output_config?.effort ? ["output_config", "effort"] : ["thinking", "type"];
  if (head === "response_format") return ["output_config", "format", ...rest];
  if (head === "tools" && rest[0] === "function") {
    const [field, ...within] = rest.slice(1);
    return [head, second!, field === "parameters" ? "input_schema" : field!, ...within];
  }
  if (head === "tool_choice" && second === "function") return [head, ...rest];
  return path;
}

function toolChoice(choice: NonNullable<Prompt["tool_choice"]>): unknown {
  if (choice.type === "tool") return { type: "function", function: { name: choice.name } };
  return choice.type === "any" ? "required" : choice.type;
}

/** What a tool gave is a message of its own, before what the user says. */
function chatMessages(role: string, content: Content): ChatMessage[] {
  if (typeof content === "string") return [{ role, content }];
  const results: ChatMessage[] = [];
  const texts: { type: "text"; text: string }[] = [];
  const thoughts: string[] = [];
  const calls: object[] = [];
  for (const block of content) {
    if (block.type === "text") texts.push({ type: "text", text: block.text });
    else if (block.type === "thinking") thoughts.push(block.thinking);
    else if (block.type === "tool_use") {
      const { id, name, input } = block;
      calls.push({ id, type: "function", function: { name, arguments: jsonText(input) } });
    } else if (block.type === "tool_result") {
      results.push({ role: "tool", tool_call_id: block.tool_use_id, content: textOf(block.content ?? "", "\n") });
    }
  }
  const message = withoutNull({
    role,
    content: texts.length === 0 ? undefined : texts.length === 1 ? texts[0]!.text : texts,
    reasoning: thoughts.length === 0 ? undefined : thoughts.join(""),
    tool_calls: calls.length === 0 ? undefined : calls,
  }) as ChatMessage;
  return role !== "assistant" && texts.length === 0 ? results : [...results, message];
}

/** Whether an assistant's text comes last: its reply is to go on with that. */
function endsInText(last: Prompt["messages"][number] | undefined): boolean {
  if (last?.role !== "assistant") return false;
  const { content } = last;
  if (typeof content === "string") return content !== "";
  const block = content.at(-1);
  return block?.type === "text" && block.text !== "" && content.every(({ type }) => type !== "tool_use");
}

function textOf(content: string | readonly { text: string }[], separator: string): string {
  return typeof content === "string" ? content : content.map(({ text }) => text).join(separator);
}
