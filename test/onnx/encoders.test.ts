// Encoders that other programs have exported (test/reference/onnx), against what PyTorch and its tokenizer compute.

import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { OnnxEncoder } from "../../src/onnx/onnxEncoder.js";
import { type EncoderText, EncoderTokenizer } from "../../src/text/encoderTokenizer.js";
import { canMeasureTurns, longestTurn } from "../fixtures/longestTurn.js";

const reference = (name: string) => fileURLToPath(new URL(`../reference/onnx/${name}`, import.meta.url));

interface Case {
  text: string | [string, string];
  ids: number[];
  mean: number[];
  cls: number[];
  last: number[];
  logits: number[];
}
const casesOf = (name: string): Case[] => JSON.parse(readFileSync(join(reference(name), "expected.json"), "utf8"));

const folder = mkdtempSync(join(tmpdir(), "encoders-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const furthest = (a: ArrayLike<number>, b: readonly number[]) => {
  expect(a.length).toBe(b.length);
  return Math.max(...b.map((value, i) => Math.abs(a[i]! - value)));
};

it("encodes texts and pairs as BERT's tokenizer does, cut to what the model takes", async () => {
  const tokenizer = await EncoderTokenizer.load(reference("bert_reward"));
  for (const { text, ids } of casesOf("bert_reward")) {
    const encoded = tokenizer.encode(text, 32);
    expect([...encoded.ids], JSON.stringify(text)).toEqual(ids);
    const second = typeof text === "string" || text[1] === "" ? 0 : 1;
    expect(encoded.types.at(-2)).toBe(second);
  }
});

/** As sentence-transformers lays it out. */
function withPooling(mode: string, normalize: boolean): string {
  const place = join(folder, `${mode}-${normalize}`);
  cpSync(reference("bert"), place, { recursive: true });
  mkdirSync(join(place, "1_Pooling"));
  writeFileSync(join(place, "1_Pooling/config.json"), JSON.stringify({ word_embedding_dimension: 32, [mode]: true }));
  const modules = ["Transformer", "Pooling", ...(normalize ? ["Normalize"] : [])];
  const entries = modules.map((name, idx) => ({
    idx,
    path: idx === 0 ? "" : `${idx}_${name}`,
    type: `sentence_transformers.models.${name}`,
  }));
  writeFileSync(join(place, "modules.json"), JSON.stringify(entries));
  return place;
}

describe("vectors", () => {
  it.each([
    ["pooling_mode_mean_tokens", "mean"],
    ["pooling_mode_cls_token", "cls"],
    ["pooling_mode_lasttoken", "last"],
  ] as const)("are pooled as %s says", async (mode, key) => {
    const cases = casesOf("bert");
    const encoder = await OnnxEncoder.open(withPooling(mode, false));
    const { vectors, tokens } = await encoder.embed(cases.map(({ text }) => text));
    for (const [i, one] of cases.entries()) {
      expect(furthest(vectors[i]!, one[key])).toBeLessThan(1e-4);
      expect(Math.min(tokens[i]!, 32)).toBe(one.ids.length);
    }
    encoder.close();
  });

  it("are the mean, scaled to length 1, where the folder does not say", async () => {
    const [first] = casesOf("bert");
    const length = Math.hypot(...first!.mean);
    for (const place of [reference("bert"), withPooling("pooling_mode_mean_tokens", true)]) {
      const encoder = await OnnxEncoder.open(place);
      const { vectors } = await encoder.embed([first!.text]);
      expect(
        furthest(
          vectors[0]!,
          first!.mean.map((value) => value / length),
        ),
      ).toBeLessThan(1e-4);
      await expect(encoder.classify(["x"])).rejects.toThrow("gives vectors, no classes");
      encoder.close();
    }
  });

  it.skipIf(!canMeasureTurns)("leave the event loop free while they are made", async () => {
    const encoder = await OnnxEncoder.open(reference("bert"));
    const texts: EncoderText[] = Array.from({ length: 2000 }, (_, i) => `the quick brown fox ${i} jumping`);
    await encoder.embed(texts.slice(0, 10));
    expect(await longestTurn(() => encoder.embed(texts))).toBeLessThan(10);
    encoder.close();
  });

  it("are not made by what is not understood", async () => {
    await expect(OnnxEncoder.open(withPooling("pooling_mode_max_tokens", false))).rejects.toMatchObject({
      param: "pooling_mode",
      message: expect.stringContaining("pooling_mode_max_tokens"),
    });
    await expect(OnnxEncoder.open(reference("llama"))).rejects.toThrow("has the input past_key_values.0.key");
  });
});

describe("classes", () => {
  it.each(["bert_reward", "bert_classes"])("are those of PyTorch: %s", async (name) => {
    const cases = casesOf(name);
    const encoder = await OnnxEncoder.open(reference(name));
    const rows = await encoder.classify(cases.map(({ text }) => text));
    for (const [i, { logits }] of cases.entries()) expect(furthest(rows[i]!, logits)).toBeLessThan(1e-4);
    encoder.close();
    await expect(encoder.classify(["x"])).rejects.toMatchObject({ code: "closed" });
  });
});
