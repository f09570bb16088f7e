// Rollouts of many scenarios, some at a time, gathered into groups.

import { setMaxListeners } from "node:events";
import { clearTimeout, setTimeout } from "node:timers";
import { BadRequestError } from "../errors.js";
import type { CompletionSource } from "../remote/remoteRollouts.js";
import { deriveSeed } from "../seeds.js";
import type { AnnealClient } from "../types/client.js";
import type { GatherOptions, RemoteRollouts } from "../types/gather.js";
import type { Model } from "../types/models.js";
import type { Trajectory, TrajectoryException, TrajectoryGroup } from "../types/trajectories.js";
import { badOption, checkGatherOptions } from "./checkOptions.js";
import { type PinnedModel, type RolloutOutcome, rewardOf, runRollout, untilAborted } from "./rollout.js";
import { RolloutError } from "./rolloutError.js";

export interface Gathered {
  groups: TrajectoryGroup[];
  completionTokens: number;
  completions: number;
  truncated: number;
}

const DEFAULT_CONCURRENCY = 64;
const DEFAULT_EXCEPTION_SHARE = 0.5;

export async function gather<S>(client: AnnealClient, options: GatherOptions<S>): Promise<TrajectoryGroup[]> {
  checkGatherOptions(options);
  const { source, model } = await rolloutModel(client, options);
  return (await gatherPinned(source, model, options, "gather")).groups;
}

/** Where completions are drawn from, and what the model is called there. */
async function rolloutModel<S>(
  client: AnnealClient,
  { model, rollouts, signal }: GatherOptions<S>,
): Promise<{ source: CompletionSource; model: PinnedModel }> {
  if (!rollouts) return { source: client, model: await pin(client, model, signal) };
  if (typeof model === "string") {
    const hint = "name a registered model, such as models.retrieve answers with";
    throw new BadRequestError("rollouts of another server need a model whose checkpoint it can be given", {
      param: "model",
      hint,
    });
  }
  const { remoteSource } = await import("../remote/remoteRollouts.js");
  return { source: remoteSource(rollouts), model: await publishForRollouts(client, model, rollouts, signal) };
}

/** Has the server of the rollouts serve the model's latest step, under that step's name only. */
export async function publishForRollouts(
  client: AnnealClient,
  model: Model,
  { publishEvery: _, maxLogprobDifference: __, ...target }: RemoteRollouts,
  signal?: AbortSignal,
): Promise<PinnedModel> {
  const { name, step } = await client.models.publish(model.id, { ...target, latest: false }, { signal });
  return { name, step };
}

/** The model's latest step, by a name that stays with it. */
export async function pin(client: AnnealClient, model: Model | string, signal?: AbortSignal): Promise<PinnedModel> {
  if (typeof model === "string") return { name: model, step: stepOfName(model) };
  const page = await client.checkpoints.list(model.id, { limit: 1, order: "desc" }, { signal });
  return pinnedAt(model, page.data[0]?.step ?? 0);
}

export function pinnedAt(model: Model, step: number): { name: string; step: number } {
  return { name: `wandb-artifact:///${model.entity}/${model.project}/${model.name}:step${step}`, step };
}

function stepOfName(name: string): number | null {
  const match = /(?::step|@)(\d+)$/.exec(name);
  return match ? Number(match[1]) : null;
}

