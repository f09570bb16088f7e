// One learning rate as a value per step.

export type Schedule = "constant" | "linear" | "cosine";

export interface LearningRateSettings {
  /** Highest value. */
  peak: number;
  schedule: Schedule;
  /** Share of the steps that warm up, 0 to 1. */
  warmupRatio: number;
}

/**
 * Step i of w warming up has peak (i + 1) / w; of the d steps after them, step j has peak times 1, 1 - p, or (1 + cos(pi p)) / 2,
 * where p = j / (d - 1): a falling schedule ends at 0. A schedule of one step falls nowhere.
 */
export function learningRates({ peak, schedule, warmupRatio }: LearningRateSettings, steps: number): number[] {
  const warmup = Math.floor(warmupRatio * steps);
  const decay = steps - warmup;
  return Array.from({ length: steps }, (_, i) => {
    if (i < warmup) return (peak * (i + 1)) / warmup;
    const progress = decay > 1 ? (i - warmup) / (decay - 1) : 0;
    if (schedule === "linear") return peak * (1 - progress);
    if (schedule === "cosine") return (peak * (1 + Math.cos(Math.PI * progress))) / 2;
    return peak;
  });
}
