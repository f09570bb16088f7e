// What the operating system and the database say when nothing more can be written, as one error of the library.

import { DiskFullError } from "./errors.js";

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

/** The same functions, synchronous or not, that throw (reject with) `asDiskFullError` of what they throw. */
export function allThrowingDiskFull<T extends object>(functions: T): T {
  const named = Object.entries(functions).map(([name, value]) => [
    name,
    typeof value === "function" ? throwingDiskFull(value) : value,
  ]);
  return Object.fromEntries(named) as T;
}

/** The same for one function. */
export function throwingDiskFull<A extends unknown[], R>(action: (...given: A) => R): (...given: A) => R {
  const fail = (error: unknown): never => {
    throw asDiskFullError(error);
  };
  return (...given) => {
    let result: R;
    try {
      result = action(...given);
    } catch (error) {
      return fail(error);
    }
    return result instanceof Promise ? (result.catch(fail) as R) : result;
  };
}
