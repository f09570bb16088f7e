// The loop of reinforcement learning: rollouts, one training job on them, a report; again.

import { endlessShuffle } from "../seeds.js";
import { learningRates, means, resolvePolicy } from "../training/index.js";
import type { AnnealClient } from "../types/client.js";
import type { GatherOptions, RewardReport, StepReport, TrainOptions, TrainProgress } from "../types/gather.js";
import type { ExperimentalConfig, TrainingEvent, TrainingRun } from "../types/training.js";
import { endsEarly, hasLatest, isValidated, keepBest, type Standing, standingAfter, standingOf } from "./bestStep.js";
import { checkTrainOptions } from "./checkOptions.js";
import { type Gathered, gatherPinned, pin, pinnedAt } from "./gather.js";
import { openRolloutServer, Publisher, withSamplerBound } from "./remote.js";
import type { PinnedModel } from "./rollout.js";
import { openRun, tellingOfSessions, waitForJobs } from "./run.js";
import { type JobAccount, reportStep, rewardReport } from "./stepReport.js";

const DEFAULT_GROUPS = 16;

export async function* train<S>(
  client: AnnealClient,
  options: TrainOptions<S>,
): AsyncGenerator<StepReport, void, void> {
  checkTrainOptions(options);
  const { model, scenarios, steps, validation, signal } = options;
  const perStep = Math.min(options.groupsPerStep ?? DEFAULT_GROUPS, scenarios.length);

  await waitForJobs(client, options);
  const { run, made } = await openRun(client, options, perStep);
  const seed = BigInt(run.seed);
  const chosenAt = endlessShuffle(seed, scenarios.length);
  let baseline: RewardReport | null = null;
  const entropies: number[] = [];
  if (made > 0) entropies.push(...(await earlierEntropies(client, options, run)));
  let standing: Standing = { best: null, waited: 0 };
  if (validation && made > 0) standing = await standingOf(client, options, run);
  let hasEnded = made >= steps || endsEarly(standing, options);
  // What came after the run is none of it; the run may have been cut off between its last step and this.
  const isDue = validation && (!hasEnded || (await hasLatest(client, options, run)));
  if (isDue && !(made > 0 && (await isValidated(client, options)))) {
    const { report } = await validate(client, await pin(client, model, signal), options, seed);
    if (made === 0) baseline = report;
    standing = await standingOf(client, options, run);
    hasEnded ||= endsEarly(standing, options);
  }
  if (options.keepBest && made > 0 && hasEnded) await keepBest(client, options, run, standing);
  const publisher = new Publisher(client, options);
  if (made > 0) await publisher.catchUp(standing);
  const server = options.rollouts && (await openRolloutServer(client, options, options.rollouts));
  for (let index = made; index < steps && !endsEarly(standing, options); index++) {
    await waitForJobs(client, options);
    // The latest step, whoever made it.
    const policy = await pin(client, model, signal);
    const isNeeded = (step: number) => step === standing.best?.step || publisher.published.has(step);
    const sampler = server ? await server.at(policy, isNeeded) : policy;
    const first = (policy.step ?? 0) * perStep;
    const chosen = Array.from({ length: perStep }, (_, i) => scenarios[chosenAt(first + i)]!);
    const onProgress = progressOf(options, "rollout", sampler);
    const [gathered, rolloutSeconds] = await timed(
      gatherPinned(server?.source ?? client, sampler, { ...options, seed, scenarios: chosen, onProgress }, "train"),
    );
    const config = withSamplerBound(configAt(options, index), options.rollouts);
    const [job, trainingSeconds] = await timed(runJob(client, { ...options, config }, run, policy, gathered));
    const after = validation ? await validate(client, pinnedAt(model, job.step), options, seed) : null;
    const entropy = job.metrics["loss/entropy"];
    if (entropy !== undefined) entropies.push(entropy);
    if (after) standing = standingAfter(standing, job.step, after.report.reward, options.earlyStopping?.threshold);
    const endedEarly = index + 1 < steps && endsEarly(standing, options);
    const isLast = endedEarly || index + 1 === steps;
    const keptAs = options.keepBest && isLast ? await keepBest(client, options, run, standing) : null;
    const published = await publisher.after(job.step, standing.best?.step === job.step, keptAs);
    yield reportStep({
      gathered,
      job,
      staleness: server ? (policy.step ?? 0) - (sampler.step ?? 0) : null,
      published,
      baseline,
      validation: after,
      entropies,
      standing: { bestStep: standing.best?.step ?? null, endedEarly, keptAs },
      seconds: { rollout: rolloutSeconds, training: trainingSeconds, validation: after?.seconds ?? 0 },
    });
    baseline = null;
  }
}

