import { existsSync, mkdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { UnavailableError } from "../errors.js";

export const databaseFile = (home: string): string => join(home, "anneal.db");

/** Whether an engine has ever kept anything in that folder. */
export const isHome = (folder: string): boolean => existsSync(databaseFile(folder));

/**
 * Makes a home and the folders above it, if they are not there, readable by this user alone. One folder at a time: the
 * recursive `mkdirSync` does not return where a file system (such as /proc) has no room for new names.
 * @throws UnavailableError with code "home_unusable".
 */
export function makeHome(home: string): void {
  const missing: string[] = [];
  for (let path = home; !existsSync(path) && path !== dirname(path); path = dirname(path)) missing.unshift(path);
  try {
    for (const path of missing) makeOne(path);
  } catch (error) {
    throw homeError(home, error);
  }
  if (!statSync(home).isDirectory()) throw unusable(home, "it is not a folder");
}

function makeOne(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    // Another process may have made it meanwhile.
    if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) throw error;
  }
}

function unusable(home: string, why: string, cause?: unknown): UnavailableError {
  return new UnavailableError(`the home ${home} cannot be used: ${why}`, {
    code: "home_unusable",
    param: "home",
    hint: "name a folder that can be written, on a disk that is not full",
    cause,
  });
}

/** What the operating system or SQLite says of a home's files, as an error of the option `home`; other errors as they are. */
export function homeError(home: string, error: unknown): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  return typeof code === "string" && /^(E[A-Z0-9]+|SQLITE_\w+)$/.test(code) ? unusable(home, message, error) : error;
}
