import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { chmod, open, readdir, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import { throwingFileErrors } from "../fileErrors.js";
import { makeFolders } from "../makeFolders.js";
import { fsyncPath } from "./fsyncPath.js";
import { PRIVATE_FILE, PRIVATE_FOLDER } from "./homeFolder.js";

/** As `fsyncPath`, without holding up the thread. */
async function flush(path: string, folder: boolean): Promise<void> {
  if (folder && process.platform === "win32") return;
  const file = await open(path, folder ? "r" : "r+");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** The same for all there is in a folder; `isPrivate` takes it from other users, too. */
export async function flushTree(folder: string, { isPrivate = false } = {}): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      await flushTree(path, { isPrivate });
    } else {
      // Setting what it has already would count as a change.
      if (isPrivate && ((await stat(path)).mode & 0o777) !== PRIVATE_FILE) await chmod(path, PRIVATE_FILE);
      await flush(path, false);
    }
  }
  if (isPrivate) await chmod(folder, PRIVATE_FOLDER);
  await flush(folder, true);
}

/** Makes `folder` and flushes every parent that had to be made. */
export function makeFolder(folder: string): void {
  for (const made of makeFolders(folder, PRIVATE_FOLDER)) fsyncPath(dirname(made), true);
}

/**
 * Moves a complete folder to its final name so that it is there whole or not at all, whenever the machine stops:
 * content first, then the name. A folder already at that name (left by a run that did not get to record it) is replaced.
 */
export async function commitFolder(temporary: string, final: string): Promise<void> {
  await flushTree(temporary, { isPrivate: true });
  while (shouldYield()) await yieldToEventLoop();
  moveFolder(temporary, final);
}

/** Behind a temporary name: the folder that was there. */
export const REPLACED = ".replaced";

/** The end of `commitFolder`, for a folder whose content has been flushed. */
export function moveFolder(temporary: string, final: string): void {
  makeFolder(dirname(final));
  if (existsSync(final)) {
    const aside = `${temporary}${REPLACED}`;
    renameSync(final, aside);
    renameSync(temporary, final);
    rmSync(aside, { recursive: true, force: true });
  } else {
    renameSync(temporary, final);
  }
  try {
    fsyncPath(dirname(final), true);
  } catch (error) {
    // Whoever is told has it where it was.
    renameSync(final, temporary);
    throw error;
  }
}

/** Writes a file so that a reader sees the old or the new content, never a part. @throws DiskFullError */
export const writeFileDurably = throwingFileErrors(
  ([path]) => dirname(path),
  (path: string, content: string | Uint8Array | Iterable<string>): void => {
    const temporary = `${path}.${process.pid}.part`;
    const descriptor = openSync(temporary, "w", PRIVATE_FILE);
    try {
      const parts = typeof content === "string" || content instanceof Uint8Array ? [content] : content;
      for (const part of parts) {
        const bytes = typeof part === "string" ? Buffer.from(part) : part;
        for (let done = 0; done < bytes.length; ) done += writeSync(descriptor, bytes, done);
      }
      fsyncSync(descriptor);
    } catch (error) {
      rmSync(temporary, { force: true });
      throw error;
    } finally {
      closeSync(descriptor);
    }
    moveFile(temporary, path);
  },
);

/** Gives a flushed file its name; one of that name is replaced. */
export function moveFile(temporary: string, path: string): void {
  renameSync(temporary, path);
  fsyncPath(dirname(path), true);
}

export interface StreamedFile {
  bytes: number;
}

/** Writes a file from chunks as they come, with the promise of `writeFileDurably`; a stream that breaks off leaves nothing. */
export const streamFile = throwingFileErrors(
  ([path]) => dirname(path),
  async (path: string, chunks: AsyncIterable<Uint8Array>): Promise<StreamedFile> => {
    const temporary = `${path}.${process.pid}.${Math.random().toString(36).slice(2)}.part`;
    const file = await open(temporary, "w", PRIVATE_FILE);
    let bytes = 0;
    try {
      for await (const chunk of chunks) {
        await file.appendFile(chunk);
        bytes += chunk.byteLength;
      }
      await file.sync();
    } catch (error) {
      await file.close();
      await rm(temporary, { force: true });
      throw error;
    }
    await file.close();
    await rename(temporary, path);
    await flush(dirname(path), true);
    return { bytes };
  },
);