/** `purpose` separates the seeds of different uses of one run and step. */
export async function gatherPinned<S>(
  source: CompletionSource,
  model: PinnedModel,
  options: Omit<GatherOptions<S>, "model">,
  purpose: string,
): Promise<Gathered> {
  const {
    scenarios,
    rollout,
    groupSize,
    timeoutMs,
    maxExceptions,
    seed = 0n,
    reward,
    scoreGroup,
    onProgress,
  } = options;
  const concurrency = options.concurrency ?? DEFAULT_CONCURRENCY;
  options.signal?.throwIfAborted();
  const stop = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, stop.signal]) : stop.signal;
  const outcomes: (RolloutOutcome | null)[][] = scenarios.map(() => new Array(groupSize).fill(null));
  const exceptions: (TrajectoryException | null)[][] = scenarios.map(() => new Array(groupSize).fill(null));
  const total = scenarios.length * groupSize;
  const share = options.maxExceptionShare ?? (maxExceptions === undefined ? DEFAULT_EXCEPTION_SHARE : 1);
  const maxFailures = Math.min(maxExceptions ?? total, Math.floor(share * total));
  const counts = { done: 0, succeeded: 0, reward: 0, tokens: 0, failures: 0 };

  let firstFailure: { error: unknown } | null = null;
  const fail = (group: number, member: number, error: unknown) => {
    counts.failures += 1;
    exceptions[group]![member] = describe(error);
    firstFailure ??= { error };
    if (counts.failures > maxFailures) throw new RolloutError(counts.failures, total, firstFailure.error);
  };

  const attempt = async (group: number, member: number) => {
    const limit = new AbortController();
    // It keeps the process alive, which nothing else may do while a rollout waits for what never comes.
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => limit.abort(timeIsOver(timeoutMs)), timeoutMs);
    // Its own, however many completions listen to it at once.
    const rolloutSignal = AbortSignal.any([signal, limit.signal]);
    setMaxListeners(0, rolloutSignal);
    try {
      const outcome = await runRollout(source, model, scenarios[group]!, rollout, {
        reward,
        seed: deriveSeed(seed, purpose, model.step ?? 0, group, member),
        signal: rolloutSignal,
      });
      outcomes[group]![member] = outcome;
      counts.succeeded += 1;
      counts.reward += outcome.trajectory.reward;
      counts.tokens += outcome.completionTokens;
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      fail(group, member, error);
    } finally {
      clearTimeout(timer);
    }
    counts.done += 1;
    await onProgress?.({
      done: counts.done,
      total,
      exceptions: counts.failures,
      completionTokens: counts.tokens,
      meanReward: counts.succeeded > 0 ? counts.reward / counts.succeeded : null,
    });
  };

  let next = 0;
  const worker = async () => {
    while (next < total) {
      const index = next++;
      await attempt(Math.floor(index / groupSize), index % groupSize);
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(concurrency, total) }, worker));
  } catch (error) {
    stop.abort(error);
    throw error;
  }

  if (scoreGroup) {
    for (const [group, members] of outcomes.entries()) {
      const trajectories = members.flatMap((outcome) => outcome?.trajectory ?? []);
      const thrown = await scoreTogether(trajectories, scenarios[group]!, scoreGroup, signal);
      if (!thrown) continue;
      for (const [member, outcome] of members.entries()) {
        if (outcome === null) continue;
        members[member] = null;
        fail(group, member, thrown.error);
      }
    }
  }
  const kept = outcomes.flat().filter((outcome) => outcome !== null);
  const groups = outcomes.map((members, i) => ({
    trajectories: members.filter((outcome) => outcome !== null).map(({ trajectory }) => trajectory),
    exceptions: exceptions[i]!.filter((exception) => exception !== null),
  }));
  const sum = (of: (outcome: RolloutOutcome) => number) => kept.reduce((whole, outcome) => whole + of(outcome), 0);
  return {
    groups,
    completionTokens: sum((outcome) => outcome.completionTokens),
    completions: sum((outcome) => outcome.completions),
    truncated: sum((outcome) => outcome.truncated),
  };
}

/** Sets the rewards of a group; answers with what `scoreGroup` threw, if it did. */
async function scoreTogether<S>(
  trajectories: Trajectory[],
  scenario: S,
  scoreGroup: NonNullable<GatherOptions<S>["scoreGroup"]>,
  signal: AbortSignal,
): Promise<{ error: unknown } | null> {
  if (trajectories.length === 0) return null;
  let rewards: unknown;
  try {
    rewards = await untilAborted(() => scoreGroup(trajectories, { scenario, signal }), signal);
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    return { error };
  }
  const given = Array.isArray(rewards) && rewards.length === trajectories.length ? rewards.map(rewardOf) : [null];
  if (given.includes(null)) {
    const rule = `a function that answers with ${trajectories.length} finite rewards, one per trajectory`;
    throw badOption("scoreGroup", rule, rewards);
  }
  for (const [i, trajectory] of trajectories.entries()) trajectory.reward = given[i]!;
  return null;
}

function timeIsOver(milliseconds: number): DOMException {
  return new DOMException(`the rollout took longer than ${milliseconds} ms`, "TimeoutError");
}

function describe(error: unknown): TrajectoryException {
  if (!(error instanceof Error)) return { type: typeof error, message: String(error) };
  return { type: error.name, message: error.message, traceback: error.stack ?? null };
}
