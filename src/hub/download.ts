// A file of the hub to a file here: gone on with where an earlier attempt ended, and checked.

import { createHash, type Hash } from "node:crypto";
import { createReadStream, existsSync } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
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
  /** Called with the bytes that are there. */
  onBytes(bytes: number): void;
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
  const received = await alreadyThere(file, partial);
  task.onBytes(received.bytes);
  for (let attempt = 1; !existsSync(partial) || received.bytes < file.bytes; ) {
    const before = received.bytes;
    const failure = await receive(task, partial, received).catch((error: unknown) => error ?? true);
    if (received.bytes >= file.bytes && failure === undefined) break;
    attempt = received.bytes > before ? 1 : attempt + 1;
    if (failure !== undefined && !mayPass(failure)) throw hubError(model, access, failure);
    if (attempt > MAX_ATTEMPTS) throw hubError(model, access, failure ?? new Error("it ends before the file does"));
    await sleep(FIRST_PAUSE_MS * 2 ** (attempt - 1), undefined, { signal: access.signal }).catch(() => {});
    access.signal?.throwIfAborted();
  }
  const digest = received.hash.digest("hex");
  if (received.bytes !== file.bytes || digest !== file.hash) {
    await rm(partial);
    const problem = `what came of ${file.path} has the hash ${digest}, not ${file.hash}: it was damaged on the way`;
    throw new ModelFileError(task.target, problem, { code: "hub_file_damaged", hint: "pull again" });
  }
  await rename(partial, task.target);
}

async function alreadyThere(file: HubFile, partial: string): Promise<Received> {
  const received = { bytes: 0, hash: newHash(file) };
  if (!existsSync(partial)) return received;
  for await (const chunk of createReadStream(partial)) {
    received.hash.update(chunk as Buffer);
    received.bytes += (chunk as Buffer).length;
  }
  if (received.bytes <= file.bytes) return received;
  await rm(partial);
  return { bytes: 0, hash: newHash(file) };
}

/** Git hashes a file behind a line that says how long it is. */
function newHash({ algorithm, bytes }: HubFile): Hash {
  return algorithm === "sha256" ? createHash("sha256") : createHash("sha1").update(`blob ${bytes}\0`);
}

/** Asks for what is missing, and writes it as it comes. */
async function receive({ model, commit, file, access, onBytes }: Download, partial: string, received: Received) {
  const path = file.path.split("/").map(encodeURIComponent).join("/");
  const range: Record<string, string> = received.bytes > 0 ? { Range: `bytes=${received.bytes}-` } : {};
  const response = await hubFetch(access)(`${access.endpoint}/${model.name}/resolve/${commit}/${path}`, {
    // Its bytes are counted.
    headers: { "Accept-Encoding": "identity", ...range },
  });
  if (!response.ok) {
    await response.body?.cancel();
    throw Object.assign(new Error(`status ${response.status}`), { statusCode: response.status });
  }
  if (response.status !== 206 && received.bytes > 0) Object.assign(received, { bytes: 0, hash: newHash(file) });
  const handle = await open(partial, received.bytes === 0 ? "w" : "a");
  try {
    for await (const chunk of response.body ?? []) {
      await handle.writeFile(chunk);
      received.hash.update(chunk);
      received.bytes += chunk.length;
      onBytes(received.bytes);
      if (received.bytes > file.bytes) return;
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Whether another attempt may succeed: the connection failed, or the server is busy. */
function mayPass(failure: unknown): boolean {
  const { statusCode } = failure as { statusCode?: number };
  if (statusCode !== undefined) return statusCode === 408 || statusCode === 429 || statusCode >= 500;
  return failure instanceof TypeError;
}
