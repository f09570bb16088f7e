// All weights of a model in training: sampled live, saved as a base model, gone on with.

import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Engine } from "../../src/anneal.js";
import { NativeDeviceTrainer } from "../../src/runtime/nativeDeviceTrainer.js";
import { backupHome } from "../../src/store/backupHome.js";
import { checkHome } from "../../src/store/checkHome.js";
import type { SavedWeights, TrainingSession } from "../../src/types/trainingSession.js";
import { rows, sumOf } from "./trainingRows.js";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "full-"));
});
afterEach(() => {
  for (const folder of [home, `${home}-copy`]) rmSync(folder, { recursive: true, force: true });
});

const greedy = {
  messages: [{ role: "user" as const, content: "Hi" }],
  temperature: 0,
  max_tokens: 12,
  logprobs: true,
  top_logprobs: 3,
};

const newModel = (engine: Engine, name = "whole") =>
  engine.models.create({ project: "p", name, base_model: "anneal/tiny", return_existing: true });

async function steps(session: TrainingSession<SavedWeights>, count: number, learningRate = 1e-3): Promise<void> {
  for (let i = 0; i < count; i++) {
    await session.forwardBackward(rows, { loss: "cross_entropy" });
    await session.optimStep({ learningRate, weightDecay: 0, maxGradNorm: 1 });
  }
}

const answer = async (engine: Engine, model: string) =>
  (await engine.chat.completions.create({ ...greedy, model })).choices[0]!;

type Choice = Awaited<ReturnType<typeof answer>>;
const numbers = (choice: Choice) => choice.logprobs!.content!.map(({ logprob }) => logprob);

