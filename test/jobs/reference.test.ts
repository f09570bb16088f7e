// Whole jobs against the same jobs in PyTorch (test/reference/jobs/make.py): three optimizer steps from an adapter that peft saved.

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Engine } from "../../src/index.js";
import type { NamedTensors } from "../../src/runtime/runtime.js";
import type { ExperimentalConfig, SftConfig, TrainingEvent } from "../../src/types/training.js";
import type { TrajectoryGroup } from "../../src/types/trajectories.js";
import { readAdapterFolder, readSafetensors } from "../../src/weights/index.js";
import { DEVICE, someOnGpu } from "../native/device.js";

const reference = fileURLToPath(new URL("../reference", import.meta.url));
const read = <T>(name: string): T => JSON.parse(readFileSync(join(reference, "jobs", name), "utf8")) as T;

type RlJobs = { groups: TrajectoryGroup[]; configs: Record<string, ExperimentalConfig> };
/** Recorded jobs of a model, in a folder of `reference/jobs`. */
const rlOf = (model: string, recorded: string) =>
  ["rl.json", "rl_tempered.json"].flatMap((file) => {
    const { groups, configs } = read<RlJobs>(join(recorded, file));
    return Object.entries(configs).map(([name, config]) => ({ name, config, groups, model, recorded }));
  });
/** Experts are computed by the processor alone. */
const MODELS = someOnGpu(["qwen3", "gpt_oss"], (model) => model === "qwen3");
const rl = [...rlOf("qwen3", ""), ...rlOf("gpt_oss", "gpt_oss")].filter(({ model }) => MODELS.includes(model));
const sft = read<{ config: SftConfig; conversations: unknown[] }>("sft.json");
type Outcomes = Record<string, { loss: number[]; grad_norm: number[]; validation?: number[] }>;

let folder: string;
let engine: Engine;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "anneal-jobs-"));
  for (const model of MODELS) cpSync(join(reference, "models", model), join(folder, model), { recursive: true });
  cpSync(join(reference, "jobs/tokenizer"), join(folder, "qwen3"), { recursive: true });
  cpSync(join(reference, "jobs/gpt_oss/tokenizer"), join(folder, "gpt_oss"), { recursive: true });
  engine = await Engine.open({
    home: join(folder, "home"),
    models: MODELS.map((id) => ({ id, path: join(folder, id) })),
    device: DEVICE,
    dtype: "float32",
    dataRoots: [folder],
  });
});
afterAll(async () => {
  await engine.close();
  rmSync(folder, { recursive: true, force: true });
});

async function importedModel(name: string, model = "qwen3"): Promise<string> {
  const path = join(folder, model, "adapter");
  return (await engine.models.import({ project: "p", name, base_model: model, path })).id;
}

const adapterAt = async (modelId: string, step: number) =>
  (await readAdapterFolder(engine.core.store.files.checkpointFolder(modelId, step))).tensors;

/** Norm over all tensors of what `a` is away from `b`. */
function distance(a: NamedTensors, b: NamedTensors): number {
  let sum = 0;
  expect([...a.keys()].sort()).toEqual([...b.keys()].sort());
  for (const [name, { data }] of a) {
    const other = b.get(name)!.data;
    for (let i = 0; i < data.length; i++) sum += (data[i]! - other[i]!) ** 2;
  }
  return Math.sqrt(sum);
}

const norm = (tensors: NamedTensors) =>
  Math.sqrt([...tensors.values()].reduce((sum, { data }) => sum + data.reduce((all, value) => all + value ** 2, 0), 0));

async function check(name: string, modelId: string, events: TrainingEvent[], recorded = ""): Promise<void> {
  const expected = read<Outcomes>(join(recorded, "expected.json"));
  const steps = events.filter(({ type }) => type === "gradient_step").map(({ data }) => data as Record<string, number>);
  expect(steps).toHaveLength(expected[name]!.loss.length);
  for (const [i, { loss, grad_norm }] of steps.entries()) {
    // Logits of these weights reach 50: a ratio exp(a - b) of float32 logprobs is good to 1e-5, and losses cancel.
    expect(Math.abs(loss! / expected[name]!.loss[i]! - 1)).toBeLessThan(1e-3);
    expect(Math.abs(grad_norm! / expected[name]!.grad_norm[i]! - 1)).toBeLessThan(1e-3);
  }
  const wanted = (await readSafetensors(join(reference, "jobs", recorded, `expected_${name}.safetensors`))).tensors;
  const made = await adapterAt(modelId, 1);
  const moved = distance(await adapterAt(modelId, 0), wanted);
  const error = distance(made, wanted);
  expect(moved / norm(wanted)).toBeGreaterThan(1e-2);
  expect(error / norm(wanted)).toBeLessThan(1e-4);
  // Of what training changed, not only of what was there before.
  expect(error / moved).toBeLessThan(1e-3);
}

async function eventsOf(jobId: string): Promise<TrainingEvent[]> {
  await engine.trainingJobs.wait(jobId);
  return (await engine.trainingJobs.events(jobId, { limit: 100 })).data;
}

describe("an imported adapter", () => {
  it("becomes step 0 as it is, and answers", async () => {
    const id = await importedModel("imported");
    expect(await adapterAt(id, 0)).toEqual((await readAdapterFolder(join(folder, "qwen3/adapter"))).tensors);
    const ask = async (model: string) =>
      (await engine.chat.completions.create({ model, messages: [{ role: "user", content: "a" }], temperature: 0 }))
        .choices[0]!.message.content;
    expect(await ask("local/p/imported")).not.toBe(await ask("qwen3"));
  });
});

describe("a job makes of an adapter what PyTorch makes of it", () => {
  it.each(rl)("of $model with the RL settings $name", async ({ name, config, groups, model, recorded }) => {
    const modelId = await importedModel(`rl-${model}-${name}`, model);
    const request = { model_id: modelId, trajectory_groups: groups, experimental_config: config };
    await check(name, modelId, await eventsOf((await engine.trainingJobs.create(request)).id), recorded);
  });

  it("from conversations, with a learning rate per batch", async () => {
    const file = join(folder, "train.jsonl");
    writeFileSync(file, sft.conversations.map((line) => `${JSON.stringify(line)}\n`).join(""));
    const modelId = await importedModel("sft");
    const request = { model_id: modelId, training_data_url: file, config: sft.config };
    await check("sft", modelId, await eventsOf((await engine.sftTrainingJobs.create(request)).id));
  });

  it("from conversations in shuffled epochs, with some held out for validation", async () => {
    const file = join(folder, "epochs.jsonl");
    writeFileSync(file, sft.conversations.map((line) => `${JSON.stringify(line)}\n`).join(""));
    const modelId = await importedModel("sft-epochs");
    const config = read<SftConfig>("sft_epochs.json");
    const { id } = await engine.sftTrainingJobs.create({ model_id: modelId, training_data_url: file, config });
    const events = await eventsOf(id);
    await check("sft_epochs", modelId, events);
    const validations = events.flatMap(({ data }) => (data as Record<string, number>)["val/loss"] ?? []);
    const wanted = read<Outcomes>("expected.json").sft_epochs!.validation!;
    // The last one twice: of the last step and of the job.
    expect(validations).toHaveLength(wanted.length + 1);
    for (const [i, value] of wanted.entries()) expect(Math.abs(validations[i]! / value - 1)).toBeLessThan(1e-3);
    const [latest] = (await engine.checkpoints.list(modelId, { limit: 1, order: "desc" })).data;
    expect(latest!.metrics["val/loss"]).toBe(validations.at(-1));
  });
});
