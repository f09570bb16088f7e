// Bundles the sources into dist: one module graph for the library, the command and the programs that threads run.

import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const ROOT = fileURLToPath(new URL(".", import.meta.url));
const { version, engines, dependencies, peerDependencies } = JSON.parse(
  readFileSync(join(ROOT, "package.json"), "utf8"),
);

/** Of every build. */
const COMMON = {
  absWorkingDir: ROOT,
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node20",
  // Node parses what it loads at every start. Lines are short enough to be shown where an error was thrown.
  minifySyntax: true,
  minifyWhitespace: true,
  lineLimit: 160,
  sourcemap: true,
  // The sources travel beside the bundle.
  sourcesContent: false,
  logLevel: "warning",
  metafile: true,
};

/**
 * @typedef {object} BundleOptions
 * @property {string} outdir
 * @property {string} [node] the oldest Node that the bundle is for, such as ">=22"; the repository's where absent
 */

/**
 * Everything but what must be installed, the `dependencies` and `peerDependencies` of package.json, travels inside; the notices of what does are
 * collected in `THIRD_PARTY.txt`.
 * @param {BundleOptions} options
 */
export async function bundle({ outdir, node = engines.node }) {
  const options = {
    ...COMMON,
    outdir,
    splitting: true,
    // What only a start from the sources needs.
    dropLabels: ["SOURCES"],
    define: { ANNEAL_VERSION: JSON.stringify(version), ANNEAL_NODE: JSON.stringify(node) },
    // The same code without Node's file system, of which its other entry requires packages that are not there.
    alias: { nunjucks: "nunjucks/browser/nunjucks.js" },
    plugins: [onlyEnglish, noChunking],
    external: Object.keys({ ...dependencies, ...peerDependencies }),
  };
  const { metafile } = await build({
    ...options,
    entryPoints: ["src/index.ts", "src/ai/index.ts", "src/cli/main.ts", COMPILED_CODE],
  });
  // Apart from the others: a thread loads what it needs, not what an engine does.
  const threads = await build({
    ...options,
    // A chunk that both builds make would have one name in both, and go when the others' chunks are joined.
    chunkNames: "thread-[hash]",
    entryPoints: [
      "src/text/textWorker.ts",
      "src/runtime/onnx/decoderWorker.ts",
      "src/onnx/encoderWorker.ts",
      "src/structuredOutputs/programWorker.ts",
      "src/schemas/groupsFileWorker.ts",
    ],
  });
  const outputs = [...(await joinChunks(outdir, metafile.outputs)), ...Object.keys(threads.metafile.outputs)];
  removeOthers(outdir, new Set(outputs.map((path) => resolve(ROOT, path))));
  const inputs = { ...metafile.inputs, ...threads.metafile.inputs };
  writeFileSync(join(outdir, "THIRD_PARTY.txt"), notices(Object.keys(inputs)));
}

/** What runs scripts of the bundle. */
const COMPILED_CODE = "src/compiledCode.ts";

/**
 * Joins chunks, since Node takes its time for every file: those that the library's entry loads at once to one module, and those
 * that an engine is made of to one script, of which `compiledCode` keeps what V8 compiles, with a module beside it that runs it.
 * @returns {Promise<string[]>} the files that there are then
 */
