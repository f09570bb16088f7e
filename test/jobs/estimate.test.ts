// What a job says it will take, before its first step.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Engine } from "../../src/index.js";
import { DEFAULT_ADAPTER } from "../../src/training/checkpointFiles.js";
import { estimateJob } from "../../src/training/estimate.js";
import { Learner } from "../../src/training/learner.js";
import { OPTIMIZER } from "../../src/training/optimizer.js";
import { computedTokens, packRows } from "../../src/training/packing.js";
import type { TokenRow } from "../../src/training/tokenRow.js";
import type { TrainingBase } from "../../src/training/trainingBase.js";
import type { TrainingStartedEvent } from "../../src/types/training.js";
import { loadTestBase, madeUpGroups } from "./jobHost.js";

let base: TrainingBase;
beforeAll(async () => {
  base = await loadTestBase();
});
afterAll(() => base.device.close());

const row = (length: number, from: number) => {
  const tokens = Int32Array.from({ length }, (_, i) => (i * 37) % 700);
  return { tokens, trained: Uint8Array.from(tokens, (_, i) => (i >= from ? 1 : 0)) };
};

describe("an estimate", () => {
  it("counts what rows share once, as passes do", () => {
    const rows = [row(80, 70), row(90, 70), row(75, 50), row(40, 10)];
    const packed = packRows(rows).reduce((sum, { tokens }) => sum + tokens.length, 0);
    expect(computedTokens(rows)).toBe(packed);
    expect(packed).toBeLessThan(80 + 90 + 75 + 40);
  });

  it("times passes whose gradient it clears, and counts activations and the trained parameters", async () => {
    const trainer = await base.device.trainAdapter(DEFAULT_ADAPTER, { seed: 1n });
    const limits = { maxTokens: 4096, passTokens: 2048, memoryBudget: 2 ** 30 };
    const learner = new Learner(trainer, OPTIMIZER.sft, limits);
    const largest = (...trained: TokenRow[][]) => ({ trained, evaluated: [], usesEntropy: false });
    const long = Array.from({ length: 8 }, (_, i) => row(500, i));
    const work = { perStep: [6000, 3000], largest: largest(long), evaluated: 300, probe: row(100, 20) };
    const estimate = await estimateJob({ work }, base, trainer, learner, limits);
    expect(estimate.tokens).toBe(9000);
    expect(estimate.seconds).toBeGreaterThan(0);
    for (const { data } of (await trainer.read("gradient")).values())
      expect(data.every((value) => value === 0)).toBe(true);
    expect(trainer.steps).toBe(0);
    const smaller = await estimateJob(
      { work: { ...work, perStep: [500, 500], largest: largest([row(500, 0)]) } },
      base,
      trainer,
      learner,
      limits,
    );
    expect(smaller).not.toHaveProperty("seconds");
    expect(estimate.memory_bytes).toBeGreaterThan(smaller.memory_bytes);
    const parameters = [...(await trainer.read("value")).values()].reduce((sum, { data }) => sum + data.length, 0);
    const none = await estimateJob(
      { work: { perStep: [], largest: largest(), evaluated: 0, probe: null } },
      base,
      trainer,
      learner,
      limits,
    );
    // Masters, gradients, moments and a checkpoint's copies; and what is computed with.
    expect(none.tokens).toBe(0);
    expect(none.memory_bytes).toBeGreaterThan(40 * parameters);
    expect(none.memory_bytes).toBeLessThan(80 * parameters);
    // A pass may take the budget, where its rows fit one by one; where one does not, the job would fail.
    const planned = await trainer.memory!({ trained: [packRows(long)], evaluated: [] }, { memoryBudget: 0 });
    expect(estimate.memory_bytes - none.memory_bytes).toBe(planned!.passes);
    const { passes: alone } = (await trainer.memory!(
      { trained: [packRows([long[0]!])], evaluated: [] },
      { memoryBudget: 0 },
    ))!;
    const tight = { ...limits, memoryBudget: alone };
    const cut = await estimateJob({ work }, base, trainer, learner, tight);
    expect(cut.memory_bytes - none.memory_bytes).toBe(alone);
    await expect(
      estimateJob({ work }, base, trainer, learner, { ...limits, memoryBudget: 1000 }),
    ).rejects.toMatchObject({
      code: "insufficient_memory",
      param: "memoryBudget",
    });
    trainer.close();
  });

  it("is in a job's first event and in the log, and of the order of what the job takes", async () => {
    const logged: unknown[] = [];
    const logger = {
      debug() {},
      warn() {},
      error() {},
      info: (text: string, data?: object) => logged.push([text, data]),
    };
    await using engine = await Engine.open({ logger });
    const model = await engine.models.create({ project: "p", name: "m", base_model: "anneal/tiny" });
    const { id } = await engine.trainingJobs.create({ model_id: model.id, trajectory_groups: madeUpGroups(120) });
    const begin = performance.now();
    await engine.trainingJobs.wait(id);
    const taken = (performance.now() - begin) / 1000;
    const [first] = (await engine.trainingJobs.events(id)).data;
    const { estimate } = (first as TrainingStartedEvent).data;
    expect(logged).toContainEqual([
      "training job begins",
      expect.objectContaining({ job: id, steps: 120, ...estimate }),
    ]);
    // Machines are busy: only that it is no other unit.
    expect(estimate!.seconds!).toBeGreaterThan(taken / 50);
    expect(estimate!.seconds!).toBeLessThan(taken * 50);
  });
});

