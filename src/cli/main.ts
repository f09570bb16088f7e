#!/usr/bin/env node
// The command: first that what Node compiles of it is kept for the next time, then everything else.

import nodeModule from "node:module";
import { compiledCodeFolder } from "../userFolder.js";

/** Of Node 22.8 and later; it does nothing where the folder cannot be made. */
type EnableCompileCache = ((folder: string) => unknown) | undefined;

const { enableCompileCache } = nodeModule as { enableCompileCache?: EnableCompileCache };
if (process.env.NODE_COMPILE_CACHE === undefined) {
  // Not in the folder for temporary files, where others could put code for this user.
  enableCompileCache?.(compiledCodeFolder());
}
await import("./commandLine.js");
