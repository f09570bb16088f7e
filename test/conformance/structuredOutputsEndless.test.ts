// Constrained replies of the embedded model at a temperature at which it says anything that is permitted. Whatever ended by
// itself is what was asked for.

import { afterAll, beforeAll, expect, test } from "vitest";
import { Engine } from "../../src/anneal.js";
import type { ChatCompletion, ChatCompletionChunk, ChatCompletionCreateParamsBase } from "../../src/types/chat.js";
import { random } from "../grammar/random.js";
import { isValid, type Json, SchemaMaker } from "../grammar/randomSchemas.js";

type Params = Partial<ChatCompletionCreateParamsBase>;

let engine: Engine;
beforeAll(async () => {
  engine = await Engine.open({});
});
afterAll(() => engine?.close());

interface Reply {
  text: string;
  finish: string | null;
  calls: { name: string; arguments: string }[];
}

async function replies(params: Params, streamed: boolean): Promise<Reply[]> {
  const request = {
    messages: [{ role: "user" as const, content: "Hello?" }],
    temperature: 2,
    max_tokens: 150,
    n: 2,
    ...params,
  };
  if (!streamed) {
    const { choices } = (await engine.chat.completions.create(request)) as ChatCompletion;
    return choices.map(({ message, finish_reason }) => ({
      text: message.content ?? "",
      finish: finish_reason,
      calls: (message.tool_calls ?? []).map((call) => call.function),
    }));
  }
  const found: Reply[] = Array.from({ length: request.n ?? 1 }, () => ({ text: "", finish: null, calls: [] }));
  const stream = await engine.chat.completions.create({ ...request, stream: true });
  for await (const { choices } of stream as AsyncIterable<ChatCompletionChunk>) {
    for (const { index, delta, finish_reason } of choices) {
      const reply = found[index]!;
      reply.text += delta.content ?? "";
      reply.finish = finish_reason ?? reply.finish;
      for (const call of delta.tool_calls ?? []) {
        reply.calls[call.index] ??= { name: "", arguments: "" };
        reply.calls[call.index]!.name += call.function?.name ?? "";
        reply.calls[call.index]!.arguments += call.function?.arguments ?? "";
      }
    }
  }
  return found;
}

/** The replies that ended by themselves; none if the schema has no values or cannot be enforced. */
async function finished(params: Params, streamed: boolean): Promise<Reply[]> {
  try {
    return (await replies(params, streamed)).filter(({ finish }) => finish === "stop" || finish === "tool_calls");
  } catch (error) {
    expect(error).toMatchObject({ status: 422 });
    return [];
  }
}

function expectValid(schema: unknown, text: string): void {
  const seen = [JSON.stringify(schema), text];
  expect([...seen, isValid(schema, JSON.parse(text) as Json)]).toEqual([...seen, true]);
}

test("replies of random schemas", async () => {
  const make = new SchemaMaker(random(20));
  const schemas = Array.from({ length: 60 }, () => make.schema(2));
  let seen = 0;
  await Promise.all(
    schemas.map(async (schema, i) => {
      const json_schema = { name: "any", schema: schema as Record<string, unknown> };
      const format = { type: "json_schema" as const, json_schema };
      const content = { type: "json_schema", json_schema: schema };
      const tag = { format: { type: "tag", begin: "<a>", content, end: "</a>" } };
      const asked: Params = i % 3 === 0 ? { structured_outputs: { structural_tag: tag } } : { response_format: format };
      for (const { text } of await finished({ ...asked, seed: i }, i % 4 === 1)) {
        seen++;
        expectValid(schema, i % 3 === 0 ? /^<a>(.*)<\/a>$/s.exec(text)![1]! : text);
      }
    }),
  );
  expect(seen).toBeGreaterThan(60);
});

test("arguments of tools with random schemas", async () => {
  const make = new SchemaMaker(random(21));
  const values = Array.from({ length: 16 }, () => make.schema(1));
  let seen = 0;
  await Promise.all(
    values.map(async (value, i) => {
      const parameters = { type: "object", properties: { value }, required: ["value"], additionalProperties: false };
      const tools = [{ type: "function" as const, function: { name: "take", parameters, strict: true } }];
      for (const { calls } of await finished({ tools, tool_choice: "required", seed: i }, i % 2 === 1)) {
        expect(calls.length).toBeGreaterThan(0);
        for (const call of calls) {
          seen++;
          expect(call.name).toBe("take");
          expectValid(parameters, call.arguments);
        }
      }
    }),
  );
  expect(seen).toBeGreaterThan(16);
});

const PATTERNS = [
  "(foo|ba[rz]){1,3}",
  "\\p{Lu}[\\p{Ll}']*( \\p{L}+)?",
  "[^\\s]{3,8}",
  ".{0,6}",
  "\\$\\{[^}]*\\}",
].concat([
  "[\\u4e00-\\u9fff]{2,4}",
  "a*?b+?c??",
  "-?(0|[1-9]\\d*)(\\.\\d+)?",
  "[\\x20-\\x7e]{1,12}!",
  "(a|ab)(c|bcd)(d*)",
]);

test("regular expressions", async () => {
  let seen = 0;
  await Promise.all(
    PATTERNS.map(async (regex, i) => {
      for (const { text } of await finished({ structured_outputs: { regex }, n: 4, seed: i }, i % 2 === 1)) {
        seen++;
        expect(text).toMatch(new RegExp(`^(?:${regex})$`, "u"));
      }
    }),
  );
  expect(seen).toBeGreaterThan(20);
});
