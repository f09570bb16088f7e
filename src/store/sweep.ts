// What is in a home when it is opened, and what its database knows of it. A database that was lost, emptied or put back to an
// older one must cost nothing: what it does not know is set aside, never removed, and comes back when it is known again.

import { existsSync, lstatSync, readdirSync, readFileSync, renameSync, rmdirSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { makeFolder } from "./durableFiles.js";
import { isTemporary } from "./homeFiles.js";

/** What the database says there is. */
export interface KnownContent {
  checkpoints(): { modelId: string; step: number }[];
  unfinishedJobs(): string[];
  /** Whether there is such a job, ended or not. */
  isJob(id: string): boolean;
  artifactIds(): Set<string>;
  savedModelIds(): Set<string>;
  /** Of what is being removed, relative to the home. */
  removedPaths(): Set<string>;
}

/** Paths relative to the home. */
export interface Swept {
  /** Set aside now. */
  quarantined: string[];
  /** Brought back from where an earlier opening had set them aside. */
  restored: string[];
}

const QUARANTINE = "quarantine";

/**
 * Removes temporary folders, those of jobs that have ended and files whose writing was cut off; moves what no row knows, or
 * somebody else has put there, to `quarantine/TIME`, under the path that it had. Links are moved as links and never followed.
 */
export function sweepHome(home: string, known: KnownContent): Swept {
  const aside = join(QUARANTINE, new Date().toISOString().replaceAll(":", "-"));
  const swept: Swept = { quarantined: [], restored: restore(home, known) };
  removeTemporary(join(home, "temporary"));
  removeParts(home);
  for (const path of [...unknownPaths(home, known)]) {
    if (wasCutOff(join(home, path))) rmSync(join(home, path), { recursive: true });
    else if (move(join(home, path), join(home, aside, path))) swept.quarantined.push(path);
  }
  const unfinished = new Set(known.unfinishedJobs());
  for (const jobId of entries(home, "jobs")) {
    if (known.isJob(jobId) && !unfinished.has(jobId))
      rmSync(join(home, "jobs", jobId), { recursive: true, force: true });
  }
  return swept;
}

function removeTemporary(folder: string): void {
  const status = lstatSync(folder, { throwIfNoEntry: false });
  if (status?.isSymbolicLink()) rmSync(folder);
  if (!status?.isDirectory()) return;
  for (const name of readdirSync(folder)) if (isTemporary(name)) rmSync(join(folder, name), { recursive: true });
  if (readdirSync(folder).length === 0) rmdirSync(folder);
}

/** Files of the home itself, and what was kept of shaders, whose writing was cut off. */
function removeParts(home: string): void {
  for (const name of readdirSync(home)) if (/^(anneal\.db|owner-key)\.\d+\.part$/.test(name)) rmSync(join(home, name));
  const pipelines = entries(home, "pipelines").filter((name) => name.endsWith(".part"));
  for (const name of pipelines) rmSync(join(home, "pipelines", name));
}

/** What lies in a home and no row knows, relative to it. Links are not followed. */
export function* unknownPaths(home: string, known: KnownContent): Generator<string> {
  const removed = known.removedPaths();
  for (const path of pathsWithoutRow(home, known)) if (!removed.has(path)) yield path;
}

function* pathsWithoutRow(home: string, known: KnownContent): Generator<string> {
  const steps = new Map<string, Set<string>>();
  for (const { modelId, step } of known.checkpoints()) {
    steps.set(modelId, (steps.get(modelId) ?? new Set()).add(String(step)));
  }
  const unfinished = new Set(known.unfinishedJobs());
  for (const modelId of entries(home, "checkpoints")) {
    const model = join("checkpoints", modelId);
    const kept = steps.get(modelId);
    if (!kept || !isFolder(join(home, model))) {
      yield model;
      continue;
    }
    for (const step of entries(home, model)) {
      const path = join(model, step);
      // A job that was cut off before its checkpoint had a row makes it again, in the same place.
      if (!kept.has(step) && !unfinished.has(jobOf(join(home, path)) ?? "")) yield path;
    }
  }
  for (const jobId of entries(home, "jobs")) if (!known.isJob(jobId)) yield join("jobs", jobId);
  const saved = known.savedModelIds();
  for (const id of entries(home, "saved-models")) if (!saved.has(id)) yield join("saved-models", id);
  const artifacts = known.artifactIds().add("pending");
  for (const id of entries(home, "artifacts")) if (!artifacts.has(id)) yield join("artifacts", id);
  for (const name of entries(home, "temporary")) if (!isTemporary(name)) yield join("temporary", name);
}

/** What is known and not in its place, but in quarantine, is moved back. @returns its paths. */
function restore(home: string, known: KnownContent): string[] {
  const times = entries(home, QUARANTINE).sort().reverse();
  if (times.length === 0) return [];
  const expected = [
    ...known.checkpoints().map(({ modelId, step }) => join("checkpoints", modelId, String(step))),
    ...known.unfinishedJobs().map((id) => join("jobs", id)),
    ...[...known.artifactIds()].map((id) => join("artifacts", id)),
    ...[...known.savedModelIds()].map((id) => join("saved-models", id)),
  ];
  const restored = expected.filter((path) => {
    if (existsSync(join(home, path))) return false;
    const found = times.map((time) => join(home, QUARANTINE, time, path)).find(isFolder);
    return found !== undefined && move(found, join(home, path));
  });
  for (const time of times) removeEmpty(join(home, QUARANTINE, time));
  return restored;
}

/** What a job's folder is called. */
const JOB_ID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;

/**
 * Whether a folder's writing was cut off before anybody was told of it: it holds nothing but parts of files, or is a job's
 * without its request, which is written last.
 */
export function wasCutOff(folder: string): boolean {
  if (!isFolder(folder)) return false;
  const names = readdirSync(folder);
  if (basename(dirname(folder)) === "jobs" && JOB_ID.test(basename(folder))) return !names.includes("request.jsonl");
  return names.length > 0 && names.every((name) => name.endsWith(".part"));
}

/** What has been set aside and is still there, relative to the home. */
export function quarantined(home: string): string[] {
  const found: string[] = [];
  for (const time of entries(home, QUARANTINE)) {
    for (const kind of entries(home, join(QUARANTINE, time))) {
      const folder = join(QUARANTINE, time, kind);
      for (const name of entries(home, folder)) found.push(join(folder, name));
    }
  }
  return found;
}

/** False: it could not be moved (a mounted folder, another user's) and is where it was. */
function move(from: string, to: string): boolean {
  makeFolder(dirname(to));
  try {
    renameSync(from, to);
    return true;
  } catch {
    return false;
  }
}

/** Names in a folder of the home; none if it is not there, or is a link: what lies elsewhere is not the home's to judge. */
function entries(home: string, folder: string): string[] {
  const path = join(home, folder);
  return isFolder(path) ? readdirSync(path) : [];
}

const isFolder = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

/** The job that made a checkpoint, as its own files say; null: none, or nothing is to be read there. */
function jobOf(checkpoint: string): string | null {
  const file = join(checkpoint, "meta.json");
  if (!lstatSync(file, { throwIfNoEntry: false })?.isFile()) return null;
  try {
    return (JSON.parse(readFileSync(file, "utf8")) as { job_id?: string | null }).job_id ?? null;
  } catch {
    return null;
  }
}

function removeEmpty(folder: string): void {
  for (const name of readdirSync(folder)) if (isFolder(join(folder, name))) removeEmpty(join(folder, name));
  if (readdirSync(folder).length === 0) rmdirSync(folder);
}
