// Files of a model folder that are no files, and weights that are no numbers.

import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Engine } from "../../src/anneal.js";
import { openRuntime } from "../../src/runtime/runtime.js";
import { openWeightFolder } from "../../src/weights/weightFolder.js";
import { caseFolder } from "../native/referenceModel.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "anneal-model-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const tiny = fileURLToPath(new URL("../../models/tiny", import.meta.url));

function replaceByPipe(file: string): void {
  rmSync(file, { force: true });
  execFileSync("mkfifo", [file]);
}

describe.skipIf(process.platform === "win32")("a pipe", () => {
  it.each([
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
  ])("instead of %s is refused at once, by its name", async (name) => {
    cpSync(tiny, folder, { recursive: true });
    const file = join(folder, name);
    replaceByPipe(file);
    const refused = { name: "ModelFileError", file, reason: "is a pipe, not a regular file" };
    await expect(Engine.open({ models: [folder] })).rejects.toMatchObject(refused);
  });

  it("that took the place of weights meanwhile is refused by the native core", async () => {
    cpSync(caseFolder("qwen3"), folder, { recursive: true });
    const { config, tensors } = await openWeightFolder(folder);
    replaceByPipe(tensors[0]!.file);
    const load = openRuntime().load({ config, tensors, dtype: "float32", kvPages: 4 });
    await expect(load).rejects.toMatchObject({ file: tensors[0]!.file, reason: "is not a regular file" });
  });

  it("instead of an adapter's file is refused at once", async () => {
    await using engine = await Engine.open({ models: [tiny], dataRoots: [folder] });
    replaceByPipe(join(folder, "adapter_config.json"));
    const base_model = (await engine.baseModels.list())[0]!;
    const imported = engine.models.import({ project: "p", name: "n", base_model, path: folder });
    await expect(imported).rejects.toMatchObject({ status: 422, message: expect.stringContaining("is a pipe") });
  });
});

describe("weights that are not finite", () => {
  const values = { F32: ["0000c07f", "000080ff"], BF16: ["c07f", "80ff"] } as const;

  it.each(["llama", "qwen3"] as const)("are refused by the tensor's name: %s", async (name) => {
    for (const part of ["first", "last"] as const) {
      rmSync(folder, { recursive: true, force: true });
      cpSync(caseFolder(name), folder, { recursive: true });
      const { config, tensors, dtype } = await openWeightFolder(folder);
      const load = () => openRuntime().load({ config, tensors, dtype, kvPages: 4 });
      (await load()).close();
      for (const tensor of ["model.embed_tokens.weight", "model.layers.1.mlp.down_proj.weight", "model.norm.weight"]) {
        const { file, offset, bytes, dtype: stored } = tensors.find((entry) => entry.name === tensor)!;
        for (const value of values[stored as keyof typeof values]) {
          const content = readFileSync(file);
          const damaged = Buffer.from(content);
          damaged.write(value, part === "first" ? offset : offset + bytes - value.length / 2, "hex");
          writeFileSync(file, damaged);
          const reason = `${tensor} holds values that are not finite numbers`;
          await expect(load()).rejects.toMatchObject({ name: "ModelFileError", file, reason });
          writeFileSync(file, content);
        }
      }
    }
  });
});

it("weights that overflow end a reply with an error, and the process lives on", async () => {
  cpSync(tiny, folder, { recursive: true });
  const { tensors } = await openWeightFolder(folder);
  for (const name of ["model.norm.weight", "model.layers.1.mlp.down_proj.weight"]) {
    const { file, offset, bytes } = tensors.find((entry) => entry.name === name)!;
    const content = readFileSync(file);
    // The largest numbers of either type.
    writeFileSync(file, Buffer.from(content).fill(0x7f, offset, offset + bytes));
    await using engine = await Engine.open({ models: [folder] });
    const messages = [{ role: "user" as const, content: "Say it." }];
    for (const ask of [
      {},
      { temperature: 0, n: 3 },
      { logprobs: true },
      { response_format: { type: "json_object" } },
    ]) {
      const reply = engine.chat.completions.create({ messages, max_tokens: 5, ...ask } as never);
      await expect(reply).rejects.toMatchObject({ status: 500, code: "logits_not_finite" });
    }
    expect(await engine.baseModels.list()).toHaveLength(1);
    writeFileSync(file, content);
  }
});
