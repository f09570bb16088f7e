// Responses as clients meet them: items, events, what is refused.

import { describe, expect, it } from "vitest";
import { Engine } from "../../src/anneal.js";
import type { ModelResponse, ResponseOutputItem } from "../../src/types/responses.js";
import type { Refusal } from "../conformance/served.js";
import { canMeasureTurns, longestTurn } from "../fixtures/longestTurn.js";
import { followsTheProtocol } from "./responseProtocol.js";
import { last, ServedResponses, tools } from "./servedResponses.js";

const http = new ServedResponses();
const { ask, events, refusal } = http;

const kinds = (output: readonly ResponseOutputItem[]) => output.map(({ type }) => type);

/** What differs from one making to the next. */
const plain = ({ id: _, created_at, completed_at, output, ...rest }: ModelResponse) => ({
  ...rest,
  output: output.map((item) => ({ ...item, id: "", ...("call_id" in item ? { call_id: "" } : {}) })),
});

describe("a response", () => {
  it("says what a chat completion says, and what it was asked", async () => {
    const response = await ask({ model: "demo", input: "Hi", instructions: "Be brief.", metadata: { a: "b" } });
    expect(response).toMatchObject({
      object: "response",
      status: "completed",
      model: "demo",
      instructions: "Be brief.",
      metadata: { a: "b" },
      store: true,
      tools: [],
      tool_choice: "auto",
      text: { format: { type: "text" } },
      usage: { output_tokens: 6, output_tokens_details: { reasoning_tokens: 0 } },
    });
    expect(response.id).toMatch(/^resp_[0-9a-f]{48}$/);
    expect(response.output).toMatchObject([
      { type: "message", role: "assistant", status: "completed", content: [{ text: "Good day to you." }] },
    ]);
    const chat = await http.served.chat({ messages: [{ role: "user", content: "Hi" }], model: "demo" });
    expect(chat.choices[0]!.message.content).toBe("Good day to you.");
  });

  it("is the same in events as in one piece: text, thoughts, calls, several calls", async () => {
    for (const body of [
      { input: "Hi" },
      { input: "Hi", top_logprobs: 3 },
      { input: "Weather?", tools },
      { input: "Weather?", tools, reasoning: { summary: "auto" }, include: ["reasoning.encrypted_content"] },
      { input: "Both of them", tools },
      { input: "loop", max_output_tokens: 20 },
      { input: "Weather?", tools, max_output_tokens: 2 },
    ]) {
      const whole = await ask(body);
      const streamed = last(await events(body));
      const differs = { usage: null };
      expect({ ...plain(streamed), ...differs }, JSON.stringify(body)).toEqual({ ...plain(whole), ...differs });
      expect(streamed.usage!.output_tokens).toBe(whole.usage!.output_tokens);
      expect(streamed.usage!.output_tokens_details).toEqual(whole.usage!.output_tokens_details);
    }
  });

  it("says of a call that a stop has cut that it is not whole", async () => {
    const cut = await events({ input: "Weather?", tools, stop: "Oslo" });
    const [call] = cut.flatMap((event) =>
      event.type === "response.output_item.done" && event.item.type === "function_call" ? [event.item] : [],
    );
    expect(call).toMatchObject({ name: "weather", arguments: '{"city": "', status: "incomplete" });
    expect(cut.at(-1)).toMatchObject({ type: "response.completed" });
  });

  it("comes in the published sequences of events", async () => {
    // As OpenAI's reference of streaming events and the Open Responses specification have them; repeated deltas once.
    const sequence = async (body: Record<string, unknown>) =>
      (await events(body))
        .map(({ type }) => type.replace("response.", ""))
        .filter((type, i, all) => type !== all[i - 1]);
    const begun = ["created", "in_progress"];
    const text = ["content_part.added", "output_text.delta", "output_text.done", "content_part.done"];
    const item = (events: string[]) => ["output_item.added", ...events, "output_item.done"];
    expect(await sequence({ input: "Hi" })).toEqual([...begun, ...item(text), "completed"]);
    const call = item(["function_call_arguments.delta", "function_call_arguments.done"]);
    const thought = ["content_part.added", "reasoning_text.delta", "reasoning_text.done", "content_part.done"];
    expect(await sequence({ input: "Weather?", tools })).toEqual([...begun, ...item(thought), ...call, "completed"]);
    const summary = ["part.added", "text.delta", "text.done", "part.done"].map((end) => `reasoning_summary_${end}`);
    expect(await sequence({ input: "Weather?", tools, reasoning: { summary: "auto" } })).toEqual([
      ...begun,
      ...item(summary),
      ...call,
      "completed",
    ]);
    expect(await sequence({ input: "Both of them", tools })).toEqual([
      ...begun,
      ...item(text),
      ...call,
      ...call,
      "completed",
    ]);
    expect(await sequence({ input: "loop", max_output_tokens: 20 })).toEqual([...begun, ...item(text), "incomplete"]);
  });

  it("thinks in an item of its own, counted, as summary or encoded where that is asked for", async () => {
    const thinking = await ask({ input: "Weather?", tools });
    expect(kinds(thinking.output)).toEqual(["reasoning", "function_call"]);
    expect(thinking.output[0]).toMatchObject({
      summary: [],
      content: [{ type: "reasoning_text", text: "Which tool?" }],
    });
    expect(thinking.output[0]).not.toHaveProperty("encrypted_content");
    expect(thinking.usage!.output_tokens_details.reasoning_tokens).toBe(2);
    const summarised = await ask({
      input: "Weather?",
      tools,
      reasoning: { summary: "detailed" },
      include: ["reasoning.encrypted_content"],
    });
    const [reasoning] = summarised.output;
    expect(reasoning).toMatchObject({ summary: [{ type: "summary_text", text: "Which tool?" }] });
    expect(reasoning).not.toHaveProperty("content");
    // What a client hands back in any of the forms reaches the template.
    const encrypted = (reasoning as { encrypted_content: string }).encrypted_content;
    const counts = await Promise.all(
      [
        [],
        [{ type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "Which tool?" }] }],
        [{ type: "reasoning", summary: [{ type: "summary_text", text: "Which tool?" }] }],
        [{ type: "reasoning", summary: [], encrypted_content: encrypted }],
        [
          { type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "Which tool?" }] },
          { type: "reasoning", summary: [{ type: "summary_text", text: "Which one?" }] },
        ],
        [
          {
            type: "reasoning",
            content: [
              { type: "reasoning_text", text: "Which tool?" },
              { type: "reasoning_text", text: "Which one?" },
            ],
          },
        ],
      ].map(async (thoughts) => {
        const input = [{ role: "user", content: "a" }, ...thoughts, { role: "assistant", content: "b" }];
        return (await ask({ input: [...input, { role: "user", content: "c" }] })).usage!.input_tokens;
      }),
    );
    expect(counts[0]).toBeLessThan(counts[1]!);
    expect(counts.slice(2, 4)).toEqual([counts[1], counts[1]]);
    expect(counts[4]).toBeGreaterThan(counts[1]!);
    expect(counts[5]).toBe(counts[4]);
  });

  it("tells the logprobs of its text, and of nothing else", async () => {
    const body = { input: "Hi", top_logprobs: 2 };
    const { output } = await ask(body);
    const [part] = (output[0] as { content: { logprobs: { token: string; top_logprobs: unknown[] }[] }[] }).content;
    expect(part!.logprobs.map(({ token }) => token)).toEqual(["Good", " day", " to", " you", "."]);
    for (const { top_logprobs } of part!.logprobs) expect(top_logprobs.length).toBe(2);
    const deltas = (await events(body)).filter(({ type }) => type === "response.output_text.delta");
    expect(deltas.flatMap((event) => ("logprobs" in event ? event.logprobs : [])).map(({ token }) => token)).toEqual(
      part!.logprobs.map(({ token }) => token),
    );
    const said = await ask({ input: "Both", tools, include: ["message.output_text.logprobs"] });
    const texts = said.output.flatMap((item) => (item.type === "message" ? item.content : []));
    expect(texts.map(({ text }) => text).join("")).toBe(
      texts.flatMap(({ logprobs }) => logprobs.map(({ token }) => token)).join(""),
    );
    expect((await ask({ input: "Hi" })).output).toMatchObject([{ content: [{ logprobs: [] }] }]);
  });

  it("follows a schema", async () => {
    const schema = {
      type: "object",
      properties: { city: { type: "string" }, degrees: { type: "integer" } },
      required: ["city", "degrees"],
      additionalProperties: false,
    };
    const format = { type: "json_schema" as const, name: "report", strict: true, schema };
    const parsed = await http.client.responses.create({ model: "demo", input: "json please", text: { format } });
    expect(JSON.parse(parsed.output_text)).toEqual({ city: "Oslo", degrees: -3 });
    expect(parsed.text?.format).toMatchObject(format);
    const loose = await ask({ input: "json please", text: { format: { type: "json_object" } } });
    expect(loose.output[0]).toMatchObject({ content: [{ text: '{"city": "Oslo", "degrees": -3}' }] });
    await refusal({ input: "x", text: { format: { type: "json_schema", name: "n" } } }, "text.format.schema");
    const odd = { type: "object", properties: { a: { type: "string", pattern: "(?<=a)b" } } };
    const { detail } = await refusal(
      { input: "x", text: { format: { ...format, schema: odd } } },
      "text.format.schema.properties.a.pattern",
    );
    expect(detail[0]!.loc).not.toContain("response_format");
  });

  it("has the functions called that tool_choice names, and no others", async () => {
    const weather = { type: "function_call", name: "weather", status: "completed", arguments: '{"city": "Oslo"}' };
    const named = await ask({ input: "x", tools, tool_choice: { type: "function", name: "weather" } });
    expect(named.output).toMatchObject([{ type: "reasoning" }, weather]);
    expect((await ask({ input: "x", tools, tool_choice: "required" })).output).toMatchObject([{}, weather]);
    const allowed = { type: "allowed_tools", mode: "required", tools: [{ type: "function", name: "weather" }] };
    const one = await ask({ input: "x", tools, tool_choice: allowed });
    expect(one.output).toMatchObject([{}, weather]);
    expect(one.tool_choice).toEqual(allowed);
    // The others are not shown to the model.
    expect(one.usage!.input_tokens).toBe((await ask({ input: "x", tools: [tools[0]] })).usage!.input_tokens);
    expect(kinds((await ask({ input: "x", tools, tool_choice: "none" })).output)).not.toContain("function_call");
    const both = await ask({ input: "Both", tools });
    expect(both.output.filter(({ type }) => type === "function_call")).toMatchObject([
      { name: "weather", arguments: '{"city": "Oslo"}' },
      { name: "time", arguments: "{}" },
    ]);
    // What is asked for is called whatever form a text has to have: clients that ask for one say so in every request.
    const form = {
      format: { type: "json_schema", name: "x", schema: { type: "object", additionalProperties: false } },
    };
    const formed = await ask({ input: "x", tools, tool_choice: { type: "function", name: "weather" }, text: form });
    expect(formed.output).toMatchObject([{ type: "reasoning" }, weather]);
    expect((await ask({ input: "x", tools, tool_choice: "required", text: form })).output).toMatchObject([{}, weather]);
    const single = await ask({ input: "Both", tools, parallel_tool_calls: false });
    expect(single.output.filter(({ type }) => type === "function_call").length).toBe(1);
    await refusal({ input: "x", tools, tool_choice: { type: "function", name: "other" } }, "tool_choice");
    const odd = { type: "object", properties: { a: { type: "string", pattern: "(?<=a)b" } } };
    const last = { input: "x", tools: [tools[1], { ...tools[0], parameters: odd }], tool_choice: allowed };
    await refusal(last, "tools.1.parameters.properties.a.pattern");
  });

  it("calls functions before it answers in the form that the text has", async () => {
    const schema = {
      type: "object",
      properties: { city: { type: "string" }, degrees: { type: "integer" } },
      required: ["city", "degrees"],
      additionalProperties: false,
    };
    const text = { format: { type: "json_schema" as const, name: "report", strict: true, schema } };
    const body = { model: "demo", input: "Report the weather.", tools, text };
    const asked = await http.client.responses.create(body);
    expect(asked.output).toMatchObject([{ type: "reasoning" }, { type: "function_call", name: "weather" }]);
    const streamed = plain(last(await events(body)));
    expect(streamed.output).toEqual(plain(asked as unknown as ModelResponse).output);
    const call = asked.output.find(({ type }) => type === "function_call") as { call_id: string };
    const given = { type: "function_call_output" as const, call_id: call.call_id, output: "cold" };
    const done = await http.client.responses.create({ ...body, previous_response_id: asked.id, input: [given] });
    expect(JSON.parse(done.output_text)).toEqual({ city: "Oslo", degrees: -3 });
    expect(kinds(done.output as ResponseOutputItem[])).toEqual(["message"]);
    const odd = { type: "object", properties: { a: { type: "string", pattern: "(?<=a)b" } } };
    await refusal(
      { ...body, tools: [tools[1], { ...tools[0], parameters: odd }] },
      "tools.1.parameters.properties.a.pattern",
    );
    await refusal(
      { ...body, text: { format: { ...text.format, schema: odd } } },
      "text.format.schema.properties.a.pattern",
    );
  });

  it("takes functions under a common name, and leaves out tools of the service beside them, as Codex sends them", async () => {
    const search = { type: "web_search", external_web_access: false };
    const parameters = { type: "object", properties: { city: { const: "Oslo" } }, required: ["city"] };
    const named = { type: "function", name: "weather", description: "Weather.", parameters, strict: true };
    const namespace = { type: "namespace", name: "city", description: "Of cities.", tools: [named] };
    const given = [search, { ...named, name: "place" }, namespace];
    const choice = { type: "function", name: "city__weather" };
    const body = { input: "x", tools: given, tool_choice: choice, temperature: 0 };
    const called = {
      type: "function_call",
      name: "weather",
      namespace: "city",
      arguments: expect.stringMatching(/^\s*\{\s*"city"\s*:\s*"Oslo"\s*\}\s*$/),
    };
    const whole = await ask(body);
    expect(whole.output).toMatchObject([{ type: "reasoning" }, called]);
    expect(whole.tools).toMatchObject([{ ...named, name: "place" }, namespace]);
    const all = await events({ ...body, store: true });
    expect(last(all).output).toMatchObject([{ type: "reasoning" }, called]);
    expect(all).toContainEqual(
      expect.objectContaining({ type: "response.function_call_arguments.done", name: "weather" }),
    );
    const again = await http.served.request("GET", `/v1/responses/${last(all).id}?stream=true`);
    expect(last(followsTheProtocol(await again.text())).output).toMatchObject([{ type: "reasoning" }, called]);
    const plainOne = await ask({ ...body, tool_choice: { type: "function", name: "place" } });
    expect(plainOne.output.at(-1)).toMatchObject({ type: "function_call", name: "place" });
    expect(plainOne.output.at(-1)).not.toHaveProperty("namespace");

    // The model sees its call under the name that it called.
    const call = whole.output.at(-1) as { call_id: string; arguments: string };
    const result = { type: "function_call_output", call_id: call.call_id, output: "cold" };
    const asChat = await http.served.chat({
      model: "demo",
      messages: [
        { role: "user", content: "x" },
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "c", type: "function", function: { name: "city__weather", arguments: call.arguments } }],
        },
        { role: "tool", tool_call_id: "c", content: "cold" },
      ],
    });
    const next = await ask({ input: [{ role: "user", content: "x" }, call, result] });
    expect(next.usage!.input_tokens).toBe(asChat.usage.prompt_tokens);
    await refusal({ input: "x", tools: [{ ...namespace, name: undefined }] }, "tools.0.name");
    const within = { ...namespace, tools: [{ type: "custom", name: "f" }] };
    await refusal({ input: "x", tools: [tools[0], within] }, "tools.1.tools.0.type");
    await refusal({ input: "x", tools: [tools[0], { type: "custom", name: "f" }] }, "tools.1.type");
    await refusal({ input: "x", tools: [search] }, "tools.0.type");
  });

  it("says why it is not whole", async () => {
    const cut = await ask({ input: "loop", max_output_tokens: 5 });
    expect(cut).toMatchObject({
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" },
      completed_at: null,
      output: [{ status: "incomplete" }],
    });
  });
});

