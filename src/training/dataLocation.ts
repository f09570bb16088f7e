// Where a request may take data from: folders of this machine that the operator named, hosts it allowed, or artifacts.

import { lstatSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { systemReason, ValidationError } from "../errors.js";
import { ADAPTER_FILES } from "./checkpointFiles.js";
import type { FileRights, Reader } from "./host.js";

export interface DataSources {
  rights: FileRights;
  allowedHosts: readonly string[];
  /** The folder of an artifact, or null when there is no such one; version null is the latest. */
  artifactFolder(name: { entity: string; project: string; name: string; version: number | null }): string | null;
}

const ARTIFACT = /^wandb-artifact:\/\/\/?([^/:]+)\/([^/:]+)\/([^/:]+)(?::(?:v(\d{1,9})|latest))?$/;

/** The same answer for what is not there and what must not be seen, so that nobody can probe the file system. */
export const NOT_READABLE = "is not there, or outside the folders that data may be read from";

/** Names under which a folder holds trajectories, in order of preference. */
const DATA_FILES = ["trajectories.jsonl", "train.jsonl"];

/**
 * The file on this machine that a `training_data_url` means, or the http(s) URL as it is.
 * @throws ValidationError at `training_data_url` for what is malformed, refused or not there.
 */
export function resolveTrainingData(url: string, sources: DataSources): string {
  const refuse = (msg: string) => ValidationError.at("training_data_url", msg);
  if (/^https?:/i.test(url)) {
    if (!URL.canParse(url)) throw refuse("is no valid URL");
    const { hostname, host, username, password } = new URL(url);
    if (!sources.allowedHosts.includes(hostname) && !sources.allowedHosts.includes(host)) {
      throw refuse(`data from ${hostname} is not allowed here`);
    }
    if (username !== "" || password !== "") throw refuse("must not carry a user name or password");
    return url;
  }
  if (url.startsWith("wandb-artifact:")) {
    const match = ARTIFACT.exec(url);
    if (!match) throw refuse("an artifact is named wandb-artifact:///entity/project/name:vN");
    const [, entity, project, name, version] = match as unknown as [string, string, string, string, string?];
    const folder = sources.artifactFolder({ entity, project, name, version: version ? Number(version) : null });
    if (folder === null)
      throw refuse(`there is no artifact ${entity}/${project}/${name}${version ? `:v${version}` : ""}`);
    return realpathSync(dataFile(folder, refuse));
  }
  const { rights } = sources;
  const place = resolveUnderRoots(url, rights, refuse);
  const file = dataFile(place, refuse);
  return file === place ? file : resolveInFolder(file, rights, refuse);
}

/**
 * What messages call the data that `url` led to: what was asked for, and of a folder or an artifact its file. Others than
 * the owner are told no more of this machine than the file's name.
 */
export function trainingDataName(url: string, data: string, reader: Reader): string {
  if (/^https?:/i.test(url)) return url;
  if (url.startsWith("wandb-artifact:")) return `${url}/${basename(data)}`;
  if (reader === "other") return basename(data);
  const path = /^file:/i.test(url) ? fileURLToPath(url) : url;
  return statSync(path).isDirectory() ? join(path, basename(data)) : path;
}

/** An adapter's folder as `resolveUnderRoots` finds it, if its files may be read too. */
export function resolveAdapterFolder(
  location: string,
  rights: FileRights,
  refuse: (msg: string) => ValidationError,
): string {
  const folder = resolveUnderRoots(location, rights, refuse);
  if (!statSync(folder).isDirectory()) throw refuse("is not a folder");
  for (const name of ADAPTER_FILES) {
    const file = join(folder, name);
    if (lstatSync(file, { throwIfNoEntry: false })) resolveInFolder(file, rights, (msg) => refuse(`${name} ${msg}`));
  }
  return folder;
}

/** A path whose nearest folder that exists may be read: what is made there is seen by whoever reads there. */
export function resolveNewFolder(
  location: string,
  rights: FileRights,
  refuse: (msg: string) => ValidationError,
): string {
  if (rights.roots === null) return resolve(location);
  if (rights.reader === "other") throw refuse("only the owner may have files written");
  if (!isAbsolute(location) || location.includes("\0")) throw refuse("must be an absolute path");
  const path = resolve(location);
  let existing = path;
  while (lstatSync(existing, { throwIfNoEntry: false }) === undefined) existing = dirname(existing);
  const real = resolveUnderRoots(existing, rights, refuse);
  return join(real, relative(existing, path));
}

/** A file found in a folder that was resolved before: what it is itself, and where it leads as a link, is looked at as well. */
function resolveInFolder(file: string, rights: FileRights, refuse: (msg: string) => ValidationError): string {
  if (!rights.followLinks && lstatSync(file).isSymbolicLink()) throw refuse(NOT_READABLE);
  return resolveUnderRoots(file, rights, refuse);
}

/** A path or `file:` URL, links followed, if it lies under one of the roots and is not hidden. */
function resolveUnderRoots(location: string, rights: FileRights, refuse: (msg: string) => ValidationError): string {
  let path = location;
  if (/^file:/i.test(location)) {
    try {
      path = fileURLToPath(location);
    } catch {
      throw refuse("is no valid file URL");
    }
  }
  if (rights.roots === null) {
    try {
      return realpathSync(path);
    } catch (cause) {
      const error = cause as NodeJS.ErrnoException;
      throw refuse(`${path} ${error.code === "ENOENT" ? "is not there" : `cannot be read (${systemReason(error)})`}`);
    }
  }
  if (!isAbsolute(path) || path.includes("\0")) {
    throw refuse("must be a file: URL, an absolute path, an http(s): URL or wandb-artifact:///entity/project/name:vN");
  }
  const hidden = () => refuse(NOT_READABLE);
  try {
    const real = realpathSync(path);
    const inside = rights.roots.some((root) => {
      const base = realpathSync(root);
      return real === base || real.startsWith(base.endsWith(sep) ? base : base + sep);
    });
    if (inside && !rights.isHidden(real)) return real;
  } catch {
    throw hidden();
  }
  throw hidden();
}

function dataFile(path: string, refuse: (msg: string) => ValidationError): string {
  const isFile = (file: string) => statSync(file, { throwIfNoEntry: false })?.isFile() ?? false;
  if (isFile(path)) return path;
  if (!statSync(path).isDirectory()) throw refuse("is neither a file nor a folder");
  const found = DATA_FILES.map((name) => join(path, name)).find(isFile);
  if (found === undefined) throw refuse(`the folder has neither ${DATA_FILES.join(" nor ")}`);
  return found;
}
