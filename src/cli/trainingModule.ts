import { spawnSync } from "node:child_process";
import { extname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { TrainOptions } from "../types/gather.js";
import { UsageError } from "./flags.js";

const ENDINGS = [".js", ".mjs", ".cjs", ".ts", ".mts", ".cts"];

/** What a module says of a training by reinforcement. */
export type TrainingModule = Omit<TrainOptions<unknown>, "model">;

/** @throws UsageError unless a file is named as modules are. */
export function checkModuleName(file: string): void {
  if (ENDINGS.includes(extname(file).toLowerCase())) return;
  throw new UsageError(
    `${file} is neither a .jsonl, .ndjson or .json file of conversations nor a module (${ENDINGS.join(", ")})`,
  );
}

/** @throws UsageError for a file that is no such module, with the place in it where there is one. */
export async function loadTrainingModule(file: string): Promise<TrainingModule> {
  const { default: described } = await load(file);
  if (typeof described !== "object" || described === null) {
    const what =
      described == null ? `${file} has no default export` : `the default export of ${file} is a ${typeof described}`;
    throw new UsageError(`${what}: it should be { scenarios, rollout, groupSize, steps, ... }`);
  }
  for (const field of ["scenarios", "rollout", "groupSize"] as const) {
    if (!(field in described)) throw new UsageError(`the default export of ${file} has no \`${field}\``);
  }
  return described as TrainingModule;
}

async function load(file: string): Promise<{ default?: unknown }> {
  const { href } = pathToFileURL(resolve(file));
  try {
    return await import(href);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException | null)?.code === "ERR_UNKNOWN_FILE_EXTENSION") {
      throw new UsageError(
        `Node ${process.versions.node} does not run TypeScript by itself, which ${file} is`,
        'compile it, or set NODE_OPTIONS="--import tsx" with tsx installed',
      );
    }
    throw new UsageError(`${file} cannot be loaded: ${cause}`, placeOf(cause, file, href));
  }
}

/** Where in the module, or in one that it imports, an error comes from. */
function placeOf(cause: unknown, file: string, href: string): string {
  // Of a syntax error only Node's own report knows the line.
  if (cause instanceof SyntaxError) {
    const [line = ""] = spawnSync(process.execPath, ["--check", file], { encoding: "utf8" }).stderr.split("\n");
    if (/:\d+$/.test(line)) return `at ${line}`;
  }
  const place = /file:\/\/[^\s)]+:\d+/.exec((cause as Partial<Error> | null)?.stack ?? "")?.[0];
  return place
    ? `at ${place.replace(href, file)}`
    : "its default export should be { scenarios, rollout, groupSize, steps, ... }";
}
