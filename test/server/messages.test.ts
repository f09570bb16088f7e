// Messages as Anthropic's clients meet them: a chat completion with another face.

import { afterAll, beforeAll, expect, it } from "vitest";
import type { MessageBlock, MessageEvent, MessageReply } from "../../src/schemas/messages.js";
import { agentModel } from "../conformance/agentModel.js";
import { Served } from "../conformance/served.js";

const weather = {
  name: "weather",
  description: "Weather of a city.",
  input_schema: { properties: { city: { type: "string" } }, required: ["city"] },
};
const ask = { model: "demo", max_tokens: 64 };
const says = (content: unknown) => ({ ...ask, messages: [{ role: "user", content }] });

let served: Served;
beforeAll(async () => {
  served = await Served.open({ models: [(await agentModel("demo")).model] });
});
afterAll(() => served?.close());

async function create(body: Record<string, unknown>): Promise<MessageReply> {
  const answer = await served.request("POST", "/v1/messages", body);
  const reply = (await answer.json()) as MessageReply;
  expect(answer.status, JSON.stringify(reply)).toBe(200);
  return reply;
}

async function events(body: Record<string, unknown>): Promise<MessageEvent[]> {
  const answer = await served.request("POST", "/v1/messages", { ...body, stream: true });
  expect(answer.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  const lines = (await answer.text()).trim().split("\n\n");
  return lines.map((line) => {
    const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(line)!;
    const event = JSON.parse(data!) as MessageEvent;
    expect(event.type).toBe(name);
    return event;
  });
}

/** The message that events make, as clients put it together. */
function assembled(all: readonly MessageEvent[]): MessageReply {
  let message: MessageReply | undefined;
  let open = -1;
  let json = "";
  for (const event of all) {
    if (event.type === "message_start") message = structuredClone(event.message);
    else if (event.type === "content_block_start") {
      expect([event.index, open]).toEqual([message!.content.length, -1]);
      open = event.index;
      json = "";
      message!.content.push({ ...event.content_block });
    } else if (event.type === "content_block_delta") {
      expect(event.index).toBe(open);
      const block = message!.content[open]!;
      if (event.delta.type === "text_delta") (block as { text: string }).text += event.delta.text;
      else if (event.delta.type === "thinking_delta") (block as { thinking: string }).thinking += event.delta.thinking;
      else json += event.delta.partial_json;
    } else if (event.type === "content_block_stop") {
      const block = message!.content[open]!;
      if (block.type === "tool_use") block.input = JSON.parse(json) as Record<string, unknown>;
      open = -1;
    } else if (event.type === "message_delta") Object.assign(message!, event.delta, { usage: event.usage });
  }
  expect([all[0]!.type, all.at(-1)!.type, open]).toEqual(["message_start", "message_stop", -1]);
  return message!;
}

/** What differs from one making to the next. */
const plain = ({ id: _, content, usage: { output_tokens }, ...rest }: MessageReply) => ({
  ...rest,
  output_tokens,
  content: content.map((block): MessageBlock => (block.type === "tool_use" ? { ...block, id: "" } : block)),
});

it("say what a chat completion says", async () => {
  const reply = await create({ ...says("Hi"), system: [{ type: "text", text: "Be brief." }] });
  const chat = await served.chat({
    model: "demo",
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hi" },
    ],
  });
  expect(reply).toMatchObject({
    type: "message",
    role: "assistant",
    model: "demo",
    content: [{ type: "text", text: chat.choices[0]!.message.content }],
    stop_reason: "end_turn",
    stop_sequence: null,
  });
  const { input_tokens, cache_read_input_tokens, output_tokens } = reply.usage;
  expect(input_tokens + cache_read_input_tokens).toBe(chat.usage.prompt_tokens);
  expect(output_tokens).toBe(chat.usage.completion_tokens);
});

it("go on with the text of an assistant that comes last, and with that alone", async () => {
  const user = { role: "user", content: "Hi" };
  const whole = await create({ ...ask, messages: [user] });
  const text = (whole.content[0] as { text: string }).text;
  const begun = text.slice(0, 3);
  for (const content of [begun, [{ type: "text", text: begun }]]) {
    const prompt = { model: "demo", messages: [user, { role: "assistant", content }] };
    const reply = await create({ ...ask, ...prompt, temperature: 0 });
    const goesOn = { ...prompt, continue_final_message: true, temperature: 0, max_tokens: ask.max_tokens };
    const { choices, usage } = await served.chat(goesOn);
    expect(reply.content).toEqual([{ type: "text", text: choices[0]!.message.content }]);
    const counted = await served.request("POST", "/v1/messages/count_tokens", prompt);
    const { input_tokens, cache_read_input_tokens } = reply.usage;
    expect(input_tokens + cache_read_input_tokens).toBe(usage.prompt_tokens);
    expect(await counted.json()).toEqual({ input_tokens: usage.prompt_tokens });
  }
  const { usage } = await served.chat({ model: "demo", messages: [user, { role: "assistant", content: "" }] });
  const nothing = await create({ ...ask, messages: [user, { role: "assistant", content: [] }] });
  expect(nothing.usage.input_tokens + nothing.usage.cache_read_input_tokens).toBe(usage.prompt_tokens);
});

