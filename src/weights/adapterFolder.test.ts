import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it } from "vitest";
import { writeSafetensors } from "../../test/fixtures/writeSafetensors.js";
import { readAdapterFolder, withLeftOutLayers, writeAdapterFolder } from "./adapterFolder.js";
import { readModelConfig } from "./modelConfig.js";
import { modelSpec } from "./modelSpec.js";
import { readSafetensors, safetensorsHeader } from "./safetensors.js";

const adapter = fileURLToPath(new URL("../../test/reference/models/llama_linear/adapter", import.meta.url));
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "anneal-adapter-"));
  cpSync(adapter, folder, { recursive: true });
});
afterEach(() => rmSync(folder, { recursive: true }));

function editConfig(change: object): void {
  const file = join(folder, "adapter_config.json");
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), ...change }));
}

it("reads what peft wrote", async () => {
  const { spec, tensors } = await readAdapterFolder(folder);
  expect(spec).toEqual({ rank: 8, alpha: 16, rslora: false, targets: ["q_proj", "v_proj"] });
  expect([...tensors.keys()].sort()).toEqual(
    [0, 1].flatMap((layer) =>
      ["q_proj", "v_proj"].flatMap((projection) =>
        ["A", "B"].map((side) => `base_model.model.model.layers.${layer}.self_attn.${projection}.lora_${side}.weight`),
      ),
    ),
  );
  expect(tensors.values().next().value!.shape).toEqual([8, 32]);
});

it("reads back what it wrote, and leaves no other file", async () => {
  const { spec, tensors } = await readAdapterFolder(folder);
  const other = mkdtempSync(join(tmpdir(), "anneal-adapter-"));
  await writeAdapterFolder(other, { ...spec, rslora: true, alpha: 12.5 }, tensors, "some/base");
  expect(readdirSync(other).sort()).toEqual(["adapter_config.json", "adapter_model.safetensors"]);
  const again = await readAdapterFolder(other);
  expect(again.spec).toEqual({ ...spec, rslora: true, alpha: 12.5 });
  expect(again.tensors).toEqual(tensors);
  const file = join(other, "adapter_model.safetensors");
  expect((await readSafetensors(file)).metadata).toEqual({ format: "pt" });
  rmSync(other, { recursive: true });
});

it("writes adapters of a text that peft finds in a model that sees alone by the names there, and reads them back", async () => {
  const { spec, tensors } = await readAdapterFolder(folder);
  const other = mkdtempSync(join(tmpdir(), "anneal-adapter-"));
  const written = async (baseType: string) => {
    await writeAdapterFolder(other, spec, tensors, "some/base", baseType);
    const read = await readAdapterFolder(other);
    expect(read).toMatchObject({ spec });
    expect(read.tensors).toEqual(tensors);
    const { tensors: stored } = await readSafetensors(join(other, "adapter_model.safetensors"));
    const { exclude_modules } = JSON.parse(readFileSync(join(other, "adapter_config.json"), "utf8"));
    return { first: [...stored.keys()].sort()[0], exclude_modules };
  };
  const first = "base_model.model.model.language_model.layers.0.self_attn.q_proj.lora_A.weight";
  const exclude_modules = ".*(vision_tower|multi_modal_projector).*";
  expect(await written("gemma3")).toEqual({ first, exclude_modules });
  expect(await written("mistral3")).toEqual({ first, exclude_modules });
  for (const type of ["qwen3_5", "gemma3_text"]) {
    expect(await written(type)).toEqual({ first: first.replace("language_model.", "") });
  }
  rmSync(other, { recursive: true });
});

it("takes names that carry the adapter's name, and lists of longer module names", async () => {
  const file = join(folder, "adapter_model.safetensors");
  const { tensors } = await readSafetensors(file);
  const renamed = [...tensors].map(([name, tensor]) => [name.replace(".weight", ".default.weight"), tensor] as const);
  await writeSafetensors(file, new Map(renamed));
  editConfig({ target_modules: ["self_attn.v_proj", "q_proj"] });
  const read = await readAdapterFolder(folder);
  expect(read.tensors).toEqual(tensors);
  expect(read.spec.targets).toEqual(["q_proj", "v_proj"]);
});

