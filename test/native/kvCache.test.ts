// A KV cache of 8 bits: what it takes, how far it is from the exact one, and PyTorch's numbers with the same rounding
// (test/reference/kv_cache/make.py). That its bits are the same everywhere is in bits.test.ts.

import { afterAll, describe, expect, it } from "vitest";
import { type ModelSpec, openRuntime } from "../../src/runtime/runtime.js";
import { openWeightFolder } from "../../src/weights/weightFolder.js";
import { farFrom, recorded } from "./recordedModel.js";
import {
  CASES,
  type Case,
  caseAdapter,
  caseFolder,
  expected,
  loadCase,
  promptLogprobs,
  relativeError,
} from "./referenceModel.js";

const { facts, tensor: wanted } = recorded<{ cases: Case[] }>("kv_cache");
const runtime = openRuntime();

/** Of log-probabilities, by `relativeError`: for most cases about what bfloat16 costs. */
const MAX_DISTANCE = 0.025;

describe("memory", () => {
  it.each([
    ["float32", 32, 4],
    ["bfloat16", 128, 2],
  ] as const)(
    "of a page in %s is a byte for every element of %i, and a scale of 4 for every head",
    async (dtype, headDim, bytes) => {
      const { config: spec } = await openWeightFolder(caseFolder("qwen3"));
      const layers = spec.layers.map((layer) => ({ ...layer, attention: { ...layer.attention!, headDim } }));
      const page = (kvCache: ModelSpec["kvCache"]) => runtime.memory({ ...spec, layers, kvCache }, dtype).page;
      const heads = 64 * layers.length * 2 * layers[0]!.attention.kvHeads;
      expect(page(undefined)).toBe(heads * headDim * bytes);
      expect(page("exact")).toBe(page(undefined));
      expect(page("int8")).toBe(heads * (headDim + 4));
    },
  );

  it("that a model says it takes has the smaller pages in it", async () => {
    const [exact, int8] = [await loadCase("qwen3"), await loadCase("qwen3", { kvCache: "int8" })];
    const pages = (model: typeof exact) => model.bytes - runtime.memory(model.config, "float32").weights;
    expect(pages(int8) / pages(exact)).toBe((32 + 4) / (32 * 4));
    exact.close();
    int8.close();
  });
});

it.each(CASES)("computes %s near the exact cache, and not with it", async (name) => {
  const [tokens] = expected(name).rows;
  for (const dtype of ["float32", "bfloat16"] as const) {
    const [exact, int8] = [await loadCase(name, { dtype }), await loadCase(name, { dtype, kvCache: "int8" })];
    const off = relativeError(await promptLogprobs(int8, tokens!), await promptLogprobs(exact, tokens!));
    expect(off).toBeLessThan(MAX_DISTANCE);
    expect(off).toBeGreaterThan(0);
    exact.close();
    int8.close();
  }
});

describe.each(facts.cases)("%s beside PyTorch", (name) => {
  const open: { close(): void }[] = [];
  afterAll(() => {
    for (const one of open) one.close();
  });

  it("has its log-probabilities and gradients, straight through the rounding", async () => {
    const model = await loadCase(name, { kvCache: "int8" });
    open.push(model);
    const { spec, tensors } = await caseAdapter(name);
    const [tokens] = expected(name).rows;
    const trainer = await model.trainAdapter(spec, { seed: 1n, tensors });
    const pass = await trainer.forward([{ tokens: tokens! }]);
    expect(relativeError(pass.logprobs[0]!.subarray(0, -1), wanted(`${name}.logprobs`).data)).toBeLessThan(1e-4);
    await pass.backward([new Float32Array(tokens!.length).fill(-1 / (tokens!.length - 1), 0, -1)]);
    const gradients = await trainer.read("gradient");
    expect(gradients.size).toBeGreaterThan(10);
    expect(farFrom(gradients, (tensor) => wanted(`${name}.gradient.${tensor}`).data, 1e-3)).toEqual([]);
  });
});

it.each(["int4", "", 8, true, {}])("refuses to keep keys and values as %j", async (kvCache) => {
  const { config, tensors } = await openWeightFolder(caseFolder("qwen3"));
  const wrong = { ...config, kvCache: kvCache as never };
  expect(() => runtime.memory(wrong, "float32")).toThrow(
    expect.objectContaining({ code: "invalid_argument", param: "config.kvCache" }),
  );
  await expect(runtime.load({ config: wrong, tensors, dtype: "float32", kvPages: 4 })).rejects.toMatchObject({
    code: "invalid_argument",
    param: "config.kvCache",
  });
});
