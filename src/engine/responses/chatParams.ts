// A response's request as that of a chat completion, and the faults of the latter as faults of the former.

import { relocatedFault } from "../../relocatedFault.js";
import { samplingNumbers } from "../../samplingNumbers.js";
import { namespacedName, offeredFunctions } from "../../schemas/offeredFunctions.js";
import type { ResponseRequest } from "../../schemas/responseRequests.js";
import type { PlacedItem } from "./inputItems.js";

interface AssistantMessage {
  role: "assistant";
  content: string | { type: "text"; text: string }[] | null;
  reasoning?: string;
  tool_calls?: { id: string; type: "function"; function: { name: string; arguments: string } }[];
}

type Message = AssistantMessage | { role: string; content: unknown; tool_call_id?: string };

/** A conversation, and where in the request each message came from; null: from a response before. */
export interface Conversation {
  messages: Message[];
  places: (string | null)[];
}

/** Items as messages: what the assistant thought, said and called before somebody else speaks is one. */
export function conversationOf(instructions: string | undefined, items: readonly PlacedItem[]): Conversation {
  const messages: Message[] = [];
  const places: (string | null)[] = [];
  const add = (message: Message, place: string | null) => {
    messages.push(message);
    places.push(place);
  };
  if (instructions !== undefined) add({ role: "system", content: instructions }, "instructions");
  // The assistant's message that goes on, and thoughts that no message has yet.
  const turn: { open: AssistantMessage | null; thoughts: string | null } = { open: null, thoughts: null };
  const assistant = (place: string | null): AssistantMessage => {
    if (turn.open !== null && turn.thoughts === null) return turn.open;
    const message: AssistantMessage = { role: "assistant", content: null };
    if (turn.thoughts !== null) message.reasoning = turn.thoughts;
    turn.open = message;
    turn.thoughts = null;
    add(message, place);
    return message;
  };
  const others = (message: Message, place: string | null) => {
    add(message, place);
    turn.open = null;
    turn.thoughts = null;
  };
  for (const { item, place } of items) {
    switch (item.type) {
      case "reasoning": {
        const parts = item.content?.length ? item.content : item.summary;
        const texts = parts.map(({ text }) => text);
        turn.thoughts = [...(turn.thoughts === null ? [] : [turn.thoughts]), ...texts].join("\n");
        break;
      }
      case "function_call": {
        const { call_id: id, arguments: text } = item;
        const name = namespacedName(item.namespace, item.name);
        const message = assistant(place);
        message.tool_calls ??= [];
        message.tool_calls.push({ id, type: "function", function: { name, arguments: text } });
        break;
      }
      case "function_call_output": {
        const content = typeof item.output === "string" ? item.output : partsOf(item.output);
        others({ role: "tool", tool_call_id: item.call_id, content }, place);
        break;
      }
      case "message": {
        const content = partsOf(item.content);
        if (item.role === "assistant") {
          // What was said before a call is of the message that calls; what is said after, of another.
          if (turn.open?.content !== null || turn.open.tool_calls !== undefined) turn.open = null;
          assistant(place).content = content;
        } else {
          others({ role: item.role, content }, place);
        }
      }
    }
  }
  return { messages, places };
}

function partsOf(parts: readonly { text: string }[]): string | { type: "text"; text: string }[] {
  return parts.length === 1 ? parts[0]!.text : parts.map(({ text }) => ({ type: "text", text }));
}

/** Fields of a response that a chat completion has under the same name. */
const SAME = [
  ...samplingNumbers.map(({ name }) => name),
  ...["model", "logit_bias", "seed", "stop", "stop_token_ids", "include_stop_str_in_output", "ignore_eos"],
  ...["min_tokens", "skip_special_tokens", "allowed_token_ids", "bad_words", "thinking_token_budget"],
  ...["structured_outputs", "chat_template", "chat_template_kwargs", "priority", "request_id", "cache_salt"],
  ...["repetition_detection", "stream_interval", "user"],
] as const;

export const wantsLogprobs = ({ include, top_logprobs }: ResponseRequest): boolean =>
  top_logprobs > 0 || (include?.includes("message.output_text.logprobs") ?? false);

export function chatParams(request: ResponseRequest, messages: readonly Message[]): Record<string, unknown> {
  const logprobs = wantsLogprobs(request);
  return {
    ...Object.fromEntries(SAME.map((name) => [name, request[name as keyof ResponseRequest]])),
    messages,
    ...toolParams(request),
    parallel_tool_calls: request.parallel_tool_calls,
    max_completion_tokens: request.max_output_tokens,
    reasoning_effort: request.reasoning?.effort,
    response_format: responseFormat(request.text?.format),
    logprobs,
    ...(logprobs ? { top_logprobs: request.top_logprobs } : {}),
    return_tokens_as_token_ids: false,
  };
}

function responseFormat(format: NonNullable<ResponseRequest["text"]>["format"]): unknown {
  if (format == null) return undefined;
  const { type, name, schema, strict } = format;
  return type === "json_schema" ? { type, json_schema: { name, schema, strict } } : { type };
}

function toolParams(request: ResponseRequest): Record<string, unknown> {
  const tools = offeredFunctions(request.tools).map(({ name, definition: { description, parameters, strict } }) => ({
    type: "function",
    function: {
      name,
      ...(description == null ? {} : { description }),
      ...(parameters == null ? {} : { parameters }),
      ...(strict == null ? {} : { strict }),
    },
  }));
  // Without tools there is nothing to be chosen, whatever clients send as their default.
  const isIdle = tools.length === 0 && request.tool_choice === "auto";
  return { ...(tools.length > 0 ? { tools } : {}), tool_choice: isIdle ? undefined : toolChoice(request.tool_choice) };
}

function toolChoice(choice: ResponseRequest["tool_choice"]): unknown {
  if (typeof choice !== "object") return choice;
  const named = ({ name }: { name: string }) => ({ type: "function", function: { name } });
  if (choice.type === "function") return named(choice);
  return { type: "allowed_tools", allowed_tools: { mode: choice.mode, tools: choice.tools.map(named) } };
}

/** Faults of the chat completion's fields, as those of the response's. */
export function asResponseFault(error: unknown, request: ResponseRequest, { places }: Conversation): unknown {
  const rename = (path: string[]) => renamed(path, request, places);
  return relocatedFault(error, rename, 'shorten the input, or set truncation to "auto"');
}

function renamed(path: string[], request: ResponseRequest, places: readonly (string | null)[]): string[] {
  const [head, second, ...rest] = path;
  if (head === "messages") {
    const place = second === undefined ? undefined : places[Number(second)];
    if (place === null) return ["previous_response_id"];
    return place === undefined ? ["input"] : [...place.split("."), ...rest];
  }
  if (head === "max_completion_tokens") return ["max_output_tokens"];
  if (head === "reasoning_effort") return ["reasoning", "effort"];
  if (head === "response_format") return ["text", "format", ...(second === "json_schema" ? rest : path.slice(1))];
  if (head === "tools" && rest[0] === "function") {
    return [head, ...offeredFunctions(request.tools)[Number(second)]!.place, ...rest.slice(1)];
  }
  if (head === "tool_choice" && second === "function") return [head, ...rest];
  return path;
}
