import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type DeviceModel, type NamedTensors, openRuntime, type Trainer } from "../../src/runtime/runtime.js";
import { DEFAULT_ADAPTER } from "../../src/training/checkpointFiles.js";
import {
  accumulateGradient,
  evaluateRows,
  type LossFunction,
  type RowValues,
} from "../../src/training/forwardBackward.js";
import {
  crossEntropyLoss,
  measuringSampler,
  policyGradientLoss,
  preferenceLoss,
  withEntropyBonus,
} from "../../src/training/losses.js";
import { OPTIMIZER } from "../../src/training/optimizer.js";
import { packRows } from "../../src/training/packing.js";
import { resolvePolicy } from "../../src/training/policy.js";
import type { TokenRow } from "../../src/training/tokenRow.js";
import { openWeightFolder } from "../../src/weights/index.js";
import { DEVICE, itUnlessSlow } from "../native/device.js";
import { modelFolder } from "./jobHost.js";

const limits = { maxTokens: 16_384, passTokens: 2048, memoryBudget: 0 };
const shared = Array.from({ length: 70 }, (_, i) => (i * 37) % 700);
/** Five rows that begin alike, cross a page, and go on differently. */
const rows: TokenRow[] = Array.from({ length: 5 }, (_, r) => {
  const own = Array.from({ length: 9 + 3 * r }, (_, i) => (r * 131 + i * 53) % 700);
  const tokens = Int32Array.from([...shared, ...own]);
  return { tokens, trained: Uint8Array.from(tokens, (_, i) => (i >= shared.length ? 1 : 0)) };
});

let device: DeviceModel;
let trainer: Trainer;
beforeAll(async () => {
  const { config, tensors } = await openWeightFolder(modelFolder);
  device = await openRuntime({ device: DEVICE }).load({ config, tensors, dtype: "float32", kvPages: 8 });
  trainer = await device.trainAdapter(DEFAULT_ADAPTER, { seed: 3407n });
  // Steps away from B = 0, so that both factors have gradients.
  for (let i = 0; i < 2; i++) {
    await accumulateGradient(trainer, rows, crossEntropyLoss(rows), limits);
    await trainer.optimStep({ learningRate: 1e-2, ...OPTIMIZER.sft });
  }
});
afterAll(() => {
  trainer.close();
  device.close();
});

async function gradient(maxTokens: number) {
  await trainer.zeroGrad();
  const { logprobs, metrics } = await accumulateGradient(trainer, rows, crossEntropyLoss(rows), {
    ...limits,
    maxTokens,
  });
  return { logprobs, metrics, tensors: await trainer.read("gradient") };
}

function relativeDifference(a: NamedTensors, b: NamedTensors): number {
  let size = 0;
  let difference = 0;
  for (const [name, { data }] of a) {
    for (const [i, value] of data.entries()) {
      size += value ** 2;
      difference += (value - b.get(name)!.data[i]!) ** 2;
    }
  }
  expect(size).toBeGreaterThan(0);
  return Math.sqrt(difference / size);
}

