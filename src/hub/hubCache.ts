// What lies on this machine of models of the Hugging Face hub: the cache that its other programs share.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { userCacheFolder, userFolder } from "../userFolder.js";

/** A model of the hub, at one of its revisions. */
export interface HubModel {
  /** `OWNER/NAME` */
  name: string;
  /** A branch, a tag or a commit. */
  revision: string;
}

export const DEFAULT_REVISION = "main";

const NAME = /^([\w-][\w.-]*\/[\w-][\w.-]*)(?:@([\w.][\w./-]*))?$/;

/** Of a page of the hub, also one that was taken for a path, which has one slash less. */
const ADDRESS = /^(?:https?:\/+|hf:\/+)?(?:(?:www\.)?huggingface\.co\/|hf\.co\/)?/;

/** `OWNER/NAME` or `OWNER/NAME@REVISION`, or the address of its page; null: the text is no such name. */
export function parseHubModel(text: string): HubModel | null {
  const [address] = ADDRESS.exec(text)!;
  const page =
    address === ""
      ? text
      : text
          .slice(address.length)
          .replace(/\/tree\//, "@")
          .replace(/\/$/, "");
  const [, name, revision = DEFAULT_REVISION] = NAME.exec(page) ?? [];
  if (name === undefined || /\.\.|--/.test(name) || revision.split("/").includes("..")) return null;
  return { name, revision };
}

/** The same of a path, which may be a name that was taken for a folder of the current one. */
export function hubModelOfPath(path: string): HubModel | null {
  return parseHubModel(relative(process.cwd(), path).split(sep).join("/"));
}

/** HF_HUB_CACHE, or the folder `hub` of HF_HOME, which is `~/.cache/huggingface` where nothing else is said. */
export function hubCacheFolder(): string {
  const { HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE } = process.env;
  return expanded(HF_HUB_CACHE || HUGGINGFACE_HUB_CACHE || join(hubHome(), "hub"));
}

/** Where the hub's programs keep what they keep, such as the token that `hf auth login` writes. */
export function hubHome(): string {
  return expanded(process.env.HF_HOME || join(userCacheFolder(), "huggingface"));
}

/** Whether HF_HUB_OFFLINE (or the one of transformers) forbids the network. */
export function isHubOffline(): boolean {
  const { HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE } = process.env;
  return [HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE].some((value) => /^(1|on|yes|true)$/i.test(value ?? ""));
}

export const repositoryFolder = (cache: string, name: string): string =>
  join(cache, `models--${name.replace("/", "--")}`);

/** The folder of a model as the cache has it, which may lack files; null: the cache knows no such revision. */
export function snapshotFolder({ name, revision }: HubModel, cache = hubCacheFolder()): string | null {
  const repository = repositoryFolder(cache, name);
  const ref = join(repository, "refs", revision);
  const commit = existsSync(ref) ? readFileSync(ref, "utf8").trim() : revision;
  const folder = join(repository, "snapshots", commit);
  return /^[0-9a-f]{40}$/.test(commit) && existsSync(folder) ? folder : null;
}

/** The same, where all is there that a model needs. */
export function cachedModel(model: HubModel, cache = hubCacheFolder()): string | null {
  const folder = snapshotFolder(model, cache);
  return folder !== null && isWhole(folder) ? folder : null;
}

function isWhole(folder: string): boolean {
  const has = (file: string) => existsSync(join(folder, file));
  if (!has("config.json")) return false;
  if (has("model.safetensors")) return true;
  const graphs = [folder, join(folder, "onnx")].filter(existsSync).flatMap((place) => readdirSync(place));
  if (graphs.some((file) => file.endsWith(".onnx"))) return true;
  try {
    const index = JSON.parse(readFileSync(join(folder, "model.safetensors.index.json"), "utf8"));
    return Object.values((index as { weight_map: Record<string, string> }).weight_map).every(has);
  } catch {
    return false;
  }
}

const expanded = (path: string): string => path.replace(/^~(?=$|[\\/])/, userFolder());
