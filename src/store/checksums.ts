// SHA-256 sums of a checkpoint's files, kept in its `meta.json`.

import { createHash } from "node:crypto";
import { lstatSync, readdirSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join, sep } from "node:path";
import { ModelFileError } from "../errors.js";
import { type FileStamp, fileStamp } from "../fileStamp.js";
import { openRegularFile, readNext, readRegularFile } from "../regularFile.js";
import { PRIVATE_FILE } from "./homeFolder.js";

export const META_FILE = "meta.json";

/** By the file's path in its folder, hexadecimal. */
export type Checksums = Record<string, string>;

const MAX_META_BYTES = 2 ** 20;
const CHUNK_BYTES = 2 ** 20;

/** Of all files that a folder holds now; those whose sums are `known` are not read. */
export async function folderChecksums(folder: string, known: Checksums = {}): Promise<Checksums> {
  const sums: Checksums = {};
  for (const found of readdirSync(folder, { recursive: true, encoding: "utf8" }).sort()) {
    const file = join(folder, found);
    const name = found.replaceAll(sep, "/");
    if (!lstatSync(file).isDirectory()) sums[name] = known[name] ?? (await checksum(file));
  }
  return sums;
}

/**
 * `known`: of a file that is still as this process has read or written it before, that is enough.
 * @throws ModelFileError when it is no regular file, or cannot be read.
 */
async function checksum(file: string, known = false): Promise<string> {
  const hash = createHash("sha256");
  const handle = await openRegularFile(file);
  try {
    const before = await stampOf(handle);
    const sum = known ? knownSums.get(before.text) : undefined;
    if (sum !== undefined) return sum;
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    for (;;) {
      const read = await readNext(handle, file, chunk);
      if (read === 0) break;
      hash.update(chunk.subarray(0, read));
    }
    const found = hash.digest("hex");
    if (before.isSettled && (await stampOf(handle)).text === before.text) remember(before, found);
    return found;
  } finally {
    await handle.close();
  }
}

/** Sums of files by their stamps, the oldest first: of the checkpoints that jobs go on from. */
const knownSums = new Map<string, string>();
const MAX_KNOWN = 256;

function remember({ text }: FileStamp, sum: string): void {
  knownSums.delete(text);
  knownSums.set(text, sum);
  if (knownSums.size > MAX_KNOWN) knownSums.delete(knownSums.keys().next().value!);
}

const stampOf = async (handle: FileHandle) => fileStamp(await handle.stat({ bigint: true }));

/** Bytes that the disk takes while those that follow are written. */
const FLUSHED_TOGETHER = 2 ** 23;

/** Writes a new file, most of which is flushed; each piece is good until the next one is asked for. @returns its sum. */
export async function writeSummed(
  file: string,
  pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<string> {
  const hash = createHash("sha256");
  const handle = await open(file, "wx", PRIVATE_FILE);
  try {
    let unflushed = 0;
    let flushing: Promise<void> = Promise.resolve();
    for await (const piece of pieces) {
      const writing = handle.appendFile(piece);
      hash.update(piece);
      await writing;
      unflushed += piece.byteLength;
      if (unflushed < FLUSHED_TOGETHER) continue;
      unflushed = 0;
      flushing = flushing.then(() => handle.datasync());
      flushing.catch(() => undefined);
    }
    await flushing;
    const sum = hash.digest("hex");
    remember(await stampOf(handle), sum);
    return sum;
  } finally {
    await handle.close();
  }
}

/**
 * Compares the files of a checkpoint with the sums in its `meta.json`: all of which there are sums, or those `named`. A
 * checkpoint without sums (made by an earlier version) passes if its `meta.json` can be read. `known`: files that are
 * still as this process has read or written them before are not read again.
 * @throws ModelFileError with code "file_damaged" for the first file that is missing or has changed.
 */
export async function verifyChecksums(
  folder: string,
  { named, known = false }: { named?: readonly string[]; known?: boolean } = {},
): Promise<void> {
  const detail = { code: "file_damaged", hint: "put the file back from a backup of the home" };
  for (const [name, sum] of Object.entries(await recordedChecksums(folder))) {
    if (named && !named.includes(name)) continue;
    const file = join(folder, name);
    if ((await checksum(file, known)) !== sum) {
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
