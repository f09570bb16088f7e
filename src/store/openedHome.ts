// A home looked at from beside: its database opened for reading, also while an engine of this or another process has it open.

import { join, resolve } from "node:path";
import type { Database } from "better-sqlite3";
import { ConflictError, ModelFileError, NotFoundError, UnavailableError } from "../errors.js";
import type { HomeProblem } from "../types/home.js";
import { type ArtifactTable, artifactTable } from "./artifacts.js";
import { type CheckpointTable, checkpointTable } from "./checkpoints.js";
import { homeFiles } from "./homeFiles.js";
import { databaseFile, isHome } from "./homeFolder.js";
import { type JobTable, jobTable } from "./jobs.js";
import { migrations } from "./migrations.js";
import { type ModelTable, modelTable } from "./models.js";
import { type RemovedFolders, removedFolders } from "./removedFolders.js";
import { type SavedModelTable, savedModelTable } from "./savedModels.js";
import { openDatabase } from "./sqlite.js";
import type { KnownContent } from "./sweep.js";

export interface Tables {
  models: ModelTable;
  checkpoints: CheckpointTable;
  jobs: JobTable;
  artifacts: ArtifactTable;
  savedModels: SavedModelTable;
  removed: RemovedFolders;
}

export function tablesOf(database: Database, home: string): Tables {
  const files = homeFiles(home);
  return {
    models: modelTable(database),
    checkpoints: checkpointTable(database),
    jobs: jobTable(database),
    artifacts: artifactTable(database, join(home, "artifacts"), files),
    savedModels: savedModelTable(database, files),
    removed: removedFolders(database, home, files),
  };
}

export const knownContent = ({
  checkpoints,
  jobs,
  artifacts,
  savedModels,
  removed,
}: Omit<Tables, "models">): KnownContent => ({
  checkpoints: checkpoints.all,
  unfinishedJobs: () => jobs.unfinished().map(({ id }) => id),
  isJob: (id) => jobs.get(id) !== null,
  artifactIds: artifacts.ids,
  savedModelIds: savedModels.ids,
  removedPaths: removed.paths,
});

/** What an error of a file says as a problem of the home; `path`, relative, where it names none. */
export function problemOf(home: string, path: string, error: unknown): HomeProblem {
  const { message } = error as Error;
  if (!(error instanceof ModelFileError)) return { path, kind: "damaged", reason: message };
  const { file, reason } = error;
  return { path: file.slice(resolve(home).length + 1), kind: reason === "is missing" ? "missing" : "damaged", reason };
}

/**
 * @throws NotFoundError with code "home_not_found"; UnavailableError with code "home_unusable" when its database cannot be
 * read; ConflictError when another version of this library wrote it.
 */
export function openForReading(home: string): Database {
  if (!isHome(home)) {
    throw new NotFoundError(`there is no home at ${home}`, { code: "home_not_found", param: "home" });
  }
  let database: Database | undefined;
  try {
    database = openDatabase(databaseFile(home), { readonly: true, fileMustExist: true });
    const version = database.pragma("user_version", { simple: true }) as number;
    if (version === migrations.length) return database;
    throw new ConflictError(`the database of ${home} has version ${version}, this library has ${migrations.length}`, {
      code: version > migrations.length ? "home_too_new" : "home_too_old",
      param: "home",
      hint: version > migrations.length ? "update anneal" : "open the home once with this version",
    });
  } catch (cause) {
    database?.close();
    throw databaseError(home, cause);
  }
}

/** What SQLite says of a damaged database, as an error of the home; a full disk and other errors as they are. */
export function databaseError(home: string, error: unknown): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  if (!code?.startsWith("SQLITE_") || code === "SQLITE_FULL") return error;
  return new UnavailableError(`the database of ${home} cannot be read: ${message}`, {
    code: "home_unusable",
    param: "home",
    cause: error,
  });
}
