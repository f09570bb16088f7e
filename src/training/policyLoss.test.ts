import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { BadRequestError } from "../errors.js";
import { type PolicyLossBatch, type PolicyLossSettings, policyLoss } from "../runtime/runtime.js";
import { resolvePolicy } from "./policy.js";

const nan = Number.NaN;

/** One published row; index t predicts token t + 1, so what is given per token is shifted left by one. */
const shifted = (values: number[], padding: number) => Float32Array.from([...values.slice(1), padding]);
const row: PolicyLossBatch = {
  logprobs: Float32Array.of(-3.0, -2.5, -0.4, -0.9, -2.6, -0.3, -1.9, -4.0),
  oldLogprobs: shifted([nan, nan, nan, -1.0, -0.5, -2.0, -0.7, -1.2], nan),
  advantages: shifted([0, 0, 0, 1.2, 1.2, 1.2, -0.9, -0.9], 0),
  weights: shifted([0, 0, 0, 0.8, 0.8, 0.8, 1.3, 1.3], 0),
  mask: Uint8Array.of(0, 0, 1, 1, 1, 1, 1, 0),
  segments: Int32Array.of(0, 0, 1, 1, 1, 2, 2, 0),
  reference: Float32Array.of(-3.0, -2.5, -0.6, -0.8, -2.2, -0.5, -1.5, -4.0),
  original: shifted([nan, nan, nan, -1.1, -0.45, -2.1, -0.65, -1.4], nan),
  // The published entropy, 0.864, comes out only if these too are shifted, as that code does.
  entropies: shifted([1.0, 1.1, 0.9, 0.8, 1.3, 0.7, 0.6, 1.0], 0),
};

// Losses and gradients at positions 2 to 6 as the published loss functions gave them on that row.
const published: [string, Parameters<typeof resolvePolicy>[0], number, number[]][] = [
  ["defaults", {}, 0.204229, [-0.349847, -0.128701, -0.105372, 0.349087, 0.116201]],
  ["ppo", { ppo: true }, 0.071814, [0, -0.128701, -0.105372, 0.349087, 0]],
  ["cispo 0.2", { epsilon: 0.2, epsilon_high: 0.2 }, 0.18984, [-0.2304, -0.1536, -0.1536, 0.2808, 0.1872]],
  [
    "ppo 0.1, 0.4",
    { loss_fn: "ppo", epsilon: 0.1, epsilon_high: 0.4 },
    0.056814,
    [0, -0.128701, -0.105372, 0.349087, 0],
  ],
  [
    "sequence",
    { importance_sampling_level: "sequence" },
    0.212237,
    [-0.168033, -0.168033, -0.168033, 0.201406, 0.201406],
  ],
  ["average", { importance_sampling_level: "average" }, 0.208233, [-0.25894, -0.148367, -0.136703, 0.275246, 0.158803]],
  [
    "geometric average",
    { importance_sampling_level: "geometric_average" },
    0.205089,
    [-0.242458, -0.147058, -0.133064, 0.265157, 0.152982],
  ],
  [
    "ppo, sequence",
    { ppo: true, importance_sampling_level: "sequence" },
    -0.101289,
    [-0.168033, -0.168033, -0.168033, 0.201406, 0.201406],
  ],
  [
    "W 1.1",
    { max_negative_advantage_importance_sampling_weight: 1.1 },
    0.176276,
    [-0.2112, -0.128701, -0.105372, 0.2574, 0.116201],
  ],
  ["ppo, mask_prob_ratio", { ppo: true, mask_prob_ratio: true }, 0.3744, [0, 0, 0, 0, 0]],
  ["tau 0.1", { kimi_k2_tau: 0.1 }, 0.227309, [-0.332355, -0.132992, -0.11064, 0.364602, 0.107163]],
  ["C 1", { truncated_importance_sampling: 1 }, 0.153576, [-0.349847, -0.086271, -0.057829, 0.349087, 0.057704]],
  [
    "C 1, original given",
    { truncated_importance_sampling: 1, precalculate_logprobs: true },
    0.203687,
    [-0.349847, -0.122425, -0.105372, 0.332062, 0.116201],
  ],
  [
    "KL 0.1, current learner",
    { kl_penalty_coef: 0.1, kl_penalty_source: "current_learner" },
    0.211448,
    [-0.341101, -0.128701, -0.108006, 0.360723, 0.112328],
  ],
  ["KL 0.1, sample", { kl_penalty_coef: 0.1 }, 0.199612, [-0.362675, -0.125913, -0.103967, 0.339778, 0.119558]],
];

