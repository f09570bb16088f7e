// Held-out data of jobs: when it is looked at, when it ends training, and which weights become the checkpoint.

import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openStore, type Store } from "../../src/store/store.js";
import { ChatTemplate } from "../../src/text/index.js";
import { type JobRequest, writeJobRequest } from "../../src/training/jobRequest.js";
import { JobRunner } from "../../src/training/jobRunner.js";
import { checkRatesOfFile, resolveSftSettings } from "../../src/training/sftRecipe.js";
import type { TrainingBase } from "../../src/training/trainingBase.js";
import type { ExperimentalConfig, SftConfig } from "../../src/types/training.js";
import { createHost, loadTestBase, madeUpGroups, registerModel } from "./jobHost.js";

let base: TrainingBase;
let home: string;
let store: Store;
let data: string;
let made = 0;

beforeAll(async () => {
  const plain = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";
  const open = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  base = { ...(await loadTestBase()), template: new ChatTemplate(plain + open) };
});
afterAll(() => base.device.close());
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "validation-"));
  store = openStore(join(home, "home"));
  data = join(home, "data.jsonl");
  writeFileSync(data, lines(8));
});
afterEach(() => {
  store.close();
  rmSync(home, { recursive: true, force: true });
});

const lines = (count: number) =>
  Array.from({ length: count }, (_, i) => {
    const user = { role: "user", content: `Say number ${i}.` };
    return `${JSON.stringify({ messages: [user, { role: "assistant", content: `It is ${i * 7}.` }] })}\n`;
  }).join("");

const newModel = () => registerModel(store, base, `m${made++}`);
const sft = (config: SftConfig, from = data): JobRequest => ({ kind: "sft", config, data: from });
const rl = (config: ExperimentalConfig, groups = madeUpGroups(4)): JobRequest => ({ kind: "rl", config, groups });

/** Runs a job to its end; with `interruptAt`, an engine is closed after that many steps and another one goes on. */
async function run(modelId: string, request: JobRequest, interruptAt?: number, host = createHost(store, base)) {
  const { id } = store.jobs.create({ kind: request.kind, modelId, entity: "local" });
  writeJobRequest(store.files, id, request);
  let runner = new JobRunner(host);
  runner.enqueue(id);
  const made = () => store.events.count(id, "gradient_step");
  while (store.events.terminal(id) === null) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    if (interruptAt === undefined || made() < interruptAt) continue;
    interruptAt = undefined;
    await runner.close();
    expect(store.events.terminal(id)).toBeNull();
    runner = new JobRunner(host);
    runner.start();
  }
  await runner.close();
  const events = store.events.list(id, { limit: 1000 }).items;
  const steps = events
    .filter(({ type }) => type === "gradient_step")
    .map((event) => event.data as Record<string, number>);
  return { started: events[0]!.data as Record<string, unknown>, steps, last: events.at(-1)! };
}

function bits(modelId: string, step: number, name = "adapter_model.safetensors"): string {
  const file = join(store.files.checkpointFolder(modelId, step), name);
  return createHash("sha256").update(readFileSync(file)).digest("hex");
}

/** Learns in the first epoch, then is thrown far away. */
const worsening = { num_epochs: 4, batch_size: 3, validation_ratio: 0.25, seed: 3 };
const rates = [1e-3, 1e-3, ...new Array<number>(6).fill(0.3)];

