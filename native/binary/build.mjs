// Makes `anneal` as one file for this platform: Node's single executable application, which carries the package, the core,
// SQLite and the embedded model.
//
//   node native/binary/build.mjs [--core FILE]     native/build/binary/anneal; FILE: a compiled core, instead of Zig's
//   node native/binary/build.mjs --node FILE       with this Node, 24 or later, of this platform or of musl on it: it is run here
//
// Otherwise Node comes from npm, as SQLite's binary does; both are kept in the folder's `parts`.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { packAll } from "../pack.mjs";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const SYSTEM = `${process.platform}-${process.arch}`;
const WINDOWS = process.platform === "win32";
/** The first that makes such files by itself. */
const NODE = `node-${WINDOWS ? "win" : process.platform}-${process.arch}@26`;
const SQLITE = "better-sqlite3@13";
/** Puts a blob into a Node that cannot do it by itself. */
const POSTJECT = "postject@1.0.0-alpha.6";
/** What Node looks for in its own file; its documentation names it. */
const FUSE = "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2";

/**
 * @param {{ core?: string, node?: string }} options
 * @returns {Promise<string>} the file
 */
export async function buildBinary({ core, node: givenNode } = {}) {
  const target = givenNode && isMusl(givenNode) ? `${SYSTEM}-musl` : SYSTEM;
  const folder = join(HERE, "..", "build", target === SYSTEM ? "binary" : `binary-${target}`);
  const files = join(folder, "files");
  const parts = join(folder, "parts");
  rmSync(files, { recursive: true, force: true });
  mkdirSync(parts, { recursive: true });
  writeFileSync(join(parts, "package.json"), '{ "private": true }\n');
  run(
    "npm",
    [
      ...["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--force"],
      ...[SQLITE, givenNode ? POSTJECT : NODE],
    ],
    parts,
  );

  const packages = join(folder, "packages");
  await packAll({ targets: [target], cores: core ? { [target]: resolve(core) } : {}, folder: packages });
  const modules = join(files, "node_modules");
  const isNeeded = (path) => !/\.(map|d\.ts)$/.test(path);
  for (const entry of ["dist", "models", "package.json", "LICENSE"]) {
    cpSync(join(packages, "anneal", entry), join(modules, "anneal", entry), { recursive: true, filter: isNeeded });
  }
  cpSync(join(packages, `anneal-${target}`), join(modules, "@anneal", target), { recursive: true });
  const sqlite = join(parts, "node_modules", "better-sqlite3");
  const prebuilt = `${target.endsWith("-musl") ? "linuxmusl" : process.platform}-${process.arch}.node`;
  for (const entry of ["lib", "package.json", "LICENSE", `prebuilds/${prebuilt}`]) {
    cpSync(join(sqlite, entry), join(modules, "better-sqlite3", entry), { recursive: true });
  }
  writeFileSync(join(files, "start.cjs"), 'import("./node_modules/anneal/dist/cli/main.js");\n');
  writeArchive(files, folder);

  const output = join(folder, WINDOWS ? "anneal.exe" : "anneal");
  const config = join(folder, "config.json");
  const blob = join(folder, "blob");
  const content = {
    main: join(HERE, "start.cjs"),
    output: givenNode ? blob : output,
    disableExperimentalSEAWarning: true,
    assets: { index: join(folder, "index.json"), data: join(folder, "data") },
  };
  writeFileSync(config, JSON.stringify(content));
  if (givenNode) {
    run(resolve(givenNode), ["--experimental-sea-config", config], folder);
    rmSync(output, { force: true });
    cpSync(givenNode, output);
    chmodSync(output, 0o755);
    const postject = join(parts, "node_modules", "postject", "dist", "cli.js");
    const segment = process.platform === "darwin" ? ["--macho-segment-name", "NODE_SEA"] : [];
    run(process.execPath, [postject, output, "NODE_SEA_BLOB", blob, "--sentinel-fuse", FUSE, ...segment], folder);
  } else {
    const node = join(parts, "node_modules", NODE.split("@")[0], "bin", WINDOWS ? "node.exe" : "node");
    run(node, ["--build-sea", config], folder);
  }
  return output;
}

/** @throws Error where that Node does not run here, or is too old. */
function isMusl(node) {
  const said = run(
    resolve(node),
    ["-p", "process.version + '\\n' + (process.report.getReport().header.glibcVersionRuntime ?? '')"],
    ".",
  );
  const [version, glibc] = said.split("\n");
  if (Number(/\d+/.exec(version)[0]) < 24) throw new Error(`${node} is Node ${version}; 24 is the first that is taken`);
  return process.platform === "linux" && glibc === "";
}

/** Every file of a folder in one, and a list that says where it lies and what it must be. */
function writeArchive(folder, to) {
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
  writeFileSync(join(to, "index.json"), JSON.stringify({ digest, entries }));
  writeFileSync(join(to, "data"), Buffer.concat(contents));
}

const sha256 = (content) => createHash("sha256").update(content).digest("hex");

function run(program, args, cwd) {
  const { status, stdout, stderr, error } = spawnSync(program, args, { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")} failed: ${error?.message ?? stdout + stderr}`);
  return stdout;
}

if (process.argv[1] && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { core: { type: "string" }, node: { type: "string" } } });
  const file = await buildBinary(values);
  process.stdout.write(`${relative(process.cwd(), file)}  ${(statSync(file).size / 1e6).toFixed(0)} MB\n`);
}
