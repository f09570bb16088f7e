// Every family through the whole engine: a chat, a job by example and a job by reward on its reference model, and the adapter that they
// leave behind. What it computes is compared with PyTorch elsewhere (test/native/reference.test.ts).

import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Engine } from "../../src/anneal.js";
import { gather } from "../../src/gather/index.js";
import { readAdapterFolder } from "../../src/weights/adapterFolder.js";
import { writeTinyTokenizer } from "../fixtures/tinyTokenizer.js";
import { writeSafetensors } from "../fixtures/writeSafetensors.js";
import { type Case, caseFolder, expected } from "../native/referenceModel.js";

const FAMILIES: readonly Case[] = [
  ...(["smollm3", "granite", "mistral_window", "ministral", "ministral3"] as const),
  ...(["phi3", "qwen2_window", "gemma2", "gemma3", "qwen3_5"] as const),
  ...(["qwen3_moe", "qwen3_moe_odd", "qwen3_5_moe", "qwen3_5_moe_tower"] as const),
  ...(["gpt_oss", "gpt_oss_odd"] as const),
  ...(["lfm2", "lfm2_odd", "lfm2_moe", "lfm2_moe_odd", "granite_moe"] as const),
  ...(["gemma4", "gemma4_odd", "gemma4_tower"] as const),
];

let folder: string;
let engine: Engine;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "families-"));
  for (const name of FAMILIES) {
    cpSync(caseFolder(name), join(folder, name), { recursive: true });
    writeTinyTokenizer(join(folder, name));
  }
  const models = FAMILIES.map((name) => ({ path: join(folder, name), kvPages: 16 }));
  engine = await Engine.open({ models, contextLength: 256 });
});
afterAll(async () => {
  await engine.close();
  rmSync(folder, { recursive: true, force: true });
});

const said = "The quick brown fox jumps over the lazy dog.";
const data = ["Say it.", "And again.", "Once more."].map((content) => ({
  messages: [
    { role: "user" as const, content },
    { role: "assistant" as const, content: said },
  ],
}));

it.each(FAMILIES)("%s", async (base) => {
  const model = await engine.models.create({ project: "p", name: `${base}-trained`, base_model: base });
  const ask = { messages: data[0]!.messages.slice(0, 1), temperature: 0, max_tokens: 12, logprobs: true };
  const before = await engine.chat.completions.create({ model: base, ...ask });
  expect(before.usage.completion_tokens).toBeGreaterThan(0);

  // By example: the loss falls.
  const config = { learning_rate: 1e-2, batch_size: 3, num_epochs: 12 };
  const sft = await engine.sftTrainingJobs.create({ model_id: model.id, data, config });
  await engine.trainingJobs.wait(sft.id);
  const losses: number[] = [];
  for await (const { type, data: step } of engine.trainingJobs.events(sft.id)) {
    if (type === "gradient_step") losses.push((step as Record<string, number>).loss!);
  }
  expect(losses).toHaveLength(12);
  expect(losses.at(-1)).toBeLessThan(0.8 * losses[0]!);

  // By reward: what is sampled from the new step has the logprobs that the trainer computes.
  const groups = await gather(engine, {
    model,
    scenarios: ["a", "b"],
    groupSize: 3,
    rollout: async ({ chat, scenario, seed }) => {
      await chat(`Say ${scenario}.`, { max_tokens: 8 });
      return Number(seed % 5n);
    },
  });
  const rl = await engine.trainingJobs.create({ model_id: model.id, trajectory_groups: groups });
  const { step } = await engine.trainingJobs.wait(rl.id);
  expect(step).toBe(2);
  const shares: number[] = [];
  for await (const { type, data: event } of engine.trainingJobs.events(rl.id)) {
    if (type === "gradient_step") shares.push((event as Record<string, number>).ratio_exact_share!);
  }
  expect(shares[0]).toBe(1);

  // What it left is served, and is an adapter by the names that PEFT gives.
  const after = await engine.chat.completions.create({ model: `local/p/${base}-trained:step2`, ...ask });
  expect(after.choices[0]!.logprobs).not.toEqual(before.choices[0]!.logprobs);
  const path = join(folder, `${base}-adapter`);
  await engine.models.export(model.id, { path });
  expect(readdirSync(path)).toContain("adapter_model.safetensors");
  const { tensors } = await readAdapterFolder(path);
  expect([...tensors.keys()].sort()).toEqual(expected(base).names("lora_grad.").sort());
});

