// Makes `anneal` as one file for this platform: Node's single executable application, which carries the package, the core,
// SQLite and the embedded model.
//
//   node native/binary/build.mjs [--core FILE]     native/build/binary/anneal; FILE: a compiled core, instead of Zig's
//
// Node itself and SQLite's binary come from npm, and are kept in native/build/binary/parts.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { packAll } from "../pack.mjs";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const FOLDER = join(HERE, "..", "build", "binary");
const PARTS = join(FOLDER, "parts");
const TARGET = `${process.platform}-${process.arch}`;
const WINDOWS = process.platform === "win32";
/** The first that makes such files by itself. */
const NODE = `node-${WINDOWS ? "win" : process.platform}-${process.arch}@26`;
const SQLITE = "better-sqlite3@13";

/**
 * @param {{ core?: string }} options
 * @returns {Promise<string>} the file
 */
export async function buildBinary({ core } = {}) {
  const files = join(FOLDER, "files");
  rmSync(files, { recursive: true, force: true });
  mkdirSync(PARTS, { recursive: true });
  writeFileSync(join(PARTS, "package.json"), '{ "private": true }\n');
  run(
    "npm",
    ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--force", NODE, SQLITE],
    PARTS,
  );

  const packages = join(FOLDER, "packages");
  await packAll({ targets: [TARGET], cores: core ? { [TARGET]: resolve(core) } : {}, folder: packages });
  const modules = join(files, "node_modules");
  const isNeeded = (path) => !/\.(map|d\.ts)$/.test(path);
  for (const entry of ["dist", "models", "package.json", "LICENSE"]) {
    cpSync(join(packages, "anneal", entry), join(modules, "anneal", entry), { recursive: true, filter: isNeeded });
  }
  cpSync(join(packages, `anneal-${TARGET}`), join(modules, "@anneal", TARGET), { recursive: true });
  const sqlite = join(PARTS, "node_modules", "better-sqlite3");
  for (const entry of ["lib", "package.json", "LICENSE", `prebuilds/${TARGET}.node`]) {
    cpSync(join(sqlite, entry), join(modules, "better-sqlite3", entry), { recursive: true });
  }
  writeFileSync(join(files, "start.cjs"), 'import("./node_modules/anneal/dist/cli/main.js");\n');
  writeArchive(files);

  const node = join(PARTS, "node_modules", NODE.split("@")[0], "bin", WINDOWS ? "node.exe" : "node");
  const output = join(FOLDER, WINDOWS ? "anneal.exe" : "anneal");
  const config = {
    main: join(HERE, "start.cjs"),
    output,
    disableExperimentalSEAWarning: true,
    assets: { index: join(FOLDER, "index.json"), data: join(FOLDER, "data") },
  };
  writeFileSync(join(FOLDER, "config.json"), JSON.stringify(config));
  run(node, ["--build-sea", join(FOLDER, "config.json")], FOLDER);
  return output;
}

/** Every file in one, and a list that says where it lies and what it must be. */
function writeArchive(folder) {
  const paths = readdirSync(folder, { recursive: true }).filter((path) => statSync(join(folder, path)).isFile());
  let offset = 0;
  const contents = [];
  const entries = paths.sort().map((path) => {
    const content = readFileSync(join(folder, path));
    const entry = { path: path.replaceAll("\\", "/"), offset, size: content.length, sha256: sha256(content) };
    offset += content.length;
    contents.push(content);
    return entry;
  });
  const digest = sha256(JSON.stringify(entries)).slice(0, 32);
  writeFileSync(join(FOLDER, "index.json"), JSON.stringify({ digest, entries }));
  writeFileSync(join(FOLDER, "data"), Buffer.concat(contents));
}

const sha256 = (content) => createHash("sha256").update(content).digest("hex");

function run(program, args, cwd) {
  const { status, stdout, stderr, error } = spawnSync(program, args, { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")} failed: ${error?.message ?? stdout + stderr}`);
}

if (process.argv[1] && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { core: { type: "string" } } });
  const file = await buildBinary(values);
  process.stdout.write(`${relative(process.cwd(), file)}  ${(statSync(file).size / 1e6).toFixed(0)} MB\n`);
}
