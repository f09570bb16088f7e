// What a job was asked for, kept in the job's folder from before its id is known to anyone until it has ended.

import { join } from "node:path";
import { writeFileDurably } from "../store/durableFiles.js";
import type { Store } from "../store/store.js";
import type { ExperimentalConfig, SftConfig } from "../types/training.js";
import type { TrajectoryGroup } from "../types/trajectories.js";
import { fileLines } from "./fileLines.js";
import type { Reader } from "./host.js";

export type JobRequest =
  /** `reader` (absent: the owner) is who named the adapter folder of `config`, if it has one. */
  | { kind: "rl"; config: ExperimentalConfig; groups: TrajectoryGroup[]; reader?: Reader }
  /**
   * `data` is the resolved file on this machine, or an http(s) URL; `name` is what messages call it, if anything else. What the
   * request held itself is already where the job keeps its copy.
   */
  | { kind: "sft"; config: SftConfig; data: string; name?: string };

const FILE = "request.jsonl";

/** Where a supervised job keeps its copy of the data. */
export const dataCopy = (files: Store["files"], jobId: string): string => join(files.jobFolder(jobId), "data.jsonl");

/** Writes a request to the disk; the first line holds everything but the groups, which follow one per line. */
export function writeJobRequest(files: Store["files"], jobId: string, request: JobRequest): void {
  const folder = files.jobFolder(jobId);
  files.makeFolder(folder);
  writeFileDurably(join(folder, FILE), lines(request));
}

function* lines(request: JobRequest): Generator<string> {
  const { groups, ...head } = request.kind === "rl" ? request : { ...request, groups: [] };
  yield `${JSON.stringify(head)}\n`;
  for (const group of groups) yield `${JSON.stringify(group)}\n`;
}

export async function readJobRequest(files: Store["files"], jobId: string): Promise<JobRequest> {
  let head: JobRequest | null = null;
  for await (const bytes of fileLines(join(files.jobFolder(jobId), FILE))) {
    const line = bytes.toString("utf8");
    if (head === null) {
      head = JSON.parse(line) as JobRequest;
      if (head.kind === "rl") head.groups = [];
    } else if (head.kind === "rl") {
      head.groups.push(JSON.parse(line) as TrajectoryGroup);
    }
  }
  return head!;
}
