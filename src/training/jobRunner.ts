// The queue of training jobs: durable, in order per model, models beside each other.

import { channel } from "node:diagnostics_channel";
import { basename } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ClosedError, DiskFullError, ModelFileError, systemReason, UnavailableError } from "../errors.js";
import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import { asDiskFullError, isOutOfFiles, refusalOf } from "../fileErrors.js";
import { type Release, Semaphore } from "../semaphore.js";
import type { JobEnd } from "../store/store.js";
import type { TrainingHost } from "./host.js";
import { ModelQueue } from "./modelQueue.js";

interface Running {
  modelId: string;
  /** Neither its model nor a place is waited for. */
  isAtWork: boolean;
  abort: AbortController;
  ended: Promise<void>;
}

/** A training session that holds its model. */
export interface OpenSession {
  id: string;
  modelId: string;
  openedAt: number;
  /** Its calls under way reject, saying why. */
  end(why: string): Promise<void>;
}

/** `{ modelId, holder, since, job?, session? }`: a job or session waits for the session `holder`, open `since` then. */
const waits = channel("anneal:training:wait");

/** Why a job stops before its end. */
const CANCELLED = Symbol("cancelled");
const CLOSING = Symbol("closing");

/** Between attempts to write what a full disk did not take, in milliseconds. */
const WRITE_AGAIN_AFTER = 500;

/** Between attempts of a job that has to wait, as for room on a full disk, in milliseconds: a step is computed again in each. */
const MIN_WAIT = 500;
const MAX_WAIT = 30_000;

export class JobRunner {
  readonly #host: TrainingHost;
  readonly #queue = new ModelQueue();
  /** Bounds the memory that jobs of different models take together. */
  readonly #places: Semaphore;
  /** Queued and running jobs of this process. */
  readonly #jobs = new Map<string, Running>();
  readonly #sessions = new Set<OpenSession>();
  /** Jobs that wait for room on the disk. */
  readonly #outOfRoom = new Set<string>();
  readonly #ended = { succeeded: 0, failed: 0, cancelled: 0 };
  #closing = new AbortController();

  constructor(host: TrainingHost) {
    this.#host = host;
    this.#places = new Semaphore(host.options.maxTrainingJobs);
  }