describe("what is not there", () => {
  it.each([
    [{ input: "x", tools: [{ type: "web_search" }] }, "tools.0.type", "web_search"],
    [{ input: "x", tools: [tools[0], { type: "mcp", server_label: "s" }] }, "tools.1.type", "mcp"],
    [{ input: "x", tools: [{ type: "function" }] }, "tools.0.name", "required"],
    [{ input: "x", conversation: "conv_1" }, "conversation", "not available"],
    [{ input: "x", prompt: { id: "p" } }, "prompt", "not available"],
    [
      { input: [{ role: "user", content: [{ type: "input_image", image_url: "x" }] }] },
      "input.0.content.0.type",
      "input_image",
    ],
    [{ input: [{ role: "user", content: "x" }, { type: "computer_call" }] }, "input.1.type", "computer_call"],
    [{ input: [{ role: "robot", content: "x" }] }, "input.0.role", "must be one of"],
    [{ input: [{ type: "function_call_output", call_id: "c" }] }, "input.0.output", "required"],
    [{ input: [] }, "input", "required"],
    [{}, "input", "required"],
    [{ input: "x", include: ["no.such"] }, "include.0", ""],
    [{ input: "x", max_output_tokens: 0 }, "max_output_tokens", ""],
    [{ input: "x", max_output_tokens: 100_000 }, "max_output_tokens", "context"],
    [
      { input: "x", metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`${i}`, ""])) },
      "metadata",
      "16",
    ],
    [{ input: "x", metadata: { a: "x".repeat(513) } }, "metadata.a", "512"],
    [{ input: "x", top_logprobs: 21 }, "top_logprobs", "20"],
    [{ input: "x", stop_token_ids: [1e6] }, "stop_token_ids", "vocabulary"],
  ])("is refused by name: %j", async (body, field, said) => {
    const { detail } = await refusal(body as Record<string, unknown>, field);
    expect(detail[0]!.msg).toContain(said);
  });

  it("is named in process too, with every unknown field", async () => {
    const { responses } = http.served.engine;
    await expect(responses.create({ input: "x", no_such: 1 } as never)).rejects.toMatchObject({
      code: "invalid_request",
      param: "no_such",
    });
    await expect(responses.retrieve("resp_none")).rejects.toMatchObject({ status: 404, code: "response_not_found" });
    await expect(responses.create({ input: "x", model: "none" })).rejects.toMatchObject({ status: 404 });
  });
});

