// Experts of a layer that are one tensor, and the same one by one.

import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, it } from "vitest";
import { writeSafetensors } from "../../test/fixtures/writeSafetensors.js";
import type { NamedTensors } from "../runtime/runtime.js";
import { readAdapterFolder } from "./adapterFolder.js";
import { writeMergedFolder } from "./mergedFolder.js";
import { readSafetensors } from "./safetensors.js";
import { openWeightFolder } from "./weightFolder.js";

const reference = (name: string) => fileURLToPath(new URL(`../../test/reference/models/${name}`, import.meta.url));
const FUSED = reference("qwen3_5_moe_tower");
const EXPERTS = 6;

const parent = mkdtempSync(join(tmpdir(), "experts-"));
afterAll(() => rmSync(parent, { recursive: true, force: true }));
const fresh = (name: string) => {
  const folder = join(parent, name);
  mkdirSync(folder);
  return folder;
};

/** With the experts of the first layers one by one. */
function apart(tensors: NamedTensors, layers: number): NamedTensors {
  const found: NamedTensors = new Map();
  for (const [name, tensor] of tensors) {
    const [, at, layer, fused] = /^(model\..+\.(\d+)\.mlp\.experts)\.(gate_up|down)_proj$/.exec(name) ?? [];
    if (at === undefined || Number(layer) >= layers) {
      found.set(name, tensor);
      continue;
    }
    const parts = fused === "down" ? ["down"] : ["gate", "up"];
    const [, rows, columns] = tensor.shape as [number, number, number];
    const shape = [rows / parts.length, columns];
    const size = shape[0]! * columns;
    for (let expert = 0; expert < EXPERTS; expert++) {
      for (const [part, projection] of parts.entries()) {
        const from = (expert * parts.length + part) * size;
        const data = tensor.data.subarray(from, from + size);
        found.set(`${at}.${expert}.${projection}_proj.weight`, { shape, data });
      }
    }
  }
  return found;
}

async function changed(name: string, change: (tensors: NamedTensors) => NamedTensors): Promise<string> {
  const folder = fresh(name);
  cpSync(join(FUSED, "config.json"), join(folder, "config.json"));
  const { tensors } = await readSafetensors(join(FUSED, "model.safetensors"));
  await writeSafetensors(join(folder, "model.safetensors"), change(tensors));
  return folder;
}

it("are read in either layout, one layer in one and the next in the other too, as the same model", async () => {
  const fused = await openWeightFolder(await changed("fused", (tensors) => tensors));
  for (const layers of [1, 3]) {
    const other = await openWeightFolder(await changed(`apart-${layers}`, (tensors) => apart(tensors, layers)));
    expect(other.config).toEqual(fused.config);
    expect(other.tensors.map(({ name }) => name)).toEqual(fused.tensors.map(({ name }) => name));
    expect(await other.content.hash()).toBe(await fused.content.hash());
  }
});

it("are refused where neither layout is there whole, or both are", async () => {
  const at = "model.layers.1.mlp.experts";
  const whole = `model.language_model.${at.slice("model.".length)}`;
  const param = async (name: string, change: (tensors: NamedTensors) => void) => {
    const folder = await changed(name, (tensors) => {
      change(tensors);
      return tensors;
    });
    const error = await openWeightFolder(folder).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ name: "ModelFileError" });
    return error as { param: string; message: string };
  };
  const lacking = await param("lacking", (tensors) => tensors.delete(`${whole}.gate_up_proj`));
  expect(lacking.message).toContain(`lacks the tensor ${at}.0.gate_proj.weight`);
  const fewer = await param("fewer", (tensors) => {
    const { data } = tensors.get(`${whole}.down_proj`)!;
    tensors.set(`${whole}.down_proj`, { shape: [5, 34, 26], data: data.subarray(0, 5 * 34 * 26) });
  });
  expect(fewer).toMatchObject({
    param: `${at}.down_proj`,
    message: expect.stringContaining("[5,34,26], config.json asks for [6,34,26]"),
  });
  const twice = await param("twice", (tensors) => {
    for (const [name, tensor] of apart(tensors, 3)) tensors.set(name, tensor);
  });
  expect(twice).toMatchObject({ param: expect.stringMatching(/experts\.(gate_up|down)_proj$/) });
});

it.each(["qwen3_5_moe", "qwen3_5_moe_tower", "qwen3_moe", "gpt_oss", "gpt_oss_odd", "lfm2_moe", "granite_moe"])(
  "are written as they were read with the adapter of %s",
  async (name) => {
    const source = reference(name);
    const target = fresh(`merged-${name}`);
    await writeMergedFolder(target, source, await readAdapterFolder(join(source, "adapter")), {});
    const [base, merged] = [await openWeightFolder(source), await openWeightFolder(target)];
    expect(merged.config).toEqual(base.config);
    expect(merged.stored.map((tensor) => tensor.name)).toEqual(base.stored.map((tensor) => tensor.name));
    const bytes = ({ file, offset, bytes }: (typeof base.stored)[number]) =>
      readFileSync(file).subarray(offset, offset + bytes);
    const others = base.stored.flatMap((tensor, i) => (bytes(tensor).equals(bytes(merged.stored[i]!)) ? [] : [tensor]));
    expect(others.length).toBeGreaterThan(0);
    expect(others.filter((tensor) => /\.mlp\.|\.experts\.|\.gate\.|_bias$|_moe\./.test(tensor.name))).toEqual([]);
  },
);

it("are asked for by Granite's names in a folder that has them", async () => {
  const source = reference("granite_moe");
  const shards = readdirSync(source).filter((file) => /^model.*\.safetensors$/.test(file));
  const read = await Promise.all(shards.map((shard) => readSafetensors(join(source, shard))));
  const tensors = read.flatMap((shard) => [...shard.tensors]);
  for (const part of ["router.layer", "input_linear", "output_linear"]) {
    const folder = fresh(`granite-${part}`);
    cpSync(join(source, "config.json"), join(folder, "config.json"));
    const lacking = `model.layers.1.block_sparse_moe.${part}.weight`;
    const others = new Map(tensors.filter(([name]) => name !== lacking));
    expect(others.size).toBe(tensors.length - 1);
    await writeSafetensors(join(folder, "model.safetensors"), others);
    await expect(openWeightFolder(folder)).rejects.toMatchObject({ param: lacking });
  }
});
