// The answer in one piece.

import { shouldYield, yieldToEventLoop } from "../../eventLoop.js";
import type { Generation, PromptTokenLogprobs, TokensEvent } from "../../inference/index.js";
import type { ChatCompletion, ChatCompletionChoice, ToolCall, ToolCallDelta } from "../../types/chat.js";
import { type ChoiceStep, ChoiceWriters, usage } from "./choiceWriter.js";
import { promptLogprobs } from "./logprobs.js";
import type { PreparedChat } from "./preparedChat.js";

export async function completion(chat: PreparedChat, generation: Generation): Promise<ChatCompletion> {
  const { promptTokens } = chat.generation;
  const writers = new ChoiceWriters(chat);
  const choices: ChatCompletionChoice[] = new Array(chat.n);
  let completionTokens = 0;
  let cached = 0;
  let prompt: (PromptTokenLogprobs | null)[] | null = null;
  for await (const event of generation) {
    if (event.type === "prompt") {
      cached = event.cachedTokens;
      prompt = event.promptLogprobs;
    } else {
      choices[event.index] ??= emptyChoice(chat, event.index);
      const choice = choices[event.index]!;
      completionTokens += event.tokenIds.length;
      for (const piece of inPieces(event)) {
        add(choice, writers.of(event.index).write(piece));
        while (shouldYield()) await yieldToEventLoop();
      }
      if (event.finish === null) continue;
      finish(choice, chat);
      writers.ended(event.index);
    }
  }
  return {
    id: chat.id,
    object: "chat.completion",
    created: chat.created,
    model: chat.model,
    choices,
    service_tier: null,
    system_fingerprint: chat.fingerprint,
    usage: usage(promptTokens.length, completionTokens, cached, writers.reasoningTokens, generation.record.prediction),
    prompt_logprobs: prompt === null ? null : await promptLogprobs(chat.tokenizer, promptTokens, prompt),
    prompt_token_ids: chat.returnTokenIds ? [...promptTokens] : null,
    kv_transfer_params: null,
  };
}

/** Tokens whose logprobs are written at once. */
const PIECE = 256;

/** An event as several of few tokens; the text comes with the last. */
function* inPieces(event: TokensEvent): Generator<TokensEvent> {
  const { tokenIds, logprobs, temperatureLogprobs, top } = event;
  if (logprobs === null || tokenIds.length <= PIECE) return yield event;
  for (let from = 0; from < tokenIds.length; from += PIECE) {
    const to = from + PIECE;
    const isLast = to >= tokenIds.length;
    yield {
      ...event,
      text: isLast ? event.text : "",
      tokenIds: tokenIds.slice(from, to),
      logprobs: logprobs.slice(from, to),
      temperatureLogprobs: temperatureLogprobs?.slice(from, to) ?? null,
      top: top?.slice(from, to) ?? null,
      finish: isLast ? event.finish : null,
    };
  }
}

function emptyChoice(chat: PreparedChat, index: number): ChatCompletionChoice {
  return {
    index,
    message: {
      // The type says what it nearly always is.
      role: chat.role as "assistant",
      content: "",
      refusal: null,
      annotations: null,
      audio: null,
      function_call: null,
      reasoning: null,
    },
    logprobs: null,
    finish_reason: "abort",
    stop_reason: null,
    token_ids: null,
    ...(chat.promptIdsInChoices ? { prompt_token_ids: [...chat.generation.promptTokens] } : {}),
    ...(chat.samplingRecord === null ? {} : { sampling_settings: chat.samplingRecord }),
  };
}

function add(choice: ChatCompletionChoice, step: ChoiceStep): void {
  const { message } = choice;
  const { delta } = step;
  message.content += delta.content;
  if (delta.reasoning !== "") message.reasoning = (message.reasoning ?? "") + delta.reasoning;
  for (const call of delta.toolCalls) {
    message.tool_calls ??= [];
    addCall(message.tool_calls, call);
  }
  if (step.logprobs !== null) {
    choice.logprobs ??= { content: [] };
    for (const entry of step.logprobs.content) choice.logprobs.content.push(entry);
  }
  if (step.tokenIds !== null) {
    choice.token_ids ??= [];
    for (const id of step.tokenIds) choice.token_ids.push(id);
  }
  if (step.finishReason === null) return;
  choice.finish_reason = step.finishReason;
  choice.stop_reason = step.stopReason;
}

function addCall(calls: ToolCall[], delta: ToolCallDelta): void {
  const call = calls[delta.index];
  if (call !== undefined) {
    call.function.arguments += delta.function.arguments ?? "";
    return;
  }
  calls[delta.index] = {
    id: delta.id!,
    type: "function",
    function: { name: delta.function.name!, arguments: delta.function.arguments ?? "" },
  };
}

/** Text that was echoed stands first; a message of nothing but calls or reasoning has no content. */
function finish({ message }: ChatCompletionChoice, chat: PreparedChat): void {
  if (chat.echo !== null) message.content = chat.echo + message.content;
  const saysElse = message.tool_calls !== undefined || message.reasoning !== null;
  if (message.content === "" && saysElse) message.content = null;
}
