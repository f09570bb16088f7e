import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";

type Bundle = (options: { outdir: string }) => Promise<void>;

let outdir: string;
beforeAll(async () => {
  outdir = mkdtempSync(join(tmpdir(), "bundle-"));
  const { bundle } = (await import(new URL("../.bundle.mjs", import.meta.url).href)) as { bundle: Bundle };
  await bundle({ outdir });
  writeFileSync(join(outdir, "package.json"), '{"type":"module"}');
});
afterAll(() => rmSync(outdir, { recursive: true, force: true }));

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
  return found;
}

it("opens an engine from few files, without the schemas of what is asked for later", () => {
  const parts = readdirSync(outdir).find((name) => /^parts-\w+\.js$/.test(name))!;
  const files = [...loadedWith("index.js"), ...loadedWith(parts)];
  expect(files.some((name) => name.startsWith("engine-"))).toBe(true);
  expect(new Set(files).size).toBeLessThan(30);
  const text = [...new Set(files)].map((name) => readFileSync(join(outdir, name), "utf8")).join("");
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
