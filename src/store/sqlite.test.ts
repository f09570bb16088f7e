import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import Database from "better-sqlite3";
import { build } from "esbuild";
import { afterEach, beforeEach, expect, it } from "vitest";
import { endsWhenCollected, keepingObjects } from "./sqlite.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "anneal-sqlite-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** The error of opening a database where better-sqlite3 is what `manifest` and `program` say, or absent. */
async function failure(
  installed?: { manifest: object; program: string },
  before = "",
): Promise<Record<string, string>> {
  if (installed) {
    const target = join(folder, "node_modules", "better-sqlite3");
    mkdirSync(target, { recursive: true });
    writeFileSync(join(target, "package.json"), JSON.stringify(installed.manifest));
    writeFileSync(join(target, "index.js"), installed.program);
  }
  await build({
    entryPoints: [fileURLToPath(new URL("sqlite.ts", import.meta.url))],
    outfile: join(folder, "sqlite.mjs"),
    bundle: true,
    format: "esm",
    platform: "node",
    external: ["better-sqlite3"],
  });
  const program = `import { openDatabase } from "./sqlite.mjs";
    ${before}
    try { openDatabase(":memory:"); } catch ({ name, message, code, hint }) { console.log(JSON.stringify({ name, message, code, hint })); }`;
  const written = execFileSync(process.execPath, ["--input-type=module", "-e", program], { cwd: folder });
  return JSON.parse(written.toString());
}

it("says in an error of its own that SQLite is not installed", async () => {
  const error = await failure();
  expect(error).toMatchObject({ name: "UnavailableError", code: "sqlite_missing" });
  expect(error.message).toContain("Cannot find module 'better-sqlite3");
  expect(error.hint).toContain("better-sqlite3");
});

it("says in an error of its own that its binary does not load", async () => {
  const manifest = { version: "12.0.0", engines: { node: "20.x || 22.x" }, main: "index.js" };
  const program = `module.exports = class { constructor() { throw new Error("was compiled against a different Node.js\\nmore"); } };`;
  const error = await failure({ manifest, program });
  expect(error).toMatchObject({ name: "UnavailableError", code: "sqlite_missing" });
  expect(error.message).toBe(
    "SQLite, which keeps the home, cannot be loaded: was compiled against a different Node.js",
  );
});

it("says in Bun and Deno that it needs Node, not that the package be installed again", async () => {
  for (const name of ["bun", "deno"]) {
    const { hint } = await failure(
      undefined,
      `Object.defineProperty(process.versions, "${name}", { value: "1.0.0" });`,
    );
    expect(hint).toContain("run it in Node");
    expect(hint).not.toContain("again");
  }
});

it("does not load a binary that is for a later Node", async () => {
  const manifest = { version: "99.0.0", engines: { node: ">=99" }, main: "index.js" };
  const error = await failure({ manifest, program: "process.abort();" });
  expect(error.code).toBe("sqlite_missing");
  expect(error.message).toContain(`better-sqlite3 99.0.0 needs Node 99 or later; this is ${process.version}`);
});

it("keeps every object whose collection would end the process, and makes none anew for a pragma", async () => {
  const kept: unknown[] = [];
  const database = new (keepingObjects(Database, kept))(join(folder, "a.db"), {});
  expect(database).toBeInstanceOf(Database);
  database.exec("CREATE TABLE t (n); INSERT INTO t VALUES (3)");
  const statement = database.prepare("SELECT n FROM t").pluck();
  expect(kept).toContain(statement);
  database.pragma("user_version = 7");
  const before = kept.length;
  for (let i = 0; i < 3; i++) expect(database.pragma("user_version", { simple: true })).toBe(7);
  expect(kept.length).toBe(before + 1);
  database.transaction(() => database.exec("UPDATE t SET n = n + 1"))();
  expect(statement.get()).toBe(4);
  const made = kept.length;
  await database.backup(join(folder, "b.db"));
  expect(kept.length).toBe(made + 1);
  database.close();
  expect(() => statement.get()).toThrow("not open");
});

it("knows which versions end the process", () => {
  expect(endsWhenCollected({ version: "12.11.1" }, "24.19.0")).toBe(true);
  expect(endsWhenCollected({ version: "12.11.1" }, "22.23.0")).toBe(false);
  expect(endsWhenCollected({ version: "13.2.0" }, "24.19.0")).toBe(false);
});
