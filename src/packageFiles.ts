// Where the package's own files are. This module lies at the top of the sources, and what it is compiled into at the top of
// the output: both are one folder below the package's.

import { extname } from "node:path";

/** The package's folder. */
export const packageFolder = new URL("../", import.meta.url);

/** A program of the package that threads run, named by its path from the top of the sources, without an ending. */
export function program(path: string): URL {
  return new URL(path + extname(import.meta.url), import.meta.url);
}
