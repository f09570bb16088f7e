// Threads that run a program of this package, from the bundle or from the sources.

import { fileURLToPath } from "node:url";
import { Worker, type WorkerOptions } from "node:worker_threads";
import { packageRequire, program } from "./packageFiles.js";

/** `name` is the program's path below `src`, without its ending. */
export function startThread(name: string, options: WorkerOptions): Worker {
  const file = program(name);
  // The bundle has no sources to run from, and is made without what bears this label.
  // biome-ignore lint/correctness/noUnusedLabels: the bundler drops it by its name.
  // biome-ignore lint/suspicious/noConfusingLabels: as above.
  SOURCES: if (file.pathname.endsWith(".ts")) return threadFromSources(file, options);
  return new Worker(file, options);
}

/** A thread inherits nothing that would read TypeScript. */
function threadFromSources(file: URL, options: WorkerOptions): Worker {
  const tsx = packageRequire.resolve("tsx/cjs/api");
  const start = `require(${JSON.stringify(tsx)}).register(); require(${JSON.stringify(fileURLToPath(file))});`;
  return new Worker(start, { ...options, eval: true });
}
