// The verbs of training on one trainer: the one place where losses, gradients and optimizer steps meet. Recipes of jobs and the
// sessions of applications are made of them.

import type { Trainer } from "../runtime/runtime.js";
import {
  accumulateGradient,
  evaluateRows,
  type LossFunction,
  type PassLimits,
  type RowValues,
} from "./forwardBackward.js";
import type { OptimizerSettings } from "./optimizer.js";
import type { TokenRow } from "./tokenRow.js";

/** Calls reject with the signal's reason when `limits.signal` is aborted. */
export class Learner {
  readonly #trainer: Trainer;
  readonly #optimizer: OptimizerSettings;
  readonly #limits: PassLimits;

  constructor(trainer: Trainer, optimizer: OptimizerSettings, limits: PassLimits) {
    this.#trainer = trainer;
    this.#optimizer = optimizer;
    this.#limits = limits;
  }

  /** Of the weights as they are now, or of a version on the device (0: the base model). */
  logprobs(rows: readonly TokenRow[], adapter?: number): Promise<RowValues> {
    return evaluateRows(this.#trainer, rows, this.#limits, adapter);
  }

  /** Adds to the gradient; all rows are one reduction. A rejection clears the gradient. */
  async forwardBackward(
    rows: readonly TokenRow[],
    loss: LossFunction,
  ): Promise<RowValues & { metrics: Record<string, number> }> {
    try {
      return await accumulateGradient(this.#trainer, rows, loss, this.#limits);
    } catch (error) {
      await this.#trainer.zeroGrad();
      throw error;
    }
  }

  /** One step along the gradient, which is cleared; settings that are given go before the optimizer's own. */
  async optimStep(settings: { learningRate: number } & Partial<OptimizerSettings>): ReturnType<Trainer["optimStep"]> {
    this.#limits.signal?.throwIfAborted();
    return this.#trainer.optimStep({ ...this.#optimizer, ...settings });
  }
}