async function joinChunks(outdir, outputs) {
  const { base, engine, others } = groupsOf(outputs);
  /** Of what is joined, by its file: where its exports are now, under names of their own. */
  const moved = new Map();
  const joined = async (paths, entryOf, options) => {
    const parts = paths.map((path, i) => ({
      file: basename(path),
      names: outputs[path].exports.map((name) => [name, `${name}_${i}`]),
    }));
    const contents = entryOf(parts);
    const own = new Set(parts.map(({ file }) => file));
    const { metafile } = await build({
      ...COMMON,
      stdin: { contents, resolveDir: outdir },
      outdir,
      plugins: [onlyThese(own, moved)],
      ...options,
    });
    const path = Object.keys(metafile.outputs).find((one) => !one.endsWith(".map"));
    return {
      parts,
      file: basename(path),
      imports: metafile.outputs[path].imports,
      made: Object.keys(metafile.outputs),
    };
  };
  const move = ({ parts }, target) => {
    for (const { file, names } of parts) moved.set(file, { target, names });
  };

  const module = await joined(base, exporting, { entryNames: "base-[hash]" });
  move(module, module.file);
  const script = await joined(engine, providing, {
    entryNames: "engine-[hash]",
    format: "cjs",
    outExtension: { ".js": ".cjs" },
  });
  const runner = script.file.replace(".cjs", ".js");
  move(script, runner);
  writeRunner(join(outdir, runner), script, moved.get("compiledCode.js"));

  const { metafile } = await build({
    ...COMMON,
    entryPoints: others,
    outdir,
    outbase: outdir,
    allowOverwrite: true,
    plugins: [onlyThese(new Set(), moved)],
  });
  const stubs = [];
  for (const path of [...base, ...engine]) {
    rmSync(resolve(ROOT, path));
    rmSync(resolve(ROOT, `${path}.map`), { force: true });
    // What is imported later has its place.
    if (!outputs[path].entryPoint) continue;
    writeFileSync(resolve(ROOT, path), underOldNames(moved.get(basename(path)), "."));
    stubs.push(path);
  }
  return [...module.made, ...script.made, join(outdir, runner), ...Object.keys(metafile.outputs), ...stubs];
}

const renamed = (names) => names.map(([a, b]) => `${a} as ${b}`).join(", ");

const reexport = (names, from) => `export { ${renamed(names)} } from "${from}";\n`;

const exporting = (parts) => parts.map(({ file, names }) => reexport(names, `./${file}`)).join("\n");

/** A script gives what it exports in one object: hundreds of properties defined one by one take milliseconds of every start. */
const providing = (parts) => {
  const imports = parts.map(({ file, names }) => `import { ${renamed(names)} } from "./${file}";\n`);
  const own = parts.flatMap(({ names }) => names.map(([, name]) => name));
  return `${imports.join("")}provide({ ${own.join(", ")} });\n`;
};

/** What a file exported before it was moved. */
const underOldNames = ({ target, names }, folder) =>
  reexport(
    names.map(([name, own]) => [own, name]),
    `${folder}/${target}`,
  );

/** Which files are joined, and the modules that are not. */
function groupsOf(outputs) {
  const outputOf = (source) => Object.keys(outputs).find((path) => outputs[path].entryPoint === source);
  const load = (path, found) => {
    if (found.has(path)) return;
    found.add(path);
    for (const { kind, path: next, external } of outputs[path].imports) {
      if (kind === "import-statement" && !external) load(next, found);
    }
  };
  const loaded = (...sources) => {
    const found = new Set();
    for (const source of sources) load(outputOf(source), found);
    return found;
  };
  const base = loaded("src/index.ts", COMPILED_CODE);
  base.delete(outputOf("src/index.ts"));
  const engine = loaded("src/engine/parts.ts");
  const elsewhere = loaded("src/ai/index.ts", "src/cli/commandLine.ts");
  for (const path of engine) {
    if (elsewhere.has(path)) base.add(path);
    if (base.has(path)) engine.delete(path);
  }
  const others = Object.keys(outputs).filter((path) => path.endsWith(".js") && !base.has(path) && !engine.has(path));
  return { base: [...base], engine: [...engine], others };
}

/** Writes the module that runs a script with what it imports, and exports what the script does. */
function writeRunner(file, { file: script, imports, parts }, compiledCode) {
  const imported = (kind) =>
    new Set(imports.filter((one) => one.kind === kind && one.path.startsWith(".")).map(({ path }) => path));
  const later = [...imported("dynamic-import")];
  letLoad(join(dirname(file), script), later);
  const modules = [...imported("require-call")];
  const [, run] = compiledCode.names.find(([name]) => name === "runScript");
  const lines = [
    `import { ${run} as runScript } from "./${compiledCode.target}";`,
    ...modules.map((path, i) => `import * as module${i} from "${path}";`),
    "const script = runScript(",
    `  "${script}",`,
    `  { ${modules.map((path, i) => `"${path}": module${i}`).join(", ")} },`,
    `  {\n${later.map((path) => `    "${path}": () => import("${path}"),\n`).join("")}  },`,
    ");",
    ...parts.flatMap(({ names }) => names.map(([, name]) => `export const ${name} = script.${name};`)),
  ];
  writeFileSync(file, `${lines.join("\n")}\n`);
}

