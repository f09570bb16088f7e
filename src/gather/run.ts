// A run of training: what it began with, and how far it has come, told by the jobs that it made.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { BadRequestError, TrainingFailedError, UnavailableError } from "../errors.js";
import type { AnnealClient } from "../types/client.js";
import type { TrainOptions, TrainProgress } from "../types/gather.js";
import type { Model } from "../types/models.js";
import type { TrainingJob, TrainingRun } from "../types/training.js";
import { pin } from "./gather.js";

export interface OpenRun {
  run: TrainingRun;
  /** Jobs that it has made already. */
  made: number;
}

/** What a run begins with; a run that is taken up again must have begun so too. */
type Beginning = Pick<TrainingRun, "scenarios" | "groups_per_step"> & { seed: string | null };

const DEFAULT_SEED = "0";

/**
 * The run to go on with: the latest of that name (or without one) if there is one and it is to be resumed, else a new one.
 * @throws BadRequestError when that run began with other scenarios, or with another seed.
 */
export async function openRun<S>(
  client: AnnealClient,
  options: TrainOptions<S>,
  groupsPerStep: number,
): Promise<OpenRun> {
  const { model, scenarios, steps, seed, signal, name = null } = options;
  const begins: Beginning = {
    seed: seed === undefined ? null : String(seed),
    scenarios: scenarios.length,
    groups_per_step: groupsPerStep,
  };
  const found = (options.resume ?? name !== null) ? await findRun(client, model, name, signal) : null;
  if (found) {
    checkBeginning(found.run, begins);
    return { run: { ...found.run, steps }, made: found.made };
  }
  const first_step = (await pin(client, model, signal)).step ?? 0;
  return { run: { ...begins, id: randomUUID(), name, first_step, steps, seed: begins.seed ?? DEFAULT_SEED }, made: 0 };
}

async function findRun(
  client: AnnealClient,
  model: Model,
  name: string | null,
  signal?: AbortSignal,
): Promise<OpenRun | null> {
  let run: TrainingRun | null = null;
  let made = 0;
  const query = { model_id: model.id, order: "desc", limit: 100 } as const;
  for await (const job of client.trainingJobs.list(query, { signal })) {
    if (run === null && job.run?.name === name) run = job.run;
    if (run === null || job.status !== "succeeded") continue;
    // What was made before the run began is none of it.
    if (job.step! <= run.first_step) break;
    if (job.run?.id === run.id) made += 1;
  }
  return run && { run, made };
}

function checkBeginning(run: TrainingRun, { seed, scenarios, groups_per_step }: Beginning): void {
  const differs = (param: string, began: string | number, is: string | number) => {
    const which = run.name === null ? "the run" : `the run "${run.name}"`;
    throw new BadRequestError(`${which} began with ${param} ${began}, not ${is}: it cannot go on so`, {
      param,
      hint: "name another run, or begin this one anew with resume: false",
    });
  };
  if (seed !== null && seed !== run.seed) differs("seed", run.seed, seed);
  if (scenarios !== run.scenarios) differs("scenarios.length", run.scenarios, scenarios);
  if (groups_per_step !== run.groups_per_step) differs("groupsPerStep", run.groups_per_step, groups_per_step);
}

/**
 * Waits for the jobs of a model that are queued or running, such as one that an earlier process left: a step that is pinned
 * before they end is not the one that the next job trains from. However they end, the model's latest step is then known.
 */
export async function waitForJobs<S>(
  client: AnnealClient,
  { model, signal, onProgress }: Pick<TrainOptions<S>, "model" | "signal" | "onProgress">,
): Promise<void> {
  const jobs: TrainingJob[] = [];
  for (const status of ["running", "queued"] as const) {
    const query = { model_id: model.id, status, limit: 100 };
    for await (const job of client.trainingJobs.list(query, { signal })) jobs.push(job);
  }
  if (jobs.length === 0) return;
  const { data } = await client.models.list({ signal });
  if (!data.some((entry) => entry.model_id === model.id)) {
    const message = `a training job of ${model.name} waits for its base model "${model.base_model}", which is not served now`;
    throw new UnavailableError(message, { code: "base_model_missing", param: "model" });
  }
  for (const [done, { id, created_at }] of jobs.entries()) {
    const counts = { done, total: jobs.length, exceptions: 0, completionTokens: 0, meanReward: null };
    const job = { kind: "job", id, since: created_at } as const;
    await onProgress?.({ phase: "waiting", step: 0, ...counts, holder: job });
    const tell = (session: TrainProgress["holder"] | null) =>
      onProgress?.({ phase: "waiting", step: 0, ...counts, holder: session ?? job });
    const waited = client.trainingJobs.wait(id, { signal }).catch((error: unknown) => {
      if (!(error instanceof TrainingFailedError)) throw error;
    });
    await tellingOfSessions(client, model, waited, onProgress && tell, signal);
  }
}

/** Between two looks at what holds the model, in milliseconds. */
const LOOK_EVERY = 1000;

/**
 * Waits for `work`, and tells now and whenever that changes which session the work waits for; null: for none, or none any more.
 */
export async function tellingOfSessions<T>(
  client: AnnealClient,
  model: Model,
  work: Promise<T>,
  tell: ((session: TrainProgress["holder"] | null) => void | Promise<void>) | undefined,
  signal?: AbortSignal,
): Promise<T> {
  if (!tell) return work;
  let ended = false;
  const end = () => {
    ended = true;
  };
  work.then(end, end);
  const look = async () => {
    let told: string | null = null;
    while (!ended) {
      const sessions = await client.trainingSessions.list({ signal });
      const found = sessions.find(({ model_id }) => model_id === model.id);
      if (!ended && told !== (found?.id ?? null)) {
        await tell(found ? { kind: "session", id: found.id, since: found.opened_at } : null);
      }
      told = found?.id ?? null;
      await Promise.race([sleep(LOOK_EVERY, undefined, { ref: false }), work.catch(() => undefined)]);
    }
  };
  const [result] = await Promise.all([work, look()]);
  return result;
}
