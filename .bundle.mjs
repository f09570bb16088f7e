// Bundles the sources into dist: one module graph for the library, the command and the programs that threads run.

import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join, relative, resolve } from "node:path";
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
    entryPoints: [
      "src/text/textWorker.ts",
      "src/runtime/onnx/decoderWorker.ts",
      "src/onnx/encoderWorker.ts",
      "src/structuredOutputs/programWorker.ts",
      "src/schemas/groupsFileWorker.ts",
    ],
  });
  const outputs = [...Object.keys(metafile.outputs), ...Object.keys(threads.metafile.outputs)];
  outputs.push(...(await joinChunks(outdir, metafile.outputs, "src/engine/parts.ts")));
  removeOthers(outdir, new Set(outputs.map((path) => resolve(ROOT, path))));
  const inputs = { ...metafile.inputs, ...threads.metafile.inputs };
  writeFileSync(join(outdir, "THIRD_PARTY.txt"), notices(Object.keys(inputs)));
}

/** What runs scripts of the bundle. */
const COMPILED_CODE = "src/compiledCode.ts";

/**
 * Puts the chunks that `entry` loads at once, and no other entry does, into one script, of which `compiledCode` keeps what V8
 * compiles, with a module beside it that runs it. What the chunks were called leads there.
 * @returns {Promise<string[]>} the files made
 */
async function joinChunks(outdir, outputs, entry) {
  const outputOf = (source) => Object.keys(outputs).find((path) => outputs[path].entryPoint === source);
  const loaded = (path, found = new Set()) => {
    if (found.has(path)) return found;
    found.add(path);
    for (const { kind, path: next, external } of outputs[path].imports) {
      if (kind === "import-statement" && !external) loaded(next, found);
    }
    return found;
  };
  const elsewhere = new Set();
  for (const other of ["src/index.ts", "src/ai/index.ts", "src/cli/commandLine.ts", COMPILED_CODE]) {
    loaded(outputOf(other), elsewhere);
  }
  const joined = [...loaded(outputOf(entry))].filter((path) => !elsewhere.has(path));
  const files = joined.map((path) => basename(path));
  // Exports get names of their own: those of two chunks may be the same.
  const exported = joined.map((path, i) => outputs[path].exports.map((name) => [name, `${name}_${i}`]));
  const clauses = (i, show) => `{${exported[i].map(show).join(",")}}`;
  const { metafile } = await build({
    stdin: {
      contents: files.map((file, i) => `export ${clauses(i, ([a, b]) => `${a} as ${b}`)} from "./${file}";`).join("\n"),
      resolveDir: outdir,
    },
    ...COMMON,
    format: "cjs",
    outdir,
    entryNames: "engine-[hash]",
    outExtension: { ".js": ".cjs" },
    plugins: [onlyThese(new Set(files))],
  });
  const made = Object.keys(metafile.outputs);
  const script = made.find((path) => path.endsWith(".cjs"));
  const imported = (kind) => [
    ...new Set(
      metafile.outputs[script].imports
        .filter((one) => one.kind === kind && one.path[0] === ".")
        .map(({ path }) => path),
    ),
  ];
  const later = imported("dynamic-import");
  letImport(join(outdir, basename(script)), later);
  const modules = imported("require-call");
  const runner = basename(script).replace(".cjs", ".js");
  writeFileSync(
    join(outdir, runner),
    [
      `import { runScript } from "./${basename(outputOf(COMPILED_CODE))}";`,
      ...modules.map((path, i) => `import * as m${i} from "${path}";`),
      `const modules = { ${modules.map((path, i) => `"${path}": m${i}`).join(", ")} };`,
      `const imports = { ${later.map((path) => `"${path}": () => import("${path}")`).join(", ")} };`,
      `const script = runScript("${basename(script)}", modules, imports);`,
      ...exported.flat().map(([, name]) => `export const ${name} = script.${name};`),
      "",
    ].join("\n"),
  );
  for (const [i, file] of files.entries()) {
    writeFileSync(join(outdir, file), `export ${clauses(i, ([a, b]) => `${b} as ${a}`)} from "./${runner}";\n`);
    rmSync(join(outdir, `${file}.map`));
  }
  return [...made, join(outdir, runner)];
}

/** A script imports by the function that it is given. */
function letImport(file, paths) {
  let code = readFileSync(file, "latin1");
  for (const path of paths) code = code.replaceAll(`import("${path}")`, `load("${path}")`);
  const left = /\bimport\("|import_meta|\b__esm\(|[^\0-\x7f]/.exec(code)?.[0];
  // Of modules that are run when they are first asked for, what is exported changes later.
  if (left) throw new Error(`${basename(file)} holds ${left}, which such a script must not`);
  writeFileSync(file, code);
}

/** Everything else stays where it is, also what these import when it is needed. */
const onlyThese = (files) => ({
  name: "only-these",
  setup({ onResolve }) {
    onResolve({ filter: /.*/ }, ({ path, kind }) =>
      kind === "entry-point" || (kind === "import-statement" && files.has(basename(path)))
        ? undefined
        : { path, external: true },
    );
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
