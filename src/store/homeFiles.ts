import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { commitFolder, makeFolder } from "./durableFiles.js";

/** Where things lie under a home. The database says what exists. */
export interface HomeFiles {
  checkpointFolder(modelId: string, step: number): string;
  modelFolder(modelId: string): string;
  jobFolder(jobId: string): string;
  savedModelFolder(id: string): string;
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
    savedModelFolder: (id) => join(home, "saved-models", id),
    temporary() {
      makeFolder(temporaryRoot);
      return mkdtempSync(join(temporaryRoot, "t-"));
    },
    commitFolder,
    makeFolder,
    remove: (folder) => rmSync(folder, { recursive: true, force: true }),
  };
}
