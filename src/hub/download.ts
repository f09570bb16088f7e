// A file of the hub to a file here: gone on with where an earlier attempt ended, and checked.

import { createHash, type Hash } from "node:crypto";
import { constants, existsSync } from "node:fs";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { ModelFileError } from "../errors.js";
import type { HubModel } from "./hubCache.js";
import { type HubAccess, type HubFile, hubError, hubFetch } from "./hubFiles.js";

/** Attempts in a row that bring nothing. */
const MAX_ATTEMPTS = 5;
const FIRST_PAUSE_MS = 250;

export interface Download {
  model: HubModel;
  commit: string;
  file: HubFile;
  access: HubAccess;
  /** Where it comes to lie; until then it is `target` with `.incomplete` behind it, as with the hub's other programs. */
  target: string;
  /** Called with the bytes that are there, and waited for. */
  onBytes(bytes: number): void | Promise<void>;
}

/** What has come of a file. */
interface Received {
  bytes: number;
  /** Of these. */
  hash: Hash;
}

/** @throws AnnealError; what has come by then is kept for the next attempt, unless it is wrong. */
export async function download(task: Download): Promise<void> {
  const { model, access, file } = task;
  const partial = `${task.target}.incomplete`;
  // Others may go on with the same part. Nobody cuts it off, and each writes every byte to its place, so that all write the same.
  const handle = await open(partial, constants.O_RDWR | constants.O_CREAT);
  try {
    const received = await alreadyThere(file, handle);
    await task.onBytes(received.bytes);
    for (let attempt = 1; received.bytes < file.bytes; ) {
      const before = received.bytes;
      const failure = await receive(task, handle, received).then(() => null, whatInterrupted);
      if (received.bytes >= file.bytes && failure === null) break;
      attempt = received.bytes > before ? 1 : attempt + 1;
      if (failure !== null && !mayPass(failure.cause)) throw hubError(model, access, failure.cause);
      if (attempt > MAX_ATTEMPTS)
        throw hubError(model, access, failure?.cause ?? new Error("it ends before the file does"));
      await sleep(FIRST_PAUSE_MS * 2 ** (attempt - 1), undefined, { signal: access.signal }).catch(() => {});
      access.signal?.throwIfAborted();
    }
    const digest = received.hash.digest("hex");
    if (received.bytes !== file.bytes || digest !== file.hash) {
      await rm(partial, { force: true });
      const problem = `what came of ${file.path} has the hash ${digest}, not ${file.hash}: it was damaged on the way`;
      throw new ModelFileError(task.target, problem, { code: "hub_file_damaged", hint: "pull again" });
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(partial, task.target).catch((error: unknown) => {
    // Another download of it was there first.
    if (!existsSync(task.target)) throw error;
  });
}

async function alreadyThere(file: HubFile, partial: FileHandle): Promise<Received> {
  const received = { bytes: 0, hash: newHash(file) };
  for await (const chunk of partial.createReadStream({ start: 0, autoClose: false })) {
    received.hash.update(chunk as Buffer);
    received.bytes += (chunk as Buffer).length;
  }
  if (received.bytes <= file.bytes) return received;
  await partial.truncate();
  return { bytes: 0, hash: newHash(file) };
}

/** Git hashes a file behind a line that says how long it is. */
function newHash({ algorithm, bytes }: HubFile): Hash {
  return algorithm === "sha256" ? createHash("sha256") : createHash("sha1").update(`blob ${bytes}\0`);
}

/** What comes between here and the hub. Everything else, such as a disk that is full, is no matter of the hub's. */
class Interruption extends Error {
  constructor(override readonly cause: unknown) {
    super("the hub does not answer", { cause });
  }
}

const interrupted = (cause: unknown): never => {
  throw new Interruption(cause);
};

function whatInterrupted(error: unknown): Interruption {
  if (error instanceof Interruption) return error;
  throw error;
}

/** Asks for what is missing, and writes it as it comes. @throws Interruption */
async function receive({ model, commit, file, access, onBytes }: Download, partial: FileHandle, received: Received) {
  const path = file.path.split("/").map(encodeURIComponent).join("/");
  const range: Record<string, string> = received.bytes > 0 ? { Range: `bytes=${received.bytes}-` } : {};
  const response = await hubFetch(access)(`${access.endpoint}/${model.name}/resolve/${commit}/${path}`, {
    // Its bytes are counted.
    headers: { "Accept-Encoding": "identity", ...range },
  }).catch(interrupted);
  if (!response.ok) {
    await response.body?.cancel();
    throw new Interruption({ statusCode: response.status });
  }
  if (response.status !== 206 && received.bytes > 0) Object.assign(received, { bytes: 0, hash: newHash(file) });
  const reader = response.body!.getReader();
  try {
    while (received.bytes <= file.bytes) {
      const { done, value } = await reader.read().catch(interrupted);
      if (done) return;
      await writeAt(partial, value, received.bytes);
      received.hash.update(value);
      received.bytes += value.length;
      await onBytes(received.bytes);
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

async function writeAt(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

/** Whether another attempt may succeed: the connection failed, or the server is busy. */
function mayPass(failure: unknown): boolean {
  const { statusCode } = failure as { statusCode?: number };
  if (statusCode !== undefined) return statusCode === 408 || statusCode === 429 || statusCode >= 500;
  return failure instanceof TypeError;
}
