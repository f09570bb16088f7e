// A job as the runner sees it: so many optimizer steps, one after the other, each a pure function of the weights before it.

import type { Learner } from "./learner.js";
import type { Objective } from "./optimizer.js";
import type { TokenRow } from "./tokenRow.js";
import type { ValidationSettings } from "./validation.js";

export interface LargestPasses {
  /** Forward and backward. */
  trained: TokenRow[][];
  /** Forward only. */
  evaluated: TokenRow[][];
  /** Whether the loss has a gradient by entropies. */
  usesEntropy: boolean;
}

export interface RecipeValidation extends ValidationSettings {
  /** Optimizer steps between two evaluations. */
  interval: number;
  /** The loss of what is held out, with the weights as they are. */
  loss(learner: Learner): Promise<number>;
}

export interface Recipe {
  readonly objective: Objective;
  /** Optimizer steps, one `gradient_step` event each. */
  readonly steps: number;
  /** What the job's first event says besides the number of steps: numbers, and warnings for people. */
  readonly started: { counts: Record<string, number>; warnings: string[] };
  /**
   * Gradient and optimizer step `index`. The payload holds finite numbers only.
   * Rejects as the learner's verbs do; the step is then not to be taken again.
   */
  step(index: number, learner: Learner): Promise<Record<string, number>>;
  /** For the estimate of what the job takes. */
  readonly work: {
    /** Tokens computed forward and backward, by optimizer step. */
    perStep: readonly number[];
    /** The passes that take most memory; none of one kind is larger in tokens, predictions or pages. */
    largest: LargestPasses;
    /** Tokens computed forward only, over the job: for logprobs of other weights, and of held-out data. */
    evaluated: number;
    /** A row like those of the job; null: there are no steps. */
    probe: TokenRow | null;
  };
  /** null: nothing is held out. */
  readonly validation: RecipeValidation | null;
  /** Frees what the recipe holds on the device. */
  close(): void;
}

/** How often held-out data is evaluated over so many steps: before the first, between, and after the last. */
export function evaluationCount(steps: number, { interval }: RecipeValidation): number {
  return 1 + Math.ceil(steps / interval);
}

/** JSON has no NaN or infinity: such values are left out. */
export function finiteNumbers(values: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => Number.isFinite(value)));
}
