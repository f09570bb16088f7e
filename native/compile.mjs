// Compiles the compute core into one Node-API addon with any C++20 compiler of GCC's or Clang's kind; no Python, no download.
//
//   node native/compile.mjs                               for this machine, into native/build/Release/anneal.node
//   node native/compile.mjs --target linux-arm64-musl     for another one; the compiler is Zig's (`zig` or `python3 -m ziglang`)
//
// Every .cpp file below native/ belongs to the addon, except programs of tests and benchmarks. Kernels are compiled once per
// instruction set, each file with flags of its own, so that code of one set never reaches a machine without it.

import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { availableParallelism } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const NATIVE = dirname(fileURLToPath(import.meta.url));

/** Platforms that packages are made for, and how Zig names them: the oldest system that the addon runs on. */
export const TARGETS = {
  "linux-x64": "x86_64-linux-gnu.2.28",
  "linux-arm64": "aarch64-linux-gnu.2.28",
  "linux-x64-musl": "x86_64-linux-musl",
  "linux-arm64-musl": "aarch64-linux-musl",
  "darwin-arm64": "aarch64-macos.12.0",
  "win32-x64": "x86_64-windows-gnu",
};

const FLAGS = [
  "-std=gnu++20",
  "-O3",
  "-fPIC",
  // No arithmetic that was not written: results are the same bits on every machine.
  "-ffp-contract=off",
  "-fno-math-errno",
  "-fvisibility=hidden",
  "-pthread",
  "-Wall",
  "-Wextra",
  "-Wno-unused-parameter",
  "-Wno-missing-field-initializers",
  "-Wno-psabi",
  "-DNAPI_VERSION=8",
];
/** False warnings of GCC: intrinsics leave a register undefined on purpose, and version 12 misjudges how strings are joined. */
const GCC_FLAGS = ["-Wno-uninitialized", "-Wno-maybe-uninitialized", "-Wno-restrict"];

const AVX2 = ["-mavx2", "-mfma", "-mf16c"];
const AVX512 = ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma"];
/** Flags of the files that belong to one architecture. */
const INSTRUCTION_SETS = {
  x64: {
    "isa_avx2.cpp": AVX2,
    "isa_avxvnni.cpp": [...AVX2, "-mavxvnni"],
    "isa_avx512.cpp": AVX512,
    "isa_avx512vnni.cpp": [...AVX512, "-mavx512vnni"],
    "isa_avx512bf16.cpp": [...AVX512, "-mavx512vnni", "-mavx512bf16"],
    "isa_amx_avx2.cpp": AVX2,
    "isa_amx_avx512.cpp": AVX512,
    "isa_amx.cpp": [...AVX512, "-mavx512vnni", "-mavx512bf16", "-mamx-tile", "-mamx-bf16"],
    "fit_avx2.cpp": AVX2,
    "fit_avx512.cpp": AVX512,
  },
  arm64: {
    "isa_neon.cpp": [],
    "isa_neon_dotprod.cpp": ["-march=armv8.2-a+dotprod"],
    "isa_neon_i8mm.cpp": ["-march=armv8.2-a+dotprod+i8mm"],
  },
};

/** What JavaScript compares with its own package before it trusts the addon. */
const { version } = JSON.parse(readFileSync(join(NATIVE, "..", "package.json"), "utf8"));

/** Flags of single files, by their names. */
const FLAGS_OF = { ...INSTRUCTION_SETS.x64, ...INSTRUCTION_SETS.arm64, "addon.cpp": [`-DANNEAL_VERSION="${version}"`] };

const NOT_THE_ADDON = /(_test|_bench|_reference)\.cpp$/;

/**
 * @typedef {object} CompileOptions
 * @property {string} [target] a platform of TARGETS; this machine's where absent
 * @property {string} [compiler] the command, words apart by spaces; $CXX, then g++, c++, clang++ where absent
 * @property {string} [output] the addon's file
 * @property {number} [jobs] compilers at once
 * @property {(done: number, total: number, file: string, left: number) => void} [onProgress] files that are done, of how many,
 *   the latest, and about how many seconds are left
 */

/**
 * Compiles what changed since the last time and links the addon.
 * @param {CompileOptions} options
 * @returns {Promise<string>} the addon's file
 * @throws {CompileError}
 */
