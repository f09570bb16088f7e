// Constrained replies of the embedded model, drawn at a temperature at which it says nothing sensible by itself.

import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Engine } from "../src/anneal.js";
import { createServer } from "../src/server/createServer.js";
import type { ChatCompletion, ChatCompletionChunk, ChatCompletionCreateParamsBase } from "../src/types/chat.js";

let engine: Engine;
beforeAll(async () => {
  // Steps are counted here.
  engine = await Engine.open({ speculation: "none" });
});
afterAll(async () => {
  await engine.close();
});

type Params = Partial<ChatCompletionCreateParamsBase>;

const wild = { temperature: 2, max_tokens: 300 } as const;
const ask = (params: Params): Promise<ChatCompletion> =>
  engine.chat.completions.create({ messages: [{ role: "user", content: "Hello?" }], ...wild, ...params });

/** The texts of replies that ended by themselves: others are cut off. */
const finished = ({ choices }: ChatCompletion) =>
  choices.filter((choice) => choice.finish_reason === "stop").map((choice) => choice.message.content!);

const person = {
  type: "object",
  properties: {
    name: { type: "string", minLength: 1, maxLength: 12 },
    age: { type: "integer", minimum: 0, maximum: 120 },
    score: { type: "number", exclusiveMinimum: 0, maximum: 1 },
    born: { type: "string", format: "date" },
    tags: { type: "array", items: { enum: ["red", "green"] }, minItems: 1, maxItems: 3 },
    friend: {
      anyOf: [
        { type: "null" },
        { type: "object", properties: { id: { const: 7 } }, required: ["id"], additionalProperties: false },
      ],
    },
  },
  required: ["name", "age", "tags", "friend"],
  additionalProperties: false,
};

function expectPerson(text: string): void {
  const value = JSON.parse(text) as Record<string, unknown>;
  expect(Object.keys(person.properties)).toEqual(expect.arrayContaining(Object.keys(value)));
  expect([...(value.name as string)].length).toBeGreaterThanOrEqual(1);
  expect([...(value.name as string)].length).toBeLessThanOrEqual(12);
  expect(Number.isInteger(value.age) && (value.age as number) >= 0 && (value.age as number) <= 120).toBe(true);
  if ("score" in value) expect((value.score as number) > 0 && (value.score as number) <= 1).toBe(true);
  if ("born" in value) {
    const born = value.born as string;
    // JavaScript moves a day that does not exist into the next month.
    expect(new Date(`${born}T00:00:00Z`).toISOString().slice(0, 10)).toBe(born);
  }
  const tags = value.tags as string[];
  expect(tags.length >= 1 && tags.length <= 3 && tags.every((tag) => tag === "red" || tag === "green")).toBe(true);
  expect([null, '{"id":7}']).toContain(value.friend === null ? null : JSON.stringify(value.friend));
}

test.each([0, 1, 2])(
  "a model that would not think does not begin to because an answer is constrained, at %d",
  async (temperature) => {
    const { choices } = await ask({ temperature, n: 32, seed: 3, structured_outputs: { regex: "[0-9]{3}" } });
    for (const { message, finish_reason } of choices) {
      expect(message).toMatchObject({ reasoning: null, content: expect.stringMatching(/^[0-9]{3}$/) });
      expect(finish_reason).toBe("stop");
    }
  },
);

test("JSON of a schema, many at once", async () => {
  const format: Params = { response_format: { type: "json_schema", json_schema: { name: "person", schema: person } } };
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, i) => ask({ ...format, n: 4, seed: 100 * i, max_tokens: 500 })),
  );
  const texts = answers.flatMap(finished);
  expect(texts.length).toBeGreaterThan(12);
  for (const text of texts) expectPerson(text);
  expect(new Set(texts).size).toBeGreaterThan(10);
});

