// SHA-256 sums of a checkpoint's files, kept in its `meta.json`.

import { createHash } from "node:crypto";
import { lstatSync, readdirSync } from "node:fs";
import { join, sep } from "node:path";
import { ModelFileError } from "../errors.js";
import { openRegularFile, readNext, readRegularFile } from "../regularFile.js";

export const META_FILE = "meta.json";

/** By the file's path in its folder, hexadecimal. */
export type Checksums = Record<string, string>;

const MAX_META_BYTES = 2 ** 20;
const CHUNK_BYTES = 2 ** 20;

/** Of all files that a folder holds now. */
export async function folderChecksums(folder: string): Promise<Checksums> {
  const sums: Checksums = {};
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" }).sort()) {
    const file = join(folder, name);
    if (!lstatSync(file).isDirectory()) sums[name.replaceAll(sep, "/")] = await checksum(file);
  }
  return sums;
}

/** @throws ModelFileError when it is no regular file, or cannot be read. */
async function checksum(file: string): Promise<string> {
  const hash = createHash("sha256");
  const handle = await openRegularFile(file);
  try {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    for (;;) {
      const read = await readNext(handle, file, chunk);
      if (read === 0) return hash.digest("hex");
      hash.update(chunk.subarray(0, read));
    }
  } finally {
    await handle.close();
  }
}

/**
 * Compares the files of a checkpoint with the sums in its `meta.json`: all of which there are sums, or those `named`. A
 * checkpoint without sums (made by an earlier version) passes if its `meta.json` can be read.
 * @throws ModelFileError with code "file_damaged" for the first file that is missing or has changed.
 */
export async function verifyChecksums(folder: string, named?: readonly string[]): Promise<void> {
  const detail = { code: "file_damaged", hint: "put the file back from a backup of the home" };
  for (const [name, sum] of Object.entries(await recordedChecksums(folder))) {
    if (named && !named.includes(name)) continue;
    const file = join(folder, name);
    if ((await checksum(file)) !== sum) {
      throw new ModelFileError(file, "is damaged: it is not what was written", detail);
    }
  }
}

async function recordedChecksums(folder: string): Promise<Checksums> {
  const file = join(folder, META_FILE);
  const text = (await readRegularFile(file, MAX_META_BYTES)).toString("utf8");
  let meta: { sha256?: Checksums };
  try {
    meta = JSON.parse(text) as typeof meta;
  } catch (cause) {
    throw new ModelFileError(file, "is damaged: it is not valid JSON", { cause });
  }
  return meta?.sha256 ?? {};
}
