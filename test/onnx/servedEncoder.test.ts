// An encoder in ONNX as a model of an engine: vectors, in process and over HTTP.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Engine } from "../../src/anneal.js";

const reference = (name: string) => fileURLToPath(new URL(`../reference/onnx/${name}`, import.meta.url));
const cases: { text: string; ids: number[]; mean: number[] }[] = JSON.parse(
  readFileSync(join(reference("bert"), "expected.json"), "utf8"),
);
const fitting = cases.filter(({ ids }) => ids.length < 32);

let engine: Engine;
beforeAll(async () => {
  engine = await Engine.open({ models: [{ id: "encoder", path: reference("bert") }] });
});
afterAll(() => engine.close());

const unit = (values: readonly number[]) => values.map((value) => value / Math.hypot(...values));
const near = (found: readonly number[], wanted: readonly number[]) => {
  expect(found).toHaveLength(wanted.length);
  for (const [i, value] of wanted.entries()) expect(found[i]).toBeCloseTo(value, 4);
};

it("answers with the vectors of texts, beside a model that chats", async () => {
  const input = fitting.map(({ text }) => text);
  const { data, usage, model } = await engine.embeddings.create({ model: "encoder", input });
  for (const [i, { mean }] of fitting.entries()) near(data[i]!.embedding as number[], unit(mean));
  expect(usage.prompt_tokens).toBe(fitting.reduce((sum, { ids }) => sum + ids.length, 0));
  expect(model).toBe("encoder");
  const { choices } = await engine.chat.completions.create({
    messages: [{ role: "user", content: "Hi" }],
    max_tokens: 2,
  });
  expect(choices).toHaveLength(1);
  expect((await engine.models.list()).data.map(({ id }) => id)).toEqual(["anneal/tiny", "encoder"]);
});

it("answers the openai package, with fewer numbers and in either form", async () => {
  const client = new OpenAI({ apiKey: engine.apiKey, baseURL: "http://localhost/v1", fetch: engine.fetch });
  const input = fitting[0]!.text;
  const { data } = await client.embeddings.create({ model: "encoder", input });
  near(data[0]!.embedding, unit(fitting[0]!.mean));
  const short = await client.embeddings.create({ model: "encoder", input, dimensions: 8, encoding_format: "float" });
  near(short.data[0]!.embedding, unit(fitting[0]!.mean.slice(0, 8)));
});

it("cuts texts that are too long where it may, and refuses what encoders do not have", async () => {
  const long = cases.find(({ ids }) => ids.length === 32)!;
  const create = (params: object) => engine.embeddings.create({ model: "encoder", input: long.text, ...params });
  const { data, usage } = await create({ truncate_prompt_tokens: -1 });
  near(data[0]!.embedding as number[], unit(long.mean));
  expect(usage.prompt_tokens).toBe(32);
  await expect(create({})).rejects.toMatchObject({
    param: "input",
    message: expect.stringContaining("more than the 32"),
  });
  await expect(create({ input: [1, 2, 3] })).rejects.toMatchObject({ param: "input.0" });
  await expect(create({ dimensions: 64, input: "hello" })).rejects.toMatchObject({ param: "dimensions" });
  await expect(create({ truncation_side: "left" })).rejects.toMatchObject({ param: "truncation_side" });
  const messages = [{ role: "user" as const, content: "Hi" }];
  await expect(engine.chat.completions.create({ model: "encoder", messages })).rejects.toMatchObject({
    param: "model",
    message: expect.stringContaining("makes vectors only"),
  });
});

it("says what classifiers are for, and that decoders in ONNX have no vectors", async () => {
  await expect(Engine.open({ models: [reference("bert_reward")] })).rejects.toMatchObject({
    hint: expect.stringContaining("onnxReward"),
  });
  await expect(Engine.open({ models: [reference("bert"), reference("bert")] })).rejects.toThrow('the id "bert"');
  await using decoder = await Engine.open({ models: [reference("llama")] });
  await expect(decoder.embeddings.create({ model: "llama", input: "x" })).rejects.toMatchObject({ param: "model" });
});
