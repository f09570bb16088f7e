// The policy-gradient loss in native code: arithmetic over log-probabilities that are already known.

import type { PolicyLossName } from "../policyLosses.js";

/**
 * What shares one reduction: the rows of a trajectory group, laid end to end. Arrays have one length; entry t is
 * about one predicted token, in every array the same.
 */
export interface PolicyLossBatch {
  logprobs: Float32Array;
  /** NaN: none, the new one stands for it. */
  oldLogprobs: Float32Array;
  advantages: Float32Array;
  weights: Float32Array;
  /** Nonzero: trained. */
  mask: Uint8Array;
  /** Equal values are one sequence; 0 to the length. */
  segments: Int32Array;
  /** Needed with klCoef. */
  reference?: Float32Array;
  /** Needed with truncateByOriginal; NaN: none. */
  original?: Float32Array;
  entropies?: Float32Array;
  /** What means over trained entries divide by; absent: their number here. Of a part of a reduction: the whole's number. */
  reduction?: number;
}

export interface PolicyLossSettings {
  objective: PolicyLossName;
  /** Which ratio is clipped: of the token, of its sequence (geometric mean), or a mean of the two. */
  level: "token" | "sequence" | "average" | "geometric_average";
  /** Bounds of the ratio. */
  clipLow: number;
  clipHigh: number;
  /** Above 0: the ratio is at most this for every token. */
  ratioCap: number;
  /** The ratio counts as 0 unless it lies between the bounds. */
  maskOutsideClip: boolean;
  /** advantage -= tau (new - old), the difference held constant. */
  tau: number;
  /** Above 0: advantage += klCoef (mean k - k), k = source - reference. */
  klCoef: number;
  klSource: "sample" | "current_learner";
  /** Above 0: each term is scaled by min(ratio, truncation), held constant. */
  truncation: number;
  /** That ratio is exp(old - original) instead. */
  truncateByOriginal: boolean;
}

/** Means over the trained entries unless said otherwise; "sampled" entries are those whose old logprob is known. */
export interface PolicyLossMetrics {
  loss: number;
  entropy: number;
  klPolicyRef: number;
  /** Pearson correlation of exp(old) and exp(new). */
  probsCorr: number;
  ratioMean: number;
  ratioMax: number;
  ratioMin: number;
  /** Share of sampled entries whose new logprob equals the old one bit for bit. */
  ratioExactShare: number;
  clipFraction: number;
  approxKl: number;
  trained: number;
  sampled: number;
}
