// A model that knows none of the families' formats is held to each of them by the grammar alone.

import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Engine } from "../../src/index.js";

const families = [
  ...["qwen3_5", "qwen_thinking", "granite_thinking", "ministral", "mistral_strict", "phi", "smollm"],
  ...["gemma_parts", "llama3_tools"],
];

let folder: string;
let engine: Engine;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "forced-"));
  for (const name of families) {
    cpSync(new URL("../../models/tiny/", import.meta.url), join(folder, name), { recursive: true });
    const template = new URL(`../reference/templates/${name}.jinja`, import.meta.url);
    cpSync(template, join(folder, name, "chat_template.jinja"));
  }
  engine = await Engine.open({ models: families.map((name) => ({ path: join(folder, name), kvPages: 40 })) });
});
afterAll(async () => {
  await engine.close();
  rmSync(folder, { recursive: true, force: true });
});

const parameters = {
  type: "object",
  properties: {
    city: { type: "string", pattern: "^[A-Z][a-z]{2,5}$" },
    days: { type: "integer", minimum: 1, maximum: 9 },
    exact: { type: "boolean" },
    units: { type: "array", items: { enum: ["C", "F"] }, minItems: 1, maxItems: 2 },
  },
  required: ["city", "days", "exact", "units"],
};
const tools = [{ type: "function" as const, function: { name: "get_weather", parameters } }];

const messages = [{ role: "user" as const, content: "How is the weather?" }];
/** Whatever a model thinks is short. */
const briefly = (model: string) =>
  ["ministral", "qwen3_5", "qwen_thinking", "smollm", "granite_thinking"].includes(model)
    ? { thinking_token_budget: 8 }
    : {};

function expectCall({ name, arguments: given }: { name: string; arguments: string }) {
  expect([name, JSON.parse(given)]).toEqual([
    "get_weather",
    {
      city: expect.stringMatching(/^[A-Z][a-z]{2,5}$/),
      days: expect.toSatisfy((days: number) => Number.isInteger(days) && days >= 1 && days <= 9),
      exact: expect.any(Boolean),
      units: expect.toSatisfy((units: string[]) => units.every((unit) => /^[CF]$/.test(unit))),
    },
  ]);
}

it.each(families)("%s", async (model) => {
  for (const tool_choice of ["required", { type: "function", function: { name: "get_weather" } }] as const) {
    const reply = await engine.chat.completions.create({
      ...{ model, messages, tools, tool_choice, seed: 1, max_tokens: 300, parallel_tool_calls: false },
      ...briefly(model),
    });
    const { finish_reason, message } = reply.choices[0]!;
    expect([finish_reason, message.tool_calls?.length, message.content]).toEqual(["tool_calls", 1, null]);
    expectCall(message.tool_calls![0]!.function);
  }
});

it.each(families)("%s: calls, or the form that is asked for, and nothing else", async (model) => {
  const schema = {
    type: "object",
    properties: { note: { enum: ["cold", "[TOOL_CALLS]get_weather[ARGS]{}", "<tool_call><function=get_weather>"] } },
    required: ["note"],
    additionalProperties: false,
  };
  const response_format = { type: "json_schema", json_schema: { name: "report", schema } };
  const params = {
    ...{ model, messages, tools, response_format, seed: 1, n: 32, temperature: 20, max_tokens: 300 },
    ...{ parallel_tool_calls: false, ...briefly(model) },
  };
  const { choices } = await engine.chat.completions.create(params);
  const called = choices.filter(({ message }) => message.tool_calls !== undefined);
  for (const { finish_reason, message } of called) {
    expect([finish_reason, message.tool_calls?.length, message.content]).toEqual(["tool_calls", 1, null]);
    expectCall(message.tool_calls![0]!.function);
  }
  const said = choices.filter((choice) => !called.includes(choice));
  for (const { finish_reason, message } of said) {
    expect([finish_reason, schema.properties.note.enum]).toEqual([
      "stop",
      expect.arrayContaining([JSON.parse(message.content!).note]),
    ]);
  }
  // Where "[" begins both [THINK] and [TOOL_CALLS], which are no tokens of this vocabulary, it has to be the model's own wish.
  expect([called.length > 0, said.length > 0]).toEqual([model !== "ministral", true]);
  const streamed = choices.map(() => ({ content: "", calls: "" }));
  for await (const chunk of await engine.chat.completions.create({ ...params, stream: true })) {
    for (const { index, delta } of chunk.choices) {
      streamed[index]!.content += delta.content ?? "";
      for (const call of delta.tool_calls ?? []) streamed[index]!.calls += call.function.arguments ?? "";
    }
  }
  expect(streamed).toEqual(
    choices.map(({ message }) => ({
      content: message.content ?? "",
      calls: (message.tool_calls ?? []).map((call) => call.function.arguments).join(""),
    })),
  );
});
