// Files that have changed since they were written: told by name, never served in silence.

import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import Database from "better-sqlite3";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Engine } from "../../src/anneal.js";
import { openWeightFolder } from "../../src/weights/weightFolder.js";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "anneal-damage-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

function flipBit(file: string, at: number): void {
  const content = readFileSync(file);
  content[at < 0 ? content.length + at : at]! ^= 1;
  writeFileSync(file, content);
}

const messages = [{ role: "user" as const, content: "hi" }];

it("a checkpoint with one bit flipped is neither served nor trained from", async () => {
  await using engine = await Engine.open({ home });
  const model = await engine.models.create({ project: "p", name: "n", base_model: "anneal/tiny" });
  const session = await engine.training.open(model);
  await session.saveState();
  await session.close();
  const { step } = engine.core.store.checkpoints.latest(model.id)!;
  const folder = engine.core.store.files.checkpointFolder(model.id, step);
  const ask = () => {
    engine.core.adapters.forget(model.id);
    return engine.chat.completions.create({ model: "local/p/n", messages, max_tokens: 1 });
  };
  await ask();
  for (const name of ["adapter_model.safetensors", "adapter_config.json", "optimizer.safetensors"]) {
    const file = join(folder, name);
    if (!existsSync(file)) continue;
    flipBit(file, -3);
    const refusal = { name: "ModelFileError", code: "file_damaged", file };
    if (name !== "optimizer.safetensors") await expect(ask()).rejects.toMatchObject(refusal);
    await expect(engine.training.open(model)).rejects.toMatchObject(refusal);
    flipBit(file, -3);
    await ask();
  }
});

it("weights of a base model that have changed are told, or refused when asked to verify", async () => {
  const folder = mkdtempSync(join(tmpdir(), "anneal-base-"));
  try {
    cpSync(fileURLToPath(new URL("../../models/tiny", import.meta.url)), folder, { recursive: true });
    const warnings: string[] = [];
    const logger = { debug() {}, info() {}, error() {}, warn: (message: string) => void warnings.push(message) };
    const open = (verify: boolean) => Engine.open({ home, models: [{ id: "base", path: folder }], verify, logger });
    await (await open(true)).close();
    const { tensors } = await openWeightFolder(folder);
    flipBit(tensors[0]!.file, tensors[0]!.offset);
    for (let i = 0; i < 2; i++) {
      // A difference does not become what is known by being served once.
      await expect(open(true)).rejects.toMatchObject({ code: "weights_changed", file: folder });
      await (await open(false)).close();
    }
    expect(warnings).toEqual(Array(2).fill(expect.stringContaining('the home knows as "base"')));
    flipBit(tensors[0]!.file, tensors[0]!.offset);
    await (await open(true)).close();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

it("weights whose files look as before are not read to open them, but afterwards: what is damaged is told", async () => {
  const warnings: string[] = [];
  const logger = { debug() {}, info() {}, error() {}, warn: (message: string) => void warnings.push(message) };
  const fingerprint = async (engine: Engine) => {
    const { system_fingerprint } = await engine.chat.completions.create({ messages, max_tokens: 1 });
    return system_fingerprint;
  };
  const read = await Engine.open({ home, logger });
  const known = await fingerprint(read);
  await read.close();

  // As after damage that the file system does not know of: the files look the same, and hash to something else.
  const database = new Database(join(home, "anneal.db"));
  for (const table of ["read_weights", "base_weights"]) database.exec(`UPDATE ${table} SET hash = '${"0".repeat(64)}'`);
  database.close();

  const opened = await Engine.open({ home, logger });
  expect(await fingerprint(opened)).not.toBe(known);
  expect(warnings).toEqual([]);
  await vi.waitFor(() => expect(warnings).toEqual([expect.stringContaining("are damaged")]), { timeout: 60_000 });
  await opened.close();

  const again = await Engine.open({ home, logger });
  expect(await fingerprint(again)).toBe(known);
  expect(warnings).toHaveLength(2);
  await again.close();
  await expect(Engine.open({ home, logger, verify: true })).rejects.toMatchObject({ code: "weights_changed" });
});
