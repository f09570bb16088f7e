// Threads that run a program of this package, from the bundle or from the sources.

import { fileURLToPath } from "node:url";
import type { Worker, WorkerOptions } from "node:worker_threads";
import { packageRequire, program } from "./packageFiles.js";

/** `name` is the program's path below `src`, without its ending. */
export function startThread(name: string, options: WorkerOptions): Worker {
  const file = program(name);
  // The bundle has no sources to run from, and is made without what bears this label.
  // biome-ignore lint/correctness/noUnusedLabels: the bundler drops it by its name.
  // biome-ignore lint/suspicious/noConfusingLabels: as above.
  SOURCES: if (file.pathname.endsWith(".ts")) return threadFromSources(file, options);
  return newWorker(file, options);
}

/** A thread inherits nothing that would read TypeScript. */
function threadFromSources(file: URL, options: WorkerOptions): Worker {
  const tsx = packageRequire.resolve("tsx/cjs/api");
  const start = `require(${JSON.stringify(tsx)}).register(); require(${JSON.stringify(fileURLToPath(file))});`;
  return newWorker(start, { ...options, eval: true });
}

/** What threads need of Node is loaded with the first one. */
function newWorker(start: string | URL, options: WorkerOptions): Worker {
  const threads = packageRequire("node:worker_threads") as typeof import("node:worker_threads");
  return new threads.Worker(start, options);
}
