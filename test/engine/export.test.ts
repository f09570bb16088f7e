import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { Engine } from "../../src/anneal.js";
import { createServer } from "../../src/server/createServer.js";
import { listen } from "../../src/server/listen.js";
import type { Model } from "../../src/types/models.js";
import { readSafetensors } from "../../src/weights/safetensors.js";

const tiny = fileURLToPath(new URL("../../models/tiny", import.meta.url));
const messages = [{ role: "user", content: 'Spell "planet" backwards, one word.' }];
const name = (model: Model, step: number) => `${model.entity}/${model.project}/${model.name}:step${step}`;

let folder: string;
let engine: Engine;
let model: Model;

/** Two steps that change what the model says by much. */
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "export-"));
  mkdirSync(join(folder, "root"));
  engine = await Engine.open({ home: join(folder, "home"), dtype: "float32", dataRoots: [join(folder, "root")] });
  model = await engine.models.create({ project: "p", name: "m", base_model: "anneal/tiny" });
  const session = await engine.training.open(model);
  const tokens = Array.from({ length: 40 }, (_, i) => 300 + ((i * 7) % 90));
  for (let step = 0; step < 2; step++) {
    await session.forwardBackward([{ tokens, trained: tokens.map(() => 1) }], { loss: "cross_entropy" });
    await session.optimStep({ learningRate: 2e-2 });
    await session.saveState({ metrics: { "val/reward": step, "train/reward": 5 } });
  }
  await session.close();
});
afterAll(async () => {
  await engine.close();
  rmSync(folder, { recursive: true, force: true });
});

async function promptLogprobs(of: Engine, served: string): Promise<number[]> {
  const { prompt_logprobs: found } = await of.chat.completions.create({
    model: served,
    messages,
    max_tokens: 1,
    prompt_logprobs: 0,
  });
  return found!.flatMap((entry) => Object.values(entry ?? {}).map(({ logprob }) => logprob));
}

const furthest = (a: number[], b: number[]) => Math.max(...a.map((value, i) => Math.abs(value - b[i]!)));

it("writes an adapter whose base model is found by name, and which is the same when it comes back", async () => {
  const path = join(folder, "adapter");
  expect(await engine.models.export(model.id, { path })).toEqual({
    path,
    step: 2,
    format: "peft",
    warnings: [],
    base_model: tiny,
  });
  expect(readdirSync(path).sort()).toEqual(["adapter_config.json", "adapter_model.safetensors"]);
  const config = JSON.parse(readFileSync(join(path, "adapter_config.json"), "utf8"));
  expect(config.base_model_name_or_path).toBe(tiny);
  const back = await engine.models.import({ project: "p", name: "back", base_model: "anneal/tiny", path });
  expect(await promptLogprobs(engine, name(back, 0))).toEqual(await promptLogprobs(engine, name(model, 2)));
  const named = join(folder, "named");
  await engine.models.export(model.id, { path: named, step: 1, base_model: "owner/model" });
  expect(readFileSync(join(named, "adapter_config.json"), "utf8")).toContain(
    '"base_model_name_or_path": "owner/model"',
  );
});

it("calls a base model that is named as on a hub by that name", async () => {
  await using hub = await Engine.open({ models: [{ id: "owner/tiny", path: tiny }] });
  const { id } = await hub.models.create({ project: "p", name: "m", base_model: "owner/tiny" });
  expect((await hub.models.export(id, { path: join(folder, "hub") })).base_model).toBe("owner/tiny");
});

it("writes a whole model, in as many files as asked, that says what the adapter says", async () => {
  const path = join(folder, "merged");
  await engine.models.export(model.id, { path, step: 1, format: "merged", dtype: "float32" });
  const shards = join(folder, "shards");
  await engine.models.export(model.id, {
    path: shards,
    step: 1,
    format: "merged",
    dtype: "float32",
    max_shard_bytes: 2 ** 21,
  });
  expect(readdirSync(path)).toEqual(expect.arrayContaining(["config.json", "model.safetensors", "tokenizer.json"]));
  const files = readdirSync(shards).filter((file) => file.endsWith(".safetensors"));
  expect(files.length).toBeGreaterThan(4);
  expect(files[0]).toBe(`model-00001-of-0000${files.length}.safetensors`);
  await using served = await Engine.open({
    models: [
      { id: "whole", path },
      { id: "shards", path: shards },
      { id: "base", path: tiny },
    ],
    dtype: "float32",
  });
  const expected = await promptLogprobs(engine, name(model, 1));
  const [whole, sharded, base] = [
    await promptLogprobs(served, "whole"),
    await promptLogprobs(served, "shards"),
    await promptLogprobs(served, "base"),
  ];
  expect(furthest(whole!, expected)).toBeLessThan(1e-4);
  expect(furthest(base!, expected)).toBeGreaterThan(0.1);
  expect(sharded).toEqual(whole);
});