function expectClose(actual: number, expected: number): void {
  expect(Math.abs(actual - expected)).toBeLessThan(1e-5);
}

describe("the policy loss", () => {
  it.each(published)("gives the published numbers: %s", (name, config, loss, gradient) => {
    const { dLogprobs, metrics } = policyLoss(row, resolvePolicy(config, 0).loss);
    expectClose(metrics.loss, loss);
    for (const [i, value] of [0, 0, ...gradient, 0].entries()) expectClose(dLogprobs[i]!, value);
    expectClose(metrics.entropy, 0.864);
    expectClose(metrics.probsCorr, 0.634016);
    const kbar = name.startsWith("KL") ? (name.endsWith("sample") ? 0.04 : -0.1) : 0;
    expectClose(metrics.klPolicyRef, kbar);
  });

  it("agrees with PyTorch's autograd over a grid of settings", () => {
    const file = new URL("../../test/reference/policy_loss/cases.json", import.meta.url);
    const { rows, cases } = JSON.parse(readFileSync(file, "utf8")) as {
      rows: Record<keyof PolicyLossBatch, (number | null)[]>[];
      cases: {
        row: number;
        settings: PolicyLossSettings;
        expected: { loss: number; dLogprobs: number[]; entropy: number; klPolicyRef: number; probsCorr: number };
      }[];
    };
    const floats = (values: (number | null)[]) => Float32Array.from(values, (value) => value ?? nan);
    const inputs = rows.map(
      (given): PolicyLossBatch => ({
        logprobs: floats(given.logprobs),
        oldLogprobs: floats(given.oldLogprobs),
        advantages: floats(given.advantages),
        weights: floats(given.weights),
        mask: Uint8Array.from(given.mask as number[]),
        segments: Int32Array.from(given.segments as number[]),
        reference: floats(given.reference),
        original: floats(given.original),
        entropies: floats(given.entropies),
      }),
    );
    expect(cases.length).toBeGreaterThan(400);
    for (const { row: index, settings, expected } of cases) {
      const { dLogprobs, metrics } = policyLoss(inputs[index]!, settings);
      expectClose(metrics.loss, expected.loss);
      expectClose(metrics.entropy, expected.entropy);
      expectClose(metrics.klPolicyRef, expected.klPolicyRef);
      expectClose(metrics.probsCorr, expected.probsCorr);
      for (const [i, value] of expected.dLogprobs.entries()) expectClose(dLogprobs[i]!, value);
    }
  });

  it("has a ratio of exactly 1 where nothing has changed, and says so", () => {
    const same = { ...row, oldLogprobs: row.logprobs };
    expect(policyLoss(same, resolvePolicy({}, 0).loss).metrics).toMatchObject({
      ratioMean: 1,
      ratioMax: 1,
      ratioMin: 1,
      ratioExactShare: 1,
      approxKl: 0,
      clipFraction: 0,
      sampled: 5,
      trained: 5,
    });
    const { metrics } = policyLoss(row, resolvePolicy({}, 0).loss);
    expect(metrics.ratioExactShare).toBe(0);
    expect(metrics.ratioMax).toBeCloseTo(Math.exp(0.6), 5);
  });

  it("stays finite for old logprobs at the floor, and for a row without trained tokens", () => {
    const floor = { ...row, oldLogprobs: new Float32Array(8).fill(-9999) };
    for (const config of [{}, { ppo: true }, { importance_sampling_level: "average" as const }]) {
      const { dLogprobs, metrics } = policyLoss(floor, resolvePolicy(config, 0).loss);
      expect(dLogprobs.every(Number.isFinite)).toBe(true);
      expect(Object.values(metrics).every(Number.isFinite)).toBe(true);
    }
    const none = policyLoss({ ...row, mask: new Uint8Array(8) }, resolvePolicy({}, 0).loss);
    expect(none.metrics).toMatchObject({ loss: 0, trained: 0 });
    expect(none.dLogprobs.every((value) => value === 0)).toBe(true);
  });

  it("refuses arrays that do not fit", () => {
    const { loss } = resolvePolicy({ kl_penalty_coef: 0.1 }, 0);
    const bad: Partial<PolicyLossBatch>[] = [
      { weights: new Float32Array(3) },
      { mask: new Uint8Array(9) },
      { segments: Int32Array.of(0, 0, 1, -1, 1, 2, 2, 0) },
      { segments: Int32Array.of(0, 0, 1, 99, 1, 2, 2, 0) },
      { reference: undefined },
    ];
    for (const change of bad) expect(() => policyLoss({ ...row, ...change }, loss)).toThrow(BadRequestError);
  });
});
