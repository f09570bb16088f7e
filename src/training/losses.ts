// The built-in losses as functions of logprobs. All rows given together are one reduction; of a part of them, `reduction` is
// what the sums of the whole are divided by.

import { BadRequestError } from "../errors.js";
import { type PolicyLossSettings, policyLoss } from "../runtime/runtime.js";
import type { LossFunction } from "./forwardBackward.js";
import { countTrained, type TokenRow } from "./tokenRow.js";

/** Entry i of every array is about token i of the row. */
export interface PolicyRow extends TokenRow {
  advantages: Float32Array;
  weights: Float32Array;
  /** NaN: none. */
  oldLogprobs: Float32Array;
  /** Of the reference model; needed with a KL coefficient. */
  reference?: Float32Array;
  /** At sampling time, when `oldLogprobs` are not those; NaN: none. */
  original?: Float32Array;
}

/**
 * The policy-gradient losses; every row is one sequence of the sequence-level ratios. `reduction`: trained tokens. With a KL
 * coefficient the advantage of every token looks at the mean over all of them, so that rows cannot be taken apart.
 */
export function policyGradientLoss(
  rows: readonly PolicyRow[],
  settings: PolicyLossSettings,
  reduction = sumOf(rows, countTrained),
): LossFunction {
  const loss: LossFunction = ({ logprobs, entropies }) => {
    const lengths = rows.map((row) => row.tokens.length);
    const { dLogprobs, metrics } = policyLoss(
      {
        logprobs: concatenated(logprobs),
        oldLogprobs: concatenated(rows.map((row) => row.oldLogprobs)),
        advantages: concatenated(rows.map((row) => row.advantages)),
        weights: concatenated(rows.map((row) => row.weights)),
        mask: maskOf(rows),
        segments: segmentsOf(rows),
        reference:
          settings.klCoef > 0 ? concatenated(rows.map((row) => row.reference ?? missing("reference"))) : undefined,
        original: settings.truncateByOriginal
          ? concatenated(rows.map((row) => row.original ?? row.oldLogprobs))
          : undefined,
        entropies: concatenated(entropies),
        reduction,
      },
      settings,
    );
    return { gradient: splitBy(dLogprobs, lengths), metrics: policyMetrics(metrics, settings) };
  };
  if (settings.klCoef > 0) return loss;
  return separable(loss, 1, (from, to) => policyGradientLoss(rows.slice(from, to), settings, reduction));
}

function separable(
  loss: LossFunction,
  rowsTogether: number,
  part: (from: number, to: number) => LossFunction,
): LossFunction {
  return Object.assign(loss, { separable: { rowsTogether, part } });
}

type NativeMetrics = ReturnType<typeof policyLoss>["metrics"];

function policyMetrics(metrics: NativeMetrics, settings: PolicyLossSettings): Record<string, number> {
  return {
    loss: metrics.loss,
    entropy: metrics.entropy,
    ...(settings.klCoef > 0 ? { kl_policy_ref: metrics.klPolicyRef } : {}),
    probs_corr: metrics.probsCorr,
    ratio_mean: metrics.ratioMean,
    ratio_max: metrics.ratioMax,
    ratio_min: metrics.ratioMin,
    ratio_exact_share: metrics.ratioExactShare,
    clip_fraction: metrics.clipFraction,
    approx_kl: metrics.approxKl,
    num_trainable_tokens: metrics.trained,
  };
}

/**
 * `loss`, which also measures how far the logprobs that trained tokens were sampled with are from the computed ones: those of
 * the weights that a row's old logprobs are of, where these are not the sampled ones, else the new ones.
 */
export function measuringSampler(loss: LossFunction, rows: readonly PolicyRow[]): LossFunction {
  const measure: LossFunction = (values) => {
    const result = loss(values);
    let sum = 0;
    let largest = 0;
    let count = 0;
    for (const [r, { trained, oldLogprobs, original }] of rows.entries()) {
      const sampled = original ?? oldLogprobs;
      const computed = original ? oldLogprobs : values.logprobs[r]!;
      for (const [i, isTrained] of trained.entries()) {
        const difference = Math.abs(sampled[i]! - computed[i]!);
        if (!isTrained || Number.isNaN(sampled[i]!)) continue;
        sum += difference;
        largest = Math.max(largest, difference);
        count += 1;
      }
    }
    if (count === 0) return result;
    const metrics = { logprob_difference_mean: sum / count, logprob_difference_max: largest };
    return { ...result, metrics: { ...result.metrics, ...metrics } };
  };
  return Object.assign(measure, { usesEntropy: loss.usesEntropy, separable: loss.separable });
}

