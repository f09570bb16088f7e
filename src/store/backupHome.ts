import { existsSync, lstatSync, readdirSync, rmdirSync, rmSync, type Stats } from "node:fs";
import { cp, realpath } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import type { Database } from "better-sqlite3";
import { ConflictError, DiskFullError, UnavailableError, ValidationError } from "../errors.js";
import { isDiskFull, isOutOfFiles, throwingFileErrors } from "../fileErrors.js";
import { makeFolders, makePartOf } from "../makeFolders.js";
import { pathWithin } from "../pathWithin.js";
import type { HomeBackup, HomeProblem } from "../types/home.js";
import { verifyChecksums } from "./checksums.js";
import { commitFolder } from "./durableFiles.js";
import { homeFiles } from "./homeFiles.js";
import { databaseFile, PRIVATE_FOLDER } from "./homeFolder.js";
import { databaseError, openForReading, problemOf, type Tables, tablesOf } from "./openedHome.js";
import { openDatabase } from "./sqlite.js";

/** Pages of the database copied before others get their turn: 8 MiB. */
const PAGES_PER_STEP = 2048;
/** A database that is written to is begun again; after this many pages in excess it is copied in one go. */
const MAX_COPIED_TWICE = 4;
/** Of the database, while jobs make steps faster than their files are copied. */
const MAX_ATTEMPTS = 50;

/** See homes.ts. */
export const backupHome = throwingFileErrors(
  ([, target]) => target,
  async (home: string, target: string): Promise<HomeBackup> => {
    const source = await wholePath(home);
    const folder = await wholePath(target);
    const live = openForReading(source);
    let temporary: string | null = null;
    try {
      checkTarget(source, folder);
      temporary = makePartOf("target", folder, PRIVATE_FOLDER);
      const report = await copyHome(live, source, temporary);
      if (existsSync(folder)) rmdirSync(folder);
      await commitFolder(temporary, folder);
      return { folder, ...report };
    } catch (error) {
      throw databaseError(source, error);
    } finally {
      live.close();
      if (temporary !== null) rmSync(temporary, { recursive: true, force: true });
    }
  },
);

/** Links followed, of what is there. */
async function wholePath(path: string): Promise<string> {
  const absolute = resolve(path);
  const parent = dirname(absolute);
  if (existsSync(absolute) || parent === absolute) return realpath(absolute);
  return join(await wholePath(parent), basename(absolute));
}

/** null: it cannot be there, as below a file. */
function statusOf(path: string): Stats | null {
  try {
    return lstatSync(path);
  } catch {
    return null;
  }
}

function checkTarget(home: string, target: string): void {
  const status = statusOf(target);
  if (status && (!status.isDirectory() || readdirSync(target).length > 0)) {
    throw new ConflictError(`${target} is there already`, { code: "backup_exists", param: "target" });
  }
  if (pathWithin(home, target) !== null) {
    const msg = "must not lie in the home itself";
    throw new ValidationError([{ loc: ["target"], msg, type: "value_error" }]);
  }
}

/** Folders that were copied, by their path; the id says of which row. */
type Copied = Map<string, string>;

async function copyHome(live: Database, home: string, target: string): Promise<Omit<HomeBackup, "folder">> {
  const now = tablesOf(live, home);
  const copied: Copied = new Map();
  for (let attempt = 1; ; attempt++) {
    const file = databaseFile(target);
    for (const name of readdirSync(target)) if (name.startsWith("anneal.db")) rmSync(join(target, name));
    await copyDatabase(live, home, file);
    const database = openDatabase(file);
    try {
      const then = tablesOf(database, target);
      // First what changes fast.
      const jobs = then.jobs.unfinished();
      for (const { id } of jobs) await copyFolder(home, target, join("jobs", id));
      const moved = jobs.some((job) => JSON.stringify(now.jobs.get(job.id)) !== JSON.stringify(job));
      if (moved && attempt < MAX_ATTEMPTS) continue;
      if (moved) {
        throw new UnavailableError("jobs make steps faster than their files are copied", {
          code: "backup_failed",
          hint: "try again when they have ended",
        });
      }
      const problems = await copyCheckpoints(home, target, then, now, copied);
      problems.push(...(await copySavedModels(home, target, then, now)));
      const artifacts = then.artifacts.ids();
      const pathOf = (id: string) => join("artifacts", id);
      for (const id of artifacts) await copyFolder(home, target, pathOf(id));
      for (const path of [join("artifacts", "pending"), "owner-key"]) await copyFolder(home, target, path);
      for (const id of artifacts) {
        // It may have been moved from where it was pending meanwhile.
        const isCopied = then.artifacts.isThere(id) || (await copyFolder(home, target, pathOf(id)));
        if (!isCopied) problems.push({ path: pathOf(id), kind: "missing", reason: "is missing" });
      }
      const checkpoints = then.checkpoints.all().length;
      return { checkpoints, artifacts: artifacts.size, jobs: jobs.length, problems };
    } finally {
      // Into one file again.
      database.pragma("journal_mode = DELETE");
      database.close();
    }
  }
}

