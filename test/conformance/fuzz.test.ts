// Wild values in every field: an answer or a refusal, never a failure, and the next request is answered as ever.

import { afterAll, beforeAll, expect, test } from "vitest";
import { chatCompletionCreate } from "../../src/schemas/chat.js";
import { scriptedModel, start } from "./scripted.js";
import { hello, Served } from "./served.js";

let served: Served;
beforeAll(async () => {
  served = await Served.open({ models: [(await scriptedModel("m")).model], scheduler: "priority" });
});
afterAll(() => served?.close());

const fields = Object.keys(chatCompletionCreate.shape);

/** JSON texts, some of which JavaScript could not write. */
const wild = [
  ...["null", "true", "false", "0", "-1", "1", "1.5", "20", "65537", "1e308", "-1e308", "5e-324", "1e999"],
  ...["9007199254740993", "-9223372036854775808", "99999999999999999999999999", '""', '"a"', '"\\u0000"'],
  ...['"\\ud800"', '"{{ 1/0 }}"', '"auto"', `"${"long ".repeat(2000)}"`, "[]", "[[]]", "[null]", "[0]", "[1e99]"],
  ...['["a","\\udc00"]', "[{}]", "{}", '{"a":null}', '{"0":1e308}', '{"__proto__":{"a":1},"toString":2}'],
  ...['{"type":"function","function":{"name":"f"}}', '{"max_pattern_size":1e15,"min_count":1e15}'],
  `[${Array.from({ length: 3000 }, (_, i) => i % 280).join(",")}]`,
  `[${Array.from({ length: 500 }, (_, i) => `"w${i}"`).join(",")}]`,
  `${'{"a":'.repeat(300)}1${"}".repeat(300)}`,
];

const base: Record<string, string> = {
  messages: JSON.stringify(hello),
  max_tokens: "2",
  chat_template_kwargs: JSON.stringify(start("[dice]").chat_template_kwargs),
};

/** Sends a body; its status. Anything but an answer or a refusal of the request is a failure of ours. */
async function send(parts: Record<string, string>): Promise<number> {
  const members = Object.entries({ ...base, ...parts }).map(([name, value]) => `${JSON.stringify(name)}:${value}`);
  const body = `{${members.join(",")}}`;
  const response = await served.post(body, { signal: AbortSignal.timeout(20_000) });
  const text = await response.text();
  expect([200, 404, 422], `${response.status} ${text.slice(0, 500)} for ${body.slice(0, 500)}`).toContain(
    response.status,
  );
  if (response.headers.get("content-type")?.startsWith("text/event-stream")) {
    expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
    expect(text, body.slice(0, 500)).not.toContain('"error"');
  }
  return response.status;
}

/** All of `bodies`, several at a time. */
async function sendAll(bodies: Iterable<Record<string, string>>): Promise<void> {
  const iterator = bodies[Symbol.iterator]();
  const worker = async () => {
    for (let next = iterator.next(); !next.done; next = iterator.next()) await send(next.value);
  };
  await Promise.all(Array.from({ length: 8 }, worker));
}

async function expectFine(): Promise<void> {
  expect(await served.text(start("[words]"))).toBe("One two three four five");
  expect(served.engine.core.defaultBase.loop.stats()).toMatchObject({ running: 0, waiting: 0, cacheUsage: 0 });
}

test("every field takes or refuses every wild value", async () => {
  await sendAll(fields.flatMap((field) => wild.map((value) => ({ [field]: value }))));
  await expectFine();
});

test("also within messages, tools and other objects", async () => {
  const inside = [
    ...["role", "content", "name", "tool_calls", "tool_call_id", "reasoning", "other"].map(
      (key) => (value: string) => ({
        messages: `[{"role":"assistant","content":"x",${JSON.stringify(key)}:${value}}]`,
      }),
    ),
    (value: string) => ({ messages: `[{"role":"user","content":[${value}]}]` }),
    (value: string) => ({
      messages: `[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":${value}}}]}]`,
    }),
    (value: string) => ({ tools: `[{"type":"function","function":{"name":"f","parameters":${value}}}]` }),
    (value: string) => ({ chat_template_kwargs: `{"start":${value}}` }),
    (value: string) => ({ stream: "true", stream_options: `{"include_usage":${value}}` }),
    (value: string) => ({ repetition_detection: `{"max_pattern_size":4,"min_pattern_size":${value},"min_count":2}` }),
    (value: string) => ({ documents: `[{"title":${value}}]` }),
  ];
  await sendAll(inside.flatMap((body) => wild.map((value): Record<string, string> => body(value))));
  await expectFine();
});

test("fields together, drawn at random", async () => {
  // A linear congruential generator, so that a failure comes again.
  let state = 12345;
  const below = (count: number) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return Math.floor((state / 2 ** 32) * count);
  };
  const flags = ["stream", "logprobs", "echo", "use_beam_search", "ignore_eos", "return_token_ids"];
  const bodies = Array.from({ length: 600 }, () => {
    const body: Record<string, string> = {};
    for (const flag of flags) if (below(3) === 0) body[flag] = "true";
    for (let i = 0; i < 3; i++) body[fields[below(fields.length)]!] = wild[below(20)]!;
    return body;
  });
  await sendAll(bodies);
  await expectFine();
});

test("every field and parameter of every endpoint, also with ids that cannot be", async () => {
  interface Operation {
    parameters?: { name: string; in: string }[];
    requestBody?: { content: { "application/json"?: { schema: { $ref?: string; properties?: object } } } };
  }
  const document = await (await served.request("GET", "/openapi.json")).json();
  const { paths, components } = document as {
    paths: Record<string, Record<string, Operation>>;
    components: { schemas: Record<string, { properties?: object }> };
  };
  const ids = ["0", "%00", "..%2f..%2fetc", "%F0%9F%98%80", "x".repeat(3000), "00000000-0000-0000-0000-000000000000"];
  const values = ["null", "-1", "1e999", '"a"', '"../../x"', "[]", "[null]", "[{}]", "{}", '{"__proto__":{"a":1}}'];
  const calls: [method: string, path: string, body?: string][] = [];
  for (const [path, operations] of Object.entries(paths)) {
    // Those of a completion have had their turn.
    if (path.startsWith("/v1/chat/") || path.startsWith("/v1/preview/keys")) continue;
    for (const [verb, { parameters = [], requestBody }] of Object.entries(operations)) {
      const method = verb.toUpperCase();
      const at = (id: string) => path.replace(/\{\w+\}/g, id);
      for (const id of path.includes("{") ? ids : []) calls.push([method, at(id), method === "GET" ? undefined : "{}"]);
      const named = parameters.filter((parameter) => parameter.in === "query").map(({ name }) => name);
      for (const name of named) for (const value of ids) calls.push([method, `${at(ids[0]!)}?${name}=${value}`]);
      const schema = requestBody?.content["application/json"]?.schema;
      const component = components.schemas[schema?.$ref?.replace("#/components/schemas/", "") ?? ""];
      const properties = Object.keys((component ?? schema)?.properties ?? {});
      for (const name of properties) {
        for (const value of values) calls.push([method, at(ids[0]!), `{${JSON.stringify(name)}:${value}}`]);
      }
    }
  }
  expect(calls.length).toBeGreaterThan(300);
  for (const [method, path, body] of calls) {
    const response = await served.request(method, path, body, { signal: AbortSignal.timeout(20_000) });
    const text = await response.text();
    expect(response.status, `${method} ${path} ${body} gave ${text.slice(0, 500)}`).toBeLessThan(500);
  }
  await expectFine();
});
