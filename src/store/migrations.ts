import type { Database } from "better-sqlite3";
import { ConflictError } from "../errors.js";
import { openDatabase } from "./sqlite.js";

/**
 * The database's history: entry i takes version i to version i + 1. Entries are never edited once released; a change of
 * the tables is a new entry. Times are Unix milliseconds; JSON columns say so.
 */
export const migrations: readonly string[] = [
  `
  CREATE TABLE models (
    id TEXT PRIMARY KEY,
    entity TEXT NOT NULL,
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    base_model TEXT NOT NULL,
    run_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (entity, project, name)
  ) STRICT;

  CREATE TABLE jobs (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL CHECK (kind IN ('rl', 'sft')),
    model_id TEXT NOT NULL,          -- outlives the model: its events can still be read
    entity TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    step INTEGER,
    error TEXT,
    state TEXT                       -- JSON: where the job goes on after a restart
  ) STRICT;
  CREATE INDEX jobs_of_model ON jobs (model_id, position);

  CREATE TABLE checkpoints (
    id TEXT PRIMARY KEY,
    model_id TEXT NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    step INTEGER NOT NULL CHECK (step >= 0),
    job_id TEXT UNIQUE,              -- a job makes one checkpoint at most
    metrics TEXT NOT NULL,           -- JSON: name to number
    created_at INTEGER NOT NULL,
    UNIQUE (model_id, step)
  ) STRICT;

  CREATE TABLE events (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    job_id TEXT NOT NULL REFERENCES jobs (id),
    type TEXT NOT NULL CHECK (type IN ('training_started', 'gradient_step', 'training_ended', 'training_failed')),
    data TEXT NOT NULL,              -- JSON
    created_at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX events_of_job ON events (job_id, position);
  CREATE UNIQUE INDEX one_start ON events (job_id) WHERE type = 'training_started';
  CREATE UNIQUE INDEX one_end ON events (job_id) WHERE type IN ('training_ended', 'training_failed');

  CREATE TABLE trajectories (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    model_id TEXT NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    step INTEGER NOT NULL,
    split TEXT NOT NULL,
    trajectory_group TEXT NOT NULL,  -- JSON
    recorded_at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX trajectories_of_model ON trajectories (model_id, step, split, position);

  CREATE TABLE metrics (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    model_id TEXT NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    step INTEGER NOT NULL,
    row TEXT NOT NULL,               -- JSON: name to number
    recorded_at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX metrics_of_model ON metrics (model_id, position);

  CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,       -- SHA-256 of the key, hexadecimal
    prefix TEXT NOT NULL,
    entity TEXT NOT NULL,
    name TEXT,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
  ) STRICT;

  CREATE TABLE artifacts (
    id TEXT PRIMARY KEY,             -- also its folder's name
    entity TEXT NOT NULL,
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL CHECK (version >= 0),
    created_at INTEGER NOT NULL,
    UNIQUE (entity, project, name, version)
  ) STRICT;
  `,
  `
  CREATE TABLE totals (
    model_id TEXT NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (model_id, name)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE scenarios (           -- those that logged groups were about
    model_id TEXT NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    scenario_id TEXT NOT NULL,
    PRIMARY KEY (model_id, scenario_id)
  ) STRICT, WITHOUT ROWID;
  `,
  `
  ALTER TABLE jobs ADD COLUMN run TEXT; -- JSON: what the job is a part of
  `,
  `
  CREATE TABLE base_weights (
    base_model TEXT PRIMARY KEY,
    hash TEXT NOT NULL,              -- SHA-256 of configuration and tensors, hexadecimal
    recorded_at INTEGER NOT NULL
  ) STRICT;
  `,
  `
  ALTER TABLE models ADD COLUMN optimizer TEXT; -- JSON: its own settings by objective
  `,
  `
  CREATE TABLE unfinished_batches (  -- what is still being written: the rows of these are not there yet
    id INTEGER PRIMARY KEY AUTOINCREMENT -- never used again: rows keep it
  ) STRICT;
  ALTER TABLE trajectories ADD COLUMN batch INTEGER;
  `,
  `
  CREATE TABLE saved_models (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,         -- also its folder's name
    name TEXT NOT NULL,              -- the base model that it is served as
    model_id TEXT REFERENCES models (id) ON DELETE SET NULL,
    is_kept INTEGER NOT NULL,        -- 0: still being written, or replaced
    created_at INTEGER NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX one_of_a_name ON saved_models (name) WHERE is_kept;
  `,
  `
  -- Of a row that holds further trajectories of a group, a JSON list: the position of the group's own row.
  ALTER TABLE trajectories ADD COLUMN continues INTEGER;
  CREATE INDEX trajectories_continued ON trajectories (continues) WHERE continues IS NOT NULL;
  `,
  `
  CREATE TABLE responses (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    entity TEXT NOT NULL,
    previous_id TEXT,                -- may be gone
    is_finished INTEGER NOT NULL,
    input TEXT NOT NULL,             -- JSON: the items it was asked with
    response TEXT NOT NULL,          -- JSON
    created_at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX responses_of_entity ON responses (entity, position);
  CREATE INDEX responses_by_time ON responses (created_at);
  CREATE INDEX responses_unfinished ON responses (id) WHERE NOT is_finished;

  CREATE TABLE response_items (      -- of outputs
    id TEXT NOT NULL,
    response_id TEXT NOT NULL REFERENCES responses (id) ON DELETE CASCADE,
    PRIMARY KEY (id, response_id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX items_of_response ON response_items (response_id);
  `,
  `
  CREATE TABLE removed_folders (     -- of deleted rows: their files go next
    path TEXT PRIMARY KEY            -- relative to the home
  ) STRICT, WITHOUT ROWID;
  `,
  `
  CREATE TABLE read_weights (        -- of base models, when they were last read from end to end
    base_model TEXT PRIMARY KEY,
    stamp TEXT NOT NULL,             -- of their files
    hash TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  `,
];

/**
 * Brings a database to the newest version, all steps in one transaction: after a crash it is at the old version or at the new.
 * @throws ConflictError when the database was written by a newer version of this library.
 */
export function migrate(database: Database, file: string, steps: readonly string[] = migrations): void {
  const version = database.pragma("user_version", { simple: true }) as number;
  if (version > steps.length) {
    throw new ConflictError(`${file} has version ${version}, this library knows versions up to ${steps.length}`, {
      code: "home_too_new",
      param: "home",
      hint: "update anneal, or name another home",
    });
  }
  if (version === steps.length) return;
  database.transaction(() => {
    for (const step of steps.slice(version)) database.exec(step);
    database.pragma(`user_version = ${steps.length}`);
  })();
}

/** The version of SQLite's file format that has a write-ahead log, and the bytes that say who may write and read the file. */
const WITH_LOG = 2;
const FORMAT_VERSIONS = [18, 20] as const;

/** The file of a database of the newest version in which nothing is yet. */
export function newDatabase(file: string): Uint8Array {
  const database = openDatabase(":memory:");
  try {
    // Without it a file never becomes smaller, whatever is deleted.
    database.pragma("auto_vacuum = INCREMENTAL");
    migrate(database, file);
    return database.serialize().fill(WITH_LOG, ...FORMAT_VERSIONS);
  } finally {
    database.close();
  }
}