it("adapts the modules of recurrent layers alone where they are named", async () => {
  const targets = ["in_proj_qkv", "out_proj"] as const;
  const make = (base: string, name: string) =>
    engine.models.create({ project: "p", name, base_model: base, adapter: { targets: [...targets] } });
  const model = await make("qwen3_5", "recurrent-alone");
  expect(model.adapter?.targets).toEqual(targets);
  const job = await engine.sftTrainingJobs.create({ model_id: model.id, data, config: { batch_size: 3 } });
  await engine.trainingJobs.wait(job.id);
  const path = join(folder, "recurrent-alone");
  await engine.models.export(model.id, { path });
  const { spec } = await readAdapterFolder(path);
  expect(spec.targets.toSorted()).toEqual([...targets]);
  await expect(make("gemma3", "none-such")).rejects.toThrow(/"in_proj_qkv"; this model has q_proj/);
});

it("adapts one of several modules of a name where its place is given, and by the names that most families have", async () => {
  const make = (name: string, targets: ("o_proj" | "gate_proj")[]) =>
    engine.models.create({ project: "p", name, base_model: "lfm2", adapter: { targets } });
  const model = await make("named-as-most", ["o_proj", "gate_proj"]);
  expect(model.adapter?.targets).toEqual(["out_proj", "w1"]);
  const job = await engine.sftTrainingJobs.create({ model_id: model.id, data, config: { batch_size: 3 } });
  await engine.trainingJobs.wait(job.id);
  const path = join(folder, "named-as-most");
  await engine.models.export(model.id, { path });
  const { spec, tensors } = await readAdapterFolder(path);
  expect(spec.targets).toEqual(["out_proj", "w1"]);
  const modules = new Set([...tensors.keys()].map((name) => /layers\.[01]\.(.+)\.lora_A/.exec(name)?.[1]));
  expect([...modules].filter(Boolean).sort()).toEqual(["conv.out_proj", "feed_forward.w1", "self_attn.out_proj"]);

  // As peft leaves the others out.
  const placed = join(folder, "placed");
  cpSync(path, placed, { recursive: true });
  const config = JSON.parse(readFileSync(join(placed, "adapter_config.json"), "utf8"));
  const told = JSON.stringify({ ...config, target_modules: ["conv.out_proj"] });
  writeFileSync(join(placed, "adapter_config.json"), told);
  const kept = new Map([...tensors].filter(([name]) => name.includes(".conv.out_proj.")));
  await writeSafetensors(join(placed, "adapter_model.safetensors"), kept, { format: "pt" });
  const imported = await engine.models.import({ project: "p", name: "placed", base_model: "lfm2", path: placed });
  const again = join(folder, "placed-again");
  await engine.models.export(imported.id, { path: again });
  for (const [name, { data: values }] of (await readAdapterFolder(again)).tensors) {
    expect(
      values.some((value) => value !== 0),
      name,
    ).toBe(kept.has(name));
  }
});

/** Exported as a folder and as a GGUF file, `prefix` before their names, an untrained model says what its base says. */
async function expectReadBack(id: string, base: string, prefix: string): Promise<void> {
  const ask = { messages: data[0]!.messages.slice(0, 1), temperature: 0, max_tokens: 12, logprobs: true };
  const target = (name: string) => join(folder, `${prefix}-${name}`);
  await engine.models.export(id, { path: target("merged"), format: "merged" });
  await engine.models.export(id, { path: target("gguf"), format: "gguf" });
  const models = [target("merged"), { path: join(target("gguf"), "model.gguf"), id: `${prefix}-gguf` }];
  await using again = await Engine.open({ models, contextLength: 256 });
  const before = await engine.chat.completions.create({ model: base, ...ask });
  for (const name of [`${prefix}-merged`, `${prefix}-gguf`]) {
    const after = await again.chat.completions.create({ model: name, ...ask });
    expect(after.choices[0]!.logprobs).toEqual(before.choices[0]!.logprobs);
  }
}

