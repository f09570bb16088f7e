import {
  chmodSync,
  closeSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { UnavailableError } from "../errors.js";
import { hintOf } from "../fileErrors.js";
import { isAlive } from "../isAlive.js";
import { makeFolders } from "../makeFolders.js";
import { fsyncPath } from "./fsyncPath.js";

export const databaseFile = (home: string): string => join(home, "anneal.db");

/** What the engine itself keeps in a home: every entity's checkpoints and data, and the owner's key. */
export const isKept = (entry: string): boolean =>
  /^(checkpoints|saved-models|artifacts|jobs|temporary|quarantine|pipelines|owner-key|reserve|anneal\.db.*|lock\..*)$/.test(
    entry,
  );

/** Permissions of what lies in a home: this user's alone. */
export const PRIVATE_FILE = 0o600;
export const PRIVATE_FOLDER = 0o700;

/**
 * Whether an engine has ever kept anything in that folder.
 * @throws UnavailableError with code "home_unusable" when this user may not look.
 */
export function isHome(folder: string): boolean {
  try {
    statSync(databaseFile(folder));
    return true;
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code!)) return false;
    throw homeError(folder, error);
  }
}

/**
 * Makes a home and the folders above it, if they are not there, readable by this user alone.
 * @throws UnavailableError with code "home_unusable".
 */
export function makeHome(home: string): void {
  try {
    for (const made of makeFolders(home, PRIVATE_FOLDER)) flushParent(made);
  } catch (error) {
    throw homeError(home, error);
  }
  if (!statSync(home).isDirectory()) throw unusable(home, "it is not a folder");
}

/** So that the home has its name after a crash of the machine. A parent that may be written but not read cannot be flushed. */
function flushParent(folder: string): void {
  try {
    fsyncPath(dirname(folder), true);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EACCES") throw error;
  }
}

/** Takes a home and what the engine keeps in it from all other users, whatever permissions they were given before. */
export function makePrivate(home: string): void {
  if (process.platform === "win32") return;
  for (const entry of readdirSync(home)) if (isKept(entry)) tighten(join(home, entry));
  chmodUnlessAnothers(home, PRIVATE_FOLDER);
}

/** A folder last, so that one that is closed already has been gone through. */
function tighten(path: string): void {
  const status = lstatSync(path, { throwIfNoEntry: false });
  if (!status || status.isSymbolicLink() || (status.mode & 0o077) === 0) return;
  if (status.isDirectory()) for (const entry of readdirSync(path)) tighten(join(path, entry));
  chmodUnlessAnothers(path, status.isDirectory() ? PRIVATE_FOLDER : PRIVATE_FILE);
}

/** What belongs to another user is theirs to close. */
function chmodUnlessAnothers(path: string, mode: number): void {
  try {
    chmodSync(path, mode);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPERM") throw error;
  }
}

/**
 * Makes an empty database that others cannot read, of which SQLite then takes the permissions for the files beside it. One
 * that exists is not opened: closing it here would end the locks that this process has on it.
 */
export function makeDatabaseFile(file: string): void {
  if (!existsSync(file)) closeSync(openSync(file, "a", PRIVATE_FILE));
}

function unusable(
  home: string,
  why: string,
  cause?: unknown,
  hint = "name a folder that can be written, on a disk that is not full",
): UnavailableError {
  return new UnavailableError(`the home ${home} cannot be used: ${why}`, {
    code: "home_unusable",
    param: "home",
    hint,
    cause,
  });
}

/** What the operating system or SQLite says of a home's files, as an error of the option `home`; other errors as they are. */
export function homeError(home: string, error: unknown): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === "ERR_ACCESS_DENIED") {
    return unusable(home, message, error, "Node's permission model lets no file be flushed: start Node without it");
  }
  return typeof code === "string" && /^(E[A-Z0-9]+|SQLITE_\w+)$/.test(code)
    ? unusable(home, message, error, hintOf(code))
    : error;
}

const TEMPORARY_PREFIX = "anneal-home-";

/** None of a folder that may be written but not listed. */
function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Folders of processes that ended without closing their engine are removed; those of living ones are left alone. */
function removeAbandonedHomes(): void {
  for (const name of namesIn(tmpdir())) {
    const pid = name.startsWith(TEMPORARY_PREFIX)
      ? Number.parseInt(name.slice(TEMPORARY_PREFIX.length), 10)
      : Number.NaN;
    if (Number.isNaN(pid) || isAlive(pid)) continue;
    try {
      rmSync(join(tmpdir(), name), { recursive: true, force: true });
    } catch {
      // Another user's folder.
    }
  }
}

/**
 * A home for an engine that keeps nothing: the caller removes it when it closes.
 * @throws UnavailableError with code "home_unusable".
 */
export function makeTemporaryHome(): string {
  removeAbandonedHomes();
  try {
    return mkdtempSync(join(tmpdir(), `${TEMPORARY_PREFIX}${process.pid}-`));
  } catch (error) {
    throw homeError(tmpdir(), error);
  }
}