const KINDS: [name: string, outputs: NonNullable<Params["structured_outputs"]>, isGood: (text: string) => boolean][] = [
  ["regex", { regex: "[a-c]{2}\\d+é?" }, (text) => /^[a-c]{2}\d+é?$/.test(text)],
  ["choice", { choice: ["yes", "no", "it depends"] }, (text) => ["yes", "no", "it depends"].includes(text)],
  [
    "GBNF",
    { grammar: 'root ::= "(" root ")" | [0-9]' },
    (text) => /^(\(*)\d(\)*)$/.test(text) && text.length % 2 === 1,
  ],
  ["Lark", { grammar: 'start: NAME "=" /[0-9]/\nNAME: "a".."f"' }, (text) => /^[a-f]=\d$/.test(text)],
  ["JSON schema as text", { json: '{"type":"boolean"}' }, (text) => text === "true" || text === "false"],
  [
    "compact JSON",
    { json: { type: "array", items: { enum: [1, 22] }, minItems: 2, maxItems: 4 }, disable_any_whitespace: true },
    (text) => !/\s/.test(text) && /^(1|22)(,(1|22)){1,3}$/.test((JSON.parse(text) as number[]).join()),
  ],
  [
    "white space of its own",
    { json: { type: "array", items: { const: 1 }, minItems: 2, maxItems: 2 }, whitespace_pattern: "\\t" },
    (text) => /^\[\t\S+\t,\t\S+\t\]$/.test(text) && (JSON.parse(text) as number[]).join() === "1,1",
  ],
  [
    "structural tag",
    {
      structural_tag: {
        format: {
          type: "tag",
          begin: "<a>",
          content: { type: "json_schema", json_schema: { enum: [1, 2] } },
          end: "</a>",
        },
      },
    },
    (text) => [1, 2].includes(Number(/^<a>(\S+)<\/a>$/.exec(text)![1])),
  ],
];

test.each(KINDS)("%s, with logprobs and penalties", async (_, structured_outputs, isGood) => {
  const answer = await ask({ structured_outputs, n: 6, seed: 3, logprobs: true, frequency_penalty: 0.5 });
  const texts = finished(answer);
  expect(texts.length).toBeGreaterThan(0);
  for (const text of texts) expect([text, isGood(text)]).toEqual([text, true]);
  for (const choice of answer.choices) {
    expect(choice.logprobs!.content.length).toBeGreaterThan(0);
    // Of the model's own distribution, before the mask: they are finite and no certainties.
    for (const { logprob } of choice.logprobs!.content) expect(Number.isFinite(logprob) && logprob <= 0).toBe(true);
  }
});

test("any JSON object", async () => {
  const answer = await ask({ response_format: { type: "json_object" }, n: 8, seed: 5, temperature: 1 });
  for (const text of finished(answer)) expect(JSON.parse(text)).toBeTypeOf("object");
});

test("what is forced is the same with a step for each token as without", async () => {
  const few = { enum: ["constant", { a: [1, 2, { b: "constants of an enum" }] }, "constantly"] };
  const schema = {
    type: "object",
    properties: { few, more: few },
    required: ["few", "more"],
    additionalProperties: false,
  };
  const cases: Params[] = [
    { structured_outputs: { json: schema, disable_any_whitespace: true }, n: 3 },
    { structured_outputs: { regex: "(xyz|zyx)0123456789(xyz|zyx)" }, n: 2, stop: ["9x"], frequency_penalty: 1 },
    { structured_outputs: { choice: ["a longer choice, taken in the end"] }, max_tokens: 9 },
    { structured_outputs: { choice: ["one of them", "none of them"] }, min_tokens: 3, repetition_penalty: 1.2 },
  ];
  const all = (more: Params) =>
    Promise.all(
      cases.flatMap((params, i) =>
        [0, 1, 2, 3].map((seed) => ask({ ...params, ...more, seed: 10 * i + seed, return_token_ids: true })),
      ),
    );
  const seen = (answers: ChatCompletion[]) =>
    answers.map(({ choices, usage }) => ({
      usage: [usage!.prompt_tokens, usage!.completion_tokens],
      choices: choices.map((c) => [c.message.content, c.finish_reason, c.stop_reason, c.token_ids]),
    }));
  expect(seen(await all({}))).toEqual(seen(await all({ logprobs: true })));
});

