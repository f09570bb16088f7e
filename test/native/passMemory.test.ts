// What training takes from the system: a pass no more than it was allowed, and a trainer nothing once it is closed.

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it, vi } from "vitest";
import { openRuntime } from "../../src/runtime/runtime.js";
import { openWeightFolder } from "../../src/weights/weightFolder.js";
import { caseAdapter, loadCase } from "./referenceModel.js";
import { resetPeak, residentMemory } from "./residentMemory.js";

const MiB = 2 ** 20;
/** What Node takes meanwhile. */
const OTHERS = 48 * MiB;

/** Rows of a pass that takes a few hundred megabytes. */
const rows = Array.from({ length: 120 }, (_, r) => ({
  tokens: Int32Array.from({ length: 250 }, (_, t) => (r * 31 + t * 7) % 384),
}));

const isGlibc = "glibcVersionRuntime" in (process.report.getReport() as { header: object }).header;

function canResetPeak(): boolean {
  try {
    resetPeak();
    return true;
  } catch {
    return false;
  }
}

it.runIf(canResetPeak())("a pass takes the memory that it is allowed, and no more", async () => {
  const model = await loadCase("qwen3", { dtype: "bfloat16" });
  const { spec, tensors } = await caseAdapter("qwen3");
  const trainer = await model.trainAdapter(spec, { seed: 3n, tensors });
  const slopes = rows.map(({ tokens }) => Float32Array.from(tokens, (_, t) => (t + 1 < tokens.length ? 1 : 0)));
  const refusal = await trainer.forward(rows, { memoryBudget: 1 }).catch((error: Error) => error.message);
  const least = Number(/at least (\d+) bytes/.exec(refusal as string)![1]);
  expect(least).toBeGreaterThan(2 * OTHERS);
  const memoryBudget = Math.round(1.1 * least);
  resetPeak();
  const before = residentMemory().now;
  const pass = await trainer.forward(rows, { memoryBudget });
  await pass.backward(slopes);
  const growth = residentMemory().peak - before;
  expect(growth).toBeLessThan(memoryBudget + OTHERS);
  expect(growth).toBeGreaterThan(least / 2);
  trainer.close();
  model.close();
});

it.runIf(canResetPeak())(
  "memory of passes stays for the next trainer where it is kept, and then goes back",
  async () => {
    const model = await loadCase("qwen3", { dtype: "bfloat16" });
    const { spec, tensors } = await caseAdapter("qwen3");
    const train = async () => {
      const trainer = await model.trainAdapter(spec, { seed: 3n, tensors });
      const { logprobs } = await trainer.evaluate(rows.slice(0, 1));
      const pass = await trainer.forward(rows);
      pass.close();
      trainer.close();
      await model.loadAdapter(spec, tensors); // Comes after what closing leaves to be done.
      return logprobs;
    };
    const first = await train();
    const before = residentMemory().now;
    model.keepTrainingMemory!(500);
    expect(await train()).toEqual(first);
    const kept = residentMemory().now;
    expect(kept - before).toBeGreaterThan(4 * OTHERS);
    resetPeak();
    expect(await train()).toEqual(first);
    expect(residentMemory().peak - kept).toBeLessThan(OTHERS);
    await vi.waitFor(() => expect(residentMemory().now).toBeLessThan(before + OTHERS), {
      timeout: 20_000,
      interval: 100,
    });
    model.close();
  },
);

it.runIf(existsSync("/proc/self/status") && isGlibc)(
  "a trainer gives back what it took when it is closed",
  async () => {
    const folder = await openWeightFolder(fileURLToPath(new URL("../../models/tiny", import.meta.url)));
    const model = await openRuntime().load({ ...folder, dtype: "bfloat16", kvPages: 1 });
    const targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];
    const open = () => model.trainAdapter({ rank: 512, alpha: 16, rslora: false, targets }, { seed: 1n });
    const asked = await open();
    const before = residentMemory().now;
    const trainers = [await open(), await open(), await open()];
    // Lies behind the others, so that the allocator's heap cannot simply end before them.
    const last = await open();
    const grown = residentMemory().now - before;
    expect(grown).toBeGreaterThan(3 * OTHERS);
    for (const trainer of trainers) trainer.close();
    // Comes after what closing leaves to be done.
    await asked.zeroGrad();
    expect(residentMemory().now - before).toBeLessThan(grown / 2);
    for (const trainer of [asked, last]) trainer.close();
    model.close();
  },
);
