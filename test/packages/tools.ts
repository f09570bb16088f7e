// What the tests of packages need from the public registry, fetched once into native/build/tools.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const FOLDER = join(import.meta.dirname, "..", "..", "native", "build", "tools");
const SYSTEM = `${process.platform === "win32" ? "win" : process.platform}-${process.arch}`;

/** Under the names that they are installed by here. */
const TOOLS = {
  npm10: "npm:npm@10",
  npm11: "npm:npm@11",
  npm12: "npm:npm@12",
  pnpm: "10",
  yarn: "npm:@yarnpkg/cli-dist@4",
  bun: `npm:@oven/bun-${SYSTEM}@1`,
  node22: `npm:node-${SYSTEM}@22`,
  node24: `npm:node-${SYSTEM}@24`,
  node26: `npm:node-${SYSTEM}@26`,
};

export type Tool = keyof typeof TOOLS;

const DEPENDENCIES = ["better-sqlite3@13", "node-addon-api@8", "node-api-headers@1"];

function npm(...args: string[]): void {
  execFileSync("npm", [...args, "--ignore-scripts", "--no-audit", "--no-fund", "--force"], {
    cwd: FOLDER,
    stdio: ["ignore", "ignore", "pipe"],
  });
}

/** A file of a tool. */
export function tool(name: Tool, path: string): string {
  const manifest = JSON.stringify({ private: true, dependencies: TOOLS });
  const file = join(FOLDER, "package.json");
  if (!existsSync(join(FOLDER, "node_modules")) || readFileSync(file, "utf8") !== manifest) {
    mkdirSync(FOLDER, { recursive: true });
    writeFileSync(file, manifest);
    npm("install", "--no-package-lock");
    writeFileSync(file, manifest);
  }
  return join(FOLDER, "node_modules", name, path);
}

export const nodeBinary = (name: "node22" | "node24" | "node26"): string =>
  tool(name, process.platform === "win32" ? "bin/node.exe" : "bin/node");

/** Tarballs of everything that the root package depends on. */
export function dependencyTarballs(): string[] {
  const tarballs = () => readdirSync(FOLDER).filter((entry) => entry.endsWith(".tgz"));
  mkdirSync(FOLDER, { recursive: true });
  if (tarballs().length < DEPENDENCIES.length) npm("pack", ...DEPENDENCIES);
  return tarballs().map((entry) => join(FOLDER, entry));
}
