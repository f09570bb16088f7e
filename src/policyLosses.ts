// The policy-gradient losses. To add one: an entry here, which makes it a `loss_fn` of jobs and a `loss` of sessions; its term of the
// loss with the derivatives in native/training/policy_loss.cpp (`kObjectives`). `npm run generate` then writes the public types and the
// reference anew.

interface PolicyLoss {
  /** Default of `epsilon`. */
  epsilon: number;
  /** Default of `epsilon_high`; null: `epsilon`. */
  epsilonHigh: number | null;
  /** What it does, for documents. */
  meaning: string;
}

/** By their names on the wire, the default first. */
export const POLICY_LOSSES = {
  cispo: { epsilon: 1, epsilonHigh: 4, meaning: "the clipped ratio, held constant, weights the logprob" },
  ppo: { epsilon: 0.2, epsilonHigh: null, meaning: "the smaller of ratio and clipped ratio, times the advantage" },
} as const satisfies Record<string, PolicyLoss>;

export type PolicyLossName = keyof typeof POLICY_LOSSES;

export const policyLossNames = Object.keys(POLICY_LOSSES) as PolicyLossName[];

export function isPolicyLoss(name: string): name is PolicyLossName {
  return Object.hasOwn(POLICY_LOSSES, name);
}

/** Every name with what `of` says of its loss. */
export function describePolicyLosses(of: (loss: PolicyLoss, name: PolicyLossName) => string): string[] {
  return policyLossNames.map((name) => of(POLICY_LOSSES[name], name));
}
