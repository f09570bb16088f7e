// What applications are told of a checkpoint.

import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { CheckpointRecord } from "../store/records.js";
import type { Store } from "../store/store.js";
import type { Checkpoint } from "../types/models.js";

/** `shown`: with its path, which is not for everyone. */
export async function describeCheckpoint(
  files: Store["files"],
  { id, modelId, step, metrics, createdAt }: CheckpointRecord,
  shown: boolean,
): Promise<Checkpoint> {
  const path = files.checkpointFolder(modelId, step);
  const created_at = new Date(createdAt).toISOString();
  return { id, step, metrics, created_at, bytes: await folderBytes(path), ...(shown ? { path } : {}) };
}

/** Of all its files; 0 for a folder that was deleted meanwhile. */
export async function folderBytes(folder: string): Promise<number> {
  const names = await readdir(folder, { recursive: true }).catch(() => []);
  const sizes = await Promise.all(names.map((name) => stat(join(folder, name)).catch(() => null)));
  return sizes.reduce((sum, status) => sum + (status?.isFile() ? status.size : 0), 0);
}
