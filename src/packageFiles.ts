// Where the package's own files are. This module lies at the top of the sources, and what it is compiled into at the top of
// the output: both are one folder below the package's. In an application's bundle it lies anywhere; the package is then
// looked for where the application would import it from.

import { readFileSync } from "node:fs";
import nodeModule from "node:module";
import { extname } from "node:path";
import { pathToFileURL } from "node:url";
import { UnavailableError } from "./errors.js";

/** Written into the bundle when it is made; absent where the sources themselves run. */
declare const ANNEAL_VERSION: string | undefined;
declare const ANNEAL_NODE: string | undefined;

interface Manifest {
  name?: string;
  version: string;
  engines: { node: string };
  optionalDependencies?: Record<string, string>;
}

/** By the default export: webpack puts something of its own in place of the named one. */
const { createRequire } = nodeModule;

/** Bundles in the form of CommonJS have no `import.meta.url`. */
const here: string = import.meta.url ?? pathToFileURL(__filename).href;

/** Finds packages that this one depends on. */
export const packageRequire = createRequire(here);

/** null: this is not the package's own file. */
function ownFolder(): URL | null {
  const folder = new URL("../", here);
  return manifest(folder)?.name === "anneal" ? folder : null;
}

let found: URL | undefined;

/** The package's folder. @throws UnavailableError `package_missing` where an application's bundle was moved away from it. */
export function packageFolder(): URL {
  found ??= ownFolder() ?? installedFolder();
  return found;
}

function installedFolder(): URL {
  const application = createRequire(pathToFileURL(`${process.cwd()}/`));
  for (const require of [packageRequire, application]) {
    try {
      return new URL("./", pathToFileURL(require.resolve("anneal/package.json")));
    } catch {
      // Not from there.
    }
  }
  throw new UnavailableError(`the files of the package anneal are not found from ${here}`, {
    code: "package_missing",
    hint: "keep node_modules/anneal beside the bundle, or name anneal as external to the bundler",
  });
}

/** A program of the package that threads run, named by its path from the top of the sources, without an ending. */
export function program(path: string): URL {
  return ownFolder() ? new URL(path + extname(here), here) : builtFile(`${path}.js`);
}

/** A file of the bundle, named by its path from its top. */
export const builtFile = (path: string): URL =>
  ownFolder() ? new URL(path, here) : new URL(`dist/${path}`, packageFolder());

/** The version of this library, as its package says. */
export function packageVersion(): string {
  return typeof ANNEAL_VERSION === "string" ? ANNEAL_VERSION : manifest(packageFolder())!.version;
}

/** The oldest major version of Node that this package is made for. */
export function minNode(): number {
  const range = typeof ANNEAL_NODE === "string" ? ANNEAL_NODE : manifest(packageFolder())!.engines.node;
  return Number.parseInt(range.replace(/^\D*/, ""), 10);
}

/** Whether an installer brings `name` with this package where it fits the machine: published packages name cores, a clone has none. */
export const isOptionalDependency = (name: string): boolean =>
  manifest(packageFolder())?.optionalDependencies?.[name] !== undefined;

function manifest(folder: URL): Manifest | null {
  try {
    return JSON.parse(readFileSync(new URL("package.json", folder), "utf8")) as Manifest;
  } catch {
    return null;
  }
}