test("what is forced takes no steps of its own", async () => {
  const properties = { city: { enum: ["Oslo", "Rome"] }, country: { const: "known beforehand" } };
  const parameters = { type: "object", properties, required: ["city", "country"], additionalProperties: false };
  const call = async (logprobs: boolean) => {
    const { loop } = engine.core.defaultBase;
    const { steps } = loop.stats();
    const answer = await ask({
      tools: [{ type: "function", function: { name: "weather", parameters } }],
      tool_choice: { type: "function", function: { name: "weather" } },
      logprobs,
      seed: 1,
    });
    return { tokens: answer.usage!.completion_tokens, steps: loop.stats().steps - steps };
  };
  const each = await call(true);
  const together = await call(false);
  expect(each.steps).toBeGreaterThanOrEqual(each.tokens);
  expect(together.tokens).toBe(each.tokens);
  expect(together.steps).toBeLessThan(each.tokens / 2);
});

test("stop ids end a constrained reply, where it is complete or where they are part of it", async () => {
  const encode = (text: string) => engine.core.defaultBase.tokenizer.encode(text);
  const [x] = encode("x");
  const params: Params = { structured_outputs: { regex: "[0-9]{3}" }, n: 8, max_tokens: 400 };
  const outside = await ask({ ...params, stop_token_ids: [x!], seed: 1, logit_bias: { [x!]: 100 } });
  for (const { message, finish_reason, stop_reason } of outside.choices) {
    // Thoughts are as free to end.
    if (finish_reason !== "stop" || !message.content) continue;
    expect(message.content).toMatch(/^[0-9]{3}$/);
    expect(stop_reason).toBe(x);
  }
  const [seven] = encode("7");
  const inside = await ask({ ...params, stop_token_ids: [seven!], seed: 2, logit_bias: { [seven!]: 100 } });
  expect(inside.choices.some(({ stop_reason }) => stop_reason === seven)).toBe(true);
});

test("stop strings cut a constrained reply, and max_tokens truncates it", async () => {
  const structured_outputs = { regex: "x(ab){30}" };
  const stopped = await ask({ structured_outputs, stop: ["bab"], include_stop_str_in_output: true, seed: 1 });
  const [choice] = stopped.choices;
  if (choice!.message.content !== null) expect(choice!.message.content).toBe("xabab");
  const short = await ask({ structured_outputs, max_tokens: 4, n: 4, seed: 2 });
  for (const { finish_reason, message } of short.choices) {
    expect(finish_reason).toBe("length");
    // Thoughts that have only begun are shown as they are.
    if (message.content?.startsWith("<")) continue;
    expect(`x${"ab".repeat(30)}`.startsWith(message.content ?? "")).toBe(true);
  }
});

test("streamed and whole replies are the same, whatever runs beside them", async () => {
  const params: Params = { structured_outputs: { json: person }, seed: 9, n: 3 };
  const beside = Array.from({ length: 20 }, (_, i) => ask({ seed: i, max_tokens: 20 }));
  const whole = await ask(params);
  const stream = await engine.chat.completions.create({
    messages: [{ role: "user", content: "Hello?" }],
    ...wild,
    ...params,
    stream: true,
  });
  const texts = ["", "", ""];
  for await (const chunk of stream as AsyncIterable<ChatCompletionChunk>) {
    for (const choice of chunk.choices) texts[choice.index] += choice.delta.content ?? "";
  }
  expect(texts).toEqual(whole.choices.map((choice) => choice.message.content ?? ""));
  await Promise.all(beside);
});

