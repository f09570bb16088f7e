// Where the package's own files are. This module lies at the top of the sources, and what it is compiled into at the top of
// the output: both are one folder below the package's.

import { readFileSync } from "node:fs";
import { extname } from "node:path";

/** Written into the bundle when it is made; absent where the sources themselves run. */
declare const ANNEAL_VERSION: string | undefined;

/** The package's folder. */
export const packageFolder = new URL("../", import.meta.url);

/** A program of the package that threads run, named by its path from the top of the sources, without an ending. */
export function program(path: string): URL {
  return new URL(path + extname(import.meta.url), import.meta.url);
}

/** The version of this library, as its package says. */
export function packageVersion(): string {
  if (typeof ANNEAL_VERSION === "string") return ANNEAL_VERSION;
  return (JSON.parse(readFileSync(new URL("package.json", packageFolder), "utf8")) as { version: string }).version;
}
