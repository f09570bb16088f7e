import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { commitFolder, makeFolder } from "./durableFiles.js";

/** Where things lie under a home. The database says what exists; a folder without a row is a leftover. */
export interface HomeFiles {
  checkpointFolder(modelId: string, step: number): string;
  modelFolder(modelId: string): string;
  jobFolder(jobId: string): string;
  /** An empty folder of its own, on the file system of the home; gone at the next start if nobody removes it. */
  temporary(): string;
  /** Content, then name, to the disk. Replaces what is there. */
  commitFolder(temporary: string, final: string): Promise<void>;
  makeFolder(folder: string): void;
  remove(folder: string): void;
}

export function homeFiles(home: string): HomeFiles {
  const modelFolder = (modelId: string) => join(home, "checkpoints", modelId);
  const temporaryRoot = join(home, "temporary");
  return {
    checkpointFolder: (modelId, step) => join(modelFolder(modelId), String(step)),
    modelFolder,
    jobFolder: (jobId) => join(home, "jobs", jobId),
    temporary() {
      makeFolder(temporaryRoot);
      return mkdtempSync(join(temporaryRoot, "t-"));
    },
    commitFolder,
    makeFolder,
    remove: (folder) => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Names of the entries of a folder; none if it is not there. */
function entries(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Removes what an interrupted run left: folders that no row knows, and temporary ones. */
export function sweepHome(
  home: string,
  known: {
    isCheckpoint(modelId: string, step: number): boolean;
    isUnfinishedJob(jobId: string): boolean;
    artifactIds: Set<string>;
  },
): void {
  const remove = (...parts: string[]) => rmSync(join(home, ...parts), { recursive: true, force: true });
  remove("temporary");
  for (const modelId of entries(join(home, "checkpoints"))) {
    const steps = entries(join(home, "checkpoints", modelId));
    const kept = steps.filter((step) => known.isCheckpoint(modelId, Number(step)));
    for (const step of steps) if (!kept.includes(step)) remove("checkpoints", modelId, step);
    if (kept.length === 0) remove("checkpoints", modelId);
  }
  for (const jobId of entries(join(home, "jobs"))) if (!known.isUnfinishedJob(jobId)) remove("jobs", jobId);
  for (const id of entries(join(home, "artifacts"))) {
    if (id !== "pending" && !known.artifactIds.has(id)) remove("artifacts", id);
  }
}
