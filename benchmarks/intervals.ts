/** Means with 95 % confidence intervals, as Student's t distribution has them. */

/** Two-sided 97.5 % quantiles of t for 1 to 30 degrees of freedom (published tables). */
const quantiles = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11,
  2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042,
];

export interface Interval {
  mean: number;
  /** Half the width; NaN for fewer than two values. */
  margin: number;
}

/** The mean of independent `values` (not of several attempts at one item: average those first). */
export function meanInterval(values: readonly number[]): Interval {
  const n = values.length;
  const mean = values.reduce((sum, value) => sum + value, 0) / n;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (n - 1);
  return { mean, margin: (quantiles[n - 2] ?? 1.96) * Math.sqrt(variance / n) };
}

/** "61.2 ± 4.0" of values between 0 and 1, in percent. */
export function percentInterval(values: readonly number[]): string {
  const { mean, margin } = meanInterval(values);
  return `${(100 * mean).toFixed(1)} ± ${(100 * margin).toFixed(1)}`;
}
