// AdamW for adapters: its settings, and what they are by default.

import { OPTIMIZER_RANGES } from "../schemas/bounds.js";

/**
 * What an optimizer trains for, and its moments belong to: they are cleared when it changes. (A policy loss has an `objective` of
 * another kind: cispo, ppo.)
 */
export type Objective = "rl" | "sft";

export interface OptimizerSettings {
  beta1: number;
  beta2: number;
  eps: number;
  weightDecay: number;
  maxGradNorm: number;
}

export const MAX_LEARNING_RATE = OPTIMIZER_RANGES.learningRate[1];

/** AdamW as commonly used for adapters: RL decays and clips hard, SFT does not decay. */
export const OPTIMIZER: Record<Objective, OptimizerSettings> = {
  rl: { beta1: 0.9, beta2: 0.99, eps: 1e-8, weightDecay: 0.1, maxGradNorm: 0.1 },
  sft: { beta1: 0.9, beta2: 0.99, eps: 1e-8, weightDecay: 0, maxGradNorm: 1 },
};