test("a response_format may be a structural tag, in both shapes", async () => {
  const content = { type: "json_schema", json_schema: { enum: ["x", "y"] } };
  const format = { type: "tag", begin: "<a>", content, end: "</a>" };
  const inside = await ask({ response_format: { type: "structural_tag", format }, seed: 1 });
  expect(inside.choices[0]!.message.content).toMatch(/^<a>"(x|y|\\u007[89])"<\/a>$/);
  const structures = [{ begin: "e", schema: { const: "x" }, end: "" }];
  const answer = await ask({ response_format: { type: "structural_tag", structures, triggers: ["e"] }, n: 4, seed: 1 });
  for (const { message } of answer.choices) expect(message.content).not.toMatch(/e[^"]/);
  expect(answer.choices.map((choice) => choice.message.content).join()).toContain('e"');
});

test("over HTTP, with openai's client", async () => {
  const handler = createServer(engine, {});
  const client = new OpenAI({
    baseURL: "http://test/v1",
    apiKey: engine.core.ownerKey,
    fetch: (url, init) => handler(new Request(url as string, init as RequestInit)),
  });
  const messages = [{ role: "user" as const, content: "Hello?" }];
  const json_schema = { name: "person", schema: person, strict: true };
  const format = { type: "json_schema" as const, json_schema };
  const model = "anneal/tiny";
  const answer = await client.chat.completions.create({
    model,
    messages,
    response_format: format,
    n: 4,
    seed: 7,
    max_tokens: 300,
  });
  for (const { message, finish_reason } of answer.choices) if (finish_reason === "stop") expectPerson(message.content!);
  const refused = { ...format, json_schema: { ...json_schema, schema: { format: "idn-email" } } };
  await expect(
    client.chat.completions.create({ model, messages, response_format: refused, stream: true }),
  ).rejects.toMatchObject({
    status: 422,
    param: "response_format.json_schema.schema.format",
  });
});

test("integers beyond 2^53 are those that were written", async () => {
  const server = createServer(engine, {});
  const reply = async (constraint: string): Promise<string> => {
    const response = await server(
      new Request("http://localhost/v1/chat/completions", {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${engine.core.ownerKey}` },
        body: `{"messages":[{"role":"user","content":"Hello?"}],"temperature":0,"max_tokens":100,${constraint}}`,
      }),
    );
    const { choices } = (await response.json()) as ChatCompletion;
    return choices[0]!.message.content!;
  };
  const schema = '{"type":"string","const":"9007199254740993"}';
  expect(await reply(`"structured_outputs":{"json":${schema}}`)).toBe('"9007199254740993"');
  const listed = (value: string) => `{"type":"array","items":false,"prefixItems":[{"const":${value}}],"minItems":1}`;
  // However it is spelled: with a point, an exponent, zeros.
  const written = /^\[\s*9\.?007199254740993/;
  expect(await reply(`"structured_outputs":{"json":${listed("9007199254740993")}}`)).toMatch(written);
  expect(await reply(`"structured_outputs":{"json":${JSON.stringify(listed("9007199254740993"))}}`)).toMatch(written);
  const format = `{"type":"json_schema","json_schema":{"name":"n","schema":${listed("9007199254740993")}}}`;
  expect(await reply(`"response_format":${format}`)).toMatch(written);
  // No grammar of the one is taken for the other.
  expect(await reply(`"structured_outputs":{"json":${listed('{"bigint":"9007199254740993"}')}}`)).toContain("bigint");
});

test("properties come as they are declared, or in any order where that is asked for", async () => {
  const properties = { a: { enum: [1] }, b: { enum: [2] } };
  const json = { type: "object", properties, required: ["a", "b"], additionalProperties: false };
  const orders = async (more: { any_order?: boolean }) => {
    const answer = await ask({ structured_outputs: { json, ...more }, n: 24, seed: 4 });
    return new Set(finished(answer).map((text) => Object.keys(JSON.parse(text) as object).join()));
  };
  expect(await orders({})).toEqual(new Set(["a,b"]));
  expect(await orders({ any_order: true })).toEqual(new Set(["a,b", "b,a"]));
});

describe("an object that declares properties and says nothing of others", () => {
  const schema = { type: "object", properties: { a: { enum: [1, 2] } }, required: ["a"] };
  const names = (texts: string[]) => new Set(texts.flatMap((text) => Object.keys(JSON.parse(text) as object)));
  const drawn = async (params: Params) => names(finished(await ask({ ...params, n: 16, seed: 21 })));
  const format = (strict?: boolean): Params => ({
    response_format: { type: "json_schema", json_schema: { name: "a", schema, strict } },
  });

  test("has others in the formats of replies", async () => {
    expect((await drawn(format())).size).toBeGreaterThan(1);
    expect((await drawn(format(false))).size).toBeGreaterThan(1);
    expect((await drawn({ structured_outputs: { json: schema } })).size).toBeGreaterThan(1);
  });

  test("has none where the format is strict, where they are disabled, and in arguments of tools", async () => {
    const only = new Set(["a"]);
    expect(await drawn(format(true))).toEqual(only);
    expect(await drawn({ structured_outputs: { json: schema, disable_additional_properties: true } })).toEqual(only);
    const tools = [{ type: "function", function: { name: "f", parameters: schema } }];
    const answer = await ask({ tools, tool_choice: "required", n: 8, seed: 2 });
    const calls = answer.choices.flatMap((choice) => choice.message.tool_calls ?? []);
    expect(calls.length).toBeGreaterThan(4);
    expect(names(calls.map((call) => call.function.arguments))).toEqual(only);
  });

  test("has others where it says so, strict or not", async () => {
    const open = { ...schema, additionalProperties: { type: "boolean" } };
    const strict: Params = {
      response_format: { type: "json_schema", json_schema: { name: "a", schema: open, strict: true } },
    };
    expect((await drawn(strict)).size).toBeGreaterThan(1);
  });
});

describe("forced tool calls", () => {
  const tools: Params["tools"] = [
    {
      type: "function",
      function: {
        name: "weather",
        parameters: {
          type: "object",
          properties: { city: { enum: ["Oslo", "Rome"] }, days: { type: "integer", minimum: 1, maximum: 9 } },
          required: ["city", "days"],
          additionalProperties: false,
        },
      },
    },
    { type: "function", function: { name: "stop", parameters: { type: "object", additionalProperties: false } } },
  ];
  const calls = (answer: ChatCompletion) => answer.choices.flatMap((choice) => choice.message.tool_calls ?? []);

  test("a named one", async () => {
    const answer = await ask({
      tools,
      tool_choice: { type: "function", function: { name: "weather" } },
      n: 8,
      seed: 4,
    });
    expect(calls(answer).length).toBe(8);
    for (const call of calls(answer)) {
      expect(call.function.name).toBe("weather");
      const { city, days } = JSON.parse(call.function.arguments) as { city: string; days: number };
      expect(["Oslo", "Rome"]).toContain(city);
      expect(days >= 1 && days <= 9).toBe(true);
    }
  });

  test("are part of what is drawn and counted, not of the prompt", async () => {
    const params: Params = { tools, seed: 4, return_token_ids: true };
    const tool_choice = { type: "function", function: { name: "weather" } };
    const forced = await ask({ ...params, tool_choice, thinking_token_budget: 0 });
    expect(forced.usage.prompt_tokens).toBe((await ask({ ...params, tool_choice: "none" })).usage.prompt_tokens);
    const { tokenizer } = engine.core.defaultBase;
    expect(tokenizer.decode(forced.choices[0]!.token_ids!)).toContain('<tool_call>\n{"name": "weather", "arguments": ');
    expect(forced.usage.completion_tokens).toBe(forced.choices[0]!.token_ids!.length);
  });

  test("any of them, one each", async () => {
    const answer = await ask({ tools, tool_choice: "required", parallel_tool_calls: false, n: 12, seed: 6 });
    expect(calls(answer).length).toBe(12);
    expect(new Set(calls(answer).map((call) => call.function.name))).toEqual(new Set(["weather", "stop"]));
    for (const call of calls(answer))
      if (call.function.name === "stop") expect(JSON.parse(call.function.arguments)).toEqual({});
    for (const choice of answer.choices) expect(choice.finish_reason).toBe("tool_calls");
  });

  test("several in one reply", async () => {
    const answer = await ask({ tools, tool_choice: "required", n: 4, seed: 8, min_tokens: 80 });
    expect(Math.max(...answer.choices.map((choice) => choice.message.tool_calls!.length))).toBeGreaterThan(1);
    for (const call of calls(answer)) expect(["weather", "stop"]).toContain(call.function.name);
  });
});

test("numbers of a schema are written as the request spells them", async () => {
  const ask = async (schema: string) => {
    const constraint = `{"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":${schema}}}`;
    const response = await createServer(engine)(
      new Request("http://anneal/v1/chat/completions", {
        method: "POST",
        headers: { authorization: `Bearer ${engine.apiKey}`, "content-type": "application/json" },
        body: `${constraint},"messages":[{"role":"user","content":"Hello?"}]}`,
      }),
    );
    return ((await response.json()) as ChatCompletion).choices[0]!.message.content;
  };
  expect(await ask('{"const":1.50}')).toBe("1.50");
  expect(await ask('{"const":1.5}')).toBe("1.5");
  expect(await ask('{"enum":[2.50E-1]}')).toBe("2.50E-1");
  expect(await ask('{"const":3.0}')).toBe("3");
});