export async function compile(options = {}) {
  const { target, jobs = availableParallelism(), onProgress = () => {} } = options;
  if (target !== undefined && !(target in TARGETS))
    throw new CompileError(`unknown target "${target}"; known are ${Object.keys(TARGETS).join(", ")}`);
  const folder = join(NATIVE, "build", target ?? "Release");
  const output = resolve(options.output ?? join(folder, "anneal.node"));
  const compiler = target ? compilerFor(target) : hostCompiler(options.compiler);
  const platform = target?.split("-")[0] ?? process.platform;
  const arch = target?.split("-")[1] ?? process.arch;

  const units = sources()
    // The slowest first, so that no compiler works alone at the end.
    .sort((a, b) => workOf(b) - workOf(a))
    .filter((file) => !Object.entries(INSTRUCTION_SETS).some(([of, files]) => of !== arch && basename(file) in files))
    .map((file) => ({ file, object: join(folder, "objects", relative(NATIVE, file).replace(/\.cpp$/, ".o")) }));
  const flags = [...FLAGS, ...(target ? [] : gccFlags(compiler)), `-I${nodeApi().include_dir}`];
  const compilers = Math.max(1, jobs);
  const started = Date.now();
  const work = units.reduce((sum, { file }) => sum + workOf(file), 0);
  let done = 0;
  let worked = 0;
  let spent = 0;
  let failed;
  const queue = units.values();
  const worker = async () => {
    for (const { file, object } of queue) {
      if (failed) return;
      const begun = new Date();
      const command = [
        ...compiler,
        ...flags,
        ...flagsOf(file, compiler),
        "-MMD",
        "-MF",
        `${object}.d`,
        "-c",
        file,
        "-o",
        object,
      ];
      if (!isFresh(object, command)) {
        mkdirSync(dirname(object), { recursive: true });
        await run(command).catch((error) => {
          failed ??= error;
        });
        if (failed) return;
        // A source that changed while it was compiled is newer than this.
        utimesSync(object, begun, begun);
        writeFileSync(`${object}.command`, digest(command));
      }
      worked += workOf(file);
      spent += Date.now() - begun;
      // No sooner than the slowest file alone.
      const whole = (spent / worked) * Math.max(work / compilers, workOf(units[0].file));
      const left = whole - (Date.now() - started);
      onProgress(++done, units.length + 1, relative(NATIVE, file), Math.max(0, left / 1000));
    }
  };
  await Promise.all(Array.from({ length: compilers }, worker));
  if (failed) throw failed;

  const partial = `${output}.${process.pid}.partial`;
  mkdirSync(dirname(output), { recursive: true });
  const libraries = await linkerFlags(platform, target, folder);
  await run([
    ...compiler,
    "-shared",
    ...(target ? ["-s"] : []),
    "-o",
    partial,
    ...units.map(({ object }) => object),
    ...libraries,
  ]);
  // A process that has the old addon open keeps it; nobody sees half of the new one.
  renameSync(partial, output);
  for (const extra of [".lib", ".pdb"]) rmSync(partial.replace(/\.partial$/, extra), { force: true });
  onProgress(units.length + 1, units.length + 1, basename(output), 0);
  return output;
}

/** Compiling failed; the message says of what and ends with what the compiler wrote. */
export class CompileError extends Error {}

function sources(folder = NATIVE) {
  const files = [];
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory() && path !== join(NATIVE, "build")) files.push(...sources(path));
    else if (entry.name.endsWith(".cpp") && !NOT_THE_ADDON.test(entry.name)) files.push(path);
  }
  return files.sort();
}

/** How long a file takes to compile, measured with g++ 12, in files that hold no kernels: 2.3 s each. */
function workOf(file) {
  const name = basename(file);
  return name === "isa_portable.cpp" ? 25 : name.startsWith("isa_") ? 9 : 1;
}

/** Zig knows 64-bit Arm's extensions, but no versions of the architecture. */
function flagsOf(file, compiler) {
  const flags = FLAGS_OF[basename(file)] ?? [];
  if (!compiler.some((word) => /zig/.test(word))) return flags;
  return flags.map((flag) => flag.replace("-march=armv8.2-a+", "-mcpu=generic+"));
}

function hostCompiler(given = process.env.CXX) {
  const candidates = given ? [given] : ["g++", "c++", "clang++"];
  for (const candidate of candidates) {
    const words = candidate.split(" ").filter((word) => word !== "");
    if (spawnSync(words[0], [...words.slice(1), "--version"], { stdio: "ignore" }).status === 0) return words;
  }
  throw new CompileError(
    `no C++ compiler: ${candidates.join(", ")} cannot be started; install g++ 12 or clang 15 or later (Debian: apt install g++, ` +
      "macOS: xcode-select --install), or name one in the environment variable CXX",
  );
}

/**
 * The command that compiles for another platform.
 * @param {string} target a platform of TARGETS
 * @returns {string[]}
 * @throws {CompileError} where Zig is not there
 */
export function compilerFor(target) {
  return [...zig(), "c++", "-target", TARGETS[target]];
}

function zig() {
  for (const words of [["zig"], ["python3", "-m", "ziglang"]])
    if (spawnSync(words[0], [...words.slice(1), "version"], { stdio: "ignore" }).status === 0) return words;
  throw new CompileError(
    "there is no Zig, which compiles the cores of packages and of other platforms: pip install ziglang",
  );
}

