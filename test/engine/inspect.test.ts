import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { runCommand } from "../../src/cli/command.js";
import { doctor } from "../../src/cli/doctor.js";
import { Engine, inspectModel, ModelFileError } from "../../src/index.js";
import { printed } from "../cli/printed.js";

const tiny = new URL("../../models/tiny/", import.meta.url);
const qwen = new URL("../reference/templates/qwen_thinking.jinja", import.meta.url);
let folder: string;
beforeAll(() => {
  folder = join(mkdtempSync(join(tmpdir(), "inspect-")), "thinker");
  cpSync(tiny, folder, { recursive: true });
  cpSync(qwen, join(folder, "chat_template.jinja"));
  const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8"));
  writeFileSync(join(folder, "config.json"), JSON.stringify({ ...config, vision_config: { depth: 2 } }));
});
afterAll(() => rmSync(join(folder, ".."), { recursive: true, force: true }));

it("tells what a served model and a folder are, need and do", async () => {
  await using engine = await Engine.open();
  const served = await engine.models.inspect("anneal/tiny");
  const { memory } = served;
  expect(served).toMatchObject({ id: "anneal/tiny", format: "safetensors", left_out: [], tool_parser: "hermes" });
  expect(served.parameters).toBeGreaterThan(2e6);
  expect(memory.weights).toBeGreaterThan(served.parameters!);
  expect(memory.contexts.at(-1)!.tokens).toBe(served.context_length);
  expect(memory.contexts.at(-1)!.bytes).toBeGreaterThan(memory.weights + served.context_length * memory.per_token);
  const { id, left_out, tool_parser, reasoning, thinking_switches, turns } = await engine.models.inspect(folder);
  expect({ id, left_out, tool_parser, reasoning, thinking_switches }).toEqual({
    id: "thinker",
    left_out: ["vision"],
    tool_parser: "hermes",
    reasoning: { open: "<think>", close: "</think>" },
    thinking_switches: ["enable_thinking"],
  });
  expect(turns.find(({ turn }) => turn === "a reply with thoughts")).toMatchObject({ exact: false });
});

it("names what is wrong with a folder", async () => {
  await expect(inspectModel(join(folder, "nothing"))).rejects.toThrow(ModelFileError);
});

it("a model of which only the text is loaded says so, and refuses images by name", async () => {
  const said: unknown[] = [];
  const logger = { debug() {}, info() {}, error() {}, warn: (...words: unknown[]) => void said.push(words) };
  await using engine = await Engine.open({ models: [folder], logger });
  expect(said).toEqual([["only the text of a model is loaded", { id: "thinker", without: ["vision"] }]]);
  const content = [{ type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }] as never;
  const asking = engine.chat.completions.create({ messages: [{ role: "user", content }], max_tokens: 1 });
  await expect(asking).rejects.toMatchObject({ param: "messages.0.content.0.type", status: 422 });
});

it("anneal doctor shows it, with the two texts side by side", async () => {
  const { code, out } = await printed(() => runCommand(doctor, [folder]));
  expect(out).toContain("only its text is loaded, not its vision");
  expect(out).toMatch(/thinker, \w+, \d\.\d million parameters/);
  expect(out).toMatch(/2048 tokens \d+ MiB/);
  expect(out).toContain("tool calls: hermes; thoughts from <think> to </think> (switched by enable_thinking)");
  expect(out).toMatch(/exact after a reply, .*a tool call$/m);
  expect(out).toContain("rewritten: a reply with thoughts");
  expect(out).toMatch(/as it was sampled +\| in the next prompt$/m);
  expect(out).toMatch(/^ +> <think> +\| It is 7\.<\|im_end\|>$/m);
  expect(code).toBe(0);
  const json = JSON.parse((await printed(() => runCommand(doctor, [folder, "--json"]))).out) as { check: string }[];
  const checks = ["node", "core", "home", "memory", "what", "needs", "template", "turns", "model"];
  expect(json.map(({ check }) => check)).toEqual(checks);
  const wrong = await printed(() => runCommand(doctor, [join(folder, "nothing"), "--json"]));
  expect([wrong.code, JSON.parse(wrong.out)[4]]).toEqual([1, expect.objectContaining({ check: "what", ok: false })]);
});