/** Of the steps that the run made before it was cut off, those that are still there. */
async function earlierEntropies<S>(
  client: AnnealClient,
  { model, signal }: TrainOptions<S>,
  run: TrainingRun,
): Promise<number[]> {
  const found: number[] = [];
  for await (const { step, metrics } of client.checkpoints.list(model.id, { limit: 100 }, { signal })) {
    const entropy = metrics["loss/entropy"];
    if (step > run.first_step && entropy !== undefined) found.push(entropy);
  }
  return found;
}

/** The settings of one of the run's jobs: a learning rate's schedule spans the run, so that each job has a rate of its own. */
function configAt<S>({ config, steps }: TrainOptions<S>, index: number): ExperimentalConfig | undefined {
  if (config?.learning_rate_schedule == null && config?.warmup_ratio == null) return config;
  const { learningRate: peak, schedule } = resolvePolicy(config, 0);
  const { learning_rate_schedule: _, warmup_ratio: __, ...own } = config;
  return { ...own, learning_rate: learningRates({ peak, ...schedule }, steps)[index]! };
}

/** Attempts the validation scenarios once each and attaches the result to the step's checkpoint. */
async function validate<S>(client: AnnealClient, policy: PinnedModel, options: TrainOptions<S>, seed: bigint) {
  const onProgress = progressOf(options, "validation", policy);
  const scenarios = options.validation!;
  const work = gatherPinned(client, policy, { ...options, seed, scenarios, groupSize: 1, onProgress }, "validation");
  const [gathered, seconds] = await timed(work);
  const groups = gathered.groups;
  const log = { split: "val", trajectory_groups: groups, step: policy.step };
  await client.models.log(options.model.id, log, { signal: options.signal });
  return { report: rewardReport(groups), tokens: gathered.completionTokens, seconds };
}

/** One training job from its request to its end. */
async function runJob<S>(
  client: AnnealClient,
  { model, config, signal, onProgress }: TrainOptions<S>,
  run: TrainingRun,
  policy: PinnedModel,
  gathered: Gathered,
): Promise<JobAccount> {
  const request = { model_id: model.id, trajectory_groups: gathered.groups, experimental_config: config ?? null, run };
  const { id } = await client.trainingJobs.create(request, { signal });
  const account: JobAccount = { id, step: 0, started: null, first: {}, metrics: {}, trainedTokens: 0 };
  const payloads: Record<string, number>[] = [];
  let total = 0;
  const progress = (phase: TrainProgress["phase"], holder?: TrainProgress["holder"]) =>
    onProgress?.({
      phase,
      step: policy.step ?? 0,
      done: payloads.length,
      total,
      exceptions: 0,
      completionTokens: 0,
      meanReward: null,
      ...(holder ? { holder } : {}),
    });
  let hasBegun = () => {};
  const beginning = new Promise<void>((resolve) => {
    hasBegun = resolve;
  });
  const follow = async () => {
    try {
      for await (const event of client.trainingJobs.events(id, {}, { signal })) {
        total = read(event, account, payloads) ?? total;
        hasBegun();
        await progress("training");
      }
    } finally {
      hasBegun();
    }
  };
  try {
    const tell = (session: TrainProgress["holder"] | null) => (session ? progress("waiting", session) : undefined);
    await Promise.all([follow(), tellingOfSessions(client, model, beginning, onProgress && tell, signal)]);
    account.step = (await client.trainingJobs.wait(id, { signal })).step!;
  } catch (error) {
    if (signal?.aborted) await client.trainingJobs.cancel(id);
    throw error;
  }
  account.first = payloads[0] ?? {};
  account.metrics = Object.fromEntries(means(payloads));
  account.trainedTokens = payloads.reduce((sum, data) => sum + (data.num_trainable_tokens ?? 0), 0);
  return account;
}

function read(event: TrainingEvent, account: JobAccount, payloads: Record<string, number>[]): number | undefined {
  if (event.type === "gradient_step") payloads.push(event.data);
  if (event.type !== "training_started") return undefined;
  account.started = event.data;
  return event.data.num_sequences;
}

function progressOf<S>(
  { onProgress }: TrainOptions<S>,
  phase: TrainProgress["phase"],
  policy: PinnedModel,
): GatherOptions<S>["onProgress"] {
  return onProgress && ((progress) => onProgress({ ...progress, phase, step: policy.step ?? 0 }));
}

async function timed<T>(work: Promise<T>): Promise<[T, number]> {
  const begin = performance.now();
  const result = await work;
  return [result, (performance.now() - begin) / 1000];
}
