import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { systemReason, ValidationError } from "./errors.js";
import { asDiskFullError } from "./fileErrors.js";
import { isAlive } from "./isAlive.js";

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
 * Makes an empty folder beside `target`, which somebody names as `param` and which it becomes, and removes what processes that
 * were ended had made there of theirs.
 * @throws ValidationError where it cannot be made; what a full disk throws as it is.
 */
export function makePartOf(param: string, target: string, mode?: number): string {
  const part = `${target}.${process.pid}.${randomUUID()}.part`;
  try {
    makeFolders(part, mode);
  } catch (error) {
    if (asDiskFullError(error) !== error) throw error;
    throw ValidationError.at(param, `${target} cannot be made (${systemReason(error as NodeJS.ErrnoException)})`);
  }
  removeAbandonedParts(target);
  return part;
}

const ABANDONED = /^\.(\d+)\.[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}\.part$/;

function removeAbandonedParts(target: string): void {
  try {
    for (const name of readdirSync(dirname(target))) {
      const [, pid] = (name.startsWith(basename(target)) && ABANDONED.exec(name.slice(basename(target).length))) || [];
      if (pid && !isAlive(Number(pid))) rmSync(join(dirname(target), name), { recursive: true, force: true });
    }
  } catch {
    // Another user's, or a folder that may be written but not listed.
  }
}
