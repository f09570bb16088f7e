import { resolve } from "node:path";
import { untilAborted } from "../../abortListeners.js";
import { TrainingFailedError } from "../../errors.js";
import { makePage, PagePromise } from "../../pages.js";
import { validate, validateAsync } from "../../schemas/validate.js";
import { moveFile } from "../../store/durableFiles.js";
import type { JobRecord } from "../../store/records.js";
import { type GroupSource, groupsInFile, groupsInMemory } from "../../training/groupSource.js";
import { type GroupsToWrite, writeJobRequest } from "../../training/jobRequest.js";
import type { PageRequest, RequestOptions, TrainingJobsResource } from "../../types/client.js";
import type { Page } from "../../types/page.js";
import type { JobQuery, PageQuery } from "../../types/queries.js";
import type {
  JobEstimate,
  TrainingEvent,
  TrainingJob,
  TrainingJobCreated,
  TrainingJobCreateParams,
} from "../../types/training.js";
import { accessJob, accessModel, readerOf, type View } from "../core/access.js";
import type { EngineCore } from "../core/core.js";
import { withGroups, withGroupsBody } from "./groupsBody.js";
import { eventPage, followEvents } from "./jobEvents.js";
import { queueJob } from "./queueJob.js";

const time = (milliseconds: number | null) => (milliseconds === null ? null : new Date(milliseconds).toISOString());

function toJob(job: JobRecord, { runner }: EngineCore): TrainingJob {
  return {
    id: job.id,
    status: job.status,
    model_id: job.modelId,
    created_at: time(job.createdAt)!,
    started_at: time(job.startedAt),
    ended_at: time(job.endedAt),
    step: job.step,
    error: job.error,
    waits_for: runner.isOutOfRoom(job.id) ? "disk_space" : null,
    ...(job.run === null ? {} : { run: job.run }),
  };
}

type RequestWithoutGroups = Omit<TrainingJobCreateParams, "trajectory_groups">;

/** Reinforcement learning jobs, and the life of jobs of either kind. */
export class TrainingJobs implements TrainingJobsResource {
  readonly #core: EngineCore;
  readonly #view: View;

  /** @internal */
  constructor(core: EngineCore, view: View) {
    this.#core = core;
    this.#view = view;
  }

  async create(params: TrainingJobCreateParams, options?: RequestOptions): Promise<TrainingJobCreated> {
    return this.#withGroups(params, (request, source, groups) => this.#queue(request, source, groups, options));
  }

