// How many files the process has open, and how many it may have: connections are files too.

import { readdirSync, readFileSync } from "node:fs";

/** null: the system does not tell. */
export function countOpenFiles(): number | null {
  try {
    return readdirSync("/proc/self/fd").length;
  } catch {
    return null;
  }
}

/** null: there is no limit, or the system does not tell. */
export function maxOpenFiles(): number | null {
  try {
    const [, most] = /^Max open files +(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return most === undefined ? null : Number(most);
  } catch {
    return null;
  }
}

/** Files that are kept for everything but connections: the database, uploads, checkpoints, code that is loaded when it is first needed. */
const MIN_KEPT = 64;
const KEPT_SHARE = 0.25;

/**
 * Connections that leave files for the work of those that there are: Node remembers for ever that a module could not be
 * loaded, so that one moment without a file would end what needs it. null: as many as come.
 */
export function maxConnections(files = maxOpenFiles()): number | null {
  return files === null ? null : Math.max(1, Math.floor(files - Math.max(MIN_KEPT, KEPT_SHARE * files)));
}
