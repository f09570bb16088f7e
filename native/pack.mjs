// Assembles the packages that are published, as folders and as tarballs, in native/build/packages.
//
//   node native/pack.mjs                                          the root package and one for every platform
//   node native/pack.mjs --targets linux-x64,linux-arm64-musl     only these platforms
//
// The root package holds what `files` of package.json names: the bundle, the embedded model and the sources of the core. A
// platform's package holds the compiled core alone. No package has a script that an installer would run. Cores are compiled by
// Zig, this platform's too, for the oldest systems that they run on.

import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { bundle } from "../.bundle.mjs";
import { CompileError, compile, TARGETS } from "./compile.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const PACKAGES = join(ROOT, "native", "build", "packages");
const root = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));

/** Of Node, for packages: better-sqlite3 brings binaries for these, and none for earlier ones. */
const NODE = ">=22";
const SQLITE = "^13.2.0";
/** glibc of Debian 10, Ubuntu 18.10 and RHEL 8, which Node itself demands. */
const MAX_GLIBC = [2, 28];
/** Of the root package and a platform's together, packed. */
const MAX_PACKED_BYTES = 12e6;

/**
 * @typedef {object} PackOptions
 * @property {string[]} [targets] platforms; all where absent
 * @property {Record<string, string>} [cores] compiled cores by platform, taken as they are; what is not here is compiled
 * @property {string} [folder] where packages are put
 * @property {(line: string) => void} [onProgress]
 */

/**
 * @param {PackOptions} options
 * @returns {Promise<string[]>} the tarballs, the root package's first
 * @throws {CompileError}
 */
export async function packAll(options = {}) {
  const { targets = Object.keys(TARGETS), cores = {}, folder = PACKAGES, onProgress = () => {} } = options;
  mkdirSync(folder, { recursive: true });
  for (const entry of readdirSync(folder)) if (isOurs(entry)) rmSync(join(folder, entry), { recursive: true });
  const tarballs = [];
  for (const target of targets) {
    onProgress(`@anneal/${target}`);
    const core = cores[target] ?? (await compiledCore(target));
    tarballs.push(tarballOf(platformPackage(join(folder, `anneal-${target}`), target, core)));
  }
  onProgress("anneal");
  tarballs.unshift(tarballOf(await rootPackage(join(folder, "anneal"), targets)));
  const [own, ...platforms] = tarballs.map((file) => statSync(file).size);
  for (const [i, size] of platforms.entries()) {
    const sum = own + size;
    onProgress(`${targets[i]}: ${(sum / 1e6).toFixed(1)} MB packed`);
    if (sum > MAX_PACKED_BYTES) throw new Error(`${targets[i]}: ${sum} bytes are more than ${MAX_PACKED_BYTES}`);
  }
  return tarballs;
}

async function compiledCore(target) {
  const core = await compile({ target });
  const [os, , libc] = target.split("-");
  checkSystem(core, os, libc);
  return core;
}

const isOurs = (entry) => /^anneal($|-)/.test(entry);

/** Where the sources are; undefined: not said. A release says where it was made, which is what its provenance proves. */
function repositoryUrl() {
  const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: repository } = process.env;
  return server && repository ? `${server}/${repository}` : undefined;
}

/** What all packages say of themselves. */
function commonFields() {
  const home = repositoryUrl();
  return {
    version: root.version,
    license: root.license,
    author: root.author,
    ...(home && {
      homepage: `${home}#readme`,
      bugs: `${home}/issues`,
      repository: { type: "git", url: `git+${home}.git` },
    }),
  };
}

function rootManifest(targets) {
  const { name, description, keywords, type, exports, bin, dependencies, peerDependencies, peerDependenciesMeta } =
    root;
  return {
    name,
    description,
    keywords,
    ...commonFields(),
    type,
    engines: { node: NODE },
    exports,
    bin,
    sideEffects: false,
    dependencies: { ...dependencies, "better-sqlite3": SQLITE },
    optionalDependencies: Object.fromEntries(targets.map((target) => [`@anneal/${target}`, root.version])),
    peerDependencies,
    peerDependenciesMeta,
  };
}

async function rootPackage(folder, targets) {
  const dist = join(folder, "dist");
  mkdirSync(dist, { recursive: true });
  await bundle({ outdir: dist, node: NODE });
  leadMapsToSources(dist, folder);
  copyDeclarations(dist);
  for (const path of filesOfRoot()) cpSync(join(ROOT, path), join(folder, path));
  leadLinksToRepository(join(folder, "README.md"));
  run(process.execPath, ["--import", "tsx", join(".generate", "openapi.ts"), join(dist, "openapi.json")], ROOT);
  writeManifest(folder, rootManifest(targets));
  return folder;
}

/** A registry shows the README apart from the other files. */
function leadLinksToRepository(file) {
  const home = repositoryUrl();
  if (!home) return;
  const text = readFileSync(file, "utf8");
  const link = (_, image, label, path) =>
    `${image}[${label}](${home}/${image ? "raw" : "blob"}/v${root.version}/${path})`;
  writeFileSync(file, text.replace(/(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)]*)\)/g, link));
}