describe("an SFT job", () => {
  it("makes epochs in the order of the data, as if it were written so often", async () => {
    const [twice, written] = [await newModel(), await newModel()];
    const { steps, started } = await run(twice, sft({ num_epochs: 2, learning_rate: 1e-3 }));
    writeFileSync(data, lines(8) + lines(8));
    await run(written, sft({ learning_rate: 1e-3 }));
    expect(steps).toHaveLength(8);
    expect(started).toMatchObject({ num_sequences: 8, num_trajectories: 8 });
    expect(bits(twice, 1)).toBe(bits(written, 1));
  });

  it("shuffles by its seed", async () => {
    const models = await Promise.all([newModel(), newModel(), newModel(), newModel()]);
    const configs = [{ seed: 1 }, { seed: 1 }, { seed: 2 }, { shuffle: false }];
    for (const [i, config] of configs.entries()) {
      await run(models[i]!, sft({ shuffle: true, learning_rate: 1e-3, ...config }));
    }
    const [one, same, other, plain] = models.map((model) => bits(model, 1));
    expect(same).toBe(one);
    expect(new Set([one, other, plain]).size).toBe(3);
  });

  it("wants a learning rate for every batch of every epoch, without those that are held out", async () => {
    const config = { ...worsening, learning_rate: rates };
    await checkRatesOfFile(resolveSftSettings(config, 1), data, "data");
    const wrong = resolveSftSettings({ ...config, learning_rate: rates.slice(1) }, 1);
    await expect(checkRatesOfFile(wrong, data, "data")).rejects.toThrow("holds 7 values for 8 batches");
  });

  it("keeps the best weights by validation, and ends when they have not improved for a while", async () => {
    const [best, last, one] = [await newModel(), await newModel(), await newModel()];
    const config = { ...worsening, learning_rate: rates };
    const stopped = await run(best, sft({ ...config, early_stopping_patience: 2 }));
    expect(stopped.started).toMatchObject({ num_sequences: 8, num_validation_trajectories: 2 });
    const losses = stopped.steps.map((step) => step["val/loss"]);
    expect(losses.map((loss) => loss !== undefined)).toEqual([false, true, false, true, false, true]);
    expect(losses[3]!).toBeGreaterThan(losses[1]!);
    expect(stopped.last).toMatchObject({
      type: "training_ended",
      data: { best_gradient_step: 2, "val/loss": losses[1] },
    });
    expect(store.checkpoints.get(best, 1)!.metrics["val/loss"]).toBe(losses[1]);

    const kept = await run(last, sft({ ...config, keep_best: false }));
    expect(kept.steps).toHaveLength(8);
    expect(bits(last, 1)).not.toBe(bits(best, 1));
    expect(store.checkpoints.get(last, 1)!.metrics["val/loss"]).toBe(kept.steps.at(-1)!["val/loss"]);

    await run(one, sft({ ...worsening, num_epochs: 1, learning_rate: rates.slice(0, 2) }));
    expect(bits(best, 1)).toBe(bits(one, 1));
    expect(bits(best, 1, "optimizer.safetensors")).toBe(bits(one, 1, "optimizer.safetensors"));
  });

  it("keeps the weights it began with when nothing improved on them, and says so", async () => {
    const model = await newModel();
    const warnings: string[] = [];
    const host = createHost(store, base, { debug() {}, info() {}, warn: (text) => warnings.push(text), error() {} });
    const { last } = await run(model, sft({ validation_ratio: 0.3, learning_rate: 0.5 }), undefined, host);
    expect(last.data).toMatchObject({ best_gradient_step: 0 });
    expect(warnings).toEqual(["no step of the training job improved its validation loss"]);
    expect(bits(model, 1)).toBe(bits(model, 0));
  });

  it.each([1, 3, 5])("cut off after step %i ends with the same weights", async (at) => {
    const [cut, whole] = [await newModel(), await newModel()];
    const config = { ...worsening, shuffle: true, learning_rate: rates, early_stopping_patience: 2 };
    const first = await run(cut, sft(config), at);
    const second = await run(whole, sft(config));
    const told = (steps: Record<string, number>[]) => steps.map(({ tokens_per_second: _, ...step }) => step);
    expect(told(first.steps)).toEqual(told(second.steps));
    expect(first.last.data).toEqual(second.last.data);
    expect(bits(cut, 1)).toBe(bits(whole, 1));
    expect(readdirSync(join(store.home, "jobs"))).toEqual([]);
  });

  it("says when there is nothing to hold out", async () => {
    writeFileSync(data, lines(1));
    const { started, steps, last } = await run(await newModel(), sft({ validation_ratio: 0.5 }));
    expect(started.warnings).toEqual([expect.stringContaining("nothing could be held out")]);
    expect(steps[0]).not.toHaveProperty("val/loss");
    expect(last).toMatchObject({ type: "training_ended", data: {} });
  });

  it.each([
    ["validation_ratio", { validation_ratio: 1 }],
    ["early_stopping_patience", { early_stopping_patience: 2 }],
    ["keep_best", { keep_best: true }],
    ["validation_interval", { validation_ratio: 0.1, validation_interval: 0 }],
    ["num_epochs", { num_epochs: 0 }],
    ["seed", { seed: 0.5 }],
  ] as [string, SftConfig][])("refuses what cannot be: %s", (field, config) => {
    expect(() => resolveSftSettings(config, 1)).toThrow(expect.objectContaining({ param: `config.${field}` }));
  });
});

describe("an RL job", () => {
  it("holds out groups, trains on the others only, and keeps the best weights", async () => {
    const [best, last, unheld] = [await newModel(), await newModel(), await newModel()];
    const config = { learning_rate: 1e-3, validation_ratio: 0.25, validation_interval: 1 };
    const { started, steps, last: ended } = await run(best, rl(config));
    expect(started).toMatchObject({ num_sequences: 3, num_groups_validation: 1, num_groups_trainable: 4 });
    expect(steps.every((step) => Number.isFinite(step["val/loss"]))).toBe(true);
    const lowest = Math.min(...steps.map((step) => step["val/loss"]!));
    const { best_gradient_step: at, "val/loss": loss } = ended.data as Record<string, number>;
    expect(at === 0 || loss === lowest).toBe(true);
    await run(last, rl({ ...config, keep_best: false }));
    await run(unheld, rl({ learning_rate: 1e-3 }));
    expect(bits(last, 1)).not.toBe(bits(unheld, 1));
    if (at === 3) expect(bits(best, 1)).toBe(bits(last, 1));
    else expect(bits(best, 1)).not.toBe(bits(last, 1));
  });

  it("whose policy comes to prefer what was rewarded has a falling validation loss", async () => {
    // The held-out group says what the others say.
    const [group] = madeUpGroups(1);
    const groups = [group!, group!, group!, group!];
    const config = { learning_rate: 3e-3, validation_ratio: 0.25, validation_interval: 1, precalculate_logprobs: true };
    const { steps, last } = await run(await newModel(), rl(config, groups));
    const losses = steps.map((step) => step["val/loss"]!);
    expect(losses[0]!).toBeLessThan(0.05);
    expect(losses.at(-1)!).toBeLessThan(losses[0]!);
    expect(last.data).toMatchObject({ best_gradient_step: 3 });
  });
});
