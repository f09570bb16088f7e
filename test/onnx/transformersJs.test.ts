// Exports in transformers.js, which is too large to be a dependency of tests: ANNEAL_TEST_TRANSFORMERS_JS names a folder in which
// `npm install @huggingface/transformers` was run.

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Engine } from "../../src/anneal.js";
import { writeOnnxFolder } from "../../src/onnx/writeOnnxFolder.js";
import { caseAdapter, caseFolder, expected } from "../native/referenceModel.js";
import { DecoderSession } from "./session.js";
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

/** transformers.js, set to what lies in a folder. */
async function transformersJs(models: string) {
  const entry = createRequire(join(installed!, "package.json")).resolve("@huggingface/transformers");
  const loaded = await import(pathToFileURL(entry).href);
  loaded.env.allowRemoteModels = false;
  loaded.env.localModelPath = models;
  return loaded;
}

/** What transformers.js generates greedily of the first conversation, and of all of them as one padded batch. */
async function generated(path: string): Promise<{ single: string; batch: string[] }> {
  const { AutoModelForCausalLM, AutoTokenizer } = await transformersJs(dirname(path));
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

/** One of each family that is loaded here. */
const FAMILIES = ["llama", "mistral", "qwen2", "qwen3", "smollm3", "granite", "phi3", "gemma2", "gemma3"] as const;

it.skipIf(!installed).each(FAMILIES)("transformers.js generates what PyTorch's logits say: %s", async (name) => {
  const target = join(folder, name);
  mkdirSync(target);
  await writeOnnxFolder(target, caseFolder(name), await caseAdapter(name), {});
  const session = await DecoderSession.open(join(target, "onnx/model.onnx"));
  const { AutoModelForCausalLM, Tensor } = await transformersJs(folder);
  const model = await AutoModelForCausalLM.from_pretrained(name);
  for (const row of expected(name).rows) {
    const prompt = [...row];
    const ids = (values: number[]) =>
      new Tensor(
        "int64",
        BigInt64Array.from(values, (value) => BigInt(value)),
        [1, values.length],
      );
    const settings = { max_new_tokens: 16, do_sample: false };
    const output = await model.generate({ inputs: ids(prompt), attention_mask: ids(prompt.map(() => 1)), ...settings });
    const tokens = Array.from(output.data as BigInt64Array, Number).slice(prompt.length);
    expect(tokens.length).toBeGreaterThan(0);
    // It ends where the configuration says that a text ends.
    expect(tokens).toEqual((await session.greedy(prompt, 16)).slice(0, tokens.length));
  }
  await model.dispose();
  await session.close();
});