it("takes lists of the modules of every layer", async () => {
  const layers = ["model.layers.0.self_attn", "layers.1.self_attn"];
  editConfig({ target_modules: layers.flatMap((layer) => [`${layer}.v_proj`, `${layer}.q_proj`]) });
  expect((await readAdapterFolder(folder)).spec.targets).toEqual(["q_proj", "v_proj"]);
});

it.each(["model.language_model", "language_model.model"])("takes names of a text that stands at %s", async (place) => {
  const file = join(folder, "adapter_model.safetensors");
  const { tensors } = await readSafetensors(file);
  const renamed = [...tensors].map(
    ([name, tensor]) => [name.replace(".model.model.", `.model.${place}.`), tensor] as const,
  );
  expect(renamed[0]![0]).toContain("language_model");
  await writeSafetensors(file, new Map(renamed));
  expect((await readAdapterFolder(folder)).tensors).toEqual(tensors);
});

it('takes "all-linear" as what of a model there is', async () => {
  editConfig({ target_modules: "all-linear" });
  expect((await readAdapterFolder(folder)).spec.targets).toEqual(["q_proj", "v_proj"]);
});

it.each<object>([
  { layers_to_transform: 1 },
  { layers_to_transform: [1] },
  { exclude_modules: ["layers.0.self_attn.v_proj", "layers.0.self_attn.q_proj"] },
  { target_modules: ".*layers\\.1\\.self_attn\\.(q|v)_proj" },
  { target_modules: ["layers.1.self_attn.q_proj", "layers.1.self_attn.v_proj"] },
])("gives zeros to the layers that %j leaves out", async (change) => {
  const file = join(folder, "adapter_model.safetensors");
  const whole = (await readSafetensors(file)).tensors;
  const written = new Map([...whole].filter(([name]) => name.includes(".layers.1.")));
  await writeSafetensors(file, written);
  const model = modelSpec(await readModelConfig(join(adapter, "..")));
  const lacking = await readAdapterFolder(folder);
  expect(withLeftOutLayers(model, lacking)).toEqual(written);
  editConfig(change);
  const read = await readAdapterFolder(folder);
  expect(read.spec.targets).toEqual(["q_proj", "v_proj"]);
  const filled = withLeftOutLayers(model, read);
  expect([...filled.keys()].sort()).toEqual([...whole.keys()].sort());
  for (const [name, { shape, data }] of filled) {
    expect(shape).toEqual(whole.get(name)!.shape);
    expect(data).toEqual(written.get(name)?.data ?? new Float32Array(shape[0]! * shape[1]!));
  }
  const halves = new Map([...written].filter(([name]) => !name.includes("q_proj.lora_A")));
  await writeSafetensors(file, halves);
  const half = "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight";
  expect(withLeftOutLayers(model, await readAdapterFolder(folder)).has(half)).toBe(false);
});

it.each<[string, object]>([
  ["peft_type", { peft_type: "IA3" }],
  ["use_dora", { use_dora: true }],
  ["bias", { bias: "all" }],
  ["lora_bias", { lora_bias: true }],
  ["modules_to_save", { modules_to_save: ["lm_head"] }],
  ["rank_pattern", { rank_pattern: { q_proj: 4 } }],
  ["alpha_pattern", { alpha_pattern: { q_proj: 4 } }],
  ["target_parameters", { target_parameters: ["mlp.experts.gate_up_proj"], rank_pattern: { gate_up_proj: 4 } }],
  ["fan_in_fan_out", { fan_in_fan_out: true }],
  ["init_lora_weights", { init_lora_weights: "pissa" }],
  ["target_modules", { target_modules: ["lm_head"] }],
  ["target_modules", { target_modules: [] }],
  ["r", { r: 0 }],
  ["lora_alpha", { lora_alpha: "16" }],
])("refuses an adapter by its %s", async (param, change) => {
  editConfig(change);
  await expect(readAdapterFolder(folder)).rejects.toMatchObject({ name: "ModelFileError", param });
});