it("think and call tools, and take back what came of it", async () => {
  const first = await create({ ...says("Weather?"), tools: [weather] });
  expect(first.content.map(({ type }) => type)).toEqual(["thinking", "tool_use"]);
  expect(first.stop_reason).toBe("tool_use");
  const call = first.content[1] as Extract<MessageBlock, { type: "tool_use" }>;
  expect(call).toMatchObject({ name: "weather", input: expect.any(Object) });
  const messages = [
    { role: "user", content: "Weather?" },
    { role: "assistant", content: first.content },
    {
      role: "user",
      content: [{ type: "tool_result", tool_use_id: call.id, content: [{ type: "text", text: "Sunny." }] }],
    },
  ];
  const prompt = { model: "demo", messages, tools: [weather] };
  const counted = await served.request("POST", "/v1/messages/count_tokens", prompt);
  const { input_tokens } = (await counted.json()) as { input_tokens: number };
  const chat = [
    { role: "user", content: "Weather?" },
    {
      role: "assistant",
      reasoning: (first.content[0] as { thinking: string }).thinking,
      tool_calls: [
        { id: call.id, type: "function", function: { name: "weather", arguments: JSON.stringify(call.input) } },
      ],
    },
    { role: "tool", tool_call_id: call.id, content: "Sunny." },
  ];
  const parameters = { type: "object", ...weather.input_schema };
  const tools = [{ type: "function", function: { name: "weather", description: weather.description, parameters } }];
  const { usage } = await served.chat({ model: "demo", messages: chat, tools, max_tokens: 1 });
  expect(input_tokens).toBe(usage.prompt_tokens);
  const then = await create({ ...ask, ...prompt });
  expect(then.usage.input_tokens + then.usage.cache_read_input_tokens).toBe(input_tokens);
});

