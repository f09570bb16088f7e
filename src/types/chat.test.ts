import type OpenAI from "openai";
import { expectTypeOf, test } from "vitest";
import type * as z from "zod";
import type { chatCompletionCreate } from "../schemas/chat.js";
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionCreateParams,
  ChatCompletionCreateParamsNonStreaming,
  ChatCompletionCreateParamsStreaming,
} from "./chat.js";

type Params = OpenAI.Chat.Completions.ChatCompletionCreateParams;
type NonStreaming = OpenAI.Chat.Completions.ChatCompletionCreateParamsNonStreaming;
type Streaming = OpenAI.Chat.Completions.ChatCompletionCreateParamsStreaming;

test("parameters of the openai package are assignable", () => {
  expectTypeOf<Params>().toExtend<ChatCompletionCreateParams>();
  expectTypeOf<NonStreaming>().toExtend<ChatCompletionCreateParamsNonStreaming>();
  expectTypeOf<Streaming>().toExtend<ChatCompletionCreateParamsStreaming>();
});

test("answers have what the openai package's types promise, but for reasons of their own", () => {
  type Choice = ChatCompletion["choices"][number];
  type TheirChoice = OpenAI.Chat.Completions.ChatCompletion.Choice;
  expectTypeOf<Choice["message"]["content"]>().toExtend<TheirChoice["message"]["content"]>();
  expectTypeOf<Choice["message"]["tool_calls"]>().toExtend<TheirChoice["message"]["tool_calls"]>();
  expectTypeOf<ChatCompletion["usage"]>().toExtend<OpenAI.CompletionUsage>();
  expectTypeOf<ChatCompletionChunk["object"]>().toExtend<OpenAI.Chat.Completions.ChatCompletionChunk["object"]>();
});

test("the types and the schema know the same fields", () => {
  expectTypeOf<keyof ChatCompletionCreateParams>().toEqualTypeOf<keyof z.input<typeof chatCompletionCreate>>();
});
