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

it.each(families)("%s", async (model) => {
  for (const tool_choice of ["required", { type: "function", function: { name: "get_weather" } }] as const) {
    const messages = [{ role: "user" as const, content: "How is the weather?" }];
    const reply = await engine.chat.completions.create({
      ...{ model, messages, tools, tool_choice, seed: 1, max_tokens: 300, parallel_tool_calls: false },
      // Whatever it thinks is short.
      ...(["ministral", "qwen3_5", "qwen_thinking", "smollm", "granite_thinking"].includes(model) && {
        thinking_token_budget: 8,
      }),
    });
    const { finish_reason, message } = reply.choices[0]!;
    expect([finish_reason, message.tool_calls?.length, message.content]).toEqual(["tool_calls", 1, null]);
    const { name, arguments: given } = message.tool_calls![0]!.function;
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
});
