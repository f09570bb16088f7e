import { isAbsolute, relative, sep } from "node:path";

/** A path relative to the folder that it lies in, "" where it is that folder; null: it lies elsewhere, on another drive say. */
export function pathWithin(folder: string, path: string): string | null {
  const within = relative(folder, path);
  return isAbsolute(within) || within.split(sep)[0] === ".." ? null : within;
}
