import { createReadStream } from "node:fs";
import { open, rename } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { TrajectoryGroup } from "../types/trajectories.js";
import { makeFolder } from "./durableFiles.js";

/** What a job was asked to do: its settings, and the groups of an RL job. */
export interface JobRequest {
  settings: Record<string, unknown>;
  groups: TrajectoryGroup[];
}

const fileOf = (jobFolder: string) => join(jobFolder, "request.jsonl");

/**
 * Writes a request to the disk: settings on the first line, one group on each further line (together they may be longer
 * than a string can be). Done when it would survive a crash.
 */
export async function writeJobRequest(jobFolder: string, request: JobRequest): Promise<void> {
  makeFolder(jobFolder);
  const temporary = `${fileOf(jobFolder)}.part`;
  const file = await open(temporary, "w");
  try {
    for (const part of [request.settings, ...request.groups]) await file.appendFile(`${JSON.stringify(part)}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, fileOf(jobFolder));
  const folder = process.platform === "win32" ? null : await open(jobFolder, "r");
  await folder?.sync();
  await folder?.close();
}

export async function readJobRequest(jobFolder: string): Promise<JobRequest> {
  const lines = createInterface({ input: createReadStream(fileOf(jobFolder)), crlfDelay: Number.POSITIVE_INFINITY });
  const values: unknown[] = [];
  for await (const line of lines) values.push(JSON.parse(line));
  const [settings, ...groups] = values as [Record<string, unknown>, ...TrajectoryGroup[]];
  return { settings, groups };
}
