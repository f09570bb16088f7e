// From rewards to the advantages and weights that the policy loss sees. Everything is float64 until it is stored.

/** Rewards closer to their group's mean than this share of the largest absolute reward (at least of 1) count as equal to it. */
const EQUAL_REWARD = 1e-9;

/** Keeps quotients finite where a group's deviation, or a trajectory's number of trained tokens, is 0. */
const EPSILON = 1e-6;

/**
 * One group's advantages: reward minus mean, divided by the population deviation if `scaleRewards`. A trajectory whose
 * reward equals the mean up to rounding gets exactly 0 and teaches nothing, so groups without variance vanish.
 */
export function groupAdvantages(rewards: readonly number[], scaleRewards: boolean): number[] {
  if (rewards.length === 0) return [];
  const mean = meanOf(rewards);
  const deviation = populationDeviation(rewards);
  const largest = rewards.reduce((most, reward) => Math.max(most, Math.abs(reward)), 1);
  return rewards.map((reward) => {
    const advantage = reward - mean;
    if (Math.abs(advantage) <= EQUAL_REWARD * largest) return 0;
    return scaleRewards ? advantage / (deviation + EPSILON) : advantage;
  });
}

/** A trajectory's weight before normalisation; `trainedTokens` counts over all of its rows and histories. */
export function trajectoryWeight(trainedTokens: number): number {
  return 1 / (trainedTokens + EPSILON);
}

export interface Weighted {
  advantage: number;
  weight: number;
  /** Trained tokens that share this advantage and weight. */
  tokens: number;
}

/**
 * Normalises a whole batch in place, over its trained tokens: weights to mean 1; then `balance` b scales non-positive
 * advantages by 1 - b (b > 0) or non-negative ones by 1 + b (b < 0); then advantages to mean |A| w = 1. A batch whose
 * advantages are all 0 stays so.
 */
export function normaliseBatch(batch: readonly Weighted[], balance: number): void {
  const tokens = batch.reduce((sum, item) => sum + item.tokens, 0);
  if (tokens === 0) return;
  const meanWeight = batch.reduce((sum, item) => sum + item.weight * item.tokens, 0) / tokens;
  for (const item of batch) {
    item.weight /= meanWeight;
    if (balance > 0 && item.advantage <= 0) item.advantage *= 1 - balance;
    if (balance < 0 && item.advantage >= 0) item.advantage *= 1 + balance;
  }
  const magnitude = batch.reduce((sum, item) => sum + Math.abs(item.advantage) * item.weight * item.tokens, 0) / tokens;
  if (magnitude === 0) return;
  for (const item of batch) item.advantage /= magnitude;
}

export function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

export function populationDeviation(values: readonly number[]): number {
  const mean = meanOf(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length);
}
