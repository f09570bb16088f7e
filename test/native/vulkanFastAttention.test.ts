// Attention on cooperative matrices, which the fast family of GPUs has: for heads of many shapes one set of bits, however rows are
// divided, and numbers near the processor's. Skipped where there is no Vulkan device with such matrices.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { randomFolder } from "../../benchmarks/modelShapes.js";
import { type DeviceModel, listGpus, openRuntime } from "../../src/runtime/runtime.js";
import { openWeightFiles } from "../../src/weights/weightFolder.js";
import { pagesFrom } from "./referenceModel.js";
import { mixedTokens, smallShape } from "./smallShape.js";

const gpu = (await listGpus()).find(({ problem, fast }) => problem === "" && fast);
const folder = mkdtempSync(join(tmpdir(), "anneal-gpu-attention-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const bits = (values: Iterable<number>) => [...new Uint32Array(Float32Array.from(values).buffer)];
const norm = (values: Float32Array) => Math.hypot(...values);

const small = {
  ...smallShape,
  model_type: "qwen3",
  architectures: ["Qwen3ForCausalLM"],
  num_attention_heads: 2,
  num_key_value_heads: 1,
  head_dim: 64,
};
type Shape = Partial<typeof small> & { window?: number; softCap?: number };

async function load({ window, softCap, ...shape }: Shape, device: string, kernelSet?: string): Promise<DeviceModel> {
  const file = join(folder, "config.json");
  writeFileSync(file, JSON.stringify({ ...small, ...shape }));
  const { config, tensors } = await openWeightFiles(randomFolder(folder, file));
  const layers = config.layers.map((layer) => ({
    ...layer,
    attention: { ...layer.attention!, ...(window && { window }), ...(softCap && { softCap }) },
  }));
  const chosen = kernelSet === undefined ? {} : { kernelSet };
  return openRuntime({ device }).load({
    config: { ...config, layers },
    tensors,
    dtype: "bfloat16",
    kvPages: 60,
    ...chosen,
  });
}

/** Log-probabilities of a row that is computed in pieces of so many tokens. */
async function logprobs(model: DeviceModel, row: Int32Array, piece: number): Promise<number[]> {
  const found: number[] = [];
  const blocks = pagesFrom(0, row.length, model);
  for (let position = 0; position < row.length; position += piece) {
    const tokens = row.slice(position, position + piece);
    const next = Int32Array.from(tokens, (_, t) => row[position + t + 1] ?? -1);
    const { prompt } = await model.step([
      {
        slot: -1,
        tokens,
        position,
        recurrent: 0,
        blocks,
        adapter: 0,
        sample: false,
        outputIndex: 0,
        promptLogprobs: 0,
        next,
      },
    ]);
    found.push(...prompt[0]!.map(({ logprob }) => logprob));
  }
  return found.slice(0, row.length - 1);
}

/** Of a pass over a row: log-probabilities, and all gradients of an adapter as one vector. */
async function trained(model: DeviceModel, tokens: Int32Array) {
  const targets = ["q_proj", "k_proj", "v_proj", "o_proj"];
  const trainer = await model.trainAdapter({ rank: 4, alpha: 8, rslora: false, targets }, { seed: 3n });
  const pass = await trainer.forward([{ tokens }]);
  await pass.backward([Float32Array.from(tokens, (_, t) => (t + 1 < tokens.length ? Math.sin(t) : 0))]);
  const gradients: [string, Float32Array][] = [];
  for (const [name, { data }] of await trainer.read("gradient")) gradients.push([name, Float32Array.from(data)]);
  return { logprobs: [...pass.logprobs[0]!].slice(0, tokens.length - 1), gradients };
}

describe.skipIf(gpu === undefined)("attention on cooperative matrices", () => {
  it.each<[what: string, shape: Shape, length: number]>([
    ["heads of 16, 8 to a key", { head_dim: 16, num_attention_heads: 8 }, 200],
    ["heads of 80", { head_dim: 80 }, 100],
    ["heads of 128", { head_dim: 128, num_attention_heads: 4, num_key_value_heads: 2 }, 330],
    ["heads of 256", { head_dim: 256 }, 150],
    ["a window", { head_dim: 16, window: 50 }, 200],
    ["a soft cap", { head_dim: 16, softCap: 3 }, 100],
    ["many heads", { head_dim: 32, num_attention_heads: 64, num_key_value_heads: 32 }, 300],
  ])(
    "has one set of bits for %s",
    async (_, shape, length) => {
      const row = mixedTokens(length, small.vocab_size);
      const [fast, exact] = [await load(shape, gpu!.id, "fast"), await load(shape, "cpu")];
      try {
        const whole = await logprobs(fast, row, length);
        for (const piece of [1, 23])
          expect([piece, bits(await logprobs(fast, row, piece))]).toEqual([piece, bits(whole)]);
        const [found, wanted] = [await trained(fast, row), await trained(exact, row)];
        expect(bits(found.logprobs)).toEqual(bits(whole));
        expect(Math.max(...whole.map((x, t) => Math.abs(x - wanted.logprobs[t]!)))).toBeLessThan(0.05);
        for (const [i, [name, gradient]] of found.gradients.entries()) {
          const near = wanted.gradients[i]![1];
          const error = norm(gradient.map((x, j) => x - near[j]!)) / (norm(near) || 1);
          expect([name, error < 0.03]).toEqual([name, true]);
        }
      } finally {
        fast.close();
        exact.close();
      }
    },
    300_000,
  );
});