  /** Takes up what an earlier process left, in the order in which it was asked for. */
  start(): void {
    for (const job of this.#host.store.jobs.unfinished()) this.enqueue(job.id);
  }

  /** Runs a stored job when the model's turn comes. */
  enqueue(jobId: string): void {
    const job = this.#host.store.jobs.get(jobId);
    if (job === null || this.#jobs.has(jobId) || this.#closing.signal.aborted) return;
    const abort = new AbortController();
    const ended = this.#run(jobId, job.modelId, abort.signal).finally(() => this.#jobs.delete(jobId));
    this.#jobs.set(jobId, { modelId: job.modelId, isAtWork: false, abort, ended });
  }

  /** Ends a job without a checkpoint; its terminal event exists when this resolves. A job that has ended stays as it is. */
  async cancel(jobId: string): Promise<void> {
    const running = this.#jobs.get(jobId);
    running?.abort.abort(CANCELLED);
    await running?.ended;
    while (shouldYield()) await yieldToEventLoop();
    this.#end(jobId, cancelled());
  }

  /** Cancels all jobs of a model that is about to be deleted. */
  async cancelModel(modelId: string): Promise<void> {
    await Promise.all(this.#host.store.jobs.unfinished(modelId).map((job) => this.cancel(job.id)));
    // One that rests may be this model's.
    void this.#host.trainers.drop();
  }

  /**
   * A place in the model's queue, like that of a job, but not one of the places for jobs at once: an application that holds
   * sessions while it waits for jobs must not stop them.
   * Rejects with the signal's reason, or when the runner closes.
   */
  async lease(modelId: string, signal?: AbortSignal, session: string | null = null): Promise<Release> {
    const closing = this.#closing.signal;
    const either = signal ? AbortSignal.any([signal, closing]) : closing;
    const waiting = session === null ? {} : { session };
    try {
      return await this.#queue.acquire(modelId, either, { session, onWait: this.#tellOfWait(modelId, waiting) });
    } catch (error) {
      if (error === CLOSING) throw engineClosing();
      throw error;
    }
  }

  /** The session is ended and waited for when the runner closes, unless it is taken back before. */
  register(session: OpenSession): Release {
    if (this.#closing.signal.aborted) throw engineClosing();
    this.#sessions.add(session);
    return () => this.#sessions.delete(session);
  }

  /** Those that are open, in the order in which they were opened. */
  sessions(): OpenSession[] {
    return [...this.#sessions];
  }

  /** A session that somebody forgot to close would be waited for in silence, and for ever. */
  #tellOfWait(modelId: string, waiting: { job?: string; session?: string }) {
    return (holder: string) => {
      const message =
        "waits for a training session, which holds the model until its program or trainingSessions.close(holder) closes it";
      const opened = [...this.#sessions].find(({ id }) => id === holder)?.openedAt ?? Date.now();
      const since = new Date(opened).toISOString();
      this.#host.logger.warn(message, { ...waiting, model: modelId, holder, since });
      waits.publish({ ...waiting, modelId, holder, since });
    };
  }

  /** How many jobs of this process there are, by what they do. */
  get unfinished(): { queued: number; running: number; out_of_room: number } {
    const counts = { queued: 0, running: 0, out_of_room: 0 };
    for (const [id, { isAtWork }] of this.#jobs) {
      if (this.#outOfRoom.has(id)) counts.out_of_room += 1;
      else if (isAtWork) counts.running += 1;
      else counts.queued += 1;
    }
    return counts;
  }

  /** How many jobs of this process have ended, by how. */
  get ended(): Readonly<Record<JobEnd["status"], number>> {
    return this.#ended;
  }

  /** How many jobs wait for room on the disk. */
  get outOfRoom(): number {
    return this.#outOfRoom.size;
  }

  isOutOfRoom(jobId: string): boolean {
    return this.#outOfRoom.has(jobId);
  }

  /** Told once, until the job has an event again: nothing of it can be written before. */
  #tellOfFullDisk(jobId: string, error: DiskFullError): void {
    if (this.#outOfRoom.has(jobId)) return;
    this.#outOfRoom.add(jobId);
    const { store, logger } = this.#host;
    logger.warn("training job waits for room on the disk", { job: jobId, error });
    const stop = store.events.subscribe(jobId, () => {
      stop();
      this.#outOfRoom.delete(jobId);
      logger.warn("training job no longer waits for room on the disk", { job: jobId });
    });
  }

  /** Ends the work in flight; jobs stay where they are, to be taken up by the next process. */
  async close(): Promise<void> {
    this.#closing.abort(CLOSING);
    const jobs = [...this.#jobs.values()];
    for (const job of jobs) job.abort.abort(CLOSING);
    await Promise.all([
      ...jobs.map((job) => job.ended),
      ...[...this.#sessions].map((session) => session.end("the engine is being closed")),
    ]);
  }

  async #run(jobId: string, modelId: string, signal: AbortSignal): Promise<void> {
    const { logger } = this.#host;
    const held: Release[] = [];
    try {
      const onWait = this.#tellOfWait(modelId, { job: jobId });
      held.push(await this.#queue.acquire(modelId, signal, { onWait }));
      held.push(await this.#places.acquire(signal));
      const running = this.#jobs.get(jobId);
      if (running) running.isAtWork = true;
      await this.#runWithRoom(jobId, signal);
      if (this.#host.store.jobs.get(jobId)?.status === "succeeded") this.#ended.succeeded += 1;
    } catch (error) {
      const reason = signal.aborted ? signal.reason : error;
      if (reason === CLOSING) return;
      if (error instanceof UnavailableError && error.code === "base_model_missing") {
        logger.warn("training job waits for an engine that serves its base model", { job: jobId, error });
        return;
      }
      if (reason !== CANCELLED) logger.error("training job failed", { job: jobId, error });
      await this.#discardStates(jobId);
      await this.#endOnceWritable(jobId, reason === CANCELLED ? cancelled() : failed(error));
    } finally {
      for (const release of held) release();
    }
  }

  async #discardStates(jobId: string): Promise<void> {
    const job = this.#host.store.jobs.get(jobId);
    if (job === null) return;
    const { discardStates } = await import("./runJob.js");
    // The job ends all the same.
    await discardStates(this.#host, job).catch(() => undefined);
  }

  /** Goes on from the last step that was written whenever the disk was full, or no file could be opened. */
  async #runWithRoom(jobId: string, signal: AbortSignal): Promise<void> {
    const { store, logger } = this.#host;
    const { runJob } = await import("./runJob.js");
    let isToldOfFiles = false;
    for (let wait = MIN_WAIT; ; wait = Math.min(2 * wait, MAX_WAIT)) {
      const job = store.jobs.get(jobId);
      if (job === null) return;
      try {
        return await runJob(this.#host, job, signal);
      } catch (error) {
        const named = asDiskFullError(error);
        if (signal.aborted || !(named instanceof DiskFullError || isOutOfFiles(error))) throw error;
        if (named instanceof DiskFullError) this.#tellOfFullDisk(jobId, named);
        else if (!isToldOfFiles) {
          isToldOfFiles = true;
          logger.warn("training job waits until this process may open files again", { job: jobId, error });
        }
        await sleep(wait, undefined, { signal });
      }
    }
  }

  /**
   * Whoever watches the job waits for its end: what keeps it from being written (a full disk) is waited out, or left to the
   * next process.
   */
  async #endOnceWritable(jobId: string, end: JobEnd): Promise<void> {
    const { signal } = this.#closing;
    while (shouldYield()) await yieldToEventLoop();
    for (let told = false; !signal.aborted; told = true) {
      try {
        return this.#end(jobId, end);
      } catch (error) {
        if (!told) this.#host.logger.error("the end of a training job cannot be written yet", { job: jobId, error });
        if (error instanceof DiskFullError) this.#tellOfFullDisk(jobId, error);
      }
      await sleep(WRITE_AGAIN_AFTER, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Writes a terminal event unless the job has one. */
  #end(jobId: string, end: JobEnd): void {
    const { store } = this.#host;
    const job = store.jobs.get(jobId);
    if (job === null || (job.status !== "queued" && job.status !== "running")) return;
    store.finishJob(jobId, end);
    this.#ended[end.status] += 1;
    store.files.remove(store.files.jobFolder(jobId));
  }
}

function engineClosing(): ClosedError {
  return new ClosedError("the engine is being closed");
}

function cancelled(): JobEnd {
  const error = "cancelled";
  return { status: "cancelled", error, event: { type: "training_failed", data: { error_message: error } } };
}

/** Everyone who sees the job sees this: of a file, its name. The log has its path. */
function jobError(cause: unknown): string {
  if (cause instanceof ModelFileError) return `${basename(cause.file)}: ${cause.reason}`;
  if (!(cause instanceof Error)) return String(cause);
  return systemReason(refusalOf(cause));
}

function failed(cause: unknown): JobEnd {
  const error = jobError(cause);
  return { status: "failed", error, event: { type: "training_failed", data: { error_message: error } } };
}
