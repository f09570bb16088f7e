// Folders of models that see as well: their text is loaded, as if it stood alone.

import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { writeSafetensors } from "../../test/fixtures/writeSafetensors.js";
import { writeMergedFolder } from "./mergedFolder.js";
import { readSafetensors } from "./safetensors.js";
import { openWeightFolder } from "./weightFolder.js";
import { textConfig } from "./writeWeightFolder.js";

const alone = fileURLToPath(new URL("../../test/reference/models/gemma3_odd", import.meta.url));

/** The reference model as the text of one that sees. */
async function tower(named: (name: string) => string): Promise<string> {
  const folder = join(mkdtempSync(join(tmpdir(), "tower-")), "model");
  mkdirSync(folder);
  const text = JSON.parse(readFileSync(join(alone, "config.json"), "utf8"));
  delete text.architectures;
  const config = {
    model_type: "gemma3",
    architectures: ["Gemma3ForConditionalGeneration"],
    text_config: text,
    vision_config: { hidden_size: 8 },
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  const { tensors } = await readSafetensors(join(alone, "model.safetensors"));
  const all = new Map([...tensors].map(([name, tensor]) => [named(name), tensor]));
  for (const name of [
    "vision_tower.vision_model.post_layernorm.weight",
    "multi_modal_projector.mm_soft_emb_norm.weight",
  ]) {
    all.set(name, { shape: [2], data: new Float32Array(2) });
  }
  await writeSafetensors(join(folder, "model.safetensors"), all, { format: "pt" });
  return folder;
}

it.each([
  ["older", (name: string) => `language_model.${name}`],
  ["newer", (name: string) => name.replace(/^model\./, "model.language_model.")],
])("loads the text of a folder with %s names", async (_, named) => {
  const own = await openWeightFolder(alone);
  const folder = await tower(named);
  const found = await openWeightFolder(folder);
  // Which the class of the whole does not look at.
  expect(found.config).toEqual({ ...own.config, logitSoftCap: 0 });
  expect(found.tensors.map(({ name }) => name)).toEqual(own.tensors.map(({ name }) => name));
  expect([own.textOnly, found.textOnly]).toEqual([false, true]);
  const config = textConfig(JSON.parse(readFileSync(join(folder, "config.json"), "utf8")));
  expect(config).toMatchObject({ model_type: "gemma3_text", architectures: ["Gemma3ForCausalLM"], head_dim: 10 });
  const target = join(folder, "text");
  mkdirSync(target);
  const none = { spec: { rank: 1, alpha: 1, rslora: false, targets: [] }, tensors: new Map() };
  await writeMergedFolder(target, folder, none, {});
  expect((await openWeightFolder(target)).config).toEqual(found.config);
});