describe("an estimate that is asked for", () => {
  it("says what the job would, of either kind, in process and over HTTP, and trains nothing", async () => {
    await using engine = await Engine.open();
    const model = await engine.models.create({ project: "p", name: "asked", base_model: "anneal/tiny" });
    const rl = { model_id: model.id, trajectory_groups: madeUpGroups(3) };
    const data = Array.from({ length: 5 }, (_, i) => ({
      messages: [
        { role: "user" as const, content: "q" },
        { role: "assistant" as const, content: "a ".repeat(i === 4 ? 9000 : 20), weight: i < 2 ? (0 as const) : null },
      ],
    }));
    const sft = { model_id: model.id, data, config: { num_epochs: 2, batch_size: 2 } };
    const asked = [await engine.trainingJobs.estimate(rl), await engine.sftTrainingJobs.estimate(sft)];
    expect(await post(engine, "training-jobs/estimate", rl)).toEqual(asked[0]);
    expect(await post(engine, "sft-training-jobs/estimate", sft)).toEqual(asked[1]);
    expect(asked[1]!.warnings).toEqual([
      expect.stringMatching(/1 conversations longer than/),
      "2 conversations have no turn of weight 1 and train nothing",
    ]);
    expect((await engine.trainingJobs.list()).data).toEqual([]);
    const jobs = [await engine.trainingJobs.create(rl), await engine.sftTrainingJobs.create(sft)];
    for (const [k, { id }] of jobs.entries()) {
      await engine.trainingJobs.wait(id);
      const [started] = (await engine.trainingJobs.events(id)).data;
      const { num_sequences, estimate, warnings = [] } = (started as TrainingStartedEvent).data;
      expect(asked[k]).toEqual({ steps: num_sequences, ...estimate, warnings });
    }
  });

  it("tells the time of what takes longer, from a file too, and fails as the job would", async () => {
    await using engine = await Engine.open();
    const model = await engine.models.create({ project: "p", name: "long", base_model: "anneal/tiny" });
    const { steps, seconds } = await engine.trainingJobs.estimate({
      model_id: model.id,
      trajectory_groups: madeUpGroups(120),
    });
    expect(steps).toBe(120);
    expect(seconds).toBeGreaterThan(0);
    const folder = mkdtempSync(join(tmpdir(), "estimate-"));
    const file = join(folder, "chats.jsonl");
    writeFileSync(file, '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}\nno json\n');
    const sft = { model_id: model.id, training_data_url: file };
    await expect(engine.sftTrainingJobs.estimate(sft)).rejects.toThrow(`${file}, line 2`);
    await expect(engine.sftTrainingJobs.estimate({ model_id: model.id })).rejects.toThrow("training_data_url");
    rmSync(folder, { recursive: true });
    const gone = AbortSignal.abort(new Error("enough"));
    await expect(
      engine.trainingJobs.estimate({ model_id: model.id, trajectory_groups: [] }, { signal: gone }),
    ).rejects.toThrow("enough");
  });
});

async function post(engine: Engine, path: string, body: object): Promise<unknown> {
  const response = await engine.fetch(`http://anneal/v1/preview/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${engine.apiKey}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return response.json();
}
