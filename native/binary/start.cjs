// The program inside the one file: puts the files that it carries into a folder of this user's alone, or finds them there
// unchanged, and starts the command from there. Node loads addons, and threads their programs, from files only.

const { createHash } = require("node:crypto");
const fs = require("node:fs");
const { createRequire } = require("node:module");
const os = require("node:os");
const { dirname, join } = require("node:path");
const { getRawAsset } = require("node:sea");

/** @typedef {{ path: string, offset: number, size: number, sha256: string }} Entry */

/** @type {{ digest: string, entries: Entry[] }} */
const index = JSON.parse(Buffer.from(getRawAsset("index")).toString());
const uid = process.getuid?.();

/** Folders that may hold ours, the first that can be written is taken. */
function places() {
  const { ANNEAL_FILES, XDG_CACHE_HOME, LOCALAPPDATA, HOME } = process.env;
  const cache = XDG_CACHE_HOME || LOCALAPPDATA || (HOME && join(HOME, ".cache"));
  return ANNEAL_FILES ? [ANNEAL_FILES] : [...(cache ? [cache] : []), os.tmpdir()];
}

/** Nobody else may have made it, or may write to it. */
function makePrivate(folder) {
  fs.mkdirSync(dirname(folder), { recursive: true });
  try {
    fs.mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
  }
  const status = fs.lstatSync(folder);
  if (!status.isDirectory()) throw new Error(`${folder} is not a folder`);
  if (uid !== undefined && (status.uid !== uid || (status.mode & 0o077) !== 0)) {
    throw new Error(`${folder} is open to other users`);
  }
}

function isWhole(folder) {
  return index.entries.every(({ path, size, sha256 }) => {
    const file = join(folder, path);
    const status = fs.lstatSync(file, { throwIfNoEntry: false });
    if (!status?.isFile() || status.size !== size || (uid !== undefined && status.uid !== uid)) return false;
    return createHash("sha256").update(fs.readFileSync(file)).digest("hex") === sha256;
  });
}

/** Whole at once, so that a process that starts meanwhile, or one that is ended, leaves and meets no half. */
function extract(folder) {
  const partial = fs.mkdtempSync(`${folder}.part-`);
  const data = Buffer.from(getRawAsset("data"));
  for (const { path, offset, size } of index.entries) {
    const file = join(partial, path);
    fs.mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    fs.writeFileSync(file, data.subarray(offset, offset + size), { mode: 0o600 });
  }
  try {
    fs.renameSync(partial, folder);
  } catch (error) {
    // Another process was faster, or what is there is damaged.
    if (!isWhole(folder)) {
      fs.renameSync(folder, `${partial}-damaged`);
      fs.rmSync(`${partial}-damaged`, { recursive: true });
      fs.renameSync(partial, folder);
    }
    fs.rmSync(partial, { recursive: true, force: true });
    if (!isWhole(folder)) throw error;
  }
}

/** @returns the folder of the files. */
function filesFolder() {
  const failures = [];
  for (const place of places()) {
    try {
      const ours = join(place, uid === undefined ? "anneal" : `anneal-${uid}`);
      makePrivate(ours);
      const folder = join(ours, index.digest);
      if (!isWhole(folder)) extract(folder);
      return folder;
    } catch (error) {
      failures.push(`${place}: ${error.message}`);
    }
  }
  process.stderr.write(
    `anneal: no folder for the files that anneal carries (${failures.join("; ")})\n  name one in ANNEAL_FILES\n`,
  );
  process.exit(1);
}

createRequire(join(filesFolder(), "start.cjs"))("./start.cjs");
