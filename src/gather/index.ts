// Reinforcement learning as an application calls it; what does the work is loaded by the first call.

import type { AnnealClient } from "../types/client.js";
import type { GatherOptions, StepReport, TrainOptions } from "../types/gather.js";
import type { TrajectoryGroup } from "../types/trajectories.js";

export { RolloutError } from "./rolloutError.js";

/**
 * Attempts every scenario `groupSize` times. One group per scenario, in their order; rollouts that threw are in the
 * group's `exceptions`. Rejects with RolloutError beyond `maxExceptions`, with `signal.reason` when aborted.
 */
export async function gather<S>(client: AnnealClient, options: GatherOptions<S>): Promise<TrajectoryGroup[]> {
  const loaded = await import("./gather.js");
  return loaded.gather(client, options);
}

/**
 * Makes `steps` checkpoints, yielding a report after each. Every report's job has ended when it is yielded, so the loop
 * may be left at any time. With the name of a run that was cut off, even by the end of the process, the run is taken up
 * again: what it lacks of `steps` is made, with the rollouts that it would have made. Otherwise a new run begins where the
 * model stands. Rejects as `gather` does, or when a job fails; when aborted, the job under way is cancelled.
 */
export async function* train<S>(
  client: AnnealClient,
  options: TrainOptions<S>,
): AsyncGenerator<StepReport, void, void> {
  const loaded = await import("./train.js");
  yield* loaded.train(client, options);
}
