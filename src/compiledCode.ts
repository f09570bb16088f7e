// Scripts of the package whose compiled form is kept in the user's cache: compiling the engine takes longer than all else that a
// start does. Node's own cache of this kind is for whole processes, so that it is the application's to switch on.

import { createHash } from "node:crypto";
import {
  closeSync,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { clearTimeout, setTimeout } from "node:timers";
import { fileURLToPath } from "node:url";
import { cachedDataVersionTag } from "node:v8";
import { runInThisContext, Script } from "node:vm";
import { makeFolders } from "./makeFolders.js";
import { builtFile, packageRequire } from "./packageFiles.js";
import { compiledCodeFolder } from "./userFolder.js";

type Exports = Record<string, unknown>;
type Wrapped = (
  require: (id: string) => unknown,
  load: (id: string) => Promise<unknown>,
  provide: (exports: Exports) => void,
) => void;

/** Compiled code is made when most of what a start runs has run, in milliseconds after the script has. */
const KEEP_AFTER = 5000;
/** Of a script that an earlier version brought, or another Node compiled, in milliseconds. */
const MAX_AGE = 90 * 24 * 3600 * 1000;
const HASH_BYTES = 32;

/**
 * Runs a script of the package, which is a function in the form of CommonJS but for its exports, and gives what it provides.
 * `modules`: what it requires beside Node's own; `imports`: what it imports later.
 */
export function runScript(
  name: string,
  modules: Record<string, unknown>,
  imports: Record<string, () => Promise<unknown>>,
): Exports {
  let exports: Exports = {};
  compiled(fileURLToPath(builtFile(name)))(
    (id) => modules[id] ?? packageRequire(id),
    (id) => imports[id]!(),
    (provided) => {
      exports = provided;
    },
  );
  return exports;
}

function compiled(file: string): Wrapped {
  const source = readFileSync(file, "latin1");
  // Test runners run modules in a realm of their own, with other built-in objects than a script gets.
  if (runInThisContext("Object") !== Object) return new Function(`return ${source}`)() as Wrapped;
  const kept = process.env.NODE_DISABLE_COMPILE_CACHE ? null : keptFile(file);
  const cachedData = kept === null ? undefined : readKept(kept);
  const script = new Script(source, { filename: file, cachedData });
  if (kept !== null && (cachedData === undefined || script.cachedDataRejected)) keepLater(script, kept);
  return script.runInThisContext() as Wrapped;
}

/** Of this script where it lies, which errors tell, for this Node with its flags on this processor. */
function keptFile(file: string): string {
  const place = hashOf(dirname(file)).toString("hex").slice(0, 8);
  const tag = cachedDataVersionTag().toString(16);
  return join(compiledCodeFolder(), `${basename(file)}-${place}-${process.version}-${process.arch}-${tag}`);
}

/** undefined: there is none, or none that this user wrote. */
function readKept(file: string): Buffer | undefined {
  try {
    const descriptor = openSync(file, "r");
    try {
      const { uid, mode } = fstatSync(descriptor);
      if (process.geteuid && (uid !== process.geteuid() || (mode & 0o022) !== 0)) return undefined;
      const whole = readFileSync(descriptor);
      const data = whole.subarray(HASH_BYTES);
      return hashOf(data).equals(whole.subarray(0, HASH_BYTES)) ? data : undefined;
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return undefined;
  }
}

/** V8 takes what it is given for its own. */
const hashOf = (data: Uint8Array | string): Buffer => createHash("sha256").update(data).digest();

/** Once: after a while, or when the process ends before. */
function keepLater(script: Script, file: string): void {
  const keep = () => {
    clearTimeout(timer);
    process.off("exit", keep);
    writeKept(file, script.createCachedData());
  };
  const timer = setTimeout(keep, KEEP_AFTER).unref();
  process.once("exit", keep);
}

/** Only saves time later, so that nobody is told of a folder that cannot be written. */
function writeKept(file: string, data: Buffer): void {
  const temporary = `${file}.${process.pid}`;
  const isWritten = succeeds(() => {
    makeFolders(compiledCodeFolder(), 0o700);
    removeOld();
    writeFileSync(temporary, Buffer.concat([hashOf(data), data]), { mode: 0o600 });
    renameSync(temporary, file);
  });
  if (!isWritten) succeeds(() => rmSync(temporary, { force: true }));
}

function removeOld(): void {
  const folder = compiledCodeFolder();
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    const status = statSync(path, { throwIfNoEntry: false });
    if (status?.isFile() && Date.now() - status.mtimeMs > MAX_AGE) rmSync(path, { force: true });
  }
}

function succeeds(action: () => void): boolean {
  try {
    action();
    return true;
  } catch {
    return false;
  }
}
