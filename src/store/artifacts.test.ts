import { randomUUID } from "node:crypto";
import fs, { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { basename, join } from "node:path";
import { Readable } from "node:stream";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { failingOnce, useStore } from "../../test/fixtures/useStore.js";
import { DiskFullError } from "../errors.js";
import { checkHome } from "./checkHome.js";
import type { ArtifactRecord } from "./records.js";
import type { Store } from "./store.js";

let home: string;
let store: Store;
const { reopen } = useStore((opened, folder) => {
  store = opened;
  home = folder;
});

describe("artifacts", () => {
  const key = { entity: "local", project: "p", name: "data" };

  it("numbers versions from 0 and freezes what was put", () => {
    expect(() => store.artifacts.commit(key)).toThrow(/no file/);
    for (const text of ["first", "second"]) {
      writeFileSync(join(store.artifacts.pendingFolder(key), "train.jsonl"), text);
      store.artifacts.commit(key);
    }
    const first = store.artifacts.find(key, 0)!;
    expect(readFileSync(join(store.artifacts.folder(first), "train.jsonl"), "utf8")).toBe("first");
    expect(store.artifacts.latest(key)?.version).toBe(1);
    expect(store.artifacts.find(key, 2)).toBeNull();
    reopen();
    expect(readFileSync(join(store.artifacts.folder(first), "train.jsonl"), "utf8")).toBe("first");
  });
});

describe("an artifact", () => {
  it("takes a file that comes in while a version is made into the next one", async () => {
    const key = { entity: "local", project: "p", name: "busy" };
    const texts = (version: number) => {
      const folder = store.artifacts.folder(store.artifacts.find(key, version)!);
      return readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), "utf8")]);
    };
    let halfWay = () => {};
    const half = new Promise<void>((resolve) => {
      halfWay = resolve;
    });
    let goOn = () => {};
    const rest = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    async function* slow() {
      yield Buffer.from("be");
      halfWay();
      await rest;
      yield Buffer.from("side");
    }
    await store.artifacts.put(key, "train.jsonl", Readable.from(["first"]));
    const put = store.artifacts.put(key, "late.jsonl", slow());
    await half;
    store.artifacts.commit(key);
    goOn();
    expect(await put).toEqual({ bytes: 6 });
    store.artifacts.commit(key);
    expect(texts(0)).toEqual([["train.jsonl", "first"]]);
    expect(texts(1)).toEqual([["late.jsonl", "beside"]]);
  });

  it("whose commit fails, before its folder is moved or after, keeps the files that were put for the next one", () => {
    const key = { entity: "local", project: "p", name: "failing" };
    const pending = store.artifacts.pendingFolder(key);
    writeFileSync(join(pending, "train.jsonl"), "kept");
    for (const [name, code] of [
      ["renameSync", "ENOSPC"],
      ["openSync", "EMFILE"],
    ] as const) {
      const failing = failingOnce(name, code);
      expect(() => store.artifacts.commit(key)).toThrow(code === "ENOSPC" ? DiskFullError : code);
      failing.end();
      expect([store.artifacts.latest(key), readdirSync(pending)]).toEqual([null, ["train.jsonl"]]);
    }
    const made = store.artifacts.commit(key);
    expect([made.version, readdirSync(join(home, "artifacts")).sort()]).toEqual([0, [made.id, "pending"].sort()]);
    expect(readFileSync(join(store.artifacts.folder(made), "train.jsonl"), "utf8")).toBe("kept");
  });

  it("that a full disk kept from being moved and from losing its row is no version when there is room", async () => {
    const key = { entity: "local", project: "p", name: "full" };
    const beside = new Database(join(home, "anneal.db"));
    beside.exec(`CREATE TRIGGER full BEFORE DELETE ON artifacts BEGIN SELECT RAISE(ABORT, 'full'); END`);
    const { renameSync } = fs;
    fs.renameSync = (from, to) => {
      if (String(to).endsWith(".txt")) return renameSync(from, to);
      throw Object.assign(new Error("full"), { code: "ENOSPC" });
    };
    syncBuiltinESMExports();
    try {
      await expect(store.artifacts.create(key, [["a.txt", "text"]])).rejects.toThrow();
    } finally {
      fs.renameSync = renameSync;
      syncBuiltinESMExports();
    }
    expect((await checkHome(home)).problems).toEqual([]);
    beside.exec("DROP TRIGGER full");
    beside.close();
    const made = await store.artifacts.create(key, [["a.txt", "again"]]);
    expect([made.version, [...store.artifacts.ids()]]).toEqual([0, [made.id]]);
    expect(readdirSync(join(home, "artifacts", "pending"))).toEqual([]);
  });

  it("whose commit was cut short is whole at the next start, with every file that was put", () => {
    const key = { entity: "local", project: "p", name: "cut" };
    writeFileSync(join(store.artifacts.pendingFolder(key), "train.jsonl"), "kept");
    const record = store.artifacts.commit(key);
    // Where a crash between the row and the folder leaves them.
    const pending = store.artifacts.pendingFolder(key);
    rmSync(pending, { recursive: true });
    renameSync(store.artifacts.folder(record), pending);
    reopen();
    expect(readFileSync(join(store.artifacts.folder(record), "train.jsonl"), "utf8")).toBe("kept");
    expect(() => store.artifacts.commit(key)).toThrow(/no file/);
  });
});

describe("an artifact made at once", () => {
  const key = { entity: "local", project: "p", name: "whole" };
  const text = `${"x".repeat((1 << 20) - 1)}😀${"é".repeat(1 << 20)}`;
  const content = (record: ArtifactRecord, name: string) =>
    readFileSync(join(store.artifacts.folder(record), name), "utf8") === text;

  it("holds its own files alone, as they were given", async () => {
    await store.artifacts.put(key, "put.jsonl", Readable.from(["put before"]));
    const record = await store.artifacts.create(key, [
      ["text.jsonl", text],
      ["bytes.jsonl", Buffer.from(text)],
      ["empty", ""],
    ]);
    expect(readdirSync(store.artifacts.folder(record)).sort()).toEqual(["bytes.jsonl", "empty", "text.jsonl"]);
    expect([content(record, "text.jsonl"), content(record, "bytes.jsonl")]).toEqual([true, true]);
    expect([record.version, store.artifacts.commit(key).version]).toEqual([0, 1]);
  });

  it("is there or not after a crash, and nothing of it is left over", async () => {
    const record = await store.artifacts.create(key, [["text.jsonl", text]]);
    // Where crashes leave them: between row and folder, before the row, and in the middle of a file that was put.
    const pending = join(home, "artifacts", "pending");
    renameSync(store.artifacts.folder(record), join(pending, record.id));
    mkdirSync(join(pending, randomUUID()));
    const put = store.artifacts.pendingFolder({ ...key, name: "other" });
    for (const name of ["put.jsonl", "cut.jsonl.1.part"]) writeFileSync(join(put, name), "x");
    reopen();
    expect(content(record, "text.jsonl")).toBe(true);
    expect(readdirSync(pending)).toEqual([basename(put)]);
    expect(readdirSync(put)).toEqual(["put.jsonl"]);
    expect(store.swept.quarantined).toEqual([]);
  });
});