it("ends when its reader leaves, and when its signal aborts", async () => {
  const { responses, core } = http.served.engine;
  const running = () => core.defaultBase.loop.stats().running;
  const stream = await responses.create({ input: "loop", stream: true });
  for await (const { type } of stream) if (type === "response.output_text.delta") break;
  expect(running()).toBe(0);
  const unread = await responses.create({ input: "loop", stream: true });
  await unread[Symbol.asyncIterator]().return?.();
  expect(running()).toBe(0);
  const stop = new AbortController();
  const aborted = await responses.create({ input: "loop", stream: true }, { signal: stop.signal });
  const reason = new Error("enough");
  await expect(
    (async () => {
      for await (const { type } of aborted) if (type === "response.output_text.delta") stop.abort(reason);
    })(),
  ).rejects.toBe(reason);
});

it("is the same for an engine behind an address", async () => {
  const remote = await Engine.connect(http.served.address, { apiKey: http.served.engine.apiKey });
  const made = await remote.responses.create({ input: "Hi" });
  expect(await remote.responses.retrieve(made.id)).toEqual(made);
  const types: string[] = [];
  for await (const { type } of await remote.responses.create({ input: "Hi", stream: true })) types.push(type);
  expect(types.at(-1)).toBe("response.completed");
  for await (const item of remote.responses.inputItems.list(made.id)) expect(item.type).toBe("message");
  for await (const _ of await remote.responses.retrieve(made.id, { stream: true }));
  expect(await remote.responses.delete(made.id)).toMatchObject({ deleted: true });
  await expect(remote.responses.retrieve(made.id)).rejects.toMatchObject({ code: "response_not_found" });
});

