import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { bundle } from "../../.bundle.mjs";

let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "anneal-import-"));
  await bundle({ outdir: folder });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Bytes of the modules that an import of this one loads. */
function bytesLoaded(file: string, seen = new Set<string>()): number {
  if (seen.has(file)) return 0;
  seen.add(file);
  const source = readFileSync(file, "utf8");
  const imports = source.matchAll(/^(?:import|export)\s*(?:[^"'();]*?from\s*)?"(\.[^"]+)"/gm);
  return [...imports].reduce((sum, [, path]) => sum + bytesLoaded(join(dirname(file), path!), seen), source.length);
}

it("loads little more than the errors when it is imported", () => {
  expect(bytesLoaded(join(folder, "index.js"))).toBeLessThan(120_000);
});

it("is imported within 60 ms, and leaves nothing behind that keeps the process", () => {
  const program = `const before = process.cpuUsage();
    const globals = Object.getOwnPropertyNames(globalThis).length;
    await import(${JSON.stringify(pathToFileURL(join(folder, "index.js")).href)});
    const { user, system } = process.cpuUsage(before);
    console.log(JSON.stringify([(user + system) / 1000, Object.getOwnPropertyNames(globalThis).length - globals]));`;
  const runs = Array.from({ length: 5 }, () => {
    const output = execFileSync(process.execPath, ["--input-type=module", "-e", program], { timeout: 20_000 });
    const [milliseconds, globals] = JSON.parse(output.toString()) as [number, number];
    expect(globals).toBe(0);
    return milliseconds;
  });
  expect(Math.min(...runs)).toBeLessThan(60);
});

it("names every package that travels inside, with its notice", () => {
  const notices = readFileSync(join(folder, "THIRD_PARTY.txt"), "utf8");
  for (const name of ["@hono/node-server", "@huggingface/tokenizers", "hono", "nunjucks", "asap", "zod"]) {
    expect(notices).toMatch(new RegExp(`^${name} \\d+\\.\\d+\\.\\d+ \\(`, "m"));
  }
  expect(notices.match(/copyright/gi)!.length).toBeGreaterThan(6);
});
