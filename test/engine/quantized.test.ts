// Models with quantised weights through the engine: a GGUF file, and the embedded model quantised when it is loaded.

import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  CHANGES,
  divergences,
  heldOutConversations,
  missed,
  type Variant,
} from "../../benchmarks/quantizationQuality.js";
import { Engine, ModelFileError } from "../../src/index.js";
import { openRuntime } from "../../src/runtime/runtime.js";
import { openWeightFiles } from "../../src/weights/weightFolder.js";
import { EXACT_RATIOS, stepOnFreshRollouts } from "../fixtures/freshRollouts.js";

const folder = mkdtempSync(join(tmpdir(), "anneal-quantized-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const gguf = fileURLToPath(new URL("../reference/quantized/model.gguf", import.meta.url));
const tiny = fileURLToPath(new URL("../../models/tiny", import.meta.url));

describe("a GGUF file", () => {
  it("is a model by its name, with the tokenizer and the template in it", async () => {
    const file = join(folder, "Little.gguf");
    copyFileSync(gguf, file);
    await using engine = await Engine.open({ models: [file] });
    expect(await engine.baseModels.list()).toEqual(["Little"]);
    const reply = await engine.chat.completions.create({
      messages: [{ role: "user", content: "Hello there" }],
      temperature: 0,
      max_completion_tokens: 12,
    });
    // <|begin_of_text|>user: Hello there<|eot_id|>assistant:
    expect(reply.usage!.prompt_tokens).toBeGreaterThan(8);
    expect(reply.usage!.completion_tokens).toBe(12);
  });

  it("of Qwen3.5 chats, and trains on the bits it samples with", async () => {
    const recurrent = fileURLToPath(new URL("../reference/quantized_recurrent/model.gguf", import.meta.url));
    await using engine = await Engine.open({ models: [recurrent] });
    const model = await engine.models.create({ project: "p", name: "n", base_model: "model" });
    expect(await stepOnFreshRollouts(engine, model, (word) => word)).toMatchObject(EXACT_RATIOS);
  });

  it.each<[string, (bytes: Buffer) => Buffer]>([
    ["cut off", (bytes) => bytes.subarray(0, bytes.length - 1000)],
    ["of another architecture", (bytes) => Buffer.from(bytes.toString("latin1").replace("llama", "lemma"), "latin1")],
    [
      "without its tokens",
      (bytes) => Buffer.from(bytes.toString("latin1").replace("ggml.tokens", "ggml.tokenz"), "latin1"),
    ],
  ])("that is %s is refused by name", async (_, change) => {
    const file = join(folder, "wrong.gguf");
    writeFileSync(file, change(readFileSync(gguf)));
    const failure = await Engine.open({ models: [file] }).catch((error) => error);
    expect(failure).toBeInstanceOf(ModelFileError);
    expect(failure.file).toBe(file);
  });

  it("with a scale that is no number is refused when it is read", async () => {
    const { tensors } = await openWeightFiles(gguf);
    const { offset } = tensors.find(({ dtype }) => dtype === "Q8_0")!;
    const bytes = readFileSync(gguf);
    bytes.writeUInt16LE(0x7c00, offset);
    const file = join(folder, "infinite.gguf");
    writeFileSync(file, bytes);
    await expect(Engine.open({ models: [file] })).rejects.toThrow(/has scales that are not finite numbers/);
  });

  it("is not quantised again, nor trained whole, nor merged with an adapter", async () => {
    await expect(Engine.open({ models: [{ path: gguf, quantize: "q4" }] })).rejects.toThrow(/not quantised again/);
    await using engine = await Engine.open({ models: [gguf] });
    const model = await engine.models.create({ project: "p", name: "n", base_model: "model" });
    await expect(engine.training.open(model, { weights: "full" })).rejects.toMatchObject({ code: "weights_quantized" });
    const merging = engine.models.export(model.id, { path: join(folder, "merged"), format: "merged" });
    await expect(merging).rejects.toThrow(/is a GGUF file/);
  });
});

describe.each(["int16", "q8", "q4"] as const)("the embedded model as %s", (quantize) => {
  let engine: Engine;
  beforeEach(async () => {
    engine = await Engine.open({ models: [{ id: "tiny", path: tiny }], quantize });
  });
  afterEach(() => engine.close());

  it("takes what its bits take", async () => {
    const whole = await openWeightFiles(tiny);
    const { config } = await openWeightFiles(tiny, quantize);
    const bytes = (spec: typeof config) => openRuntime().memory(spec, "bfloat16").weights;
    // Of 16 bits: 16.1 or 8.5 with their scales, or 5 and for some matrices 6.6 or 8.5; in pages of 2 MiB.
    const most = { int16: 1.01, q8: 0.54, q4: 0.45 };
    const page = quantize === "int16" ? 2 ** 21 : 0;
    expect(bytes(config)).toBeLessThan(most[quantize] * bytes(whole.config) + page);
  });

  it("knows what the whole model does", async () => {
    const ask = async (content: string) => {
      const reply = await engine.chat.completions.create({ messages: [{ role: "user", content }], temperature: 0 });
      return reply.choices[0]!.message.content;
    };
    expect(await ask("What is 3 + 4?")).toContain("7");
  });

  it("trains on the bits it samples with: all ratios are exactly 1", async () => {
    const model = await engine.models.create({ project: "p", name: "speller", base_model: "tiny" });
    const step = await stepOnFreshRollouts(engine, model, (word) => `Spell "${word}" backwards, one word.`);
    expect(step).toMatchObject(EXACT_RATIOS);
  });
});

it("the embedded model quantised says nearly what it says whole", async () => {
  const measured = await divergences(tiny, heldOutConversations(tiny, 6));
  for (const variant of Object.keys(CHANGES) as Variant[]) {
    expect([variant, missed(variant, measured[variant])]).toEqual([variant, []]);
    // And yet it is another model.
    expect(measured[variant].kl).toBeGreaterThan(0);
  }
  expect(missed("q8", { kl: 0.006, agreement: 0.9 })).toHaveLength(2);
});

it.each(["int16", "q4"] as const)(
  "an adapter of %s is written from a home whose base is not quantised",
  async (quantize) => {
    const home = join(folder, `home of ${quantize}`);
    const models = [{ id: "tiny", path: tiny }];
    const { id } = await (async () => {
      await using engine = await Engine.open({ home, models, quantize });
      return await engine.models.create({ project: "p", name: "n", base_model: "tiny" });
    })();
    await using engine = await Engine.open({ home, models });
    for (const format of ["peft", "merged"] as const) {
      const path = join(folder, `${quantize} ${format}`);
      expect(await engine.models.export(id, { path, format })).toMatchObject({ path, format });
    }
  },
);

it("an adapter says so when it is loaded on a base that was quantised otherwise", async () => {
  const home = join(folder, "home");
  const models = (quantize?: "q8" | "q4") => [{ id: "tiny", path: tiny, ...(quantize && { quantize }) }];
  {
    await using engine = await Engine.open({ home, models: models("q8") });
    await engine.models.create({ project: "p", name: "n", base_model: "tiny" });
  }
  await using engine = await Engine.open({ home, models: models("q4") });
  const messages = [{ role: "user" as const, content: "Hello" }];
  const asked = engine.chat.completions.create({ model: "local/p/n", messages });
  await expect(asked).rejects.toThrow(/base|weights/);
});