it("works for the openai package: stream and parse", async () => {
  const stream = http.client.responses.stream({ model: "demo", input: "Weather?", tools });
  const seen: string[] = [];
  for await (const { type } of stream) seen.push(type);
  const final = await stream.finalResponse();
  expect(kinds(final.output as ResponseOutputItem[])).toEqual(["reasoning", "function_call"]);
  expect(seen).toContain("response.function_call_arguments.delta");
  const parsed = await http.client.responses.parse({
    model: "demo",
    input: "Weather?",
    tools: [{ ...tools[0]!, strict: true }],
  });
  expect(parsed.output.find(({ type }) => type === "function_call")).toMatchObject({
    parsed_arguments: { city: "Oslo" },
  });
});

describe("a body made to harm", () => {
  const wholesome = async () => expect((await ask({ input: "Hi" })).status).toBe("completed");

  it.each([
    ["millions of faulty items", `{"input":[${"1,".repeat(3_000_000)}1]}`],
    ["too many items", `{"input":[${'{"role":"user","content":""},'.repeat(140_000)}1]}`],
    ["faulty items as many as may be", `{"input":[${'{"role":5},'.repeat(131_071)}1]}`],
    [
      "a schema nested deep",
      `{"input":"x","text":{"format":{"type":"json_schema","schema":${'{"not":'.repeat(5000)}1${"}".repeat(5000)}}}}`,
    ],
    ["an item nested deep", `{"input":[${"[".repeat(100_000)}${"]".repeat(100_000)}]}`],
    ["fields without end", `{"input":"x",${Array.from({ length: 70_000 }, (_, i) => `"f${i}":1`).join(",")}}`],
    ["tools without end", `{"input":"x","tools":[${'{"type":"function","name":"a"},'.repeat(5000)}1]}`],
  ])("is refused in few words, and others are served: %s", async (_, body) => {
    const begun = performance.now();
    const answer = await http.served.request("POST", "/v1/responses", body);
    const refused = (await answer.json()) as Refusal;
    expect([400, 413, 422]).toContain(answer.status);
    expect(refused.detail?.length ?? 1).toBeLessThanOrEqual(17);
    expect(performance.now() - begun).toBeLessThan(20_000);
    await wholesome();
  });

  it.runIf(canMeasureTurns)("of items as many as may be is never long at a time", async () => {
    const body = `{"input":[${'{"role":"user","content":"x"},'.repeat(131_071)}{"role":"user","content":"x"}]}`;
    const headers = { authorization: `Bearer ${http.served.engine.apiKey}`, "content-type": "application/json" };
    const turn = await longestTurn(async () => {
      const answer = await http.served.engine.fetch("http://anneal/v1/responses", { method: "POST", headers, body });
      expect(answer.status).toBe(422);
      await answer.text();
    });
    expect(turn).toBeLessThan(400);
  });

  it("of items as many as may be is read in turns", async () => {
    const input = Array.from({ length: 16_384 }, () => ({ role: "user", content: "x" }));
    await refusal({ input }, "input");
    expect((await ask({ input, truncation: "auto" })).status).toBe("completed");
  });
});
