// What the operating system and the database say when files cannot be written or read, as errors of the library.

import { DiskFullError, systemReason, UnavailableError } from "./errors.js";

/**
 * No room on the disk, in the user's quota, or under the limit of a file's size; SQLite tells only the first by a name of its own,
 * and not where a network's file system says so when a file is flushed.
 */
const CODES = new Set([
  ...["ENOSPC", "EDQUOT", "EFBIG"],
  ...["SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR_SHMSIZE"],
]);

export const isDiskFull = (error: unknown): boolean =>
  CODES.has((error as NodeJS.ErrnoException | null | undefined)?.code ?? "");

/** A full disk as DiskFullError, whoever met it; other errors as they are. */
export function asDiskFullError(error: unknown): unknown {
  return isDiskFull(error) ? new DiskFullError(error) : error;
}

const OUT_OF_FILES = "let this process open more files (ulimit -n), or fewer engines and clients be open at a time";
const NO_RIGHTS = "give the user of this process the rights to it, or name another place";

/** What helps where a file cannot be used, by what the operating system says. */
const HINTS: Readonly<Record<string, string>> = {
  EMFILE: OUT_OF_FILES,
  ENFILE: OUT_OF_FILES,
  EACCES: NO_RIGHTS,
  EPERM: NO_RIGHTS,
  EROFS: "name a place on a file system that can be written",
  EIO: "the disk, or the network that it is on, fails: see what the system's log says of it",
};

/** undefined: it says nothing of files that anybody could do something about. */
export const hintOf = (code: string | undefined): string | undefined =>
  code !== undefined && Object.hasOwn(HINTS, code) ? HINTS[code] : undefined;

const FILE_UNUSABLE = "file_unusable";

/** Whether the process, or the system, has as many files open as it may: other work may close some. */
export function isOutOfFiles(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ["EMFILE", "ENFILE"].includes((error as NodeJS.ErrnoException).code ?? "") || isOutOfFiles(error.cause);
}

interface FileSystemError extends NodeJS.ErrnoException {
  /** Of what is copied or renamed, where it goes. */
  dest?: string;
}

/** Which file, what helps; null for other errors. `place`: where it is if it has no path of its own, as while it is written to. */
function asRefusedFile(error: unknown, place: string): UnavailableError | null {
  if (!(error instanceof Error)) return null;
  const { code, syscall, path, dest } = error as FileSystemError;
  const hint = hintOf(code);
  if (hint === undefined || syscall === undefined) return null;
  const file = dest ?? path ?? null;
  const message = `${file ?? `a file in ${place}`} cannot be used: ${systemReason(error)}`;
  return new UnavailableError(message, { code: FILE_UNUSABLE, param: file ?? place, hint, cause: error });
}

/** What the operating system said of a file, without where that is; other errors as they are. */
export const refusalOf = (error: Error): Error =>
  error instanceof UnavailableError && error.code === FILE_UNUSABLE ? (error.cause as Error) : error;

/**
 * A full disk as DiskFullError, what else the operating system refuses about a file in `place` as UnavailableError with code
 * "file_unusable"; other errors as they are.
 */
export const asFileError = (error: unknown, place: string): unknown =>
  isDiskFull(error) ? new DiskFullError(error) : (asRefusedFile(error, place) ?? error);

/** The same functions, synchronous or not, that throw (reject with) `asFileError` of what they throw. */
export function allThrowingFileErrors<T extends object>(place: string, functions: T): T {
  const named = Object.entries(functions).map(([name, value]) => [
    name,
    typeof value === "function" ? throwingFileErrors(() => place, value) : value,
  ]);
  return Object.fromEntries(named) as T;
}

/** The same for one function; `place` tells of what it is given where its files are. */
export function throwingFileErrors<A extends unknown[], R>(
  place: (given: A) => string,
  action: (...given: A) => R,
): (...given: A) => R {
  return (...given) => {
    const fail = (error: unknown): never => {
      throw asFileError(error, place(given));
    };
    let result: R;
    try {
      result = action(...given);
    } catch (error) {
      return fail(error);
    }
    return result instanceof Promise ? (result.catch(fail) as R) : result;
  };
}
