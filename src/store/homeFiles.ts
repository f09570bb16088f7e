import { existsSync, mkdtempSync, readdirSync, rmdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { ClosedError } from "../errors.js";
import { commitFolder, makeFolder, REPLACED } from "./durableFiles.js";

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
  /** Of a checkpoint that has no row; with it goes the folder of a model that has no other, as one that was deleted meanwhile. */
  removeCheckpoint(modelId: string, step: number): void;
  /** Calls `action` when no folder of `temporary` is in use any more: each has been committed or removed. */
  whenUnused(action: () => void): void;
  /** From now on `temporary` throws ClosedError. Resolves when no folder of it is in use any more. */
  close(): Promise<void>;
}

const TEMPORARY = "anneal-";

/** Whether `HomeFiles.temporary` made a folder of that name, or its commit one beside it. */
export const isTemporary = (name: string): boolean =>
  name.startsWith(TEMPORARY) && name.replace(REPLACED, "").length === TEMPORARY.length + 6;

export function homeFiles(home: string): HomeFiles {
  const modelFolder = (modelId: string) => join(home, "checkpoints", modelId);
  const temporaryRoot = join(home, "temporary");
  const inUse = new Set<string>();
  let unused: (() => void) | null = null;
  let isClosed = false;
  const leave = (folder: string) => {
    inUse.delete(folder);
    if (inUse.size > 0 || unused === null) return;
    unused();
    unused = null;
  };
  const whenUnused = (action: () => void) => {
    if (inUse.size === 0) action();
    else unused = action;
  };
  const checkpointFolder = (modelId: string, step: number) => join(modelFolder(modelId), String(step));
  return {
    checkpointFolder,
    modelFolder,
    jobFolder: (jobId) => join(home, "jobs", jobId),
    savedModelFolder: (id) => join(home, "saved-models", id),
    temporary() {
      if (isClosed) throw new ClosedError("the engine has been closed");
      makeFolder(temporaryRoot);
      const folder = mkdtempSync(join(temporaryRoot, TEMPORARY));
      inUse.add(folder);
      return folder;
    },
    async commitFolder(temporary, final) {
      await commitFolder(temporary, final);
      leave(temporary);
    },
    makeFolder,
    remove(folder) {
      rmSync(folder, { recursive: true, force: true });
      leave(folder);
    },
    removeCheckpoint(modelId, step) {
      const model = modelFolder(modelId);
      rmSync(checkpointFolder(modelId, step), { recursive: true, force: true });
      if (existsSync(model) && readdirSync(model).length === 0) rmdirSync(model);
    },
    whenUnused,
    close() {
      isClosed = true;
      return new Promise(whenUnused);
    },
  };
}
