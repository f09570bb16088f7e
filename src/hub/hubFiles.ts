// What a repository of the hub holds, and which of it a model needs.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type AnnealError, AuthenticationError, NotFoundError, UnavailableError } from "../errors.js";
import { type HubModel, hubHome } from "./hubCache.js";

export interface HubFile {
  /** In the repository. */
  path: string;
  bytes: number;
  /** What its content hashes to: SHA-256 of a large file, Git's own hash of a small one. It names the file in the cache. */
  hash: string;
  algorithm: "sha256" | "git";
}

export interface HubAccess {
  endpoint: string;
  token: string | null;
  signal?: AbortSignal;
}

/** HF_TOKEN, or the token that `hf auth login` left. */
export async function hubToken(): Promise<string | null> {
  const { HF_TOKEN, HUGGING_FACE_HUB_TOKEN, HF_TOKEN_PATH } = process.env;
  const given = (HF_TOKEN || HUGGING_FACE_HUB_TOKEN)?.trim();
  if (given) return given;
  const file = HF_TOKEN_PATH || join(hubHome(), "token");
  return (await readFile(file, "utf8").catch(() => "")).trim() || null;
}

/** A request to the hub. What a redirection leads to on another host never sees the token. */
export function hubFetch({ token, signal }: HubAccess): typeof fetch {
  return (url, init = {}) => {
    const headers = new Headers(init.headers);
    headers.set("User-Agent", "anneal");
    if (token !== null) headers.set("Authorization", `Bearer ${token}`);
    return fetch(url, { ...init, headers, signal: signal ?? null });
  };
}

/** The commit of a revision and all its files. @throws AnnealError saying what the hub said, and what to do. */
export async function listRepository(
  model: HubModel,
  access: HubAccess,
): Promise<{ commit: string; files: HubFile[] }> {
  const { listFiles, modelInfo } = await import("./hubApi.js");
  const request = { hubUrl: access.endpoint, fetch: hubFetch(access) };
  try {
    const { name, revision } = model;
    const { sha } = await modelInfo({ name, revision, additionalFields: ["sha"], ...request });
    const files: HubFile[] = [];
    for await (const { type, path, size, oid, lfs } of listFiles({
      ...{ repo: { type: "model", name }, revision: sha, recursive: true },
      ...request,
    })) {
      if (type !== "file" || !isInside(path)) continue;
      if (lfs !== undefined) files.push({ path, bytes: lfs.size, hash: lfs.oid, algorithm: "sha256" });
      else if (oid !== undefined) files.push({ path, bytes: size, hash: oid, algorithm: "git" });
    }
    return { commit: sha, files: files.filter(({ hash }) => /^[0-9a-f]{40,64}$/.test(hash)) };
  } catch (error) {
    throw hubError(model, access, error);
  }
}

/** A name from elsewhere must not lead out of the folder that it is put into. */
const isInside = (path: string): boolean => path.split("/").every((part) => !/^\.{0,2}$|[\\:\0]/.test(part));

/** @param error of a request; what the hub refused has its status as `statusCode`. */
export function hubError(
  { name, revision }: HubModel,
  { endpoint, token, signal }: HubAccess,
  error: unknown,
): unknown {
  if (signal?.aborted) return signal.reason;
  const status = (error as { statusCode?: number }).statusCode;
  const page = `${endpoint}/${name}`;
  if (status === undefined) {
    const cause = (error as { cause?: { code?: string; message?: string } }).cause;
    const why = cause?.code ?? cause?.message ?? (error as Error).message;
    return new UnavailableError(`${endpoint} cannot be reached: ${why}`, { code: "hub_unreachable", cause: error });
  }
  return hubRefusal(status, name, revision, page, token !== null, error);
}

function hubRefusal(
  status: number,
  name: string,
  revision: string,
  page: string,
  hasToken: boolean,
  cause: unknown,
): AnnealError {
  const code = (name: string) => ({ code: name, param: "name", cause });
  if (status === 401 || status === 403) {
    const problem = status === 401 ? "is not there, or is not for everybody" : "is not for this token";
    const terms = `its terms may have to be accepted at ${page}`;
    return new AuthenticationError(`${name} ${problem} (${status})`, {
      ...code("hub_access_denied"),
      hint: hasToken ? `check the name and the token; ${terms}` : `check the name, or set HF_TOKEN; ${terms}`,
    });
  }
  if (status === 404) {
    return new NotFoundError(`the hub has no model ${name} with a revision ${revision}`, {
      ...code("hub_not_found"),
      hint: `check the name at ${page}`,
    });
  }
  return new UnavailableError(`the hub answers with status ${status}`, { code: "hub_unavailable", cause });
}

const INDEX = "model.safetensors.index.json";

/**
 * What a model needs of a repository: weights in safetensors once, its configuration, tokenizer and templates; and what matches
 * `include`, in which `*` stands for any characters.
 */
export function neededFiles(files: readonly HubFile[], include: readonly string[]): HubFile[] {
  const asked = include.map(globPattern);
  const hasSingle = files.some(({ path }) => path === "model.safetensors");
  const isNeeded = ({ path }: HubFile) => {
    if (/^additional_chat_templates\/[^/]+\.jinja$/.test(path)) return true;
    // Of models that make vectors: what stands behind the decoder.
    if (/^\d+_\w+\/(config\.json|model\.safetensors)$/.test(path)) return true;
    if (path.includes("/")) return false;
    if (path === INDEX || /^model-\d+-of-\d+\.safetensors$/.test(path)) return !hasSingle;
    if (path.endsWith(".safetensors")) return path === "model.safetensors";
    return /\.(json|jinja)$|^(merges|vocab)\.txt$|^LICENSE/.test(path) && !path.endsWith(".index.json");
  };
  return files
    .filter((file) => isNeeded(file) || asked.some((pattern) => pattern.test(file.path)))
    .sort((a, b) => a.bytes - b.bytes);
}

function globPattern(glob: string): RegExp {
  const escaped = glob.split("*").map((text) => text.replace(/[\\^$.|?+()[\]{}]/g, "\\$&"));
  return new RegExp(`^${escaped.join(".*")}$`);
}
