// Folders of quantised weights that are refused: their configurations, and tensors that do not fit. What is read of those that are not
// is compared in test/native/packed.test.ts.

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ModelFileError } from "../errors.js";
import { readSafetensorsHeader } from "./safetensorsHeader.js";
import { openWeightFiles, openWeightFolder } from "./weightFolder.js";

const packed = fileURLToPath(new URL("../../test/reference/packed", import.meta.url));
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "anneal-packed-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

type Json = Record<string, never>;

function copy(name: "compressed_tensors" | "gptq" | "gptq_v2" | "awq", change: (quantization: Json) => object): void {
  cpSync(join(packed, name), folder, { recursive: true });
  const file = join(folder, "config.json");
  const config = JSON.parse(readFileSync(file, "utf8"));
  writeFileSync(file, JSON.stringify({ ...config, quantization_config: change(config.quantization_config) }));
}

async function failure(): Promise<ModelFileError> {
  const error = await openWeightFiles(folder).then(
    () => new Error("the folder was accepted"),
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ModelFileError);
  return error as ModelFileError;
}

interface Groups {
  config_groups: { group_0: { weights: object } };
}

/** With the first group of compressed-tensors changed. */
const group = (change: object) => (config: Json) => {
  const { config_groups } = config as unknown as Groups;
  return { ...config, config_groups: { ...config_groups, group_0: { ...config_groups.group_0, ...change } } };
};
const weights = (change: object) => (config: Json) => {
  const { config_groups } = config as unknown as Groups;
  return group({ weights: { ...config_groups.group_0.weights, ...change } })(config);
};
const field = (change: object) => (config: Json) => ({ ...config, ...change });

describe("quantization_config", () => {
  it.each<[string, Parameters<typeof copy>[0], (config: Json) => object]>([
    ["quant_method", "awq", field({ quant_method: "bitsandbytes", load_in_4bit: true })],
    ["quant_method", "awq", field({ quant_method: "fp8" })],
    ["quant_method", "awq", field({ quant_method: undefined })],
    ["version", "awq", field({ version: "GEMV" })],
    ["bits", "awq", field({ bits: 8 })],
    ["bits", "gptq", field({ bits: 3 })],
    ["bits", "gptq", field({ bits: undefined })],
    ["checkpoint_format", "gptq", field({ checkpoint_format: "marlin" })],
    ["is_marlin_format", "gptq", field({ is_marlin_format: true })],
    ["pack_dtype", "gptq", field({ pack_dtype: "int16" })],
    ["format", "compressed_tensors", field({ format: "float-quantized" })],
    ["config_groups.group_0.format", "compressed_tensors", group({ format: "marlin-24" })],
    ["config_groups.group_0.weights.num_bits", "compressed_tensors", weights({ num_bits: 2 })],
    ["config_groups.group_0.weights.type", "compressed_tensors", weights({ type: "float" })],
    ["config_groups.group_0.weights.strategy", "compressed_tensors", weights({ strategy: "block" })],
    ["config_groups.group_0.input_activations", "compressed_tensors", group({ input_activations: { num_bits: 8 } })],
    ["config_groups", "compressed_tensors", field({ config_groups: undefined })],
    ["sparsity_config.format", "compressed_tensors", field({ sparsity_config: { format: "sparse-24-bitmask" } })],
    ["transform_config", "compressed_tensors", field({ transform_config: { config_groups: { v: {} } } })],
    ["kv_cache_scheme", "compressed_tensors", field({ kv_cache_scheme: { num_bits: 8 } })],
  ])("names %s of %s", async (param, name, change) => {
    copy(name, change);
    const { message, param: named } = await failure();
    expect(named).toBe(`quantization_config.${param}`);
    expect(message).toContain("config.json");
  });

  it("is refused before weights are looked at, whose types need not be known", async () => {
    copy("awq", field({ quant_method: "fp8" }));
    writeFileSync(join(folder, "model.safetensors"), "");
    expect((await failure()).param).toBe("quantization_config.quant_method");
  });

  it("is read of a model's text", async () => {
    copy("awq", (config) => config);
    const file = join(folder, "config.json");
    const { quantization_config, ...config } = JSON.parse(readFileSync(file, "utf8"));
    writeFileSync(file, JSON.stringify({ ...config, text_config: { quantization_config } }));
    expect((await openWeightFiles(folder)).config.quantized).toHaveLength(6);
  });
});

describe("a packed matrix", () => {
  async function patch(tensor: string, bytes: (data: Buffer) => void): Promise<void> {
    const file = join(folder, "model.safetensors");
    const { offset, bytes: length } = (await readSafetensorsHeader(file)).tensors.get(tensor)!;
    const whole = readFileSync(file);
    bytes(whole.subarray(offset, offset + length));
    writeFileSync(file, whole);
  }
  const header = (change: (text: string) => string) => {
    const file = join(folder, "model.safetensors");
    const whole = readFileSync(file);
    const length = Number(whole.readBigUInt64LE());
    const text = change(whole.subarray(8, 8 + length).toString());
    whole.write(text.padEnd(length), 8);
    writeFileSync(file, whole);
  };
  const same = (config: Json) => config;
  const down = "model.layers.0.mlp.down_proj";

  it.each<[string, Parameters<typeof copy>[0]]>([
    [`${down}.g_idx`, "gptq"],
    [`${down}.weight_g_idx`, "compressed_tensors"],
  ])("whose %s is not sorted is refused by name", async (name, from) => {
    copy(from, same);
    await patch(name, (data) => data.writeInt32LE(1, 0));
    const { param, message } = await failure();
    expect(param).toBe(name);
    expect(message).toContain("spreads the groups over the inputs");
  });

  it("may have a bias of zeros that the model has not, and no other", async () => {
    copy("gptq", same);
    await openWeightFiles(folder);
    await patch(`${down}.bias`, (data) => data.writeUInt16LE(0x3c00, 4));
    expect((await failure()).param).toBe(`${down}.bias`);
  });

  it.each<[string, Parameters<typeof copy>[0], string, string]>([
    [`${down}.scales`, "awq", `${down}.scales`, `${down}.scalez`],
    [`${down}.qzeros`, "awq", `${down}.qzeros`, `${down}.qzeroz`],
    [`${down}.qweight`, "awq", `${down}.qweight":{"dtype":"I32"`, `${down}.qweight":{"dtype":"U32"`],
    [`${down}.scales`, "awq", `${down}.scales":{"dtype":"F16"`, `${down}.scales":{"dtype":"I16"`],
  ])("without a fitting %s is refused", async (param, from, before, after) => {
    copy(from, same);
    header((text) => {
      expect(text).toContain(before);
      return text.replace(before, after);
    });
    expect((await failure()).param).toBe(param);
  });

  it("is what the model hashes to, with its scales and zero points", async () => {
    copy("gptq", same);
    const hash = async () => (await openWeightFiles(folder)).content.hash();
    const hashes = [await hash()];
    for (const part of ["qweight", "scales", "qzeros"]) {
      await patch(`${down}.${part}`, (data) => data.writeUInt8(data.readUInt8(0) ^ 1, 0));
      hashes.push(await hash());
    }
    expect(new Set(hashes).size).toBe(4);
  });

  it("is neither merged nor quantised again", async () => {
    copy("awq", same);
    await expect(openWeightFolder(folder)).rejects.toThrow(/quantised weights, which can be served and adapted/);
    await expect(openWeightFiles(folder, "q4")).rejects.toThrow(/not quantised again/);
  });
});