  /** @internal As `create`, for a JSON body of any size. */
  async createFromBody(body: AsyncIterable<Uint8Array>, options?: RequestOptions): Promise<TrainingJobCreated> {
    return this.#withBody(body, options, (request, file) =>
      this.#queue(request, groupsInFile(file), (target) => moveFile(file, target), options),
    );
  }

  async estimate(params: TrainingJobCreateParams, options?: RequestOptions): Promise<JobEstimate> {
    return this.#withGroups(params, (request, source) => this.#estimate(request, source, options));
  }

  /** @internal As `estimate`, for a JSON body of any size. */
  async estimateFromBody(body: AsyncIterable<Uint8Array>, options?: RequestOptions): Promise<JobEstimate> {
    return this.#withBody(body, options, (request, file) => this.#estimate(request, groupsInFile(file), options));
  }

  async #withGroups<T>(
    params: TrainingJobCreateParams,
    use: (request: RequestWithoutGroups, source: GroupSource, groups: GroupsToWrite) => Promise<T>,
  ): Promise<T> {
    const { trainingJobCreate } = await import("../../schemas/jobs.js");
    const request = await validateAsync(trainingJobCreate, params, { strict: this.#view.strict });
    const { trajectory_groups: groups } = request;
    return withGroups(this.#core.store.files, groups, (file) =>
      file === null
        ? use(request, groupsInMemory(groups), groups)
        : use(request, groupsInFile(file), (target) => moveFile(file, target)),
    );
  }

  async #withBody<T>(
    body: AsyncIterable<Uint8Array>,
    options: RequestOptions | undefined,
    use: (request: RequestWithoutGroups, file: string) => Promise<T>,
  ): Promise<T> {
    const { trainingJobCreate } = await import("../../schemas/jobs.js");
    return withGroupsBody(this.#core.store.files, body, trainingJobCreate, options?.signal, use);
  }

  async #estimate(
    asked: RequestWithoutGroups,
    source: GroupSource,
    options: RequestOptions | undefined,
  ): Promise<JobEstimate> {
    const { model, config, reader } = await this.#check(asked, source);
    const core = this.#core;
    const signal = AbortSignal.any([core.closing, ...(options?.signal ? [options.signal] : [])]);
    const { estimateRequest } = await import("../../training/estimateRequest.js");
    return estimateRequest(core.trainingHost, model.id, { kind: "rl", config, groups: source, reader }, "", signal);
  }

  async #queue(
    asked: RequestWithoutGroups,
    source: GroupSource,
    groups: GroupsToWrite,
    options?: RequestOptions,
  ): Promise<TrainingJobCreated> {
    const { model, config, reader } = await this.#check(asked, source);
    options?.signal?.throwIfAborted();
    const core = this.#core;
    const write = async (id: string) => {
      // A lag has no step yet that could be kept.
      if (config.kl_penalty_reference_step != null) {
        const { keepReference } = await import("../../training/referenceCheckpoint.js");
        await keepReference(core.store, { id, modelId: model.id }, config, 0);
      }
      writeJobRequest(core.store.files, id, { kind: "rl", config, groups, reader });
    };
    return queueJob(core, model, "rl", write, asked.run ?? null);
  }

  /** What can be told now is told now; the job resolves its settings again from the step it starts at. */
  async #check(asked: RequestWithoutGroups, source: GroupSource) {
    const core = this.#core;
    const model = accessModel(core.store, this.#view.caller, asked.model_id);
    const { checkRlRequest } = await import("../../training/rlRecipe.js");
    const adapterFolder = (field: string, path: string) => core.adapterFolder(this.#view, field, path);
    await checkRlRequest({ store: core.store, base: core.baseOf(model), adapterFolder }, asked, source);
    const reader = readerOf(this.#view);
    let config = asked.experimental_config ?? {};
    // Relative to where the application is now, which another process that goes on with the job may not be.
    if (reader === "application" && config.kl_ref_adapter_path != null) {
      config = { ...config, kl_ref_adapter_path: resolve(config.kl_ref_adapter_path) };
    }
    return { model, config, reader };
  }

  list(query: JobQuery = {}, options?: RequestOptions): PageRequest<TrainingJob> {
    const page = async (after: string | null | undefined): Promise<Page<TrainingJob>> => {
      options?.signal?.throwIfAborted();
      const { store } = this.#core;
      const { caller, strict } = this.#view;
      const { jobQuery } = await import("../../schemas/jobs.js");
      const asked = validate(jobQuery, { ...query, after }, { from: "query", strict });
      if (asked.after) accessJob(store, caller, asked.after);
      const modelId = asked.model_id == null ? null : accessModel(store, caller, asked.model_id).id;
      const entity = caller.owner ? null : caller.entity;
      const { items, hasMore } = store.jobs.list({ ...asked, modelId, entity });
      return makePage(
        items.map((job) => toJob(job, this.#core)),
        hasMore,
        page,
      );
    };
    return new PagePromise(() => page(query.after));
  }

  async retrieve(jobId: string, options?: RequestOptions): Promise<TrainingJob> {
    options?.signal?.throwIfAborted();
    return toJob(accessJob(this.#core.store, this.#view.caller, jobId), this.#core);
  }

  events(jobId: string, query: PageQuery = {}, options?: RequestOptions): PageRequest<TrainingEvent> {
    const core = this.#core;
    const view = this.#view;
    const checked = async () => {
      options?.signal?.throwIfAborted();
      const { pageQuery } = await import("../../schemas/pages.js");
      const { after, limit } = validate(pageQuery, query, { from: "query", strict: view.strict });
      return { job: accessJob(core.store, view.caller, jobId), after: after ?? null, limit };
    };
    const page = new PagePromise(async () => {
      const { job, after, limit } = await checked();
      return eventPage(core.store, job.id, { after, limit });
    });
    return {
      // biome-ignore lint/suspicious/noThenProperty: awaited, this is its first page.
      then: page.then.bind(page),
      [Symbol.asyncIterator]: async function* () {
        const { job, after } = await checked();
        const signals = [core.closing, options?.signal].filter((signal) => signal !== undefined);
        yield* followEvents(core.store, job.id, after, AbortSignal.any(signals));
      },
    };
  }

  async wait(jobId: string, options?: RequestOptions): Promise<TrainingJob> {
    for await (const event of this.events(jobId, {}, options)) void event;
    const job = await this.retrieve(jobId, options);
    if (job.status === "succeeded") return job;
    throw new TrainingFailedError(job.id, job.error ?? job.status, job.status === "cancelled");
  }

  async cancel(jobId: string, options?: RequestOptions): Promise<TrainingJob> {
    options?.signal?.throwIfAborted();
    const job = accessJob(this.#core.store, this.#view.caller, jobId);
    await untilAborted(this.#core.runner.cancel(job.id), options?.signal);
    return toJob(this.#core.store.jobs.get(job.id) ?? job, this.#core);
  }
}
