// Models of the hub into the cache of this machine.

import { randomUUID } from "node:crypto";
import { existsSync, statfsSync } from "node:fs";
import { copyFile, rename, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { NotFoundError, UnavailableError, ValidationError } from "../errors.js";
import { throwingFileErrors } from "../fileErrors.js";
import { makeFolders } from "../makeFolders.js";
import type { PulledModel, PullOptions } from "../types/hub.js";
import { download } from "./download.js";
import {
  cachedModel,
  type HubModel,
  hubCacheFolder,
  isHubOffline,
  parseHubModel,
  repositoryFolder,
} from "./hubCache.js";
import { type HubAccess, type HubFile, hubToken, listRepository, neededFiles } from "./hubFiles.js";

const DEFAULT_ENDPOINT = "https://huggingface.co";

/** As `pullModel` of index.ts. */
export const pullModel = throwingFileErrors(
  () => hubCacheFolder(),
  async (name: string, { include = [], signal, onProgress }: PullOptions = {}): Promise<PulledModel> => {
    const model = parseHubModel(name);
    if (model === null) throw ValidationError.at("name", `must be OWNER/NAME or OWNER/NAME@REVISION, not "${name}"`);
    const cache = hubCacheFolder();
    if (isHubOffline()) return offline(model, cache);
    const endpoint = (process.env.HF_ENDPOINT || DEFAULT_ENDPOINT).replace(/\/+$/, "");
    const access: HubAccess = { endpoint, token: await hubToken(), ...(signal && { signal }) };
    const { commit, files } = await listRepository(model, access);
    const needed = neededFiles(files, include);
    checkLoadable(model, files, needed);
    const repository = repositoryFolder(cache, model.name);
    const missing = needed.filter((file) => !existsSync(blobOf(repository, file)));
    makeFolders(join(repository, "blobs"));
    checkRoom(repository, missing);
    const total = missing.reduce((sum, { bytes }) => sum + bytes, 0);
    const folder = join(repository, "snapshots", commit);
    let done = 0;
    for (const file of needed) {
      const target = blobOf(repository, file);
      const isMissing = missing.includes(file);
      if (isMissing) {
        let resumed: number | null = null;
        const onBytes = async (bytes: number) => {
          resumed ??= bytes;
          await onProgress?.({ file: file.path, bytes, size: file.bytes, resumed, done: done + bytes, total });
        };
        await download({ model, commit, file, access, target, onBytes });
        done += file.bytes;
      }
      await link(target, join(folder, file.path));
    }
    // Last: what a name stands for is whole.
    if (model.revision !== commit) await writeRef(repository, model.revision, commit);
    return {
      ...{ name: model.name, revision: commit, path: folder },
      files: needed.map((file) => ({ path: file.path, bytes: file.bytes, downloaded: missing.includes(file) })),
    };
  },
);

async function offline(model: HubModel, cache: string): Promise<PulledModel> {
  const path = cachedModel(model, cache);
  if (path !== null) return { name: model.name, revision: path.slice(-40), path, files: [] };
  throw new UnavailableError(`${model.name} is not in ${cache}, and HF_HUB_OFFLINE forbids to ask the hub for it`, {
    code: "hub_offline",
    hint: "unset HF_HUB_OFFLINE",
  });
}

function checkLoadable({ name }: HubModel, files: readonly HubFile[], needed: readonly HubFile[]): void {
  const has = (found: readonly HubFile[], pattern: RegExp) => found.some(({ path }) => pattern.test(path));
  if (has(needed, /^model.*\.safetensors$|\.onnx$/) && has(needed, /^config\.json$/)) return;
  const other = has(files, /\.gguf$/)
    ? "GGUF files"
    : has(files, /\.(bin|pt|pth|onnx)$/)
      ? "weights in other formats"
      : null;
  throw new NotFoundError(
    `${name} holds no model in safetensors${other === null ? "" : `, only ${other}`}, so anneal cannot load it`,
    {
      ...{ code: "hub_no_safetensors", param: "name" },
      hint: has(files, /\.onnx$/)
        ? 'ask for the graph as well: --include "onnx/*"'
        : "name the repository that it was made from, of which model.safetensors or its parts are a file",
    },
  );
}

function checkRoom(folder: string, missing: readonly HubFile[]): void {
  const needed = missing.reduce((sum, { bytes }) => sum + bytes, 0);
  const { bavail, bsize } = statfsSync(folder);
  const free = bavail * bsize;
  if (needed <= free) return;
  const megabytes = (bytes: number) => `${Math.ceil(bytes / 1e6)} MB`;
  throw new UnavailableError(
    `${megabytes(needed)} are to be downloaded to ${folder}, where ${megabytes(free)} are free`,
    {
      code: "disk_full",
      hint: "free some, or put the cache on another disk with HF_HUB_CACHE",
    },
  );
}

const blobOf = (repository: string, { hash }: HubFile): string => join(repository, "blobs", hash);

/** Where a system has no links (Windows without the right to make them) the file itself lies there. */
async function link(blob: string, pointer: string): Promise<void> {
  if (existsSync(pointer)) return;
  makeFolders(dirname(pointer));
  const target = relative(dirname(pointer), blob);
  await symlink(target, pointer).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code === "EEXIST" && (await stat(pointer).catch(() => null)) !== null) return;
    if (error.code !== "EPERM" && error.code !== "ENOSYS") throw error;
    await copyFile(blob, `${pointer}.incomplete`);
    await rename(`${pointer}.incomplete`, pointer);
  });
}

async function writeRef(repository: string, revision: string, commit: string): Promise<void> {
  const ref = join(repository, "refs", revision);
  makeFolders(dirname(ref));
  // A ref that a killed process left empty would hide a model that is there.
  const part = join(repository, `${randomUUID()}.part`);
  await writeFile(part, commit, { flush: true });
  await rename(part, ref);
}
