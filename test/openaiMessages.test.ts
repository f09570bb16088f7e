// Conversations that go to and fro between this library's types and the `openai` package's. That the assignments are
// permitted is what the type check of the tests finds out; that they mean the same, these tests.

import OpenAI from "openai";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ChatMessage, Engine } from "../src/index.js";

let engine: Engine;
let openai: OpenAI;
beforeAll(async () => {
  engine = await Engine.open({});
  openai = new OpenAI({ baseURL: "http://engine/v1", apiKey: engine.apiKey, fetch: engine.fetch });
});
afterAll(() => engine.close());

const greedy = { temperature: 0, max_tokens: 12 } as const;

test("a reply of the engine goes on as a message of openai", async () => {
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "What is 3 + 4?" }];
  const reply = await engine.chat.completions.create({ messages, ...greedy });
  messages.push(reply.choices[0]!.message);
  messages.push({ role: "user", content: [{ type: "text", text: "And 2 + 2?" }] });
  const ours = await engine.chat.completions.create({ messages, ...greedy });
  const theirs = await openai.chat.completions.create({ model: "anneal/tiny", messages, ...greedy });
  expect(theirs.choices[0]!.message.role).toBe("assistant");
  expect(theirs.choices[0]!.message.content).toBe(ours.choices[0]!.message.content);
});

test("a conversation of ours is one of openai's, and the other way round", async () => {
  const messages: ChatMessage[] = [{ role: "system", content: "Be brief." }];
  messages.push({ role: "user", content: "What is 3 + 4?" });
  const theirs: OpenAI.ChatCompletionMessageParam[] = messages;
  const reply = await openai.chat.completions.create({ model: "anneal/tiny", messages: theirs, ...greedy });
  messages.push(reply.choices[0]!.message);
  const back: ChatMessage[] = [...theirs];
  back.push((await engine.chat.completions.create({ messages: back, ...greedy })).choices[0]!.message);
  expect(back.map(({ role }) => role)).toEqual(["system", "user", "assistant", "assistant"]);
});

test("the messages of a request can be added to", async () => {
  const request: Parameters<typeof engine.chat.completions.create>[0] = { messages: [], ...greedy };
  request.messages.push({ role: "oracle", content: "3 + 4?" });
  expect(request.messages).toHaveLength(1);
});
