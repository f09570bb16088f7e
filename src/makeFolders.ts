import { existsSync, mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { systemReason, ValidationError } from "./errors.js";
import { asDiskFullError } from "./fullDisk.js";

/**
 * Makes a folder and those above it that are missing. One at a time: Node's recursive `mkdir` does not return where a file
 * system (such as /proc) takes no new names, and holds up the thread that it runs in.
 * @returns those that were missing, the outermost first.
 */
export function makeFolders(folder: string, mode?: number): string[] {
  const missing: string[] = [];
  for (let path = folder; !existsSync(path) && path !== dirname(path); path = dirname(path)) missing.unshift(path);
  for (const path of missing) makeOne(path, mode);
  return missing;
}

function makeOne(path: string, mode?: number): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    // Another process may have made it meanwhile.
    if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) throw error;
  }
}

/**
 * The same of `temporary`, which becomes `target`, a folder that somebody names as `param`.
 * @throws ValidationError where it cannot be made; what a full disk throws as it is.
 */
export function makeNamedFolder(param: string, target: string, temporary: string, mode?: number): void {
  try {
    makeFolders(temporary, mode);
  } catch (error) {
    if (asDiskFullError(error) !== error) throw error;
    throw ValidationError.at(param, `${target} cannot be made (${systemReason(error as NodeJS.ErrnoException)})`);
  }
}
