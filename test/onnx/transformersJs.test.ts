// Exports in transformers.js, which is too large to be a dependency of tests: ANNEAL_TEST_TRANSFORMERS_JS names a folder in which
// `npm install @huggingface/transformers` was run.

import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Engine } from "../../src/anneal.js";
import { CONVERSATIONS, type Greedy, nativeGreedy, trainedModel } from "./trained.js";

const installed = process.env.ANNEAL_TEST_TRANSFORMERS_JS;

let folder: string;
let engine: Engine;
let native: Greedy[];

beforeAll(async () => {
  if (!installed) return;
  folder = mkdtempSync(join(tmpdir(), "transformers-"));
  const { engine: opened, model } = await trainedModel(join(folder, "home"));
  engine = opened;
  native = await nativeGreedy(engine, "local/p/m", 24);
  for (const dtype of ["float32", "float16", "int8", "int4"] as const) {
    await engine.models.export(model.id, { path: join(folder, dtype), format: "onnx", dtype });
  }
  await engine.models.export(model.id, { path: join(folder, "external"), format: "onnx", max_shard_bytes: 2 ** 20 });
});
afterAll(async () => {
  if (!installed) return;
  await engine.close();
  rmSync(folder, { recursive: true, force: true });
});

/** What transformers.js generates greedily of the first conversation, and of all of them as one padded batch. */
async function generated(path: string): Promise<{ single: string; batch: string[] }> {
  const entry = createRequire(join(installed!, "package.json")).resolve("@huggingface/transformers");
  const { AutoModelForCausalLM, AutoTokenizer, env } = await import(pathToFileURL(entry).href);
  env.allowRemoteModels = false;
  env.localModelPath = dirname(path);
  const tokenizer = await AutoTokenizer.from_pretrained(basename(path));
  const model = await AutoModelForCausalLM.from_pretrained(basename(path));
  tokenizer.padding_side = "left";
  const replies = async (conversations: unknown[]) => {
    const prompts = conversations.map((messages) =>
      tokenizer.apply_chat_template(messages, { add_generation_prompt: true, tokenize: false }),
    );
    const inputs = tokenizer(prompts, { padding: true, add_special_tokens: false });
    const output = await model.generate({ ...inputs, max_new_tokens: 24, do_sample: false });
    const [, length] = inputs.input_ids.dims;
    return tokenizer.batch_decode(output.slice(null, [length, null]), { skip_special_tokens: true });
  };
  const result = { single: (await replies([CONVERSATIONS[0]]))[0], batch: await replies(CONVERSATIONS) };
  await model.dispose();
  return result;
}

it.skipIf(!installed)("transformers.js generates the engine's greedy text, alone and in a padded batch", async () => {
  const texts = native.map(({ text }) => text);
  for (const name of ["float32", "float16", "external"]) {
    const { single, batch } = await generated(join(folder, name));
    expect(single, name).toBe(texts[0]);
    // It goes on with rows that have ended until all have.
    expect(
      batch.map((text, i) => text.slice(0, texts[i]!.length)),
      name,
    ).toEqual(texts);
  }
});

it.skipIf(!installed)("transformers.js runs the variants of few bits", async () => {
  for (const name of ["int8", "int4"]) {
    expect((await generated(join(folder, name))).single.length, name).toBeGreaterThan(0);
  }
});