/** SQLite does not say of which of the two files it speaks. */
const MAY_BE_THE_TARGETS = /^SQLITE_(IOERR|CANTOPEN|READONLY|PERM)/;

async function copyDatabase(live: Database, home: string, file: string): Promise<void> {
  let copiedPages = 0;
  try {
    await live.backup(file, {
      progress({ totalPages }) {
        copiedPages += PAGES_PER_STEP;
        return copiedPages > totalPages * MAX_COPIED_TWICE ? 2 ** 31 - 1 : PAGES_PER_STEP;
      },
    });
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (isDiskFull(cause)) throw new DiskFullError(cause);
    if (!MAY_BE_THE_TARGETS.test(code ?? "")) throw cause;
    throw new UnavailableError(`the database of ${home} cannot be copied to ${file}: ${message}`, {
      code: "backup_failed",
      hint: "see whether the target can be written; anneal home check tells whether the home can be read",
      cause,
    });
  }
}

/** Those of `then`; a checkpoint or model that was deleted since is taken out of it. @returns what is wrong with the others. */
async function copyCheckpoints(
  home: string,
  target: string,
  then: Tables,
  now: Tables,
  copied: Copied,
): Promise<HomeProblem[]> {
  const problems: HomeProblem[] = [];
  const [from, to] = [homeFiles(home), homeFiles(target)];
  for (const { modelId, step } of then.checkpoints.all()) {
    const record = then.checkpoints.get(modelId, step);
    // Its model has been taken out.
    if (!record) continue;
    const { id } = record;
    const path = relative(home, from.checkpointFolder(modelId, step));
    if (copied.get(path) === id) continue;
    try {
      rmSync(join(target, path), { recursive: true, force: true });
      await cp(join(home, path), join(target, path), { recursive: true, verbatimSymlinks: true });
      await verifyChecksums(to.checkpointFolder(modelId, step));
      copied.set(path, id);
    } catch (error) {
      if (now.checkpoints.get(modelId, step)?.id === id) problems.push(await faultOf(home, path, error));
      else if (now.models.get(modelId)) {
        then.checkpoints.delete(modelId, [step]);
        to.removeCheckpoint(modelId, step);
      } else {
        then.models.delete(modelId);
        to.remove(to.modelFolder(modelId));
      }
    }
  }
  return problems;
}

/** As they were then; one that has been replaced since is taken out. @returns what is wrong with the others. */
async function copySavedModels(home: string, target: string, then: Tables, now: Tables): Promise<HomeProblem[]> {
  const problems: HomeProblem[] = [];
  for (const { id, name } of then.savedModels.list()) {
    const path = relative(home, homeFiles(home).savedModelFolder(id));
    try {
      await copyFolder(home, target, path);
      await verifyChecksums(join(target, path));
    } catch (error) {
      if (now.savedModels.find(name)?.id === id) problems.push(await faultOf(home, path, error));
      else then.savedModels.remove(id);
    }
  }
  return problems;
}

/** What is wrong with a folder that could not be copied. @throws `error` where nothing is: the copy cannot be written. */
async function faultOf(home: string, path: string, error: unknown): Promise<HomeProblem> {
  try {
    await verifyChecksums(join(home, path));
  } catch (fault) {
    if (!isOutOfFiles(fault)) return problemOf(home, path, fault);
  }
  throw error;
}

/** False: it is not there. */
async function copyFolder(home: string, target: string, path: string): Promise<boolean> {
  const to = join(target, path);
  rmSync(to, { recursive: true, force: true });
  if (!existsSync(join(home, path))) return false;
  makeFolders(dirname(to), PRIVATE_FOLDER);
  try {
    await cp(join(home, path), to, { recursive: true, verbatimSymlinks: true });
  } catch (error) {
    // A file may be replaced while it is listed; the database tells whether one that counts was.
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  return true;
}
