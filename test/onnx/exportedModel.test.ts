// A trained model exported as ONNX through the engine: says what the engine says.

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Engine } from "../../src/anneal.js";
import type { Model, ModelExportParams } from "../../src/types/models.js";
import { DecoderSession } from "./session.js";
import { type Greedy, nativeGreedy, trainedModel } from "./trained.js";

let folder: string;
let engine: Engine;
let model: Model;
let native: Greedy[];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "exported-"));
  ({ engine, model } = await trainedModel(join(folder, "home")));
  native = await nativeGreedy(engine, "local/p/m", 24);
});
afterAll(async () => {
  await engine.close();
  rmSync(folder, { recursive: true, force: true });
});

const config = (path: string) => JSON.parse(readFileSync(join(path, "config.json"), "utf8"));

async function exported(name: string, params: Partial<ModelExportParams> = {}): Promise<string> {
  const path = join(folder, name);
  expect(await engine.models.export(model.id, { path, format: "onnx", ...params })).toMatchObject({ path, step: 1 });
  return path;
}

/** Log-probabilities of the tokens that the engine has said, by an exported model. */
async function logprobs(file: string, { prompt, tokens }: Greedy): Promise<number[]> {
  const session = await DecoderSession.open(file);
  const { logits, vocab } = await session.run([...prompt, ...tokens]);
  await session.close();
  return tokens.map((token, i) => {
    const row = logits.subarray((prompt.length + i - 1) * vocab, (prompt.length + i) * vocab);
    const most = Math.max(...row);
    return row[token]! - most - Math.log(row.reduce((sum, value) => sum + Math.exp(value - most), 0));
  });
}

it("generates the greedy tokens of the engine, and its log-probabilities", async () => {
  const path = await exported("float32");
  const session = await DecoderSession.open(join(path, "onnx/model.onnx"));
  for (const { prompt, tokens } of native) {
    expect(tokens.length).toBeGreaterThan(1);
    expect(await session.greedy(prompt, tokens.length)).toEqual(tokens);
  }
  await session.close();
  expect(readdirSync(path).sort()).toEqual(
    ["config.json", "generation_config.json", "onnx", "tokenizer.json", "tokenizer_config.json"].sort(),
  );
  expect(config(path)["transformers.js_config"]).toEqual({ dtype: "fp32", kv_cache_dtype: { fp16: "float16" } });
});

it.each([
  ["float16", "model_fp16.onnx", "fp16", 0.001, 0.51],
  ["int8", "model_int8.onnx", "int8", 0.01, 0.29],
  ["int4", "model_q4.onnx", "q4", 0.2, 0.17],
] as const)("writes %s as %s, near and small", async (dtype, file, variant, near, share) => {
  const path = await exported(dtype, { dtype });
  expect(config(path)["transformers.js_config"].dtype).toBe(variant);
  const full = await exported(`full-${dtype}`);
  const size = (at: string) => statSync(at).size;
  expect(size(join(path, "onnx", file)) / size(join(full, "onnx/model.onnx"))).toBeLessThan(share);
  let sum = 0;
  let count = 0;
  for (const said of native) {
    const [exact, rounded] = [
      await logprobs(join(full, "onnx/model.onnx"), said),
      await logprobs(join(path, "onnx", file), said),
    ];
    for (const [i, value] of exact.entries()) sum += Math.abs(value - rounded[i]!);
    count += exact.length;
  }
  expect(sum / count).toBeGreaterThan(0);
  expect(sum / count).toBeLessThan(near);
});

it("puts weights that one file cannot hold into files beside it", async () => {
  const path = await exported("external", { max_shard_bytes: 2 ** 21 });
  const files = readdirSync(join(path, "onnx"));
  expect(files).toEqual(expect.arrayContaining(["model.onnx", "model.onnx_data", "model.onnx_data_1"]));
  for (const file of files) expect(statSync(join(path, "onnx", file)).size).toBeLessThanOrEqual(2 ** 21);
  const external = { "model.onnx": files.length - 1 };
  expect(config(path)["transformers.js_config"].use_external_data_format).toEqual(external);
  const session = await DecoderSession.open(join(path, "onnx/model.onnx"));
  expect(await session.greedy(native[0]!.prompt, native[0]!.tokens.length)).toEqual(native[0]!.tokens);
  await session.close();
});

it("leaves nothing behind when it is aborted, and refuses types that ONNX folders do not have", async () => {
  const path = join(folder, "stopped");
  const stop = new AbortController();
  const stopped = engine.models.export(model.id, { path, format: "onnx" }, { signal: stop.signal });
  setTimeout(() => stop.abort("enough"), 5);
  await expect(stopped).rejects.toBe("enough");
  await expect(engine.models.export(model.id, { path, format: "onnx", dtype: "bfloat16" })).rejects.toMatchObject({
    param: "dtype",
    message: expect.stringContaining("float32, float16, int8, int4"),
  });
  await expect(engine.models.export(model.id, { path, format: "merged", dtype: "int4" })).rejects.toMatchObject({
    param: "dtype",
  });
  expect(existsSync(path)).toBe(false);
  expect(readdirSync(folder).filter((entry) => entry.startsWith("stopped"))).toEqual([]);
});