describe("a gradient", () => {
  it("of rows that do not fit in memory together is made of passes that do", async () => {
    const whole = await gradient(limits.maxTokens);
    const packed = packRows(rows);
    const refusal = await trainer.forward(packed, { memoryBudget: 1 }).catch((error: Error) => error.message);
    const needed = Number(/at least (\d+) bytes/.exec(refusal as string)![1]);
    await trainer.zeroGrad();
    const tight = { ...limits, memoryBudget: needed - 1 };
    const { logprobs, metrics } = await accumulateGradient(trainer, rows, crossEntropyLoss(rows), tight);
    expect(logprobs).toEqual(whole.logprobs);
    expect(metrics).toEqual(whole.metrics);
    expect(relativeDifference(whole.tensors, await trainer.read("gradient"))).toBeLessThan(1e-5);
    // Nor does an evaluation take more.
    const evaluated = await evaluateRows(trainer, rows, limits);
    const little = await trainer.evaluate(packed, { memoryBudget: 1 }).catch((error: Error) => error.message);
    const budget = Number(/at least (\d+) bytes/.exec(little as string)![1]) - 1;
    await expect(trainer.evaluate(packed, { memoryBudget: budget })).rejects.toThrow("at least");
    expect(await evaluateRows(trainer, rows, { ...limits, memoryBudget: budget })).toEqual(evaluated);
    // A row alone that does not fit is an error.
    const one = accumulateGradient(trainer, rows, crossEntropyLoss(rows), { ...tight, memoryBudget: 1 });
    await expect(one).rejects.toMatchObject({ code: "insufficient_memory", param: "memoryBudget" });
    await trainer.zeroGrad();
  });

  itUnlessSlow("is the same whether rows share their beginning, run alone, or in several passes", async () => {
    expect(packRows(rows).filter((row) => row.prefix !== undefined)).toHaveLength(4);
    const together = await gradient(limits.maxTokens);
    const alone = await gradient(1);
    const split = await gradient(200);
    expect(relativeDifference(together.tensors, alone.tensors)).toBeLessThan(1e-5);
    expect(relativeDifference(together.tensors, split.tensors)).toBeLessThan(1e-5);
    expect(alone.logprobs).toEqual(together.logprobs);
    expect(split.logprobs).toEqual(together.logprobs);
    const again = await gradient(limits.maxTokens);
    expect(again.tensors).toEqual(together.tensors);
  });

  itUnlessSlow(
    "of a separable loss comes pass by pass, of any other after all values: the same, each part's what the whole says",
    async () => {
      const policy = rows.slice(0, 4).map((row, r) => ({
        ...row,
        advantages: new Float32Array(row.tokens.length).fill(r - 1.5),
        weights: new Float32Array(row.tokens.length).fill(1 + r),
        oldLogprobs: new Float32Array(row.tokens.length).fill(-6 - r),
        reference: new Float32Array(row.tokens.length).fill(-6.5),
      }));
      const { loss: settings } = resolvePolicy({ importance_sampling_level: "sequence" }, 0);
      const policyLoss = policyGradientLoss(policy, settings);
      const losses: [LossFunction, number][] = [
        [crossEntropyLoss(policy), 1],
        [policyLoss, 1],
        [withEntropyBonus(measuringSampler(policyLoss, policy), policy, 0.1), 1],
        [preferenceLoss(policy, 0.5), 2],
      ];
      const values = await evaluateRows(trainer, policy, limits);
      for (const [loss, rowsTogether] of losses) {
        const { separable } = loss;
        expect(separable!.rowsTogether).toBe(rowsTogether);
        const whole = loss(values);
        for (let from = 0; from < policy.length; from += rowsTogether) {
          const to = from + rowsTogether;
          const own = { logprobs: values.logprobs.slice(from, to), entropies: values.entropies.slice(from, to) };
          const part = separable!.part(from, to)(own);
          expect(part.gradient).toEqual(whole.gradient.slice(from, to));
          expect(part.entropyGradient).toEqual(whole.entropyGradient?.slice(from, to));
        }
        const taken = async (given: LossFunction, more: object) => {
          await trainer.zeroGrad();
          const { metrics } = await accumulateGradient(trainer, policy, given, { ...limits, ...more });
          return { metrics, tensors: await trainer.read("gradient") };
        };
        const inseparable = Object.assign((given: RowValues) => loss(given), { usesEntropy: loss.usesEntropy });
        const together = await taken(inseparable, {});
        for (const more of [{ maxTokens: 150 }, { maxTokens: 1 }])
          for (const given of [loss, inseparable]) {
            const { metrics, tensors } = await taken(given, more);
            expect(metrics).toEqual(together.metrics);
            expect(relativeDifference(together.tensors, tensors)).toBeLessThan(1e-5);
          }
      }
      const withPenalty = policyGradientLoss(policy, { ...settings, klCoef: 0.1 });
      expect(withPenalty.separable).toBeUndefined();
      await trainer.zeroGrad();
    },
  );

  it("of a policy that has not changed comes from ratios of exactly 1", async () => {
    const version = await trainer.publish();
    const sampled = await evaluateRows(trainer, rows, limits, version);
    device.releaseAdapter(version);
    const policy = rows.map((row, r) => ({
      ...row,
      advantages: new Float32Array(row.tokens.length).fill(r - 2),
      weights: new Float32Array(row.tokens.length).fill(1),
      oldLogprobs: sampled.logprobs[r]!.map((logprob, i) => (row.trained[i] ? logprob : Number.NaN)),
    }));
    await trainer.zeroGrad();
    const { metrics } = await accumulateGradient(
      trainer,
      policy,
      policyGradientLoss(policy, resolvePolicy({}, 0).loss),
      limits,
    );
    expect(metrics).toMatchObject({ ratio_exact_share: 1, ratio_max: 1, ratio_min: 1, approx_kl: 0 });
  });

  itUnlessSlow(
    "of an entropy bonus is the same however the rows are cut, and nothing without a coefficient",
    async () => {
      const plain = crossEntropyLoss(rows);
      expect(withEntropyBonus(plain, rows, 0)).toBe(plain);
      const bonus = withEntropyBonus(plain, rows, 0.25);
      const taken = async (loss: LossFunction, maxTokens = limits.maxTokens) => {
        await trainer.zeroGrad();
        const { metrics } = await accumulateGradient(trainer, rows, loss, { ...limits, maxTokens });
        return { metrics, tensors: await trainer.read("gradient") };
      };
      const together = await taken(bonus);
      expect(relativeDifference(together.tensors, (await taken(bonus, 1)).tensors)).toBeLessThan(1e-5);
      const without = await taken(plain);
      expect(relativeDifference(together.tensors, without.tensors)).toBeGreaterThan(1e-3);
      const { loss, entropy } = without.metrics;
      expect(together.metrics.loss).toBeCloseTo(loss! - 0.25 * entropy!, 6);
      expect(together.metrics.policy_loss).toBe(loss);
    },
  );

  it("of a preference is what finite differences say", () => {
    const pair = rows.slice(0, 2);
    const reference = pair.map((row) => new Float32Array(row.tokens.length).fill(-2));
    const loss = preferenceLoss(
      pair.map((row, r) => ({ ...row, reference: reference[r]! })),
      0.3,
    );
    const at = (change: number, r: number, i: number) => {
      const logprobs = pair.map((row) => new Float32Array(row.tokens.length).fill(-1.5));
      logprobs[1]!.fill(-1.75);
      logprobs[r]![i]! += change;
      return loss({ logprobs, entropies: [] });
    };
    for (const r of [0, 1]) {
      const slope = (at(1 / 16, r, 72).metrics.loss! - at(-1 / 16, r, 72).metrics.loss!) * 8;
      expect(at(0, r, 72).gradient[r]![72]).toBeCloseTo(slope, 4);
    }
  });
});