it("refuses tensors that do not fit the model before they are read", async () => {
  const model = modelSpec(await readModelConfig(join(adapter, "..")));
  expect((await readAdapterFolder(folder, model)).tensors.size).toBe(8);
  const file = join(folder, "adapter_model.safetensors");
  const write = (name: string, shape: [number, number]) => {
    const bytes = 4 * shape[0] * shape[1];
    const header = safetensorsHeader([{ name, shape, dtype: "F32", bytes }]);
    writeFileSync(file, header);
    truncateSync(file, header.length + bytes);
  };
  const place = (layer: number) => `base_model.model.model.layers.${layer}.self_attn.q_proj.lora_A.weight`;
  for (const [name, shape, problem] of [
    [place(0), [8, 10 ** 10], "must have the shape [8, 32]"],
    [place(9), [8, 32], "is no tensor of this model"],
  ] as const) {
    write(name, [...shape]);
    const refused = { name: "ModelFileError", file, param: name, message: expect.stringContaining(problem) };
    await expect(readAdapterFolder(folder, model)).rejects.toMatchObject(refused);
  }
});

it("refuses tensors that fit no projection or not the rank", async () => {
  const file = join(folder, "adapter_model.safetensors");
  const { tensors } = await readSafetensors(file);
  const odd = new Map(tensors).set("base_model.model.lm_head.lora_A.weight", { shape: [0], data: new Float32Array() });
  await writeSafetensors(file, odd);
  await expect(readAdapterFolder(folder)).rejects.toMatchObject({ param: "base_model.model.lm_head.lora_A.weight" });
  await writeSafetensors(file, tensors);
  editConfig({ r: 4 });
  await expect(readAdapterFolder(folder)).rejects.toThrow(/rank 4/);
  rmSync(file);
  writeFileSync(join(folder, "adapter_model.bin"), "");
  await expect(readAdapterFolder(folder)).rejects.toThrow(/adapter_model\.bin is not read/);
});

it("says that experts are not adapted", async () => {
  const file = join(folder, "adapter_model.safetensors");
  const { tensors } = await readSafetensors(file);
  const [, tensor] = [...tensors][0]!;
  for (const place of [
    ...["experts.3.gate_proj", "experts.base_layer", "gate"],
    ...["shared_expert.gate_proj", "shared_expert_gate"],
  ]) {
    const name = `base_model.model.model.layers.0.mlp.${place}.lora_A.weight`;
    await writeSafetensors(file, new Map(tensors).set(name, tensor));
    const refused = { name: "ModelFileError", param: name, message: expect.stringContaining("experts") };
    await expect(readAdapterFolder(folder)).rejects.toMatchObject(refused);
  }
  for (const target_parameters of [
    ["gate_up_proj"],
    ["mlp.experts.down_proj"],
    ["gate.weight"],
    ["shared_expert_gate.weight"],
  ]) {
    editConfig({ target_parameters });
    await expect(readAdapterFolder(folder)).rejects.toThrow(/target_parameters is .*experts/);
  }
  for (const name of ["shared_expert_gate", "shared_expert.up_proj", "model.layers.3.mlp.shared_expert.up_proj"]) {
    editConfig({ target_parameters: null, target_modules: ["q_proj", name] });
    await expect(readAdapterFolder(folder)).rejects.toThrow(/target_modules contains .*adapts experts/);
  }
});

it.each([
  ["qwen3_moe", "experts alone have", ["q_proj", "k_proj", "v_proj", "o_proj"]],
  ["lfm2", "have other names", ["q_proj", "k_proj", "v_proj"]],
])("takes an adapter of attention that asked %s for projections that %s", async (name, _, attention) => {
  const base = fileURLToPath(new URL(`../../test/reference/models/${name}`, import.meta.url));
  cpSync(join(base, "adapter"), folder, { recursive: true });
  const file = join(folder, "adapter_model.safetensors");
  const { tensors } = await readSafetensors(file);
  await writeSafetensors(file, new Map([...tensors].filter(([own]) => attention.some((part) => own.includes(part)))));
  editConfig({ target_modules: ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"] });
  const model = modelSpec(await readModelConfig(base));
  expect((await readAdapterFolder(folder, model)).spec.targets).toEqual(attention);
});