it("exports of models with short convolutions what others load, and refuses by name what is not written", async () => {
  const model = await engine.models.create({ project: "p", name: "convolving", base_model: "lfm2" });
  const target = (name: string) => join(folder, `convolving-${name}`);
  await expectReadBack(model.id, "lfm2", "convolving");
  const onnx = engine.models.export(model.id, { path: target("onnx"), format: "onnx" });
  await expect(onnx).rejects.toThrow(/not written as/);
});

it("exports what of models with experts others load, and refuses by name what is not done with them", async () => {
  const make = (base: string, name: string, adapter?: { targets: "gate_proj"[] }) =>
    engine.models.create({ project: "p", name, base_model: base, ...(adapter && { adapter }) });
  const model = await make("qwen3_moe", "experts");
  expect(model.adapter?.targets).toEqual(["q_proj", "k_proj", "v_proj", "o_proj"]);
  const target = (name: string) => join(folder, `experts-${name}`);
  expect((await engine.models.export(model.id, { path: target("peft") })).warnings).toEqual([]);
  await engine.models.export(model.id, { path: target("merged"), format: "merged" });
  await engine.models.export(model.id, { path: target("gguf"), format: "gguf", dtype: "q8_0" });
  await using again = await Engine.open({
    models: [target("merged"), join(target("gguf"), "model.gguf")],
    contextLength: 256,
  });
  expect(await again.baseModels.list()).toHaveLength(2);
  const onnx = engine.models.export(model.id, { path: target("onnx"), format: "onnx" });
  await expect(onnx).rejects.toThrow(/layers\[0\]\.experts .*not written as ONNX/);
  const full = engine.training.open(model, { weights: "full" });
  await expect(full).rejects.toMatchObject({ code: "experts_untrained", param: "weights" });
  await expect(make("qwen3_moe", "none-such", { targets: ["gate_proj"] })).rejects.toThrow(/this model has q_proj/);
  // Of layers without experts they are adapted, which peft takes otherwise.
  const mixed = await make("qwen3_moe_odd", "mixed", { targets: ["gate_proj"] });
  const { warnings } = await engine.models.export(mixed.id, { path: target("mixed") });
  expect(warnings).toEqual([expect.stringContaining("experts")]);
});

it("exports models whose experts are scored by logistics as they were read, to folders and GGUF files", async () => {
  const model = await engine.models.create({ project: "p", name: "logistic", base_model: "lfm2_moe" });
  expect(model.adapter?.targets).toEqual(["q_proj", "k_proj", "v_proj", "out_proj", "in_proj", "w1", "w3", "w2"]);
  const target = (name: string) => join(folder, `logistic-${name}`);
  await expectReadBack(model.id, "lfm2_moe", "logistic");
  // What llama.cpp does not compute: shares that are not divided by their sum, and no bias to choose by.
  const odd = await engine.models.create({ project: "p", name: "odd", base_model: "lfm2_moe_odd" });
  const unwritten = engine.models.export(odd.id, { path: target("odd"), format: "gguf" });
  await expect(unwritten).rejects.toMatchObject({ param: "format" });
});

it("exports models with an expert that every token has as they were read, and refuses by name what is not done with them", async () => {
  const base = "qwen3_5_moe_tower";
  const model = await engine.models.create({ project: "p", name: "shared", base_model: base });
  const target = (name: string) => join(folder, `shared-${name}`);
  expect((await engine.models.export(model.id, { path: target("peft") })).warnings).toEqual([]);
  await expectReadBack(model.id, base, "shared");
  const onnx = engine.models.export(model.id, { path: target("onnx"), format: "onnx" });
  await expect(onnx).rejects.toThrow(/not written as/);
  const full = engine.training.open(model, { weights: "full" });
  await expect(full).rejects.toMatchObject({ code: "experts_untrained", param: "weights" });
  const adapter = { targets: ["gate_proj" as const] };
  const fed = engine.models.create({ project: "p", name: "none-such", base_model: base, adapter });
  await expect(fed).rejects.toThrow(/this model has q_proj/);
});