describe("a session of all weights", () => {
  it("saves weights that serve a request to its end when its model and they are deleted meanwhile", async () => {
    await using engine = await Engine.open({ home });
    const model = await newModel(engine);
    const session = await engine.training.open(model, { weights: "full" });
    const saved = await session.saveState();
    await session.close();
    const other = await engine.models.create({ project: "p", name: "on-it", base_model: saved.base_model });
    const stream = await engine.chat.completions.create({
      ...greedy,
      model: "local/p/on-it",
      max_tokens: 300,
      min_tokens: 300,
      stream: true,
    });
    let tokens = 0;
    for await (const { choices } of stream) {
      tokens += choices[0]?.logprobs?.content?.length ?? 0;
      if (tokens !== 3) continue;
      await engine.models.delete(other.id);
      await engine.baseModels.delete(saved.base_model);
    }
    expect(tokens).toBe(300);
    await expect(answer(engine, saved.base_model)).rejects.toMatchObject({ code: "model_not_found" });
  });

  it("saves weights that a session on them trains to its end when its model and they are deleted meanwhile", async () => {
    await using engine = await Engine.open({ home });
    const first = await engine.training.open(await newModel(engine), { weights: "full" });
    const { base_model } = await first.saveState();
    await first.close();
    const other = await engine.models.create({ project: "p", name: "on-it", base_model });
    await using session = await engine.training.open(other);
    const told = await session.logprobs(rows);
    await engine.models.delete(other.id);
    await engine.baseModels.delete(base_model);
    expect(await session.logprobs(rows)).toEqual(told);
  });

  it("saves weights on which no model is made while they are deleted", async () => {
    await using engine = await Engine.open({ home });
    const session = await engine.training.open(await newModel(engine), { weights: "full" });
    const { base_model } = await session.saveState();
    await session.close();
    const making = engine.models.create({ project: "p", name: "on-it", base_model });
    const refused = expect(making).rejects.toMatchObject({ code: "base_model_changed", param: "base_model" });
    // While step 0 is written.
    while (readdirSync(join(home, "temporary")).length === 0) await new Promise(setImmediate);
    await engine.baseModels.delete(base_model);
    await refused;
    expect((await engine.models.list()).data.map(({ id }) => id)).not.toContain("local/p/on-it");
  });

  it("saves under one name as another does, of which the weights that were kept last are served", async () => {
    {
      await using engine = await Engine.open({ home });
      const models = await Promise.all(["a", "b", "c"].map((name) => newModel(engine, name)));
      const sessions = await Promise.all(models.map((model) => engine.training.open(model, { weights: "full" })));
      for (const [i, session] of sessions.entries()) await steps(session, i + 1);
      const saved = await Promise.all(sessions.map((session) => session.saveState({ name: "shared" })));
      const { id } = engine.core.store.savedModels.find("shared")!;
      const kept = saved.findIndex(({ path }) => path.endsWith(id));
      expect(saved[kept]!.served).toBe(true);
      expect(await answer(engine, "shared")).toEqual((await sessions[kept]!.sample(greedy)).choices[0]);
      await Promise.all(sessions.map((session) => session.close()));
    }
    await using again = await Engine.open({ home, verify: true });
    expect(await again.baseModels.list()).toEqual(["anneal/tiny", "shared"]);
  });

  it("learns, samples the live weights, and saves what is served with the same bits, then and after reopening", async () => {
    let live: Choice;
    let saved: SavedWeights;
    {
      await using engine = await Engine.open({ home });
      const model = await newModel(engine);
      const untrained = await answer(engine, "anneal/tiny");
      await using session = await engine.training.open(model, { weights: "full" });
      expect((await session.sample(greedy)).choices[0]).toEqual(untrained);
      const before = await session.logprobs(rows);
      await steps(session, 4);
      expect(sumOf((await session.logprobs(rows)).logprobs)).toBeGreaterThan(sumOf(before.logprobs) + 1);
      live = (await session.sample(greedy)).choices[0]!;
      expect(live).not.toEqual(untrained);
      saved = await session.saveState();
      expect(saved).toMatchObject({ base_model: "p/whole-full", steps: 4, served: true });
      expect(await engine.baseModels.list()).toEqual(["anneal/tiny", "p/whole-full"]);
      expect(await answer(engine, "p/whole-full")).toEqual(live);
      // The base is what it was.
      expect(await answer(engine, "anneal/tiny")).toEqual(untrained);
      const other = await engine.models.create({ project: "p", name: "on-it", base_model: "p/whole-full" });
      expect(numbers(await answer(engine, `local/p/${other.name}`))).toEqual(numbers(live));
      const exported = await engine.models.export(other.id, { path: `${home}-copy` });
      expect(exported.base_model).toBe(saved.path);
      await expect(session.saveState()).rejects.toMatchObject({ code: "model_in_use", param: "name" });
      expect(await session.saveState({ name: "second" })).toMatchObject({ base_model: "second", served: true });
      const inUse = { code: "model_in_use", param: "base_model" };
      await expect(engine.baseModels.delete("second")).rejects.toMatchObject(inUse);
      await session.close();
      await expect(engine.baseModels.delete(saved.base_model)).rejects.toMatchObject(inUse);
      await engine.baseModels.delete("second");
      await expect(answer(engine, "second")).rejects.toMatchObject({ code: "model_not_found" });
      const headers = { authorization: `Bearer ${engine.apiKey}` };
      const url = `http://x/v1/preview/base-models/${encodeURIComponent(saved.base_model)}`;
      expect((await engine.fetch(url, { method: "DELETE", headers })).status).toBe(409);
    }
    await using again = await Engine.open({ home, verify: true });
    expect(await again.baseModels.list()).toEqual(["anneal/tiny", "p/whole-full"]);
    expect(await answer(again, "p/whole-full")).toEqual(live);
    expect(readdirSync(saved.path).toSorted()).toContain("tokenizer.json");
    // Any engine serves the folder.
    await using elsewhere = await Engine.open({ models: [saved.path] });
    expect(await answer(elsewhere, (await elsewhere.baseModels.list())[0]!)).toEqual(live);
  });

  it("goes on where it stopped, as if it had not been closed", async () => {
    await using engine = await Engine.open({ home });
    const [model, other] = [await newModel(engine), await newModel(engine, "other")];
    const first = await engine.training.open(model, { weights: "full", objective: "sft" });
    await steps(first, 2);
    await first.saveState();
    await first.close();
    await using undisturbed = await engine.training.open(other, { weights: "full", objective: "sft" });
    await steps(undisturbed, 2);
    await using second = await engine.training.open(model, { weights: "full", objective: "sft" });
    for (const session of [second, undisturbed]) await steps(session, 2);
    expect(await second.logprobs(rows)).toEqual(await undisturbed.logprobs(rows));
    expect(await second.saveState()).toMatchObject({ base_model: "p/whole-full", steps: 4 });
    expect(await answer(engine, "p/whole-full")).toEqual((await undisturbed.sample(greedy)).choices[0]);
  });

  it("is saved a tensor at a time, not as whole copies of the weights and of the optimizer's state", async () => {
    await using engine = await Engine.open({ home });
    await using session = await engine.training.open(await newModel(engine), { weights: "full" });
    await steps(session, 1);
    const read = vi.spyOn(NativeDeviceTrainer.prototype, "read");
    try {
      await session.saveState();
      const sizes = await Promise.all(read.mock.results.map(async ({ value }) => (await value).size));
      expect(new Set(sizes)).toEqual(new Set([1]));
    } finally {
      read.mockRestore();
    }
  });

  it("begins with a trained adapter added into the base, and compares with what it began with", async () => {
    await using engine = await Engine.open({ home });
    const model = await newModel(engine);
    const adapter = await engine.training.open(model);
    for (let i = 0; i < 3; i++) {
      await adapter.forwardBackward(rows, { loss: "cross_entropy" });
      await adapter.optimStep({ learningRate: 5e-3, weightDecay: 0, maxGradNorm: 1 });
    }
    const trained = sumOf((await adapter.logprobs(rows)).logprobs);
    await adapter.saveState();
    await adapter.close();
    await using session = await engine.training.open(model, { weights: "full" });
    const begun = await session.logprobs(rows);
    expect(Math.abs(sumOf(begun.logprobs) - trained)).toBeLessThan(0.02 * Math.abs(trained));
    // At the weights it began with, DPO's margin is 0.
    const { metrics } = await session.forwardBackward(rows, { loss: "dpo" });
    expect(metrics.loss).toBeCloseTo(Math.log(2), 6);
    await session.optimStep({ learningRate: 1e-3 });
    const later = await session.forwardBackward(rows, { loss: "dpo" });
    expect(later.metrics.loss).toBeLessThan(Math.log(2));
  });

  it("lets samples end before a step changes the weights", async () => {
    await using engine = await Engine.open({ home });
    await using session = await engine.training.open(await newModel(engine), { weights: "full" });
    const long = { ...greedy, max_tokens: 100, ignore_eos: true };
    const alone = (await session.sample(long)).choices[0];
    const during = [session.sample(long), session.sample({ ...long, seed: 1 })];
    const step = steps(session, 1, 1e-2);
    const after = session.sample(long);
    expect((await during[0]!).choices[0]).toEqual(alone);
    await step;
    expect((await after).choices[0]).toBeDefined();
    expect((await session.sample(long)).choices[0]).not.toEqual(alone);
  });

  it("is refused before memory is taken where there is too little, and names what cannot be", async () => {
    await using engine = await Engine.open({ home, memoryLimit: 40 * 2 ** 20, contextLength: 512 });
    const model = await newModel(engine);
    await expect(engine.training.open(model, { weights: "full" })).rejects.toMatchObject({
      code: "insufficient_memory",
    });
    // Nothing is held by what was refused.
    await (await engine.training.open(model)).close();
    await expect(engine.training.open(model, { weights: "all" } as never)).rejects.toMatchObject({ param: "weights" });
  });

  it("refuses names that cannot be given", async () => {
    await using engine = await Engine.open({ home });
    await using session = await engine.training.open(await newModel(engine), { weights: "full" });
    for (const name of ["anneal/tiny", "a/b/c", "", "..", "a b"]) {
      await expect(session.saveState({ name })).rejects.toMatchObject({ param: "name" });
    }
    await expect(session.saveState({ metrics: {} } as never)).rejects.toMatchObject({ param: "metrics" });
  });

  it("is checked and backed up with its home, and refused when it is damaged", async () => {
    {
      await using engine = await Engine.open({ home });
      await using session = await engine.training.open(await newModel(engine), { weights: "full" });
      await steps(session, 1);
      await session.saveState();
    }
    expect((await checkHome(home)).problems).toEqual([]);
    await backupHome(home, `${home}-copy`);
    {
      await using copy = await Engine.open({ home: `${home}-copy` });
      expect(await copy.baseModels.list()).toContain("p/whole-full");
    }
    const [id] = readdirSync(join(home, "saved-models"));
    const file = join(home, "saved-models", id!, "training_state", "moment1.safetensors");
    const bytes = readFileSync(file);
    bytes[bytes.length - 1]! ^= 1;
    writeFileSync(file, bytes);
    expect((await checkHome(home)).problems).toMatchObject([{ kind: "damaged" }]);
    await using engine = await Engine.open({ home });
    await expect(engine.training.open(await newModel(engine), { weights: "full" })).rejects.toMatchObject({
      code: "file_damaged",
    });
  });
});

