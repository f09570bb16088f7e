// What the store does where files cannot be used, as where the disk has no room.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ClosedError, DiskFullError } from "../errors.js";
import { allThrowingFileErrors } from "../fileErrors.js";
import { streamFile, writeFileDurably } from "./durableFiles.js";
import { openStore, type Store } from "./store.js";

/** What a store does regularly, of the one that was opened last. */
const upkeep = vi.hoisted(() => ({ now: (): void => undefined }));
vi.mock("node:timers", async (original) => {
  const timers = await original<typeof import("node:timers")>();
  const setInterval = (action: () => void, ms: number) => {
    upkeep.now = action;
    return timers.setInterval(action, ms);
  };
  return { ...timers, setInterval };
});

let home: string;
let store: Store;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "store-test-"));
  store = openStore(home);
});
afterEach(() => {
  store.close();
  rmSync(home, { recursive: true, force: true });
});

it("says what is wrong with a home whose key cannot be read", () => {
  mkdirSync(join(home, "owner-key"));
  expect(() => store.ownerKey()).toThrow(
    expect.objectContaining({
      code: "home_unusable",
      message: expect.stringContaining(`the home ${home} cannot be used`),
    }),
  );
});

describe("a full disk", () => {
  it("is one error, whether the database meets it", () => {
    const database = new Database(":memory:");
    database.exec("CREATE TABLE notes (text TEXT)");
    const insert = database.prepare("INSERT INTO notes VALUES (?)");
    const table = allThrowingFileErrors("home", { write: (text: string) => void insert.run(text), name: "notes" });
    table.write("fits");
    database.pragma(`max_page_count = ${database.pragma("page_count", { simple: true })}`);
    expect(() => table.write("x".repeat(100_000))).toThrow(DiskFullError);
    expect(() => table.write({} as string)).toThrow(RangeError);
    expect(table.name).toBe("notes");
    database.close();
  });

  it.each(["ENOSPC", "EDQUOT", "EFBIG", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC"])(
    "or the limits of users and files do: %s",
    (code) => {
      const refuse = allThrowingFileErrors("home", {
        write() {
          throw Object.assign(new Error(code), { code });
        },
      });
      expect(() => refuse.write()).toThrow(expect.objectContaining({ name: "DiskFullError", code: "disk_full" }));
    },
  );

  it("in the middle of a batch of trajectories too, and a store that is closed there is closed", () => {
    const { id } = store.models.create({ entity: "e", project: "p", name: "batch", baseModel: "b" });
    const batch = store.trajectories.batch(id, 0, "val");
    const full = Object.assign(new Error("database or disk is full"), { code: "SQLITE_FULL" });
    const rows = {
      *[Symbol.iterator]() {
        yield { text: "{}", continues: false };
        throw full;
      },
    };
    expect(() => batch.add(rows as never)).toThrow(DiskFullError);
    batch.add([{ text: "{}", continues: false }]);
    store.close();
    expect(() => batch.add([{ text: "{}", continues: false }])).toThrow(ClosedError);
    expect(() => batch.finish()).toThrow(ClosedError);
  });

  it.skipIf(process.platform !== "linux")("that a file's size is limited to is as full", () => {
    const script = `import { openStore } from ${JSON.stringify(new URL("./store.ts", import.meta.url).href)};
      const store = openStore(${JSON.stringify(join(home, "limited"))});
      const seen = [];
      const { id } = store.models.create({ entity: "e", project: "p", name: "batch", baseModel: "b" });
      const batch = store.trajectories.batch(id, 0, "val");
      batch.add(Array.from({ length: 100 }, () => ({ text: "x".repeat(5000), continues: false })));
      try {
        for (let i = 0; i < 4000; i++) store.models.create({ entity: "e", project: "p", name: i + "x".repeat(500), baseModel: "b" });
      } catch (error) { seen.push(error.code); }
      try { await store.artifacts.put({ entity: "e", project: "p", name: "n" }, "f", [Buffer.alloc(4e6)]); }
      catch (error) { seen.push(error.code); }
      try { await store.artifacts.create({ entity: "e", project: "p", name: "n" }, [["f", "x".repeat(4e6)]]); }
      catch (error) { seen.push(error.code); }
      await batch.discard().catch((error) => seen.push(error.code));
      console.log(seen.join());`;
    const command = `ulimit -f 1000; exec "$0" --import tsx --input-type=module -e "$1"`;
    const said = execFileSync("bash", ["-c", command, process.execPath, script], { encoding: "utf8" });
    expect(said.trim()).toBe("disk_full,disk_full,disk_full,disk_full");
    expect(readdirSync(join(home, "limited", "artifacts", "pending"))).toEqual([]);
  });

  it.skipIf(process.platform !== "linux")("or a file, of which it leaves nothing", async () => {
    const path = join(home, "note");
    symlinkSync("/dev/full", `${path}.${process.pid}.part`);
    expect(() => writeFileDurably(path, "text")).toThrow(
      expect.objectContaining({ name: "DiskFullError", status: 503, code: "disk_full" }),
    );
    expect(readdirSync(home).filter((name) => name.startsWith("note"))).toEqual([]);
    const full = Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
    const chunks = Readable.from(
      (function* () {
        yield new Uint8Array(1);
        throw full;
      })(),
    );
    await expect(streamFile(path, chunks)).rejects.toMatchObject({ name: "DiskFullError", cause: full });
    expect(readdirSync(home).filter((name) => name.startsWith("note"))).toEqual([]);
  });

  it("has room that the home kept back for what frees it", () => {
    store.close();
    store = openStore(home);
    const reserve = join(home, "reserve");
    const full = Object.assign(new Error("database or disk is full"), { code: "SQLITE_FULL" });
    const { id } = store.models.create({ entity: "local", project: "p", name: "m", baseModel: "anneal/tiny" });
    const remove = () =>
      store.deletion(() => {
        store.models.delete(id);
        if (existsSync(reserve)) throw full;
      });
    const neverFits = () => {
      throw full;
    };
    upkeep.now();
    expect(statSync(reserve).size).toBe(2 ** 20);
    expect(() => store.transaction(neverFits)).toThrow(DiskFullError);
    expect(existsSync(reserve)).toBe(true);
    remove();
    expect([store.models.get(id), existsSync(reserve)]).toEqual([null, false]);
    expect(() => store.deletion(neverFits)).toThrow(DiskFullError);
    upkeep.now();
    expect(existsSync(reserve)).toBe(true);
    expect(() => store.deletion(neverFits)).toThrow(DiskFullError);
    expect(existsSync(reserve)).toBe(false);
    // A process that was ended while it took it.
    writeFileSync(reserve, "the begin");
    upkeep.now();
    expect(statSync(reserve).size).toBe(2 ** 20);
  });
});