function gccFlags(compiler) {
  const { stdout } = spawnSync(compiler[0], [...compiler.slice(1), "--version"], { encoding: "utf8" });
  return /clang/i.test(stdout) ? [] : GCC_FLAGS;
}

function nodeApi() {
  return createRequire(import.meta.url)("node-api-headers");
}

/** Undefined symbols of Node-API are found in the process that loads the addon. */
async function linkerFlags(platform, target, folder) {
  if (platform === "darwin") return ["-Wl,-undefined,dynamic_lookup"];
  if (platform === "win32") {
    if (!target) throw new CompileError("on Windows the core is compiled with --target win32-x64");
    return [await windowsImports(compilerFor(target), folder), "-lpsapi"];
  }
  // The C++ library of the machine that compiles need not be the one of the machine that runs.
  const libraries = target ? [] : ["-static-libgcc"];
  // It stays where the worker thread that loaded it ends: other threads that ran in it still have destructors to call there.
  return ["-pthread", "-ldl", ...libraries, "-Wl,--gc-sections", "-Wl,-z,relro,-z,now,-z,nodelete"];
}

/**
 * An import names the file that it comes from, but Node-API may be in node.exe, in Electron's program or in one that carries
 * Node: every function jumps to where the program that loads the addon has it.
 */
async function windowsImports(compiler, folder) {
  const definitions = readFileSync(nodeApi().def_paths.node_api_def, "utf8");
  const names = [...definitions.matchAll(/^\s*(n\w*api_\w+)\s*$/gm)].map(([, name]) => name);
  const source = join(folder, "node_api.cpp");
  const object = join(folder, "node_api.o");
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    source,
    `#include <windows.h>
extern "C" {
${names.map((name) => `FARPROC ${name}_found;`).join("\n")}
}
${names.map((name) => `asm(".globl ${name}\\n${name}: jmpq *${name}_found(%rip)\\n");`).join("\n")}
namespace {
struct Found {
  Found() {
    HMODULE program = GetModuleHandleW(nullptr);
    if (!GetProcAddress(program, "napi_create_object")) program = GetModuleHandleW(L"libnode.dll");
${names.map((name) => `    ${name}_found = GetProcAddress(program, "${name}");`).join("\n")}
  }
} found;
}
`,
  );
  await run([...compiler, "-O1", "-c", source, "-o", object]);
  return object;
}

/** Whether an object is newer than all it was made of, and made by this command. */
function isFresh(object, command) {
  try {
    if (readFileSync(`${object}.command`, "utf8") !== digest(command)) return false;
    const made = statSync(object).mtimeMs;
    const rule = readFileSync(`${object}.d`, "utf8").replaceAll("\\\n", " ");
    const files = rule.slice(rule.indexOf(": ") + 2).match(/(?:\\ |\S)+/g) ?? [];
    return files.every((file) => statSync(file.replaceAll("\\ ", " ")).mtimeMs < made);
  } catch {
    return false;
  }
}

function digest(command) {
  return createHash("sha256").update(command.join("\0")).digest("hex");
}

function run([program, ...args]) {
  return new Promise((done, fail) => {
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (said += data));
    child.once("error", (cause) => fail(new CompileError(`${program} cannot be started`, { cause })));
    child.once("close", (code, signal) => {
      if (code === 0) {
        if (said.trim()) process.stderr.write(said);
        return done();
      }
      const why = signal ? `was ended by ${signal} (too little memory? try --jobs 1)` : `failed with ${code}`;
      fail(new CompileError(`${program} ${why}:\n${args.at(-3) ?? ""}\n${said}`));
    });
  });
}

/** One line that moves on a terminal; a line every few seconds elsewhere. */
function progress() {
  const begun = Date.now();
  let told = 0;
  return (done, total, file, left) => {
    const seconds = Math.round((Date.now() - begun) / 1000);
    const line = `[${done}/${total}] ${file}  ${seconds} s${done === total ? "" : `, about ${Math.ceil(left)} s left`}`;
    if (process.stdout.isTTY) process.stdout.write(`\r\x1b[K${line}${done === total ? "\n" : ""}`);
    else if (done === total || Date.now() - told > 5000) {
      told = Date.now();
      process.stdout.write(`${line}\n`);
    }
  };
}

if (process.argv[1] && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: {
      target: { type: "string" },
      compiler: { type: "string" },
      output: { type: "string" },
      jobs: { type: "string" },
    },
  });
  try {
    const jobs = values.jobs === undefined ? undefined : Number(values.jobs);
    const file = await compile({ ...values, jobs, onProgress: progress() });
    process.stdout.write(`${existsSync(file) ? relative(process.cwd(), file) : file}\n`);
  } catch (error) {
    if (!(error instanceof CompileError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  }
}
