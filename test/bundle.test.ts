import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, it } from "vitest";

type Bundle = (options: { outdir: string }) => Promise<void>;

let top: string;
let outdir: string;
beforeAll(async () => {
  top = mkdtempSync(join(tmpdir(), "bundle-"));
  outdir = join(top, "dist");
  const { bundle } = (await import(new URL("../.bundle.mjs", import.meta.url).href)) as { bundle: Bundle };
  await bundle({ outdir });
  writeFileSync(join(top, "package.json"), '{"name":"anneal","type":"module"}');
});
afterAll(() => rmSync(top, { recursive: true, force: true }));

it("has every file that one of its files imports, those of threads among them", async () => {
  const files = readdirSync(outdir, { recursive: true, encoding: "utf8" }).filter((name) => /\.c?js$/.test(name));
  expect(files).toContain(join("text", "textWorker.js"));
  const { errors } = await build({
    absWorkingDir: outdir,
    entryPoints: files.map((file) => ({ in: join(outdir, file), out: file })),
    outdir: top,
    bundle: true,
    write: false,
    format: "esm",
    platform: "node",
    packages: "external",
    logLevel: "silent",
  }).catch((error: { errors: { text: string }[] }) => error);
  expect(errors.map(({ text }) => text)).toEqual([]);
});

it("holds what asks the hub, which works without the parts that upload", () => {
  const file = readdirSync(outdir).find((name) => /^hubApi-\w+\.js$/.test(name))!;
  // In a file: what is evaluated has globals that modules have not.
  const program = join(outdir, "ask.js");
  writeFileSync(
    program,
    `import { listFiles, modelInfo } from "./${file}"; console.log(typeof listFiles, typeof modelInfo);`,
  );
  const said = execFileSync(process.execPath, [program], { encoding: "utf8" });
  expect(said.trim()).toBe("function function");
});

/** A file of the bundle, and those that Node loads with it. */
function loadedWith(file: string, found = new Set<string>()): Set<string> {
  if (found.has(file)) return found;
  found.add(file);
  const text = readFileSync(join(outdir, file), "utf8");
  for (const [, next] of text.matchAll(/(?:^|[;\n])\s*(?:import|export)(?:[^"';]*from)?\s*"\.\/([^"]+)"/g))
    loadedWith(next!, found);
  const script = /runScript\(\s*"([^"]+)"/.exec(text)?.[1];
  if (script) loadedWith(script, found);
  return found;
}

it("opens an engine from few files, without the schemas of what is asked for later", () => {
  const parts = readdirSync(outdir).find((name) => /^parts-\w+\.js$/.test(name))!;
  const files = [...loadedWith("index.js"), ...loadedWith(parts)];
  expect(files.some((name) => name.startsWith("engine-"))).toBe(true);
  expect(new Set(files).size).toBeLessThan(8);
  const bundled = [...new Set(files)].map((name) => readFileSync(join(outdir, name), "utf8")).join("");
  // Lines are broken within strings, too.
  const text = bundled.replaceAll("\\\n", "");
  expect(text.includes("The conversation that the reply continues.")).toBe(true);
  // Of jobs.
  expect(text.includes("Share of the steps over which it rises from 0 first.")).toBe(false);
});

it("keeps the names of classes, which errors are told by", () => {
  const program = join(outdir, "names.js");
  writeFileSync(
    program,
    'import * as all from "./index.js"; console.log(Object.keys(all).filter((key) => /^[A-Z]/.test(key) && all[key].name !== key).join());',
  );
  expect(execFileSync(process.execPath, [program], { encoding: "utf8" })).toBe("\n");
});

const named = (pattern: RegExp): string => readdirSync(outdir).find((name) => pattern.test(name))!;

it("keeps the engine's compiled code for the next process, and takes only what is whole and this user's own", () => {
  const cache = join(top, "cache");
  const program = join(outdir, "parts.js");
  writeFileSync(program, `import { openCore } from "./${named(/^parts-\w+\.js$/)}"; console.log(typeof openCore);`);
  const run = (env: NodeJS.ProcessEnv = {}) => {
    const said = execFileSync(process.execPath, [program], {
      encoding: "utf8",
      env: { ...process.env, NODE_COMPILE_CACHE: cache, NODE_DISABLE_COMPILE_CACHE: "", ...env },
    });
    expect(said).toBe("function\n");
    const kept = existsSync(cache) ? readdirSync(cache).filter((name) => name.startsWith("engine-")) : [];
    expect(kept.length).toBeLessThan(2);
    return kept.map((name) => join(cache, name))[0];
  };
  expect(run({ NODE_DISABLE_COMPILE_CACHE: "1" })).toBeUndefined();
  const file = run()!;
  const written = () => statSync(file, { bigint: true }).ino;
  const first = written();
  const content = readFileSync(file);
  run();
  expect(written()).toBe(first);
  const spoilt: ((file: string) => void)[] = [
    (file) => truncateSync(file, content.length / 2),
    (file) => appendFileSync(file, "x"),
    (file) => writeFileSync(file, ""),
  ];
  if (process.platform !== "win32") spoilt.push((file) => chmodSync(file, 0o622));
  for (const spoil of spoilt) {
    const before = written();
    spoil(file);
    run();
    expect(written()).not.toBe(before);
    expect(statSync(file).size).toBeGreaterThan(content.length / 2);
  }
});

it("runs the engine's code where its compiled form cannot be kept", () => {
  const program = join(outdir, "unkept.js");
  writeFileSync(program, `import { openCore } from "./${named(/^parts-\w+\.js$/)}"; console.log(typeof openCore);`);
  // A file stands where the folder would be.
  const env = { ...process.env, NODE_COMPILE_CACHE: join(program, "cache") };
  expect(execFileSync(process.execPath, [program], { encoding: "utf8", env })).toBe("function\n");
});

it("runs the engine's code in the realm of its modules, which a test runner's have of their own", () => {
  const program = join(outdir, "realm.js");
  writeFileSync(
    program,
    `import { readFileSync } from "node:fs";
    import { createContext, runInContext, SourceTextModule, SyntheticModule } from "node:vm";
    const context = createContext({ process, Buffer, URL, setTimeout, clearTimeout, setImmediate, TextDecoder, TextEncoder });
    const modules = new Map();
    const load = async (specifier, from) => {
      if (!specifier.startsWith(".")) {
        const names = await import(specifier);
        return new SyntheticModule(Object.keys(names), function () {
          for (const [name, value] of Object.entries(names)) this.setExport(name, value);
        }, { context });
      }
      const url = new URL(specifier, from.identifier).href;
      if (!modules.has(url)) modules.set(url, new SourceTextModule(readFileSync(new URL(url), "utf8"), {
        context, identifier: url, initializeImportMeta: (meta) => { meta.url = url; },
      }));
      return modules.get(url);
    };
    const parts = await load("./${named(/^parts-\w+\.js$/)}", { identifier: import.meta.url });
    await parts.link(load);
    await parts.evaluate();
    const { openCore, resolveOptions } = parts.namespace;
    const own = runInContext("Function", context);
    console.log(openCore instanceof own, openCore instanceof Function, resolveOptions({}).models[0] instanceof runInContext("Object", context));`,
  );
  const said = execFileSync(process.execPath, ["--experimental-vm-modules", "--no-warnings", program], {
    encoding: "utf8",
  });
  expect(said).toBe("true false true\n");
});