/** Source maps name the sources where they were; they travel in `folder`. */
function leadMapsToSources(dist, folder) {
  for (const entry of readdirSync(dist, { recursive: true })) {
    if (!entry.endsWith(".map")) continue;
    const file = join(dist, entry);
    const map = JSON.parse(readFileSync(file, "utf8"));
    const moved = (source) =>
      relative(dirname(file), join(folder, relative(ROOT, resolve(dirname(file), source)))).replaceAll("\\", "/");
    writeFileSync(file, JSON.stringify({ ...map, sources: map.sources.map(moved) }));
  }
}

/** What package.json names as `files`, but for what is made anew: its own text and dist. */
function filesOfRoot() {
  const [{ files }] = JSON.parse(run("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], ROOT));
  return files.map(({ path }) => path).filter((path) => path !== "package.json" && !path.startsWith("dist/"));
}

/** The declarations that the public ones lead to. */
function copyDeclarations(dist) {
  const made = `${dist}.types`;
  run(process.execPath, [join(ROOT, "node_modules", "typescript", "bin", "tsc"), "--outDir", made], ROOT);
  const copy = (path) => {
    const text = readFileSync(join(made, path), "utf8");
    mkdirSync(dirname(join(dist, path)), { recursive: true });
    writeFileSync(join(dist, path), text);
    for (const [, name] of text.matchAll(/(?:\bfrom|\bimport\()\s*"(\.[^"]+)"/g)) {
      const next = join(dirname(path), name.replace(/\.js$/, ".d.ts"));
      if (!statSync(join(dist, next), { throwIfNoEntry: false })) copy(next);
    }
  };
  for (const entry of ["index.d.ts", "ai/index.d.ts"]) copy(entry);
  rmSync(made, { recursive: true });
}

function platformPackage(folder, target, core) {
  const [os, cpu, libc] = target.split("-");
  mkdirSync(folder, { recursive: true });
  cpSync(core, join(folder, "anneal.node"));
  cpSync(join(ROOT, "LICENSE"), join(folder, "LICENSE"));
  writeFileSync(join(folder, "README.md"), platformReadme(target));
  writeManifest(folder, {
    name: `@anneal/${target}`,
    description: `The compute core of anneal for ${target}.`,
    ...commonFields(),
    engines: { node: NODE },
    os: [os],
    cpu: [cpu],
    ...(os === "linux" && { libc: [libc ?? "glibc"] }),
    main: "anneal.node",
    files: ["anneal.node"],
    preferUnplugged: true,
  });
  return folder;
}

function platformReadme(target) {
  return `# @anneal/${target}

The compute core of [anneal](https://www.npmjs.com/package/anneal) for ${target}, compiled. Installing \`anneal\` installs it
where it fits; it is of no use by itself.

It contains LLVM's libc++, libc++abi and libunwind, under the Apache License 2.0 with LLVM Exceptions.
`;
}

/**
 * Symbols of a later C library, or of a C++ library, keep a core from loading on systems that it is meant for.
 * @param {string} core
 * @param {string} os
 * @param {string | undefined} libc
 */
export function checkSystem(core, os, libc) {
  if (os !== "linux") return;
  const names = readFileSync(core).toString("latin1");
  if (/GLIBCXX_\d|CXXABI_\d/.test(names)) throw new Error(`${core} needs the C++ library of the machine that made it`);
  const versions = [...names.matchAll(/GLIBC_(\d+)\.(\d+)/g)].map(([, major, minor]) => [Number(major), Number(minor)]);
  if (libc === "musl" && versions.length > 0) throw new Error(`${core} is for glibc, not for musl`);
  if (libc !== "musl" && versions.length === 0) throw new Error(`${core} is not for glibc`);
  for (const [major, minor] of versions) {
    if (major > MAX_GLIBC[0] || (major === MAX_GLIBC[0] && minor > MAX_GLIBC[1])) {
      throw new Error(`${core} needs glibc ${major}.${minor}; packages are for ${MAX_GLIBC.join(".")}`);
    }
  }
}

function writeManifest(folder, manifest) {
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
}

/** Packed by npm, beside the folder, which is put in order: the same content is the same tarball. */
function tarballOf(folder) {
  const [{ filename }] = JSON.parse(run("npm", ["pack", "--json", "--ignore-scripts"], folder));
  const file = join(dirname(folder), `${basename(folder)}.tgz`);
  renameSync(join(folder, filename), file);
  return file;
}

function run(program, args, cwd) {
  const { status, stdout, stderr, error } = spawnSync(program, args, { cwd, encoding: "utf8" });
  if (status === 0) return stdout;
  throw new Error(`${program} ${args.join(" ")} failed: ${error?.message ?? stdout + stderr}`, { cause: error });
}

if (process.argv[1] && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { targets: { type: "string" } } });
  try {
    const onProgress = (line) => process.stdout.write(`${line}\n`);
    const tarballs = await packAll({ targets: values.targets?.split(","), onProgress });
    for (const file of tarballs) process.stdout.write(`${relative(process.cwd(), file)}\n`);
  } catch (error) {
    if (!(error instanceof CompileError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  }
}
