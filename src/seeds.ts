// Seeds that follow from what they are for, so that a run can be repeated exactly.

import { createHash } from "node:crypto";

/** 64 bits from a run's seed and a path of what it is for. */
export function deriveSeed(run: number | bigint, ...path: (number | string)[]): bigint {
  const hash = createHash("sha256").update(JSON.stringify([String(run), ...path]));
  return hash.digest().readBigUInt64LE(0);
}

/** A request's seed: 53 bits, so that any JSON carries it. */
export function requestSeed(rollout: bigint, completion: number): number {
  return Number(deriveSeed(rollout, "completion", completion) >> 11n);
}

/** An endless sequence over 0..count-1, by position, that uses every number once before any again. */
export function endlessShuffle(run: number | bigint, count: number): (index: number) => number {
  let round = -1;
  let order: number[] = [];
  return (index) => {
    const wanted = Math.floor(index / count);
    if (wanted !== round) {
      round = wanted;
      const work = shuffling(run, count, round);
      let step = work.next();
      while (!step.done) step = work.next();
      order = step.value;
    }
    return order[index % count]!;
  };
}

/** 0..count-1 in an order that follows from the run and the round; pauses after every exchange, for whoever has other work. */
export function* shuffling(
  run: number | bigint,
  count: number,
  round: number | string,
): Generator<undefined, number[], undefined> {
  const order = Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const j = Number(deriveSeed(run, "order", round, i) % BigInt(i + 1));
    [order[i], order[j]] = [order[j]!, order[i]!];
    yield;
  }
  return order;
}