it("keeps the type that the base is stored in, and every weight that no adapter changes", async () => {
  const path = join(folder, "stored");
  await engine.models.export(model.id, { path, format: "merged" });
  const [merged, base] = await Promise.all(
    [path, tiny].map(async (place) => (await readSafetensors(join(place, "model.safetensors"))).tensors),
  );
  expect([...merged!.keys()].sort()).toEqual([...base!.keys()].sort());
  for (const [key, { data }] of merged!) {
    const changed = data.some((value, i) => value !== base!.get(key)!.data[i]);
    expect(changed, key).toBe(key.endsWith("_proj.weight"));
  }
  const size = (place: string) => readFileSync(join(place, "model.safetensors")).length;
  expect(Math.abs(size(path) - size(tiny))).toBeLessThan(4096);
});

it("writes a whole model as GGUF, which answers as the adapter does, and says what others read otherwise", async () => {
  const path = join(folder, "gguf");
  const made = await engine.models.export(model.id, { path, step: 1, format: "gguf", dtype: "float32" });
  expect(made.warnings).toEqual([expect.stringContaining("llama.cpp has no name")]);
  expect(readdirSync(path)).toEqual(["model.gguf"]);
  const small = join(folder, "gguf-q8");
  await engine.models.export(model.id, { path: small, step: 1, format: "gguf", dtype: "q8_0" });
  await using served = await Engine.open({
    models: [
      { id: "whole", path: join(path, "model.gguf") },
      { id: "small", path: join(small, "model.gguf") },
    ],
    dtype: "float32",
  });
  const expected = await promptLogprobs(engine, name(model, 1));
  expect(furthest(await promptLogprobs(served, "whole"), expected)).toBeLessThan(1e-4);
  const off = furthest(await promptLogprobs(served, "small"), expected);
  expect(off).toBeGreaterThan(1e-4);
  expect(off).toBeLessThan(0.2);
  const adapter = join(folder, "gguf-adapter");
  expect((await engine.models.export(model.id, { path: adapter, format: "gguf_adapter" })).warnings).toEqual([]);
  expect(readdirSync(adapter)).toEqual(["adapter.gguf"]);
  const other = engine.models.export(model.id, { path: join(folder, "no"), format: "gguf", dtype: "int8" });
  await expect(other).rejects.toMatchObject({ param: "dtype" });
});

it.skipIf(process.platform !== "linux").each(["peft", "merged", "onnx", "gguf", "gguf_adapter"] as const)(
  "has on the disk all that it acknowledges: %s",
  async (format) => {
    const path = join(folder, `flushed-${format}`);
    const handle = await open(join(tiny, "config.json"));
    const flushed = new Set<string>();
    const kind = Object.getPrototypeOf(handle) as FileHandle;
    const sync = vi.spyOn(kind, "sync").mockImplementation(async function (this: FileHandle) {
      flushed.add(relative(path, readlinkSync(`/proc/self/fd/${this.fd}`)).replace(/^\.\.\/[^/]*\.part/, "."));
    });
    try {
      await engine.models.export(model.id, { path, format });
    } finally {
      sync.mockRestore();
      await handle.close();
    }
    const there = [".", ...readdirSync(path, { recursive: true, encoding: "utf8" }).map((name) => `./${name}`)];
    expect(there.filter((name) => !flushed.has(name))).toEqual([]);
  },
);