/** A script is a function, and imports by one that it is given. */
function letLoad(file, paths) {
  const later = new Set(paths);
  const code = readFileSync(file, "latin1").replace(/\bimport\(\s*"([^"]+)"\s*\)/g, (whole, path) =>
    later.has(path) ? `__load("${path}")` : whole,
  );
  // What is run when it is first asked for exports variables that change; other letters would take V8 twice the memory. A method
  // may be called `import`.
  const left = /(?<!\.\s*|async )\bimport\(|\b__load\b(?!\(")|import_meta|\b__esm\(|[^\0-\x7f]/.exec(code)?.[0];
  if (left) throw new Error(`${basename(file)} holds ${left}, which such a script must not`);
  writeFileSync(file, `(function(require,__load,provide){"use strict";${code}\n})`);
}

/** Everything else stays where it is, also what these import when it is needed; what was moved is taken from where it is. */
const onlyThese = (files, moved) => ({
  name: "only-these",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /.*/ }, ({ path, kind }) => {
      if (kind === "entry-point") return undefined;
      const file = basename(path);
      if (kind !== "import-statement" || !path.startsWith(".")) return { path, external: true };
      if (files.has(file)) return undefined;
      return moved.has(file) ? { path, namespace: "moved" } : { path, external: true };
    });
    onLoad({ filter: /.*/, namespace: "moved" }, ({ path }) => {
      return { contents: underOldNames(moved.get(basename(path)), dirname(path)) };
    });
  },
});

/** Of the fifty languages in which zod describes mistakes, the one that is used. */
const onlyEnglish = {
  name: "only-english",
  setup({ onLoad }) {
    onLoad({ filter: /zod\/v4\/locales\/index\.js$/ }, () => ({
      contents: 'export { default as en } from "./en.js";',
    }));
  },
};

/** What cuts files into pieces for an upload to the hub: nothing is uploaded. */
const CHUNKING = "@huggingface/xetchunk-wasm";

const noChunking = {
  name: "no-chunking",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: new RegExp(`^${CHUNKING}$`) }, ({ path }) => ({ path, namespace: "left-out" }));
    onLoad({ filter: /.*/, namespace: "left-out" }, () => ({ contents: "module.exports = {};" }));
  },
};

/** Chunks of earlier builds, which nothing leads to. */
function removeOthers(outdir, made) {
  for (const entry of readdirSync(outdir, { recursive: true })) {
    const path = resolve(outdir, entry);
    if (/\.c?js(\.map)?$/.test(entry) && !made.has(path)) rmSync(path);
  }
}

/** @param {string[]} inputs paths of modules */
function notices(inputs) {
  const folders = inputs.map((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0]).filter(Boolean);
  const found = new Set(folders.filter((folder) => !folder.endsWith(CHUNKING)));
  // A package may be a bundle itself.
  for (const folder of found) {
    const { dependencies = {} } = manifest(folder);
    for (const name of Object.keys(dependencies)) if (name !== CHUNKING) found.add(join("node_modules", name));
  }
  const parts = [...found].sort().map((folder) => {
    const { name, version, license } = manifest(folder);
    const file = readdirSync(join(ROOT, folder)).find((entry) => /^licen[cs]e(\.|$)/i.test(entry));
    if (!file) throw new Error(`${relative(ROOT, folder)} has no notice to travel with it`);
    return `${name} ${version} (${license})\n\n${readFileSync(join(ROOT, folder, file), "utf8").trim()}\n`;
  });
  return `The files beside this one contain these packages.\n\n${parts.join(`\n${"-".repeat(80)}\n\n`)}`;
}

function manifest(folder) {
  return JSON.parse(readFileSync(join(ROOT, folder, "package.json"), "utf8"));
}

if (process.argv[1] && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  await bundle({ outdir: join(ROOT, "dist") });
}
