import { existsSync, readFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { clearInterval, setInterval } from "node:timers";
import type { Database } from "better-sqlite3";
import { ClosedError, ConflictError, NotFoundError } from "../errors.js";
import { allThrowingFileErrors, refusalOf } from "../fileErrors.js";
import { type ArtifactTable, artifactTable } from "./artifacts.js";
import { type CheckpointTable, checkpointTable } from "./checkpoints.js";
import { writeFileDurably } from "./durableFiles.js";
import { type EventTable, eventTable } from "./events.js";
import { type HomeFiles, homeFiles } from "./homeFiles.js";
import { databaseFile, homeError, makeDatabaseFile, makeHome, makePrivate, makeTemporaryHome } from "./homeFolder.js";
import { lockHome } from "./homeLock.js";
import { type JobTable, jobTable } from "./jobs.js";
import { type KeyTable, keyTable, makeKey } from "./keys.js";
import { type MetricTable, metricTable } from "./metrics.js";
import { migrate, newDatabase } from "./migrations.js";
import { type BaseWeightsTable, baseWeightsTable, type ModelTable, modelTable } from "./models.js";
import { knownContent } from "./openedHome.js";
import type { CheckpointRecord, JobRecord, NewEvent } from "./records.js";
import { type RemovedFolders, removedFolders } from "./removedFolders.js";
import { reserveOf } from "./reserve.js";
import { type ResponseTable, responseTable } from "./responses.js";
import { type SavedModelTable, savedModelTable } from "./savedModels.js";
import { openDatabase } from "./sqlite.js";
import { type Swept, sweepHome } from "./sweep.js";
import { type TrajectoryTable, trajectoryTable } from "./trajectories.js";

/**
 * What an engine keeps. Every method is synchronous and durable on return: what it wrote is there after a crash of the
 * process or of the machine. What the disk has no room for is a DiskFullError, and has not been written.
 */
export interface Store {
  /** Absolute. */
  readonly home: string;
  /** What was found in the home when it was opened that did not fit its database. */
  readonly swept: Swept;
  /** True: the home is removed by `close`. */
  readonly isTemporary: boolean;
  readonly models: ModelTable;
  readonly checkpoints: CheckpointTable;
  readonly jobs: JobTable;
  readonly events: EventTable;
  readonly trajectories: TrajectoryTable;
  readonly metrics: MetricTable;
  readonly keys: KeyTable;
  readonly artifacts: ArtifactTable;
  readonly baseWeights: BaseWeightsTable;
  readonly savedModels: SavedModelTable;
  readonly responses: ResponseTable;
  readonly removedFolders: RemovedFolders;
  readonly files: HomeFiles;
  /** All writes of `action` together, or none of them. May be nested. */
  transaction<T>(action: () => T): T;
  /** The same of what frees the disk, with the room that the home has kept back for it where the disk is full. */
  deletion<T>(action: () => T): T;
  /** The job runs: from now on, or again after a restart. `event` is written the first time only. */
  startJob(jobId: string, event: NewEvent): void;
  /** A step's event and the job's state after it, together. */
  commitStep(jobId: string, step: { event: NewEvent; state: unknown }): void;
  /**
   * The job's last event, its status and its checkpoint, together: the folder of the checkpoint must have been committed
   * before. Does nothing when the job has ended already.
   * @returns the new checkpoint.
   */
  finishJob(jobId: string, end: JobEnd): CheckpointRecord | null;
  /** The owner's key: made when first asked for, kept in a file that only the owner can read. */
  ownerKey(): string;
  /** Reads from the database. @throws when it cannot be read. */
  check(): void;
  /** What other processes are told that find the home in use. */
  setAddress(address: string | null): void;
  close(): void;
}

export interface JobEnd {
  status: "succeeded" | "failed" | "cancelled";
  event: NewEvent;
  error?: string | null;
  checkpoint?: { step: number; metrics?: Record<string, number> } | null;
}

/**
 * Opens a home, or a temporary one when none is named.
 * @throws HomeLockedError when another process (or thread) has it open; UnavailableError with code "home_unusable" when its
 * files cannot be made, read or written.
 */
export function openStore(home: string | null): Store {
  const isTemporary = home === null;
  const folder = home === null ? makeTemporaryHome() : resolve(home);
  makeHome(folder);
  try {
    return openFolder(folder, isTemporary);
  } catch (error) {
    throw homeError(folder, error);
  }
}

function openFolder(folder: string, isTemporary: boolean): Store {
  makePrivate(folder);
  const lock = lockHome(folder);
  const file = databaseFile(folder);
  let database: Database | undefined;
  try {
    if (isTemporary) makeDatabaseFile(file);
    // Whole or not at all, in one write: SQLite would wait for the disk at every step of the making.
    else if (!existsSync(file)) writeFileDurably(file, newDatabase(file));
    database = openDatabase(file);
    // First, so that a temporary home waits for no disk.
    database.pragma(`synchronous = ${isTemporary ? "OFF" : "FULL"}`);
    database.pragma("journal_mode = WAL");
    database.pragma("foreign_keys = ON");
    migrate(database, file);
    moveLogIntoDatabase(database);
    return buildStore(database, folder, isTemporary, lock);
  } catch (error) {
    database?.close();
    lock.release();
    if (isTemporary) rmSync(folder, { recursive: true, force: true });
    throw error;
  }
}

/** Between two times that the write-ahead log goes into the database, and what else a home needs is done, in milliseconds. */
const UPKEEP_EVERY = 2000;

/** Afterwards `anneal.db` alone holds everything, unless another process is reading it. */
function moveLogIntoDatabase(database: Database): void {
  database.pragma("wal_checkpoint(TRUNCATE)");
}

/** Share of the database's pages, and pages, that may be free: what is written next finds them. */
const MAX_FREE_SHARE = 0.25;
const MAX_FREE_PAGES = 2048;
/** Given back at once: 2 MiB, a matter of milliseconds. */
const PAGES_GIVEN_BACK = 512;

/** Gives the disk some of what deleted rows have left. False: little is left. */
function giveBackPages(database: Database): boolean {
  const free = database.pragma("freelist_count", { simple: true }) as number;
  if (free <= MAX_FREE_PAGES) return false;
  if (free <= MAX_FREE_SHARE * (database.pragma("page_count", { simple: true }) as number)) return false;
  database.pragma(`incremental_vacuum(${PAGES_GIVEN_BACK})`);
  return true;
}

/**
 * What keeps `anneal.db`, as often as it is called, no older than the latest call, so that a copy of that file alone is a recent
 * one, and not much larger than what it holds.
 */
function logMover(database: Database): () => void {
  const changes = database.prepare<[], number>("SELECT total_changes()").pluck();
  let moved = changes.get();
  return () => {
    if (!giveBackPages(database) && changes.get() === moved) return;
    // What a full disk keeps from being moved stays in the log, where it is as safe.
    database.pragma("wal_checkpoint(PASSIVE)");
    moved = changes.get();
  };
}

/** @returns what ends it. */
function regularly(...actions: (() => void)[]): () => void {
  const timer = setInterval(() => {
    for (const action of actions) tryTo(action);
  }, UPKEEP_EVERY);
  timer.unref();
  return () => clearInterval(timer);
}

function tryTo(action: () => void): void {
  try {
    action();
  } catch {
    // It is tried again.
  }
}

function checkOpen(database: Database): void {
  if (!database.open) throw new ClosedError("the engine has been closed");
}

/** The same functions, which throw (reject with) ClosedError once the database is closed: whoever is on the way then says why. */
function whileOpen<T extends object>(database: Database, functions: T): T {
  const fail = (error: unknown): never => {
    checkOpen(database);
    throw error;
  };
  const checked = Object.entries(functions).map(([name, value]) => {
    if (typeof value !== "function") return [name, value];
    const call = (...given: unknown[]) => {
      checkOpen(database);
      const result: unknown = value(...given);
      return result instanceof Promise ? result.catch(fail) : result;
    };
    return [name, call];
  });
  return Object.fromEntries(checked) as T;
}

/** The same functions, which throw NotFoundError where what they write is of a model that has been deleted meanwhile. */
function ofModels<T extends object>(functions: T): T {
  const checked = Object.entries(functions).map(([name, value]) => {
    if (typeof value !== "function") return [name, value];
    const call = (...given: unknown[]) => {
      try {
        return value(...given) as unknown;
      } catch (error) {
        if ((error as { code?: string }).code !== "SQLITE_CONSTRAINT_FOREIGNKEY") throw error;
        throw new NotFoundError("the model has been deleted", { code: "model_not_found", cause: error });
      }
    };
    return [name, call];
  });
  return Object.fromEntries(checked) as T;
}

function buildStore(database: Database, home: string, isTemporary: boolean, lock: ReturnType<typeof lockHome>): Store {
  let afterCommit: (() => void)[] | null = null;
  const runAfterCommit = (action: () => void) => {
    if (afterCommit) afterCommit.push(action);
    else action();
  };

  const models = modelTable(database);
  const countModels = database.prepare("SELECT COUNT(*) FROM models");
  const checkpoints = checkpointTable(database);
  const jobs = jobTable(database);
  const events = eventTable(database, runAfterCommit);
  const files = homeFiles(home);
  const artifacts = artifactTable(database, join(home, "artifacts"), files);
  const savedModels = savedModelTable(database, files);
  const responses = responseTable(database);
  const removed = removedFolders(database, home, files);
  const reserve = reserveOf(home);

  function transaction<T>(action: () => T): T {
    checkOpen(database);
    if (afterCommit) {
      const kept = afterCommit.length;
      try {
        return database.transaction(action)();
      } catch (error) {
        afterCommit.length = kept;
        throw error;
      }
    }
    const actions: (() => void)[] = [];
    afterCommit = actions;
    let result: T;
    try {
      result = database.transaction(action).immediate();
    } finally {
      afterCommit = null;
    }
    for (const later of actions) later();
    return result;
  }

  function unfinished(jobId: string): JobRecord {
    const job = jobs.get(jobId);
    if (job?.status !== "queued" && job?.status !== "running") {
      throw new ConflictError(`training job ${jobId} has ended`, { code: "job_ended" });
    }
    return job;
  }

  artifacts.recover();
  savedModels.recover();
  responses.recover();
  removed.recover();
  const swept = sweepHome(home, knownContent({ checkpoints, jobs, artifacts, savedModels, removed }));
  const endUpkeep = isTemporary ? () => undefined : regularly(reserve.take, logMover(database));

  const table = <T extends object>(functions: T): T =>
    allThrowingFileErrors(home, ofModels(whileOpen(database, functions)));
  const trajectories = trajectoryTable(database);
  return allThrowingFileErrors<Store>(home, {
    home,
    swept,
    isTemporary,
    models: table(models),
    checkpoints: table(checkpoints),
    jobs: table(jobs),
    events: table(events),
    trajectories: table({
      ...trajectories,
      batch(...of) {
        const { add, finish, discard } = trajectories.batch(...of);
        return { ...table({ add, finish }), ...allThrowingFileErrors(home, { discard }) };
      },
      *rows(position) {
        for (const rows = trajectories.rows(position); ; ) {
          checkOpen(database);
          const { done, value } = rows.next();
          if (done) return;
          yield value;
        }
      },
    }),
    metrics: table(metricTable(database)),
    keys: table(keyTable(database)),
    artifacts: table(artifacts),
    baseWeights: table(baseWeightsTable(database)),
    savedModels: table(savedModels),
    responses: table(responses),
    removedFolders: table(removed),
    files: allThrowingFileErrors(home, {
      ...files,
      ...table({ temporary: files.temporary, makeFolder: files.makeFolder }),
    }),
    transaction,
    deletion: (action) => reserve.lentTo(() => transaction(action)),
    startJob: (jobId, event) =>
      transaction(() => {
        const job = unfinished(jobId);
        jobs.update(jobId, { status: "running", startedAt: job.startedAt ?? Date.now() });
        if (events.count(jobId, "training_started") === 0) events.append(jobId, event);
      }),
    commitStep: (jobId, { event, state }) =>
      transaction(() => {
        unfinished(jobId);
        jobs.update(jobId, { state });
        events.append(jobId, event);
      }),
    finishJob: (jobId, end) =>
      transaction(() => {
        if (events.terminal(jobId)) return null;
        const job = unfinished(jobId);
        const checkpoint = end.checkpoint
          ? checkpoints.create({ modelId: job.modelId, jobId, ...end.checkpoint })
          : null;
        jobs.update(jobId, {
          status: end.status,
          endedAt: Date.now(),
          step: checkpoint?.step ?? null,
          error: end.error ?? null,
          state: null,
        });
        events.append(jobId, end.event);
        return checkpoint;
      }),
    ownerKey() {
      const file = join(home, "owner-key");
      try {
        if (!existsSync(file)) writeFileDurably(file, `${makeKey()}\n`);
        return readFileSync(file, "utf8").trim();
      } catch (error) {
        throw homeError(home, refusalOf(error as Error));
      }
    },
    check: () => void countModels.get(),
    setAddress: (address) => lock.setAddress(address),
    close() {
      if (!database.open) return;
      endUpkeep();
      if (!isTemporary) tryTo(() => moveLogIntoDatabase(database));
      database.close();
      lock.release();
      // Whoever is still writing there has nothing to write it to, and is told so by the database.
      if (isTemporary) files.whenUnused(() => rmSync(home, { recursive: true, force: true }));
    },
  });
}
