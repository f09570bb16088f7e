// An ONNX folder as a base model of an engine.

import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Engine } from "../../src/anneal.js";
import type { EngineOptions } from "../../src/types/options.js";
import { canMeasureTurns, longestTurn } from "../fixtures/longestTurn.js";
import { type Greedy, nativeGreedy, trainedModel } from "./trained.js";

let folder: string;
let native: Greedy[];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "served-"));
  const { engine, model } = await trainedModel(join(folder, "home"));
  native = await nativeGreedy(engine, "local/p/m", 24);
  for (const dtype of ["float32", "float16", "int8", "int4"] as const) {
    await engine.models.export(model.id, { path: join(folder, dtype), format: "onnx", dtype });
  }
  await engine.close();
  // Several variants in one folder, none of them named.
  for (const dtype of ["float16", "int4"]) cpSync(join(folder, dtype), join(folder, "both"), { recursive: true });
  cpSync(join(folder, "int4/tokenizer.json"), join(folder, "both/tokenizer.json"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const open = (path: string, options: Partial<EngineOptions> = {}) =>
  Engine.open({ models: [{ id: "onnx", path: join(folder, path) }], ...options });

it("says what the native engine says, with streams, log-probabilities, choices and beams", async () => {
  await using engine = await open("float32");
  expect((await nativeGreedy(engine, "onnx", 24)).map(({ tokens }) => tokens)).toEqual(
    native.map(({ tokens }) => tokens),
  );
  const messages = [{ role: "user" as const, content: 'Spell "planet" backwards, one word.' }];
  let streamed = "";
  const stream = await engine.chat.completions.create({ messages, temperature: 0, max_tokens: 24, stream: true });
  for await (const { choices } of stream) streamed += choices[0]?.delta.content ?? "";
  expect(streamed).toBe(native[0]!.text);
  const several = await engine.chat.completions.create({
    messages,
    n: 2,
    logprobs: true,
    top_logprobs: 3,
    max_tokens: 4,
  });
  expect(several.choices[1]!.logprobs!.content![0]!.top_logprobs).toHaveLength(3);
  const beams = await engine.chat.completions.create({ messages, n: 2, use_beam_search: true, max_tokens: 6 });
  expect(beams.choices).toHaveLength(2);
});

it("keeps to grammars", async () => {
  await using engine = await open("float32");
  const schema = { type: "object", properties: { answer: { enum: ["yes", "no"] } }, required: ["answer"] };
  const reply = await engine.chat.completions.create({
    messages: [{ role: "user", content: "Is 3 larger than 2?" }],
    response_format: { type: "json_schema", json_schema: { name: "answer", schema } },
    max_tokens: 40,
    temperature: 1,
    seed: 3,
  });
  expect(["yes", "no"]).toContain(JSON.parse(reply.choices[0]!.message.content!).answer);
});

it.each(["float16", "int8", "int4"])("runs %s, which the folder names", async (dtype) => {
  await using engine = await open(dtype);
  const [first] = await nativeGreedy(engine, "onnx", 24);
  if (dtype === "int4") expect(first!.tokens.length).toBeGreaterThan(0);
  else expect(first!.text).toBe(native[0]!.text);
});

it("chooses variants and what computes by option, and says what there is", async () => {
  await using engine = await open("both", { onnx: { variant: "fp16" } });
  expect((await nativeGreedy(engine, "onnx", 24))[0]!.text).toBe(native[0]!.text);
  await expect(open("both", { onnx: { variant: "uint8" } })).rejects.toMatchObject({
    code: "onnx_variant",
    message: expect.stringContaining('no variant "uint8"; there is fp16, q4'),
  });
  await expect(open("both", { onnx: { executionProvider: "abacus" } })).rejects.toMatchObject({
    status: 422,
    message: expect.stringMatching(/"abacus"; there is cpu/),
  });
});

it("takes models whose configuration names no end of positions", async () => {
  const endless = join(folder, "endless");
  cpSync(fileURLToPath(new URL("../reference/onnx/llama", import.meta.url)), endless, { recursive: true });
  const file = join(endless, "config.json");
  const { max_position_embeddings: _, ...config } = JSON.parse(readFileSync(file, "utf8"));
  writeFileSync(file, JSON.stringify(config));
  const lengthOf = async (options: Partial<EngineOptions>) => {
    await using engine = await open("endless", options);
    return (await engine.models.list()).data[0]!.max_model_len;
  };
  expect(await lengthOf({})).toBe(2048);
  expect(await lengthOf({ contextLength: 4096 })).toBe(4096);
});

it("refuses to train, and says what to train instead", async () => {
  await using engine = await open("float32");
  await expect(engine.models.create({ project: "p", name: "m", base_model: "onnx" })).rejects.toMatchObject({
    param: "base_model",
    code: "not_trainable",
    hint: expect.stringContaining("Hugging Face folder"),
  });
});

it("refuses graphs that are none, and folders that lack what it needs to know", async () => {
  const broken = join(folder, "broken");
  cpSync(join(folder, "float32"), broken, { recursive: true });
  writeFileSync(join(broken, "onnx/model.onnx"), "no graph");
  await expect(open("broken")).rejects.toMatchObject({ code: "unusable_model_file" });
  mkdirSync(join(folder, "empty/onnx"), { recursive: true });
  cpSync(join(folder, "float32/config.json"), join(folder, "empty/config.json"));
  await expect(open("empty", { models: [{ path: join(folder, "empty"), onnx: {} }] })).rejects.toThrow(
    "has no model*.onnx",
  );
});

it.skipIf(!canMeasureTurns)("leaves the event loop free while a graph runs", async () => {
  await using engine = await open("float32");
  const content = "word and ".repeat(180);
  const request = { messages: [{ role: "user" as const, content }], max_tokens: 1, temperature: 0 };
  await engine.chat.completions.create({ ...request, messages: [{ role: "user", content: "Hi" }] });
  expect(await longestTurn(() => engine.chat.completions.create(request))).toBeLessThan(10);
  // Chats that come and go one after the other, with what is asked of all of them.
  const staggered = Array.from({ length: 6 }, (_, i) => ({
    ...request,
    messages: [{ role: "user" as const, content: "word ".repeat(20 * i + 1) }],
    max_tokens: 12,
    logprobs: true,
    top_logprobs: 5,
  }));
  const turn = await longestTurn(() =>
    Promise.all(
      staggered.map(async (one, i) => {
        await sleep(20 * i);
        return engine.chat.completions.create(one);
      }),
    ),
  );
  expect(turn).toBeLessThan(10);
});

it("names the command that adds onnxruntime-node where it is not installed, and does everything else", async () => {
  const own = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
  const installed = join(folder, "installed");
  for (const path of ["package.json", "src", "models/tiny", "native/build/Release/anneal.node"]) {
    cpSync(own(path), join(installed, path), { recursive: true });
  }
  mkdirSync(join(installed, "node_modules"));
  for (const name of readdirSync(own("node_modules"))) {
    if (name !== "onnxruntime-node") symlinkSync(own(`node_modules/${name}`), join(installed, "node_modules", name));
  }
  writeFileSync(
    join(installed, "use.ts"),
    `import { Engine } from "./src/index.ts";
    const failed = await Engine.open({ models: [${JSON.stringify(join(folder, "float32"))}] }).catch((error) => error);
    const engine = await Engine.open({});
    const { choices } = await engine.chat.completions.create({ messages: [{ role: "user", content: "Hi" }], max_tokens: 3 });
    console.log(JSON.stringify({ code: failed.code, hint: failed.hint, choices: choices.length }));
    await engine.close();`,
  );
  const { stdout } = await promisify(execFile)(process.execPath, ["--import", "tsx", "use.ts"], { cwd: installed });
  expect(JSON.parse(stdout)).toEqual({
    code: "onnxruntime_missing",
    hint: "npm install onnxruntime-node",
    choices: 1,
  });
});