interface Said {
  /** Of what is about to be saved, or has been; 0: what was there. */
  number: number;
  saved: boolean;
  logprobs?: number[];
}

/** Trains and saves until it is killed. @returns what it said. */
function saveUntilKilled(delay: number): Promise<Said[]> {
  const script = fileURLToPath(new URL("./fullWeightsProcess.ts", import.meta.url));
  const child = spawn(process.execPath, ["--import", "tsx", script, home], { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.on("data", (chunk: Buffer) => {
    if (text === "") setTimeout(() => child.kill("SIGKILL"), delay);
    text += chunk.toString();
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", () => {
      const lines = text.slice(0, text.lastIndexOf("\n") + 1).split("\n");
      resolve(lines.filter(Boolean).map((line) => JSON.parse(line) as Said));
    });
  });
}

it("leaves what was saved before or the new weights, whenever the process is killed", {
  timeout: 120_000,
}, async () => {
  for (const delay of [40, 180, 420]) {
    const said = await saveUntilKilled(delay);
    const acknowledged = said.findLast(({ saved }) => saved)?.number ?? -1;
    await using engine = await Engine.open({ home });
    const served = (await engine.baseModels.list()).includes("p/whole-full");
    if (acknowledged >= 0) expect(served).toBe(true);
    if (!served) continue;
    const logprobs = numbers(await answer(engine, "p/whole-full"));
    const candidates = said.filter((one) => one.logprobs && one.number >= acknowledged);
    expect(candidates.map((one) => one.logprobs)).toContainEqual(logprobs);
    expect(readdirSync(join(home, "saved-models"))).toHaveLength(1);
    expect((await checkHome(home)).problems).toEqual([]);
  }
});
