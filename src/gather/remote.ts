// A run's servers of other engines: the one that rollouts are drawn from, and the one that serves what was made.

import type { CompletionSource } from "../remote/remoteRollouts.js";
import type { AnnealClient } from "../types/client.js";
import type { RemoteRollouts, TrainOptions } from "../types/gather.js";
import type { ModelPublished } from "../types/publish.js";
import type { ExperimentalConfig } from "../types/training.js";
import type { Standing } from "./bestStep.js";
import { publishForRollouts } from "./gather.js";
import type { PinnedModel } from "./rollout.js";

/** Of rollouts that are not stale: in bfloat16 two programs differ by some hundredths, other weights by far more. */
const MAX_FRESH_DIFFERENCE = 0.1;

export interface RolloutServer {
  source: CompletionSource;
  /**
   * What the server serves for the policy's step: itself, or the last one that was published there. Then earlier ones that were
   * published for rollouts are unloaded, but for those that are needed still.
   */
  at(policy: PinnedModel, isNeeded: (step: number) => boolean): Promise<PinnedModel>;
}

export async function openRolloutServer<S>(
  client: AnnealClient,
  { model, signal }: TrainOptions<S>,
  rollouts: RemoteRollouts,
): Promise<RolloutServer> {
  const [{ remoteSource }, { VllmServer }] = await Promise.all([
    import("../remote/remoteRollouts.js"),
    import("../remote/vllmServer.js"),
  ]);
  const server = new VllmServer(rollouts);
  // What somebody else had served there is theirs to unload.
  const before = new Set((await server.models(signal)).map(({ id }) => id));
  const made = new Map<number, string>();
  const every = rollouts.publishEvery ?? 1;
  let published: PinnedModel | null = null;
  return {
    source: remoteSource(rollouts),
    async at({ step }, isNeeded) {
      if (published !== null && (step ?? 0) - (published.step ?? 0) < every) return published;
      published = await publishForRollouts(client, model, rollouts, signal);
      const latest = published;
      for (const [old, name] of made) {
        if (old === latest.step || isNeeded(old)) continue;
        // One that stays loaded does no harm, and one that is gone is what was wanted.
        await server.unloadAdapter(name, signal).catch(() => signal?.throwIfAborted());
        made.delete(old);
      }
      if (latest.step !== null && !before.has(latest.name)) made.set(latest.step, latest.name);
      return latest;
    },
  };
}

/** A job's settings, with the bound on what another server's logprobs may differ by. */
export function withSamplerBound(
  config: ExperimentalConfig | undefined,
  rollouts: RemoteRollouts | undefined,
): ExperimentalConfig | undefined {
  if (!rollouts || config?.max_logprob_difference != null) return config;
  const bound = rollouts.maxLogprobDifference ?? ((rollouts.publishEvery ?? 1) === 1 ? MAX_FRESH_DIFFERENCE : null);
  return bound === null ? config : { ...config, max_logprob_difference: bound };
}

/** Has the server of `publish` serve what a run makes, if there is one. */
export class Publisher<S> {
  readonly #client: AnnealClient;
  readonly #options: TrainOptions<S>;
  /** Steps that it had served. */
  readonly published = new Set<number>();

  constructor(client: AnnealClient, options: TrainOptions<S>) {
    this.#client = client;
    this.#options = options;
  }

  /** Of a run that is taken up again: it may have been cut off before its last step was published. */
  async catchUp({ best }: Standing): Promise<void> {
    if (this.#options.publish?.when !== "best") await this.#publish(null);
    else if (best) await this.#publish(best.step);
  }

  /** After a step; `keptAs` is the checkpoint that a run's best step was made again, at its end. */
  async after(step: number, isBest: boolean, keptAs: number | null): Promise<ModelPublished | null> {
    if (this.#options.publish?.when === "best") return isBest ? this.#publish(step) : null;
    return this.#publish(keptAs ?? step);
  }

  async #publish(step: number | null): Promise<ModelPublished | null> {
    const { publish, model, signal } = this.#options;
    if (!publish) return null;
    const { when: _, ...target } = publish;
    const made = await this.#client.models.publish(model.id, { ...target, step }, { signal });
    this.published.add(made.step);
    return made;
  }
}