/** `loss` less `coefficient` times the mean over all trained tokens of the entropy, each counted with its weight; 0: `loss` itself. */
export function withEntropyBonus(
  loss: LossFunction,
  rows: readonly (TokenRow & { weights?: Float32Array })[],
  coefficient: number,
  reduction = sumOf(rows, countTrained),
): LossFunction {
  if (coefficient === 0) return loss;
  const tokens = Math.max(1, reduction);
  const entropyGradient = rows.map((row) =>
    Float32Array.from(row.trained, (trained, i) => (trained ? (-coefficient * (row.weights?.[i] ?? 1)) / tokens : 0)),
  );
  const evaluate: LossFunction = (values) => {
    const { gradient, metrics } = loss(values);
    let bonus = 0;
    for (const [r, ofRow] of entropyGradient.entries()) {
      for (const [i, value] of ofRow.entries()) if (value !== 0) bonus += value * values.entropies[r]![i]!;
    }
    const lossBefore = metrics.loss ?? 0;
    return {
      gradient,
      entropyGradient,
      metrics: { ...metrics, loss: lossBefore + bonus, policy_loss: lossBefore },
    };
  };
  const parts = loss.separable && {
    rowsTogether: loss.separable.rowsTogether,
    part: (from: number, to: number) =>
      withEntropyBonus(loss.separable!.part(from, to), rows.slice(from, to), coefficient, reduction),
  };
  return Object.assign(evaluate, { usesEntropy: true as const, separable: parts });
}

/** Mean over all trained tokens of minus the logprob, each counted with its weight (1 if none are given). */
export function crossEntropyLoss(
  rows: readonly (TokenRow & { weights?: Float32Array })[],
  reduction = sumOf(rows, countTrained),
): LossFunction {
  const whole: LossFunction = ({ logprobs, entropies }) => {
    let loss = 0;
    let entropy = 0;
    const gradient = rows.map((row, r) => {
      const ofRow = new Float32Array(row.tokens.length);
      for (let i = 0; i < ofRow.length; i++) {
        if (!row.trained[i]) continue;
        const weight = row.weights?.[i] ?? 1;
        loss -= weight * logprobs[r]![i]!;
        entropy += entropies[r]![i]!;
        ofRow[i] = -weight / reduction;
      }
      return ofRow;
    });
    const count = Math.max(reduction, 1);
    return { gradient, metrics: { loss: loss / count, entropy: entropy / count, num_trainable_tokens: reduction } };
  };
  return separable(whole, 1, (from, to) => crossEntropyLoss(rows.slice(from, to), reduction));
}

/**
 * Direct preference optimisation (Rafailov et al. 2023, equation 7): rows come in pairs, the preferred one first; the loss
 * is the mean over pairs of -log sigmoid(beta (difference of the two log ratios to the reference)).
 */
export function preferenceLoss(
  rows: readonly (TokenRow & { reference: Float32Array })[],
  beta: number,
  reduction = rows.length / 2,
): LossFunction {
  if (rows.length === 0 || rows.length % 2 !== 0) {
    throw new BadRequestError("dpo takes pairs of rows: the preferred one, then the other", { param: "rows" });
  }
  const pairs = rows.length / 2;
  const whole: LossFunction = ({ logprobs }) => {
    const gradient = rows.map((row) => new Float32Array(row.tokens.length));
    const logRatio = (r: number) => {
      let sum = 0;
      for (const [i, trained] of rows[r]!.trained.entries()) {
        if (trained) sum += logprobs[r]![i]! - rows[r]!.reference[i]!;
      }
      return sum;
    };
    let loss = 0;
    let margin = 0;
    let right = 0;
    for (let pair = 0; pair < pairs; pair++) {
      const reward = beta * (logRatio(2 * pair) - logRatio(2 * pair + 1));
      // log(1 + exp(-x)) without overflow on either side.
      loss += Math.max(-reward, 0) + Math.log1p(Math.exp(-Math.abs(reward)));
      margin += reward;
      right += reward > 0 ? 1 : 0;
      const slope = beta / (1 + Math.exp(reward)) / reduction;
      for (const [side, sign] of [
        [2 * pair, -1],
        [2 * pair + 1, 1],
      ] as const) {
        for (const [i, trained] of rows[side]!.trained.entries()) if (trained) gradient[side]![i] = sign * slope;
      }
    }
    const metrics = { loss: loss / reduction, reward_margin: margin / reduction, reward_accuracy: right / reduction };
    return { gradient, metrics };
  };
  return separable(whole, 2, (from, to) => preferenceLoss(rows.slice(from, to), beta, reduction));
}

function sumOf<T>(items: readonly T[], of: (item: T) => number): number {
  return items.reduce((sum, item) => sum + of(item), 0);
}

function concatenated(parts: readonly Float32Array[]): Float32Array {
  const whole = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let start = 0;
  for (const part of parts) {
    whole.set(part, start);
    start += part.length;
  }
  return whole;
}

function splitBy(whole: Float32Array, lengths: readonly number[]): Float32Array[] {
  let start = 0;
  return lengths.map((length) => {
    const part = whole.slice(start, start + length);
    start += length;
    return part;
  });
}

function maskOf(rows: readonly TokenRow[]): Uint8Array {
  const mask = new Uint8Array(rows.reduce((sum, row) => sum + row.tokens.length, 0));
  let start = 0;
  for (const row of rows) {
    mask.set(row.trained, start);
    start += row.tokens.length;
  }
  return mask;
}

/** Of each token the index of its row. */
function segmentsOf(rows: readonly TokenRow[]): Int32Array {
  const segments = new Int32Array(rows.reduce((sum, row) => sum + row.tokens.length, 0));
  let start = 0;
  for (const [index, row] of rows.entries()) {
    segments.fill(index, start, start + row.tokens.length);
    start += row.tokens.length;
  }
  return segments;
}

function missing(what: string): never {
  throw new BadRequestError(`every row needs ${what} logprobs with a KL coefficient`, { param: `rows.${what}` });
}
