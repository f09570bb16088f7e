import { closeSync, fsyncSync, openSync } from "node:fs";

/** Flushes a file or folder to the disk. Folders cannot be opened for that on Windows, where renames are journaled. */
export function fsyncPath(path: string, folder: boolean): void {
  if (folder && process.platform === "win32") return;
  const descriptor = openSync(path, folder ? "r" : "r+");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
