// Tools: models that say calls in the formats their templates teach.

import { describe, expect, test } from "vitest";
import type { ToolCall } from "../../src/types/chat.js";
import { start } from "./scripted.js";
import { ScriptedReplies } from "./scriptedReplies.js";
import { hello } from "./served.js";
import { hermes, hermesTemplate, llama, thinking, tools } from "./toolModels.js";

const scripts = new ScriptedReplies({ hermes, llama, thinking, plain: {} });
const { reply } = scripts;
const off = new ScriptedReplies({ hermes }, { toolParser: "none" });

const plainCalls = (made: ToolCall[] | undefined) => made?.map(({ function: f }) => [f.name, JSON.parse(f.arguments)]);

describe.each(["hermes", "thinking"])("calls of the model %s", (model) => {
  test("are parsed, with ids", async () => {
    const from = start(model === "hermes" ? "[one]" : "[call]");
    const { message, finish_reason } = await reply({ model, tools, ...from });
    expect(finish_reason).toBe("tool_calls");
    expect(message.tool_calls).toHaveLength(1);
    expect(message.tool_calls![0]).toMatchObject({ type: "function", function: { name: "add" } });
    expect(message.tool_calls![0]!.id).toMatch(/^\S{8,}$/);
  });
});

describe("tool_choice auto", () => {
  test("keeps the text around calls, and streams arguments as they come", async () => {
    const body = { model: "hermes", tools, tool_choice: "auto", ...start("[one]") };
    const { message } = await reply(body);
    expect(message.content).toBe("Let me see. ");
    expect(plainCalls(message.tool_calls)).toEqual([["add", { a: 1, b: 2 }]]);
    const deltas = (await scripts.served.chunks({ ...body, temperature: 0 })).flatMap(
      (c) => c.choices[0]!.delta.tool_calls ?? [],
    );
    expect(deltas.length).toBeGreaterThan(1);
    expect(deltas[0]).toMatchObject({ index: 0, type: "function", function: { name: "add" } });
    for (const delta of deltas.slice(1))
      expect(delta).toEqual({ index: 0, function: { arguments: expect.any(String) } });
  });

  test("content is null when there is nothing but a call", async () => {
    const { message } = await reply({ model: "llama", tools, ...start("[one]") });
    expect(message.content).toBeNull();
    expect(plainCalls(message.tool_calls)).toEqual([["add", { a: 1 }]]);
  });

  test("a plain reply has no calls", async () => {
    const { message, finish_reason } = await reply({ model: "hermes", tools });
    expect(message.content).toBe("Four.");
    expect(message).not.toHaveProperty("tool_calls");
    expect(finish_reason).toBe("stop");
  });

  test("a call that is cut off by the limit is content, and a length", async () => {
    const body = { model: "hermes", tools, ...start("[one]"), max_tokens: 4 };
    const { finish_reason, message } = (await scripts.served.chat(body)).choices[0]!;
    expect(finish_reason).toBe("length");
    expect(message.content).toMatch(/<tool_call>\n\{"name": "add", "arguments": \{"a": 1/);
    expect(message).not.toHaveProperty("tool_calls");
  });

  test("what is no call after all is text", async () => {
    const { message, finish_reason } = await reply({ model: "hermes", tools, ...start("[wrong]") });
    expect(message.content).toContain("no JSON here");
    expect(message).not.toHaveProperty("tool_calls");
    expect(finish_reason).toBe("stop");
  });

  test("JSON that is no call of Llama 3's is text", async () => {
    const { message } = await reply({ model: "llama", tools, ...start("[json]") });
    expect(message.content).toBe('{"sum": 4}');
    expect(message).not.toHaveProperty("tool_calls");
  });

  test("Llama 3's python tag is no text", async () => {
    const { message } = await reply({ model: "llama", tools, ...start("[tag]") });
    expect(message.content).toBeNull();
    expect(plainCalls(message.tool_calls)).toEqual([["add", {}]]);
  });

  const both = [
    ["add", { a: 3 }],
    ["sub", {}],
  ];
  test.each([
    [undefined, both],
    [true, both],
    [false, both.slice(0, 1)],
    [null, both.slice(0, 1)],
  ])("parallel_tool_calls %s", async (parallel_tool_calls, expected) => {
    const { message, finish_reason } = await reply({ model: "hermes", tools, parallel_tool_calls, ...start("[two]") });
    expect(plainCalls(message.tool_calls)).toEqual(expected);
    expect(finish_reason).toBe("tool_calls");
  });

  test("works for each of n choices", async () => {
    const { choices } = await scripts.served.chat({ model: "hermes", tools, n: 3, ...start("[one]") });
    const made = choices.map(({ message }) => message.tool_calls![0]!);
    expect(new Set(made.map(({ id }) => id)).size).toBe(3);
  });

  test("usage counts every token of a call", async () => {
    const { usage } = await scripts.served.chat({ model: "hermes", tools, ...start("[one]") });
    expect(usage.completion_tokens).toBe(7);
  });
});

describe("tool_choice auto with a form", () => {
  const sum = { type: "object", properties: { sum: { type: "integer" } }, required: ["sum"] };
  const forms = [
    { type: "json_schema", json_schema: { name: "sum", schema: sum, strict: true } },
    { type: "json_object" },
  ];

  test.each(forms)("$type: leaves the model a call", async (response_format) => {
    for (const tool_choice of ["auto", undefined]) {
      const asked = { tools, tool_choice, response_format, parallel_tool_calls: false };
      for (const [model, from, call] of [
        ["hermes", "[add]", ["add", { a: 5 }]],
        ["llama", "[one]", ["add", { a: 1 }]],
      ] as const) {
        const { message, finish_reason } = await reply({ model, ...asked, ...start(from) });
        expect(message.content).toBeNull();
        expect(plainCalls(message.tool_calls)).toEqual([call]);
        expect(finish_reason).toBe("tool_calls");
      }
    }
  });

  test.each(forms)("$type: leaves it the form", async (response_format) => {
    const { message, finish_reason } = await reply({ model: "llama", tools, response_format, ...start("[json]") });
    expect(message.content).toBe('{"sum": 4}');
    expect(message).not.toHaveProperty("tool_calls");
    expect(finish_reason).toBe("stop");
  });

  test("leaves it no other text", async () => {
    const asked = { model: "hermes", tools, response_format: forms[0], ...start("[words]") };
    const { message } = await reply({ ...asked, max_tokens: 20 });
    expect(message.content).toMatch(/^(<tool|\{)/);
  });

  test("comes after thoughts", async () => {
    const asked = { tools, response_format: forms[0], max_tokens: 60 };
    const { message } = await reply({ model: "thinking", ...asked, ...start("[think]") });
    expect(message.reasoning).toBe("Two and two.");
    expect(message.content ?? message.tool_calls).toBeTruthy();
  });

  test("makes one call with parallel_tool_calls false", async () => {
    const asked = { model: "hermes", tools, response_format: forms[0], ...start("[two]"), max_tokens: 12 };
    const { message } = await reply({ ...asked, parallel_tool_calls: false });
    expect(plainCalls(message.tool_calls)).toHaveLength(1);
  });

  test("is the form alone without tools to call, and calls alone where they are asked for", async () => {
    const asked = { model: "hermes", tools, response_format: forms[1], ...start("[add]") };
    expect((await reply({ ...asked, tool_choice: "none" })).message.content).toMatch(/^\{/);
    const forced = { ...asked, ...start("[words]"), tool_choice: "required", max_tokens: 3 };
    expect((await reply(forced)).message.content).toMatch(/^<to/);
    expect((await off.reply({ ...asked, model: "hermes" })).message.content).toMatch(/^\{/);
  });

  test("refuses parameters that cannot be enforced by their names", async () => {
    const odd = { type: "object", properties: { a: { type: "string", pattern: "(?<=a)b" } } };
    const wrong = [...tools, { type: "function", function: { name: "odd", parameters: odd } }];
    const asked = { model: "hermes", tools: wrong, response_format: forms[0] };
    await scripts.served.refusal(asked, "tools.2.function.parameters.properties.a.pattern");
    expect((await scripts.served.post({ ...asked, response_format: undefined, max_tokens: 1 })).status).toBe(200);
  });
});

describe("tool_choice allowed_tools", () => {
  const allowed = (mode: string, ...names: string[]) => ({
    type: "allowed_tools",
    allowed_tools: { mode, tools: names.map((name) => ({ type: "function", function: { name } })) },
  });

  test("required: one of them is called", async () => {
    const asked = { model: "hermes", tools, parallel_tool_calls: false, tool_choice: allowed("required", "sub") };
    const { message, finish_reason } = await reply({ ...asked, ...start("[sub]") });
    expect([plainCalls(message.tool_calls), finish_reason]).toEqual([[["sub", { a: 6 }]], "tool_calls"]);
    const other = await scripts.served.text({ ...asked, ...start("[add]"), temperature: 0, max_tokens: 8 });
    expect(other).toMatch(/^<tool_call>\n\{"name": "sub"/);
  });

  test("auto: the others are neither shown nor called", async () => {
    const asked = { model: "hermes", tools, ...start("[one]") };
    const { message } = await reply({ ...asked, tool_choice: allowed("auto", "sub") });
    expect(message).not.toHaveProperty("tool_calls");
    expect(plainCalls((await reply({ ...asked, tool_choice: allowed("auto", "add") })).message.tool_calls)).toEqual([
      ["add", { a: 1, b: 2 }],
    ]);
    const shown = await scripts.served.chat({ ...asked, tool_choice: allowed("auto", "sub"), return_token_ids: true });
    const alone = await scripts.served.chat({ ...asked, tools: [tools[1]], return_token_ids: true });
    expect(shown.prompt_token_ids).toEqual(alone.prompt_token_ids);
    const request = { model: "hermes", messages: hello, tools, tool_choice: allowed("auto", "sub"), ...start("[one]") };
    const tokenized = (await (await scripts.served.request("POST", "/tokenize", request)).json()) as {
      tokens: number[];
    };
    expect(tokenized.tokens).toEqual(alone.prompt_token_ids);
  });

  test("with a form: a call of one of them, or the form", async () => {
    const asked = { model: "hermes", tools, response_format: { type: "json_object" }, parallel_tool_calls: false };
    const called = await reply({ ...asked, tool_choice: allowed("auto", "add"), ...start("[add]") });
    expect(plainCalls(called.message.tool_calls)).toEqual([["add", { a: 5 }]]);
    const other = { ...asked, tool_choice: allowed("auto", "sub"), ...start("[add]"), temperature: 0, max_tokens: 8 };
    expect(await scripts.served.text(other)).toMatch(/^<tool_call>\n\{"name": "sub"/);
  });

  test("what is wrong is told of the request's own tools", async () => {
    await scripts.served.refusal(
      { model: "hermes", tools, tool_choice: allowed("auto", "add", "mul") },
      "tool_choice.allowed_tools.tools.1.function.name",
    );
    await scripts.served.refusal({ model: "hermes", tool_choice: allowed("auto", "add") }, "tool_choice");
    await scripts.served.refusal(
      { model: "hermes", tools, tool_choice: allowed("none", "add") },
      "tool_choice.allowed_tools.mode",
    );
    await scripts.served.refusal(
      { model: "hermes", tools, tool_choice: allowed("auto") },
      "tool_choice.allowed_tools.tools",
    );
    const odd = { type: "object", properties: { a: { type: "string", pattern: "(?<=a)b" } } };
    const wrong = [...tools, { type: "function", function: { name: "odd", parameters: odd } }];
    const place = "tools.2.function.parameters.properties.a.pattern";
    for (const names of [["odd"], ["sub", "odd"]]) {
      await scripts.served.refusal(
        { model: "hermes", tools: wrong, tool_choice: allowed("required", ...names) },
        place,
      );
    }
    expect(
      (await off.served.refusal({ tools, tool_choice: allowed("auto", "add") }, "tool_choice")).error.message,
    ).toMatch(/tool/);
  });
});

describe("tool_choice none", () => {
  test("shows the tools to the template, and parses nothing", async () => {
    const none = { model: "hermes", tools, tool_choice: "none", ...start("[one]") };
    const { message, finish_reason } = await reply(none);
    expect(message.content).toContain('<tool_call>\n{"name": "add"');
    expect(message).not.toHaveProperty("tool_calls");
    expect(finish_reason).toBe("stop");
    const without = await scripts.served.chat({ model: "hermes", tool_choice: "none" });
    expect((await scripts.served.chat(none)).usage.prompt_tokens).toBeGreaterThan(without.usage.prompt_tokens + 50);
  });
});

describe("tool_choice required and a named function", () => {
  test("make the reply a call, which is drawn and counted", async () => {
    const { message, finish_reason, token_ids } = await reply({
      ...{ model: "hermes", tools, tool_choice: "required", parallel_tool_calls: false, return_token_ids: true },
      ...start("[add]"),
    });
    expect(plainCalls(message.tool_calls)).toEqual([["add", { a: 5 }]]);
    expect(finish_reason).toBe("tool_calls");
    expect(token_ids).toHaveLength(5);
  });

  test("leave the prompt as it is: what opens the call is drawn, and counted", async () => {
    const body = {
      model: "hermes",
      tools,
      parallel_tool_calls: false,
      return_token_ids: true,
      temperature: 0,
      max_tokens: 20,
    };
    const auto = await scripts.served.chat({ ...body, tool_choice: "auto", ...start("[add]") });
    for (const tool_choice of ["required", { type: "function", function: { name: "add" } }]) {
      const forced = await scripts.served.chat({ ...body, tool_choice, ...start("[add]") });
      expect(forced.prompt_token_ids).toEqual(auto.prompt_token_ids);
      const ids = forced.choices[0]!.token_ids!;
      expect(forced.usage).toMatchObject({
        prompt_tokens: forced.prompt_token_ids!.length,
        completion_tokens: ids.length,
      });
      const response = await scripts.served.request("POST", "/detokenize", { model: "hermes", tokens: ids });
      expect(((await response.json()) as { prompt: string }).prompt).toMatch(/^<tool_call>\n\{"name": "add", "arg/);
    }
  });

  test("take numbers of parameters however they are spelled", async () => {
    const parameters = '{"type": "object", "properties": {"a": {"const": 5.0, "minimum": 1e0}}, "required": ["a"]}';
    const request = {
      ...{ model: "hermes", messages: hello, tool_choice: "required", parallel_tool_calls: false, temperature: 0 },
      ...{
        tools: [{ type: "function", function: { name: "add", parameters: "=" } }],
        max_tokens: 20,
        ...start("[add]"),
      },
    };
    const { choices } = await scripts.served.chat(JSON.stringify(request).replace('"="', parameters));
    expect(plainCalls(choices[0]!.message.tool_calls)).toEqual([["add", { a: 5 }]]);
  });

  test("write numbers as the parameters spell them, which the prompt shows as Python writes them", async () => {
    const numbers = ["0.10", "0.12345678901234567890", "12345678901234567890", "1.0"];
    const properties = numbers.map((number, i) => `"${i}":{"const":${number}}`).join();
    const parameters = `{"type":"object","properties":{${properties}},"required":["0","1","2","3"]}`;
    const tool = `{"type":"function","function":{"name":"add","parameters":${parameters}}}`;
    const request = `{"model":"hermes","messages":${JSON.stringify(hello)},"tools":[${tool}]`;
    const forced = `${request},"tool_choice":"required","parallel_tool_calls":false,"max_tokens":500}`;
    const { choices } = await scripts.served.chat(forced);
    expect(choices[0]!.message.tool_calls![0]!.function.arguments.replace(/\s/g, "")).toBe(
      '{"0":0.10,"1":0.12345678901234567890,"2":12345678901234567890,"3":1}',
    );
    const { tokens } = (await (await scripts.served.request("POST", "/tokenize", `${request}}`)).json()) as {
      tokens: number[];
    };
    const prompt = await (await scripts.served.request("POST", "/detokenize", { model: "hermes", tokens })).text();
    const shown = ["0.1", "0.12345678901234568", "12345678901234567890", "1.0"];
    expect(JSON.parse(prompt).prompt).toContain(shown.map((number, i) => `"${i}": {"const": ${number}}`).join(", "));
    const refused = await scripts.served.request("POST", "/v1/chat/completions", forced.replace("0.10", "1e-400"));
    expect(await refused.json()).toMatchObject({
      error: { param: "tools.0.function.parameters.properties.0.const", code: "invalid_request" },
    });
  });

  test("name the function that is called", async () => {
    const tool_choice = { type: "function", function: { name: "sub" } };
    const { message, finish_reason } = await reply({ model: "hermes", tools, tool_choice, ...start("[sub]") });
    expect(plainCalls(message.tool_calls)).toEqual([["sub", { a: 6 }]]);
    expect(finish_reason).toBe("tool_calls");
  });

  test("leave the model no other reply", async () => {
    for (const tool_choice of ["required", { type: "function", function: { name: "sub" } }]) {
      const { message } = await reply({ model: "hermes", tools, tool_choice, max_tokens: 3, ...start("[words]") });
      expect(message.content).toMatch(/^<(tool|t$|to$)/);
    }
  });

  test("a function that is not there is refused", async () => {
    const tool_choice = { type: "function", function: { name: "mul" } };
    await scripts.served.refusal({ model: "hermes", tools, tool_choice }, "tool_choice.function.name");
  });
});

describe("without a way to read calls", () => {
  test.each(["auto", "required", { type: "function", function: { name: "add" } }])(
    "%j is refused",
    async (tool_choice) => {
      const refusal = await off.served.refusal({ tools, tool_choice }, "tool_choice");
      expect(refusal.error.message).toMatch(/tool-parser|toolParser/);
      await scripts.served.refusal({ model: "plain", tools, tool_choice }, "tool_choice");
    },
  );

  test("tools without a choice are rendered, and the reply is text", async () => {
    const { message } = await off.reply({ tools, ...start("[one]") });
    expect(message.content).toContain("<tool_call>");
  });
});

test("a conversation with calls and their results is rendered", async () => {
  const messages = [
    ...hello,
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "c1", type: "function", function: { name: "add", arguments: '{"a":1}' } }],
    },
    { role: "tool", tool_call_id: "c1", content: "4" },
  ];
  const chat_template = hermesTemplate.replaceAll("<|tool|>", "");
  expect(
    (await scripts.served.chat({ model: "hermes", tools, messages, chat_template })).choices[0]!.message.content,
  ).toBe("Four.");
});
