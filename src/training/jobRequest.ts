// What a job was asked for, kept in the job's folder from before its id is known to anyone until it has ended.

import { readFile } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { NotFoundError } from "../errors.js";
import { pathWithin } from "../pathWithin.js";
import { writeFileDurably } from "../store/durableFiles.js";
import type { Store } from "../store/store.js";
import type { ExperimentalConfig, SftConfig } from "../types/training.js";
import type { TrajectoryGroup } from "../types/trajectories.js";
import { type GroupSource, groupLines, groupsInFile } from "./groupSource.js";
import type { Reader } from "./host.js";

/** `reader` (absent: the owner) is who named the adapter folder of `config`, if it has one. */
interface RlJob {
  kind: "rl";
  config: ExperimentalConfig;
  reader?: Reader;
}

/**
 * `data` is the resolved file on this machine (as `storedData` says), or an http(s) URL; `name` is what messages call it, if
 * anything else. What the request held itself is already where the job keeps its copy.
 */
export interface SftJob {
  kind: "sft";
  config: SftConfig;
  data: string;
  name?: string;
}

/** Or what moves the file that holds them, flushed and as `groupsInFile` reads it, to the path it is given. */
export type GroupsToWrite = readonly TrajectoryGroup[] | ((path: string) => void);

export type JobRequest = (RlJob & { groups: GroupsToWrite }) | SftJob;

/** As it is read again. */
export type StoredRequest = (RlJob & { groups: GroupSource }) | SftJob;

const FILE = "request.jsonl";
const GROUPS = "groups.jsonl";

/** Where a supervised job keeps its copy of the data. */
export const dataCopy = (files: Store["files"], jobId: string): string => join(files.jobFolder(jobId), "data.jsonl");

/** A file of the home is kept relative to it: the job that it belongs to may go on where the home has been moved or copied to. */
export function storedData(home: string, data: string): string {
  return isAbsolute(data) ? (pathWithin(home, data) ?? data) : data;
}

/** Writes a request to the disk. */
export function writeJobRequest(files: Store["files"], jobId: string, request: JobRequest): void {
  const folder = files.jobFolder(jobId);
  files.makeFolder(folder);
  if (request.kind === "rl") {
    const { groups, ...head } = request;
    const file = join(folder, GROUPS);
    if (typeof groups === "function") groups(file);
    else writeFileDurably(file, groupLines(groups));
    writeFileDurably(join(folder, FILE), JSON.stringify(head));
  } else {
    writeFileDurably(join(folder, FILE), JSON.stringify(request));
  }
}

/** @throws NotFoundError where its folder is gone */
export async function readJobRequest(files: Store["files"], jobId: string): Promise<StoredRequest> {
  const folder = files.jobFolder(jobId);
  const text = await readFile(join(folder, FILE), "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
    // What the job came to, a newer database knew.
    const message = "the job's files are gone: the home's database is older than its folders";
    throw new NotFoundError(message, { code: "job_files_missing" });
  });
  const request = JSON.parse(text) as RlJob | SftJob;
  return request.kind === "rl" ? { ...request, groups: groupsInFile(join(folder, GROUPS)) } : request;
}
