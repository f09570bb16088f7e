// How long rollouts take on servers, and how a run of steps goes that are sampled by weights of some age.

/** Tokens per second in all, by sequences side by side, rising; between two entries it is interpolated. */
export type DecodeRates = readonly (readonly [sequences: number, tokensPerSecond: number])[];

function rateOf(rates: DecodeRates, sequences: number): number {
  const [first] = rates;
  if (sequences <= first![0]) return first![1];
  for (let i = 1; i < rates.length; i++) {
    const [[fewer, slow], [more, fast]] = [rates[i - 1]!, rates[i]!];
    if (sequences <= more) return slow + ((fast - slow) * (sequences - fewer)) / (more - fewer);
  }
  return rates.at(-1)![1];
}

/**
 * Until the last reply is there, seconds: replies go to the server with the fewest; each decodes as many side by side as its rates
 * know, the others wait.
 */
export function rolloutSeconds(rates: DecodeRates, servers: number, lengths: readonly number[]): number {
  const most = rates.at(-1)![0];
  const queues = Array.from({ length: servers }, (_, s) => lengths.filter((_, i) => i % servers === s));
  return Math.max(
    ...queues.map((queue) => {
      const waiting = [...queue];
      let active = waiting.splice(0, most);
      let seconds = 0;
      while (active.length > 0) {
        const tokens = Math.min(...active);
        seconds += (tokens * active.length) / rateOf(rates, active.length);
        active = active.map((left) => left - tokens).filter((left) => left > 0);
        active.push(...waiting.splice(0, most - active.length));
      }
      return seconds;
    }),
  );
}

export interface SimulatedRun {
  seconds: number;
  /** In steps: how much older the weights that sampled were than those that were trained. */
  meanStaleness: number;
  maxStaleness: number;
}

/** `overlapped`: the rollouts of the next step are sampled while one is trained; else one after the other, as `train` does. */
export function simulateRun(run: {
  steps: number;
  sampling: number;
  training: number;
  publishing: number;
  every: number;
  overlapped: boolean;
}): SimulatedRun {
  const { steps, sampling, training, publishing, every, overlapped } = run;
  /** When the trainer, and when the servers, have nothing more to do. */
  let trained = 0;
  let sampled = 0;
  let published = 0;
  /** Weights that a step's rollouts came from, by step. */
  const ages: number[] = [];
  for (let step = 0; step < steps; step++) {
    // Rollouts begin when the servers are free and, one after the other, when the step before has been trained.
    const begin = overlapped ? sampled : Math.max(sampled, trained);
    // What has been trained by then.
    const known = overlapped ? Math.max(0, step - 1) : step;
    let start = begin;
    if (known - published >= every) {
      published = known;
      start += publishing;
    }
    sampled = start + sampling;
    ages.push(step - published);
    trained = Math.max(sampled, trained) + training;
    // One step ahead at most.
    if (overlapped) sampled = Math.max(sampled, trained - training);
  }
  return {
    seconds: trained,
    meanStaleness: ages.reduce((sum, age) => sum + age, 0) / steps,
    maxStaleness: Math.max(...ages),
  };
}