it("keep the digits of numbers in calls, both ways", async () => {
  const values = '{"id":12345678901234567890,"price":1.50}';
  const properties = '{"id":{"const":12345678901234567890},"price":{"const":1.50}}';
  const schema = `{"type":"object","properties":${properties},"required":["id","price"]}`;
  const tools = `"tools":[{"name":"order","input_schema":${schema}}],"tool_choice":{"type":"tool","name":"order"}`;
  const user = '{"role":"user","content":"Order it"}';
  const body = `{"model":"demo","max_tokens":300,"messages":[${user}],${tools}}`;
  const reply = await (await served.request("POST", "/v1/messages", body)).text();
  expect(reply.replaceAll(/\s/g, "")).toContain(`"name":"order","input":${values}`);
  const call = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"order","input":${values}}]}`;
  const result = '{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"done"}]}';
  const prompt = `{"model":"demo","messages":[${user},${call},${result}]}`;
  const counted = await served.request("POST", "/v1/messages/count_tokens", prompt);
  const messages = [
    { role: "user", content: "Order it" },
    { role: "assistant", tool_calls: [{ id: "a", type: "function", function: { name: "order", arguments: values } }] },
    { role: "tool", tool_call_id: "a", content: "done" },
  ];
  const { usage } = await served.chat({ model: "demo", messages, max_tokens: 1 });
  expect(await counted.json()).toEqual({ input_tokens: usage.prompt_tokens });
});

it("are the same in events as in one piece: text, thoughts, calls, cut short, stopped", async () => {
  for (const body of [
    says("Hi"),
    { ...says("Weather?"), tools: [weather] },
    { ...says("Both of them"), tools: [weather, { name: "time", input_schema: {} }] },
    { ...says("loop"), max_tokens: 20 },
    { ...says("Hi"), stop_sequences: ["o"] },
    { ...says("Weather?"), tools: [weather], tool_choice: { type: "none" } },
  ]) {
    const whole = await create(body);
    const streamed = plain(assembled(await events(body)));
    // What says nothing has a block for it only in one piece.
    if (streamed.content.length === 0) streamed.content.push({ type: "text", text: "" });
    expect(streamed, JSON.stringify(body)).toEqual(plain(whole));
  }
  expect((await create({ ...says("loop"), max_tokens: 20 })).stop_reason).toBe("max_tokens");
  // Clients say how many tokens a reply may have whatever the context is.
  expect(await create({ ...says("Hi"), max_tokens: 128_000 })).toMatchObject({ stop_reason: "end_turn" });
  expect(await create({ ...says("Hi"), stop_sequences: ["o"] })).toMatchObject({
    stop_reason: "stop_sequence",
    stop_sequence: "o",
  });
});

it("are asked for with the key that Anthropic's clients send, and refused in their words", async () => {
  const post = async (body: unknown, headers: Record<string, string>) => {
    const init = {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
    };
    const answer = await fetch(`${served.address}/v1/messages`, init);
    // By which Anthropic's clients name a request.
    expect(answer.headers.get("request-id")).toBe(answer.headers.get("x-request-id"));
    return { status: answer.status, body: (await answer.json()) as { error: { type: string; message: string } } };
  };
  const key = { "x-api-key": served.engine.apiKey };
  expect((await post(says("Hi"), key)).status).toBe(200);
  const types: [body: unknown, headers: Record<string, string>, status: number, type: string, says: string][] = [
    [says("Hi"), {}, 401, "authentication_error", "no API key"],
    [says("Hi"), { "x-api-key": "wrong" }, 401, "authentication_error", "not valid"],
    [{ ...says("Hi"), model: "nobody" }, key, 404, "not_found_error", "nobody"],
    [{ ...says("Hi"), max_tokens: 0 }, key, 422, "invalid_request_error", "max_tokens"],
    [{ model: "demo", messages: [{ role: "user", content: "Hi" }] }, key, 422, "invalid_request_error", "max_tokens"],
    [says([{ type: "image", source: {} }]), key, 422, "invalid_request_error", "messages.0.content.0"],
    [{ ...says("Hi"), tool_choice: { type: "tool" } }, key, 422, "invalid_request_error", "tool_choice.name"],
    [
      { ...says("Hi"), tools: [{ type: "web_search_20250305", name: "web_search" }] },
      key,
      422,
      "invalid_request_error",
      'tools.0.type: "web_search_20250305" is not available here',
    ],
  ];
  for (const [body, headers, status, type, text] of types) {
    const refused = await post(body, headers);
    expect(refused).toMatchObject({ status, body: { type: "error", error: { type } } });
    expect(refused.body.error.message).toContain(text);
  }
});

it("call tools before they follow a schema", async () => {
  const schema = {
    type: "object",
    properties: { city: { type: "string" }, degrees: { type: "integer" } },
    required: ["city", "degrees"],
    additionalProperties: false,
  };
  const body = {
    ...says("Report the weather."),
    ...{ tools: [weather], output_config: { format: { type: "json_schema", schema } } },
  };
  const asked = await create(body);
  expect(asked.stop_reason).toBe("tool_use");
  const call = asked.content.find((block) => block.type === "tool_use")!;
  expect(call).toMatchObject({ name: "weather", input: { city: "Oslo" } });
  expect(plain(assembled(await events(body)))).toEqual(plain(asked));
  const done = await create({
    ...body,
    messages: [
      ...body.messages,
      { role: "assistant", content: asked.content },
      { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "cold" }] },
    ],
  });
  expect(done).toMatchObject({
    stop_reason: "end_turn",
    content: [{ type: "text", text: '{"city": "Oslo", "degrees": -3}' }],
  });
});

it("are refused by the names of their own fields", async () => {
  const look = { type: "object", properties: { x: { type: "string", pattern: "(?<=a)b" } } };
  const bad = { name: "bad", input_schema: look };
  const format = { type: "json_schema", schema: look };
  const faults: [body: Record<string, unknown>, field: string][] = [
    [{ ...says("Hi"), output_config: { format } }, "output_config.format.schema.properties.x.pattern"],
    [
      { ...says("Hi"), tools: [weather, bad], tool_choice: { type: "any" } },
      "tools.1.input_schema.properties.x.pattern",
    ],
    [{ ...says("Hi"), tools: [weather], tool_choice: { type: "tool", name: "none" } }, "tool_choice.name"],
  ];
  for (const [body, field] of faults) {
    const answer = await served.request("POST", "/v1/messages", body);
    const refusal = (await answer.json()) as { detail: { loc: string[] }[]; error: { message: string } };
    expect([answer.status, refusal.detail?.[0]?.loc.join(".")], JSON.stringify(refusal)).toEqual([
      422,
      `body.${field}`,
    ]);
    expect(refusal.error.message).toContain(`body.${field}: `);
  }
  const long = await served.request("POST", "/v1/messages", says("long ".repeat(2000)));
  expect(((await long.json()) as { error: { message: string } }).error.message).toMatch(/\(shorten the messages\)$/);
});
