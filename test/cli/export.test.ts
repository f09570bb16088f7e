import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Engine } from "../../src/anneal.js";
import { findCommand, isGroup, runCommand } from "../../src/cli/command.js";
import { commands } from "../../src/cli/commands.js";
import { printed } from "./printed.js";

let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "cli-export-"));
  await using engine = await Engine.open({ home: join(folder, "home") });
  const model = await engine.models.create({ project: "p", name: "m", base_model: "anneal/tiny" });
  const session = await engine.training.open(model);
  await session.saveState({ metrics: { "val/reward": 0.25, "train/reward": 0.5 } });
  await session.close();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const command = (...args: string[]) =>
  printed(async () => {
    const { found, rest } = findCommand(commands, args);
    if (isGroup(found)) throw new Error("that is a group");
    return runCommand(found, [...rest, "--home", join(folder, "home")]);
  });

it("lists checkpoints with date, score, size and folder, and goes back to one", async () => {
  const { out } = await command("models", "checkpoints", "p/m");
  const rows = out
    .trim()
    .split("\n")
    .map((line) => line.split("\t"));
  expect(rows.map(([step, , score]) => [step, score])).toEqual([
    ["0", "-"],
    ["1", "0.2500"],
  ]);
  for (const [, date, , size, path] of rows) {
    expect(date).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    expect(size).toMatch(/^\d\.\dM$/);
    expect(existsSync(join(path!, "adapter_model.safetensors"))).toBe(true);
  }
  const listed = JSON.parse((await command("models", "checkpoints", "p/m", "--json")).out);
  expect(listed[1].metrics).toEqual({ "val/reward": 0.25, "train/reward": 0.5 });
  expect((await command("models", "rollback", "p/m", "0")).out).toBe("local/p/m:step2 is what it was at step 0\n");
});

it("exports a step as an adapter, as a whole model or as ONNX", { timeout: 300_000 }, async () => {
  const adapter = join(folder, "adapter");
  expect((await command("export", "p/m:step1", adapter)).out).toContain(`step 1 as ${adapter}, for the base model /`);
  expect(existsSync(join(adapter, "adapter_config.json"))).toBe(true);
  const told = JSON.parse((await command("export", "p/m:1", join(folder, "told"), "--json")).out);
  expect(told).toMatchObject({ path: join(folder, "told"), step: 1, format: "peft", base_model: expect.any(String) });
  const merged = join(folder, "new", "merged");
  const shares: number[] = [];
  const watch = (message: unknown) => void shares.push((message as { fraction: number }).fraction);
  subscribe("anneal:export:progress", watch);
  expect((await command("export", "m", merged, "--format", "merged")).out).toBe(`step 2 as ${merged}\n`);
  unsubscribe("anneal:export:progress", watch);
  expect(shares.length).toBeGreaterThan(5);
  expect(shares).toEqual([...shares].sort((a, b) => a - b));
  expect(shares.at(-1)).toBe(1);
  expect(readFileSync(join(merged, "config.json"), "utf8")).toContain('"bfloat16"');
  const onnx = join(folder, "onnx");
  expect((await command("export", "m", onnx, "--format", "onnx", "--dtype", "int4")).out).toBe(`step 2 as ${onnx}\n`);
  expect(existsSync(join(onnx, "onnx", "model_q4.onnx"))).toBe(true);
  await expect(command("export", "p/m", merged)).rejects.toThrow("is not empty");
  const same = join(folder, "safetensors");
  expect((await command("export", "m", same, "--format", "safetensors")).out).toBe(`step 2 as ${same}\n`);
  expect(readFileSync(join(same, "model.safetensors"))).toEqual(readFileSync(join(merged, "model.safetensors")));
  const quantised = command("export", "m", join(folder, "q"), "--format", "safetensors", "--quantize", "q8_0");
  await expect(quantised).rejects.toThrow("--quantize is of --format gguf: safetensors holds floats");
  for (const [format, type] of [
    ["peft", "--dtype"],
    ["gguf_adapter", "--weights"],
  ] as const) {
    const typed = command("export", "m", join(folder, "typed"), "--format", format, type, "float32");
    await expect(typed).rejects.toThrow(`${type} is of a whole model (--format merged, onnx or gguf): ${format} holds`);
  }
});
