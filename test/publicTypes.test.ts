import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";

const root = join(import.meta.dirname, "..");

let types: string;
beforeAll(() => {
  types = mkdtempSync(join(tmpdir(), "public-types-"));
  const typescript = dirname(createRequire(import.meta.url).resolve("typescript/package.json"));
  const tsc = join(typescript, "bin", "tsc");
  execFileSync(process.execPath, [tsc, "--emitDeclarationOnly", "--outDir", types], { cwd: root, stdio: "inherit" });
});
afterAll(() => rmSync(types, { recursive: true, force: true }));

/** The modules outside of the package that the declarations of an entry lead to. */
function packagesBehind(entry: string): Set<string> {
  const packages = new Set<string>();
  const seen = new Set<string>();
  const visit = (file: string) => {
    if (seen.has(file)) return;
    seen.add(file);
    for (const [, name] of readFileSync(file, "utf8").matchAll(/(?:\bfrom|\bimport\()\s*"([^"]+)"/g)) {
      if (name!.startsWith(".")) visit(resolve(dirname(file), name!.replace(/\.js$/, ".d.ts")));
      else packages.add(name!);
    }
  };
  visit(entry);
  return packages;
}

it("what an application sees in types needs the types of no other package but Node's", () => {
  const packages = packagesBehind(join(types, "index.d.ts"));
  expect([...packages].filter((name) => !name.startsWith("node:"))).toEqual([]);
});
