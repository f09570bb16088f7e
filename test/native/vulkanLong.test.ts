// What takes an invocation of a shader many turns of its loops, which drivers of GPUs in software may end: a large vocabulary, many
// rows of queries to a key, many elements of a sum. The processor's bits, or a refusal. Skipped where there is no Vulkan device.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { randomFolder } from "../../benchmarks/modelShapes.js";
import { listGpus, openRuntime } from "../../src/runtime/runtime.js";
import { openWeightFiles } from "../../src/weights/weightFolder.js";
import { promptLogprobs } from "./referenceModel.js";
import { mixedTokens, smallShape } from "./smallShape.js";

const gpu = (await listGpus()).find(({ problem, exact }) => problem === "" && exact);
const folder = mkdtempSync(join(tmpdir(), "anneal-gpu-long-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const bits = (values: Iterable<number>) => [...new Uint32Array(Float32Array.from(values).buffer)];

const small = { ...smallShape, num_attention_heads: 1, num_key_value_heads: 1, head_dim: 64 };
type Shape = Partial<typeof small>;

/** What a row comes to, and the gradients of an adapter by it. */
async function compute(shape: Shape, device: string, dtype: "float32" | "bfloat16", length: number) {
  const file = join(folder, "config.json");
  writeFileSync(file, JSON.stringify({ ...small, ...shape }));
  const { config, tensors } = await openWeightFiles(randomFolder(folder, file));
  const model = await openRuntime({ device }).load({ config, tensors, dtype, kvPages: 40 });
  try {
    const tokens = mixedTokens(length, config.vocab);
    const found: Record<string, number[]> = { prompt: bits(await promptLogprobs(model, tokens)) };
    const targets = ["q_proj", "k_proj", "v_proj", "down_proj"];
    const trainer = await model.trainAdapter({ rank: 4, alpha: 8, rslora: false, targets }, { seed: 3n });
    const pass = await trainer.forward([{ tokens }]);
    found.trained = bits(pass.logprobs[0]!);
    await pass.backward([Float32Array.from(tokens, (_, t) => (t + 1 < length ? Math.sin(t) : 0))]);
    for (const [name, { data }] of await trainer.read("gradient")) found[name] = bits(data);
    return found;
  } finally {
    model.close();
  }
}

describe.skipIf(gpu === undefined)("long sums on a GPU", () => {
  it.each<[what: string, shape: Shape, dtype: "float32" | "bfloat16", length: number]>([
    ["a vocabulary of 13,000", { vocab_size: 13_000 }, "float32", 20],
    ["1,600 rows of queries to a key", { num_attention_heads: 8 }, "bfloat16", 200],
    ["a context of 1,100 tokens", {}, "bfloat16", 1100],
    ["9,000 elements of a sum", { intermediate_size: 9000 }, "bfloat16", 20],
  ])(
    "have the processor's bits: %s",
    async (_, shape, dtype, length) => {
      expect(await compute(shape, gpu!.id, dtype, length)).toEqual(await compute(shape, "cpu", dtype, length));
    },
    120_000,
  );

  it("are refused by name where the driver cannot compute them", async () => {
    const found = await compute({ intermediate_size: 40_000 }, gpu!.id, "bfloat16", 10).catch(
      (error: unknown) => error,
    );
    if (found instanceof Error) expect(found).toMatchObject({ code: "unusable_device" });
    else expect(found).toEqual(await compute({ intermediate_size: 40_000 }, "cpu", "bfloat16", 10));
  }, 120_000);
});
