// Attention on a GPU by tiles of every size: heads of many widths and groups of many sizes, prompts in pieces and tokens one by one,
// within a window and without. The processor's bits. Skipped where there is no Vulkan device.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { randomFolder } from "../../benchmarks/modelShapes.js";
import { listGpus, openRuntime } from "../../src/runtime/runtime.js";
import { openWeightFiles } from "../../src/weights/weightFolder.js";
import { pagesFrom } from "./referenceModel.js";
import { mixedTokens, smallShape } from "./smallShape.js";

const gpu = (await listGpus()).find(({ problem, exact }) => problem === "" && exact);
const folder = mkdtempSync(join(tmpdir(), "anneal-gpu-attention-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const quiet = { slot: -1, recurrent: 0, sample: false, outputIndex: 0 };
const bits = (values: Iterable<number>) => [...new Uint32Array(Float32Array.from(values).buffer)];

type ElementType = "float32" | "bfloat16";
type KvCache = "exact" | "int8";
interface Shape {
  head_dim: number;
  num_attention_heads: number;
  num_key_value_heads: number;
  sliding_window?: number;
}

/** Log-probabilities of tokens that come in pieces of these lengths. */
async function compute(shape: Shape, device: string, dtype: ElementType, kvCache: KvCache, pieces: number[]) {
  const file = join(folder, "config.json");
  const { sliding_window, ...heads } = shape;
  writeFileSync(file, JSON.stringify({ ...smallShape, ...heads }));
  const weights = randomFolder(folder, file);
  const windowed = { model_type: "mistral", architectures: ["MistralForCausalLM"], sliding_window };
  if (sliding_window !== undefined)
    writeFileSync(join(weights, "config.json"), JSON.stringify({ ...smallShape, ...heads, ...windowed }));
  const { config, tensors } = await openWeightFiles(weights);
  const model = await openRuntime({ device }).load({ config: { ...config, kvCache }, tensors, dtype, kvPages: 40 });
  try {
    const length = pieces.reduce((sum, count) => sum + count, 0);
    const tokens = mixedTokens(length, config.vocab);
    const blocks = pagesFrom(0, length, model);
    const found: number[] = [];
    let position = 0;
    for (const count of pieces) {
      const piece = tokens.slice(position, position + count);
      const next = Int32Array.from(piece, (_, t) => tokens[position + t + 1] ?? -1);
      const sequence = { ...quiet, tokens: piece, position, blocks, adapter: 0, promptLogprobs: 0, next };
      const { prompt } = await model.step([sequence]);
      found.push(...prompt[0]!.map(({ logprob }) => logprob));
      position += count;
    }
    return bits(found);
  } finally {
    model.close();
  }
}

describe.skipIf(gpu === undefined)("attention on a GPU", () => {
  const ones = Array.from({ length: 3 }, () => 1);
  it.each<[number, number, number, number | undefined, ElementType, KvCache]>([
    [4, 2, 128, undefined, "bfloat16", "exact"],
    [6, 2, 256, undefined, "bfloat16", "exact"],
    [3, 3, 160, 100, "float32", "exact"],
    [10, 2, 64, 90, "bfloat16", "int8"],
  ])(
    "has the processor's bits: %i heads, %i of keys, of %i elements, window %s, %s, cache %s",
    async (heads, kvHeads, headDim, window, dtype, kvCache) => {
      const shape = {
        head_dim: headDim,
        num_attention_heads: heads,
        num_key_value_heads: kvHeads,
        ...(window === undefined ? {} : { sliding_window: window }),
      };
      const pieces = [290, ...ones, 17, 4, ...ones];
      expect(await compute(shape, gpu!.id, dtype, kvCache, pieces)).toEqual(
        await compute(shape, "cpu", dtype, kvCache, pieces),
      );
    },
    300_000,
  );
});
