import { describe, expect, it } from "vitest";
import type { ValidationError } from "../errors.js";
import type { ExperimentalConfig } from "../types/training.js";
import { resolvePolicy } from "./policy.js";

const fieldsOf = (config: ExperimentalConfig): string[] => {
  try {
    resolvePolicy(config, 5);
  } catch (error) {
    return (error as ValidationError).issues.map((issue) => issue.loc.join("."));
  }
  return [];
};

describe("an RL configuration", () => {
  it("stands for cispo with the ratio in [0, 5] when it says nothing, or null everywhere", () => {
    const nulls = Object.fromEntries(
      Object.keys({
        learning_rate: 0,
        loss_fn: 0,
        ppo: 0,
        epsilon: 0,
        epsilon_high: 0,
        importance_sampling_level: 0,
        scale_rewards: 0,
        kimi_k2_tau: 0,
        kl_penalty_coef: 0,
        packed_sequence_length: 0,
        logprob_calculation_chunk_size: 0,
      }).map((name) => [name, null]),
    ) as ExperimentalConfig;
    for (const config of [null, undefined, {}, nulls]) {
      expect(resolvePolicy(config, 0)).toMatchObject({
        learningRate: 5e-6,
        scaleRewards: true,
        balance: 0,
        klReference: null,
        maxRowTokens: null,
        loss: { objective: "cispo", level: "token", clipLow: 0, clipHigh: 5, ratioCap: 0, tau: 0, truncation: 0 },
      });
    }
  });

  it.each([
    [{ ppo: true }, "ppo", 0.8, 1.2],
    [{ ppo: true, epsilon: 0.1 }, "ppo", 0.9, 1.1],
    [{ ppo: true, epsilon: 0.1, epsilon_high: 0.4 }, "ppo", 0.9, 1.4],
    [{ loss_fn: "cispo", ppo: true }, "cispo", 0, 5],
    [{ loss_fn: "ppo", ppo: false }, "ppo", 0.8, 1.2],
    [{ epsilon: 0.2 }, "cispo", 0.8, 5],
    [{ epsilon_high: 0.2 }, "cispo", 0, 1.2],
  ] as [ExperimentalConfig, string, number, number][])("%j", (config, objective, low, high) => {
    const { loss } = resolvePolicy(config, 0);
    expect(loss.objective).toBe(objective);
    expect(loss.clipLow).toBeCloseTo(low, 12);
    expect(loss.clipHigh).toBeCloseTo(high, 12);
  });

  it("scales rewards unless either switch says no", () => {
    expect(resolvePolicy({ scale_rewards: false }, 0).scaleRewards).toBe(false);
    expect(resolvePolicy({ scale_rewards: true, normalize_advantages: false }, 0).scaleRewards).toBe(false);
  });

  it("takes both spellings of tau", () => {
    expect(resolvePolicy({ kimi_k2_tau: 0.1 }, 0).loss.tau).toBe(0.1);
    expect(resolvePolicy({ variant_k2_tau: 0.2 }, 0).loss.tau).toBe(0.2);
    expect(fieldsOf({ kimi_k2_tau: 0.1, variant_k2_tau: 0.2 })).toEqual(["body.experimental_config.variant_k2_tau"]);
  });

  it("finds the reference of a KL-shaped advantage", () => {
    expect(resolvePolicy({ kl_penalty_coef: 0.1 }, 5)).toMatchObject({
      klReference: { kind: "base" },
      loss: { klSource: "sample" },
    });
    expect(resolvePolicy({ kl_penalty_coef: 0.1, kl_penalty_step_lag: 3 }, 5).klReference).toEqual({
      kind: "step",
      step: 2,
    });
    expect(resolvePolicy({ kl_penalty_coef: 0.1, kl_penalty_step_lag: 9 }, 5).klReference).toEqual({
      kind: "step",
      step: 0,
    });
    expect(resolvePolicy({ kl_penalty_coef: 0.1, kl_penalty_reference_step: 1 }, 5).klReference).toEqual({
      kind: "step",
      step: 1,
    });
    expect(resolvePolicy({ kl_penalty_reference_step: 1 }, 5).klReference).toBeNull();
  });

  it.each([
    [{ learning_rate: -1e-6 }, "learning_rate"],
    [{ learning_rate: Number.NaN }, "learning_rate"],
    [{ epsilon: -0.1 }, "epsilon"],
    [{ advantage_balance: 1.5 }, "advantage_balance"],
    [{ learning_rate: 1e300 }, "learning_rate"],
    [{ epsilon: 1e300 }, "epsilon"],
    [{ packed_sequence_length: 1000 }, "packed_sequence_length"],
    [{ kl_penalty_step_lag: 0 }, "kl_penalty_step_lag"],
    [{ kl_penalty_step_lag: 1, kl_penalty_reference_step: 1 }, "kl_penalty_step_lag"],
  ] as [ExperimentalConfig, string][])("is refused with the field's name: %j", (config, field) => {
    expect(fieldsOf(config)).toEqual([`body.experimental_config.${field}`]);
  });

  it("takes what has no effect by design", () => {
    expect(fieldsOf({ scale_learning_rate_by_reward_std_dev: true, plot_tensors: true })).toEqual([]);
    expect(resolvePolicy({ packed_sequence_length: 2048 }, 0).maxRowTokens).toBe(2048);
  });
});
