// What a GPU's driver made of shaders, kept in the home: the next process need not wait for it again.

import { createHash } from "node:crypto";
import { lstatSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { makeFolder, writeFileDurably } from "./durableFiles.js";

/** Drivers keep some kilobytes for every pipeline. */
const MAX_BYTES = 64 * 2 ** 20;
const HASH_BYTES = 32;

const sha256 = (data: Uint8Array) => createHash("sha256").update(data).digest();
const folderOf = (home: string) => join(home, "pipelines");
const fileOf = (home: string, device: string) => join(folderOf(home), device.replace(":", "-"));

/**
 * Null where there is none, where it is not whole, and where others than this user could have written it: drivers trust it.
 * Whether it is of this driver is for the device to see.
 */
export function readPipelines(home: string, device: string): Uint8Array | null {
  try {
    const file = fileOf(home, device);
    const { mode, size, uid } = lstatSync(file);
    const isPrivate = process.platform === "win32" || ((mode & 0o077) === 0 && uid === process.getuid!());
    if (!lstatSync(file).isFile() || !isPrivate || size > MAX_BYTES) return null;
    const bytes = readFileSync(file);
    const data = bytes.subarray(HASH_BYTES);
    return data.length > 0 && sha256(data).equals(bytes.subarray(0, HASH_BYTES)) ? data : null;
  } catch {
    return null;
  }
}

/** @throws what the file system says */
export function writePipelines(home: string, device: string, data: Uint8Array): void {
  if (data.length === 0 || data.length > MAX_BYTES - HASH_BYTES) return;
  makeFolder(folderOf(home));
  writeFileDurably(fileOf(home, device), Buffer.concat([sha256(data), data]));
}