it("leaves what is there alone, and nothing half done", async () => {
  const taken = join(folder, "taken");
  mkdirSync(taken);
  writeFileSync(join(taken, "mine"), "");
  const export_ = (params: object) => engine.models.export(model.id, { path: join(folder, "new"), ...params });
  await expect(export_({ path: taken })).rejects.toMatchObject({
    param: "path",
    message: expect.stringContaining("not empty"),
  });
  await expect(export_({ path: join(taken, "mine") })).rejects.toMatchObject({ param: "path" });
  await expect(export_({ path: join(folder, "home", "checkpoints", "x") })).rejects.toMatchObject({ param: "path" });
  await expect(export_({ step: 9 })).rejects.toMatchObject({ code: "step_not_found" });
  await expect(export_({ format: "parquet" })).rejects.toMatchObject({ param: "format" });
  const stop = new AbortController();
  const stopped = engine.models.export(
    model.id,
    { path: join(folder, "new"), format: "merged" },
    { signal: stop.signal },
  );
  stop.abort("enough");
  await expect(stopped).rejects.toBe("enough");
  expect(readdirSync(folder).filter((entry) => entry.startsWith("new"))).toEqual([]);
});

it("goes back to a step in one call, and trains on from there", async () => {
  const rolled = await engine.models.import({
    project: "p",
    name: "rolled",
    base_model: "anneal/tiny",
    path: engine.core.store.files.checkpointFolder(model.id, 0),
  });
  const session = await engine.training.open(rolled);
  const tokens = [5, 6, 7, 8];
  const steps = [];
  for (let step = 0; step < 3; step++) {
    await session.forwardBackward([{ tokens, trained: [0, 1, 1, 1] }], { loss: "cross_entropy" });
    await session.optimStep({ learningRate: 1e-2 });
    steps.push(await session.saveState({ metrics: { "val/reward": step, "train/reward": 5 } }));
  }
  const waiting = engine.models.rollback(rolled.id, 1);
  await session.close();
  const made = await waiting;
  expect(made).toMatchObject({ step: 4, metrics: { "val/reward": 0 }, bytes: expect.any(Number) });
  expect(made.metrics).not.toHaveProperty("train/reward");
  for (const file of ["adapter_model.safetensors", "optimizer.safetensors"]) {
    expect(readFileSync(join(made.path!, file)).equals(readFileSync(join(steps[0]!.path!, file))), file).toBe(true);
  }
  expect((await engine.checkpoints.list(rolled.id)).data.map(({ step }) => step)).toEqual([0, 1, 2, 3, 4]);
  expect(await promptLogprobs(engine, `local/p/rolled`)).toEqual(await promptLogprobs(engine, name(rolled, 1)));
  expect((await engine.models.rollback(rolled.id, 4)).step).toBe(4);
  await expect(engine.models.rollback(rolled.id, 9)).rejects.toMatchObject({ code: "step_not_found", param: "step" });
});

it("does the same for requests, in folders that requests may name, and tells others no paths", async () => {
  const listening = await listen(createServer(engine), { host: "127.0.0.1", port: 0 });
  const owner = await Engine.connect(listening.address, { apiKey: engine.apiKey });
  const { key } = await engine.keys.create({ entity: "team" });
  const other = await Engine.connect(listening.address, { apiKey: key });
  try {
    const path = join(folder, "root", "deep", "adapter");
    expect(await owner.models.export(model.id, { path })).toMatchObject({ path, step: 2 });
    expect(existsSync(join(path, "adapter_config.json"))).toBe(true);
    for (const outside of [join(folder, "outside"), join(folder, "root", "..", "outside"), "relative"]) {
      await expect(owner.models.export(model.id, { path: outside })).rejects.toMatchObject({
        status: 422,
        param: "path",
      });
    }
    const [first] = (await owner.checkpoints.list(model.id)).data;
    expect(first!.path).toBe(engine.core.store.files.checkpointFolder(model.id, 0));
    expect(dirname(dirname(first!.path!))).toBe(join(engine.home!, "checkpoints"));
    const theirs = await other.models.create({ project: "p", name: "theirs", base_model: "anneal/tiny" });
    const [seen] = (await other.checkpoints.list(theirs.id)).data;
    expect(Object.keys(seen!).sort()).toEqual(["bytes", "created_at", "id", "metrics", "step"]);
    await expect(other.models.export(theirs.id, { path: join(folder, "root", "b") })).rejects.toMatchObject({
      param: "path",
    });
    await expect(other.models.rollback(model.id, 1)).rejects.toMatchObject({ status: 403 });
    expect((await owner.models.rollback(model.id, 1)).step).toBe(3);
  } finally {
    await listening.close(0);
  }
});
