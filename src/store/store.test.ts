import { randomUUID } from "node:crypto";
import { once } from "node:events";
import fs, {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { hostname, tmpdir } from "node:os";
import { basename, join } from "node:path";
import { Readable } from "node:stream";
import { Worker } from "node:worker_threads";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { loggedGroups } from "../../test/fixtures/loggedGroups.js";
import { ClosedError, ConflictError, DiskFullError, HomeLockedError, NotFoundError } from "../errors.js";
import { checkHome } from "./checkHome.js";
import { homeError, isHome } from "./homeFolder.js";
import { equalSecrets } from "./keys.js";
import { migrate, migrations } from "./migrations.js";
import type { ArtifactRecord, EventRecord } from "./records.js";
import { openStore, type Store } from "./store.js";
import { quarantined } from "./sweep.js";

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

describe("a store that is closed", () => {
  it("is so for an artifact that is being made, of which nothing is left", async () => {
    const made = store.artifacts.create({ entity: "e", project: "p", name: "n" }, [["f", "text"]]);
    store.close();
    await expect(made).rejects.toThrow(ClosedError);
    expect(readdirSync(join(home, "artifacts", "pending"))).toEqual([]);
  });

  it("is so for a group that is being read", () => {
    const { id } = makeModel();
    store.trajectories.add(id, 0, "val", [{ trajectories: [] }]);
    const { position } = store.trajectories.list(id, { limit: 1 }).items[0]!;
    const [begun, notBegun] = [store.trajectories.rows(position), store.trajectories.rows(position)];
    begun.next();
    store.close();
    expect(() => begun.next()).toThrow(ClosedError);
    expect(() => notBegun.next()).toThrow(ClosedError);
  });
});

/** The file system refuses the next call of that name. */
function failingOnce(name: "renameSync" | "openSync", code: string) {
  const real = fs[name];
  const put = (value: unknown) => {
    Object.assign(fs, { [name]: value });
    syncBuiltinESMExports();
  };
  put(() => {
    put(real);
    throw Object.assign(new Error(code), { code });
  });
  return { end: () => put(real) };
}

const makeModel = (name = "m") =>
  store.models.create({ entity: "local", project: "p", name, baseModel: "anneal/tiny" });

/** A committed checkpoint with one file in its folder. */
async function makeCheckpoint(modelId: string, step: number) {
  const folder = store.files.temporary();
  writeFileSync(join(folder, "adapter_config.json"), "{}");
  await store.files.commitFolder(folder, store.files.checkpointFolder(modelId, step));
  return store.checkpoints.create({ modelId, step });
}

function reopen() {
  store.close();
  store = openStore(home);
}

describe("a new home", () => {
  it("has a database of the newest version with a write-ahead log, which only its owner reads", () => {
    const file = join(home, "anneal.db");
    const database = new Database(file, { readonly: true });
    const pragma = (name: string) => database.pragma(name, { simple: true });
    expect([pragma("journal_mode"), pragma("user_version"), pragma("integrity_check")]).toEqual([
      "wal",
      migrations.length,
      "ok",
    ]);
    database.close();
    if (process.platform !== "win32") expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(home).filter((name) => name.endsWith(".part"))).toEqual([]);
  });

  it("is made where an earlier process was ended while it made one", () => {
    store.close();
    for (const name of readdirSync(home)) if (name.startsWith("anneal.db")) rmSync(join(home, name));
    writeFileSync(join(home, "anneal.db.1.part"), "the begin");
    store = openStore(home);
    expect(store.models.list()).toEqual([]);
    expect(store.swept.quarantined).toEqual([]);
  });

  it.skipIf(process.platform !== "linux")("has its name, and those of the folders above it, on the disk", () => {
    const flushed = new Set<string>();
    const { fsyncSync } = fs;
    fs.fsyncSync = (descriptor) => {
      flushed.add(readlinkSync(`/proc/self/fd/${descriptor}`));
      fsyncSync(descriptor);
    };
    syncBuiltinESMExports();
    try {
      openStore(join(home, "above", "it")).close();
    } finally {
      fs.fsyncSync = fsyncSync;
      syncBuiltinESMExports();
    }
    expect([...flushed]).toEqual(expect.arrayContaining([home, join(home, "above")]));
  });

  it("keeps no part of a file whose writing was cut off, and what has only a name like it", () => {
    mkdirSync(join(home, "pipelines"));
    for (const name of ["anneal.db.12.part", "owner-key.12.part", "pipelines/vulkan-0.12.part", "notes.12.part"]) {
      writeFileSync(join(home, name), "the begin");
    }
    reopen();
    expect(readdirSync(home).filter((name) => name.endsWith(".part"))).toEqual(["notes.12.part"]);
    expect(readdirSync(join(home, "pipelines"))).toEqual([]);
    expect(store.swept.quarantined).toEqual([]);
  });
});

describe("models and checkpoints", () => {
  it("keeps what was written when it is opened again", async () => {
    const model = makeModel();
    await makeCheckpoint(model.id, 0);
    store.checkpoints.mergeMetrics(model.id, 0, { "val/reward": 0.5, a: 1 });
    store.checkpoints.mergeMetrics(model.id, 0, { a: 2 });
    reopen();
    expect(store.models.get(model.id)).toEqual(model);
    expect(store.models.find("local", "p", "m")).toEqual(model);
    expect(store.checkpoints.latest(model.id)?.metrics).toEqual({ "val/reward": 0.5, a: 2 });
    expect(readdirSync(store.files.checkpointFolder(model.id, 0))).toEqual(["adapter_config.json"]);
  });

  it("pages by id in both directions and refuses a cursor of another model", async () => {
    const model = makeModel();
    for (let step = 0; step < 5; step++) await makeCheckpoint(model.id, step);
    const first = store.checkpoints.list(model.id, { limit: 2 });
    expect([first.items.map((c) => c.step), first.hasMore]).toEqual([[0, 1], true]);
    const rest = store.checkpoints.list(model.id, { limit: 3, after: first.items[1]!.id });
    expect([rest.items.map((c) => c.step), rest.hasMore]).toEqual([[2, 3, 4], false]);
    const down = store.checkpoints.list(model.id, { limit: 2, order: "desc", after: rest.items[1]!.id });
    expect([down.items.map((c) => c.step), down.hasMore]).toEqual([[2, 1], true]);
    const other = makeModel("other");
    expect(() => store.checkpoints.list(other.id, { limit: 1, after: first.items[0]!.id })).toThrow(NotFoundError);
  });

  it("deletes steps idempotently and everything of a model with it", async () => {
    const model = makeModel();
    for (let step = 0; step < 3; step++) await makeCheckpoint(model.id, step);
    store.trajectories.add(model.id, 0, "val", [{ trajectories: [] }]);
    store.metrics.append(model.id, 0, { reward: 1 });
    expect(store.checkpoints.delete(model.id, [0, 0, 9])).toEqual([0]);
    expect(store.checkpoints.delete(model.id, [0])).toEqual([]);
    expect(store.models.delete(model.id)).toBe(true);
    expect(store.checkpoints.steps(model.id)).toEqual([]);
    expect(loggedGroups(store, model.id)).toEqual([]);
    expect(store.metrics.list(model.id, { limit: 9 }).items).toEqual([]);
    expect(store.models.delete(model.id)).toBe(false);
  });

  it("writes nothing of a model that has been deleted, and leaves no folder of it", async () => {
    const model = store.models.create({ entity: "e", project: "p", name: "m", baseModel: "b" });
    store.models.delete(model.id);
    const temporary = store.files.temporary();
    await store.files.commitFolder(temporary, store.files.checkpointFolder(model.id, 1));
    for (const write of [
      () => store.checkpoints.create({ modelId: model.id, step: 1 }),
      () => store.metrics.append(model.id, 1, { loss: 1 }),
      () => store.trajectories.add(model.id, 1, "train", [{ trajectories: [] }]),
      () => store.trajectories.batch(model.id, 1, "train").add([{ text: "{}", continues: false }]),
    ]) {
      expect(write).toThrow(NotFoundError);
    }
    store.files.removeCheckpoint(model.id, 1);
    expect(existsSync(store.files.modelFolder(model.id))).toBe(false);
  });

  it("refuses a second model or checkpoint of the same name", () => {
    const model = makeModel();
    expect(() => makeModel()).toThrow(/UNIQUE/);
    store.checkpoints.create({ modelId: model.id, step: 0 });
    expect(() => store.checkpoints.create({ modelId: model.id, step: 0 })).toThrow(/UNIQUE/);
  });
});

describe("jobs and events", () => {
  const end = {
    status: "succeeded" as const,
    event: { type: "training_ended" as const, data: {} },
    checkpoint: { step: 1 },
  };

  it("runs through its life with one first and one last event, whatever is repeated", () => {
    const model = makeModel();
    const job = store.jobs.create({ kind: "rl", modelId: model.id, entity: "local" });
    const seen: string[] = [];
    const stop = store.events.subscribe(job.id, (event) => seen.push(event.type));
    store.startJob(job.id, { type: "training_started", data: { num_sequences: 1 } });
    store.startJob(job.id, { type: "training_started", data: { num_sequences: 1 } });
    store.commitStep(job.id, { event: { type: "gradient_step", data: { loss: 1.5 } }, state: { done: 1 } });
    expect(store.jobs.get(job.id)).toMatchObject({ status: "running", state: { done: 1 }, endedAt: null });
    expect(store.finishJob(job.id, end)?.step).toBe(1);
    expect(store.finishJob(job.id, end)).toBeNull();
    stop();
    expect(seen).toEqual(["training_started", "gradient_step", "training_ended"]);
    expect(store.jobs.get(job.id)).toMatchObject({ status: "succeeded", step: 1, state: null });
    expect(store.checkpoints.steps(model.id)).toEqual([1]);
    expect(() => store.commitStep(job.id, { event: end.event, state: null })).toThrow(ConflictError);
    expect(store.jobs.unfinished()).toEqual([]);
  });

  it("writes the last event, the status and the checkpoint together or not at all", () => {
    const model = makeModel();
    store.checkpoints.create({ modelId: model.id, step: 1 });
    const job = store.jobs.create({ kind: "rl", modelId: model.id, entity: "local" });
    const seen: EventRecord[] = [];
    store.events.subscribe(job.id, (event) => seen.push(event));
    expect(() => store.finishJob(job.id, end)).toThrow(/UNIQUE/);
    expect(store.jobs.get(job.id)?.status).toBe("queued");
    expect(store.events.terminal(job.id)).toBeNull();
    expect(seen).toEqual([]);
  });

  it("pushes only what has been committed", () => {
    const model = makeModel();
    const job = store.jobs.create({ kind: "rl", modelId: model.id, entity: "local" });
    let seen = 0;
    store.events.subscribe(job.id, () => seen++);
    expect(() =>
      store.transaction(() => {
        store.events.append(job.id, { type: "gradient_step", data: {} });
        throw new Error("stop");
      }),
    ).toThrow("stop");
    store.transaction(() => {
      store.events.append(job.id, { type: "gradient_step", data: {} });
      expect(seen).toBe(0);
      try {
        store.transaction(() => {
          store.events.append(job.id, { type: "gradient_step", data: {} });
          throw new Error("inner");
        });
      } catch {}
    });
    expect(seen).toBe(1);
    expect(store.events.list(job.id, { limit: 10 }).items).toHaveLength(1);
  });

  it("pages events in order of happening", () => {
    const model = makeModel();
    const job = store.jobs.create({ kind: "sft", modelId: model.id, entity: "local" });
    for (let i = 0; i < 5; i++) store.events.append(job.id, { type: "gradient_step", data: { i } });
    const page = store.events.list(job.id, { limit: 3 });
    expect([page.items.map((e) => e.data.i), page.hasMore]).toEqual([[0, 1, 2], true]);
    const next = store.events.list(job.id, { limit: 3, after: page.items[2]!.id });
    expect([next.items.map((e) => e.data.i), next.hasMore]).toEqual([[3, 4], false]);
    expect(() => store.events.list(job.id, { limit: 3, after: job.id })).toThrow(NotFoundError);
  });
});

describe("keys", () => {
  it("finds a key until it is revoked and keeps no key in the clear", () => {
    const { key, record } = store.keys.create({ entity: "team" });
    expect(store.keys.find(key)?.entity).toBe("team");
    expect(store.keys.find(`${key}x`)).toBeNull();
    const owner = store.ownerKey();
    expect(store.ownerKey()).toBe(owner);
    expect(statSync(join(home, "owner-key")).mode & 0o777).toBe(0o600);
    expect(store.keys.revoke(record.id)).toBe(true);
    expect(store.keys.find(key)).toBeNull();
    store.close();
    expect(readFileSync(join(home, "anneal.db")).includes(key)).toBe(false);
    store = openStore(home);
    expect(store.ownerKey()).toBe(owner);
  });

  it("compares secrets of any length", () => {
    expect(equalSecrets("a", "a")).toBe(true);
    expect(equalSecrets("a", "ab")).toBe(false);
  });
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

describe("the home", () => {
  it("sets folders aside that no row knows, removes those that are done with, and keeps the others", async () => {
    const model = makeModel();
    await makeCheckpoint(model.id, 0);
    const job = store.jobs.create({ kind: "rl", modelId: model.id, entity: "local" });
    mkdirSync(store.files.checkpointFolder(model.id, 1), { recursive: true });
    mkdirSync(store.files.checkpointFolder("gone", 0), { recursive: true });
    mkdirSync(store.files.jobFolder(job.id), { recursive: true });
    mkdirSync(store.files.jobFolder("gone"), { recursive: true });
    writeFileSync(join(store.files.jobFolder("gone"), "request.jsonl"), "{}");
    const ended = store.jobs.create({ kind: "rl", modelId: model.id, entity: "local" });
    store.finishJob(ended.id, { status: "cancelled", event: { type: "training_failed", data: {} } });
    mkdirSync(store.files.jobFolder(ended.id));
    // The job that is not finished will make its checkpoint again.
    const cutOff = store.files.checkpointFolder(model.id, 2);
    mkdirSync(cutOff);
    writeFileSync(join(cutOff, "meta.json"), JSON.stringify({ job_id: job.id }));
    store.files.temporary();
    // Or while it put a folder in another's place.
    mkdirSync(`${store.files.temporary()}.replaced`);
    // A process that died while it wrote a job's request.
    const cut = store.files.jobFolder(randomUUID());
    mkdirSync(cut);
    writeFileSync(join(cut, "groups.jsonl"), "[]\n");
    writeFileSync(join(cut, "request.jsonl.1234.part"), "{");
    mkdirSync(store.files.jobFolder(randomUUID()));
    reopen();
    const aside = [`checkpoints/${model.id}/1`, "checkpoints/gone", "jobs/gone"];
    expect(store.swept.quarantined.toSorted()).toEqual(aside.toSorted());
    expect(quarantined(home).length).toBe(3);
    expect(existsSync(cutOff)).toBe(true);
    rmSync(cutOff, { recursive: true });
    expect(readdirSync(join(home, "checkpoints"))).toEqual([model.id]);
    expect(readdirSync(store.files.modelFolder(model.id))).toEqual(["0"]);
    expect(readdirSync(join(home, "jobs"))).toEqual([job.id]);
    expect(readdirSync(home)).not.toContain("temporary");
  });

  it("removes nothing that a folder had in it before it became one", () => {
    store.close();
    rmSync(home, { recursive: true });
    const paths = [
      "temporary/notes",
      "temporary/t-shirts/sizes",
      "jobs/applied/letter",
      "jobs/list",
      "checkpoints/mine/weights",
    ];
    for (const path of paths) {
      mkdirSync(join(home, path, ".."), { recursive: true });
      writeFileSync(join(home, path), path);
    }
    store = openStore(home);
    const [time] = readdirSync(join(home, "quarantine"));
    for (const path of paths) expect(readFileSync(join(home, "quarantine", time!, path), "utf8")).toBe(path);
    expect(store.swept.quarantined).toHaveLength(5);
  });

  it("ends deletions that were cut off between their rows and their folders", async () => {
    const [model, other] = [makeModel("model"), makeModel("other")];
    for (const step of [0, 1]) for (const { id } of [model, other]) await makeCheckpoint(id, step);
    store.transaction(() => {
      store.checkpoints.delete(model.id, [0]);
      store.models.delete(other.id);
      store.removedFolders.announce(store.files.checkpointFolder(model.id, 0));
      store.removedFolders.announce(store.files.modelFolder(other.id));
    });
    expect((await checkHome(home)).problems).not.toContainEqual(expect.objectContaining({ kind: "unknown" }));
    reopen();
    expect(store.swept).toEqual({ quarantined: [], restored: [] });
    expect(readdirSync(join(home, "checkpoints"))).toEqual([model.id]);
    expect(readdirSync(store.files.modelFolder(model.id))).toEqual(["1"]);
    expect(store.removedFolders.paths()).toEqual(new Set());
  });

  it.each(["is missing", "is empty", "is older"])(
    "loses nothing when its database %s, and has it back with the database",
    async (what) => {
      const file = join(home, "anneal.db");
      const older = join(home, "older.db");
      const aged = makeModel("aged");
      await makeCheckpoint(aged.id, 0);
      store.close();
      copyFileSync(file, older);
      store = openStore(home);
      const model = makeModel();
      for (const step of [0, 1]) await makeCheckpoint(model.id, step);
      await makeCheckpoint(aged.id, 1);
      const key = { entity: "local", project: "p", name: "data" };
      writeFileSync(join(store.artifacts.pendingFolder(key), "train.jsonl"), "data");
      const artifact = store.artifacts.commit(key);
      const job = store.jobs.create({ kind: "rl", modelId: model.id, entity: "local" });
      mkdirSync(store.files.jobFolder(job.id), { recursive: true });
      writeFileSync(join(store.files.jobFolder(job.id), "request.jsonl"), "{}");
      store.close();
      const whole = join(home, "whole.db");
      copyFileSync(file, whole);

      if (what === "is missing") rmSync(file);
      else if (what === "is empty") truncateSync(file, 0);
      else copyFileSync(older, file);
      store = openStore(home);
      const expected = [`checkpoints/${model.id}`, `jobs/${job.id}`, `artifacts/${artifact.id}`];
      expected.push(what === "is older" ? `checkpoints/${aged.id}/1` : `checkpoints/${aged.id}`);
      expect(store.swept.quarantined.toSorted()).toEqual(expected.toSorted());
      const [time] = readdirSync(join(home, "quarantine"));
      const kept = join(home, "quarantine", time!, "checkpoints", model.id, "1", "adapter_config.json");
      expect(readFileSync(kept, "utf8")).toBe("{}");
      // Opening it again moves and removes nothing.
      reopen();
      expect(store.swept).toEqual({ quarantined: [], restored: [] });
      expect(existsSync(kept)).toBe(true);

      store.close();
      copyFileSync(whole, file);
      store = openStore(home);
      expect(store.swept.quarantined).toEqual([]);
      expect(store.swept.restored.length).toBe(what === "is older" ? 5 : 6);
      for (const [id, step] of [
        [aged.id, 0],
        [aged.id, 1],
        [model.id, 0],
        [model.id, 1],
      ] as const) {
        expect(readdirSync(store.files.checkpointFolder(id, step))).toEqual(["adapter_config.json"]);
      }
      expect(readFileSync(join(store.artifacts.folder(artifact), "train.jsonl"), "utf8")).toBe("data");
      expect(existsSync(join(store.files.jobFolder(job.id), "request.jsonl"))).toBe(true);
      expect(quarantined(home)).toEqual([]);
    },
  );

  it("follows no link out of it", async () => {
    const outside = mkdtempSync(join(tmpdir(), "store-outside-"));
    try {
      const precious = join(outside, "0", "precious");
      mkdirSync(join(outside, "0"));
      writeFileSync(precious, "here");
      const model = makeModel();
      await makeCheckpoint(model.id, 0);
      for (const place of ["checkpoints", "jobs", "artifacts", `checkpoints/${model.id}`]) {
        mkdirSync(join(home, place), { recursive: true });
        symlinkSync(outside, join(home, place, "7"));
      }
      rmSync(join(home, "temporary"), { recursive: true, force: true });
      symlinkSync(outside, join(home, "temporary"));
      reopen();
      expect(store.swept.quarantined).toHaveLength(4);
      // A folder that somebody keeps elsewhere is left to them.
      store.close();
      rmSync(join(home, "jobs"), { recursive: true });
      symlinkSync(outside, join(home, "jobs"));
      store = openStore(home);
      expect(store.swept.quarantined).toEqual([]);
      expect(readFileSync(precious, "utf8")).toBe("here");
    } finally {
      rmSync(outside, { recursive: true, force: true });
    }
  });

  it.skipIf(process.platform === "win32")("is this user's alone, whatever it was", async () => {
    const model = makeModel();
    await makeCheckpoint(model.id, 0);
    store.ownerKey();
    await store.artifacts.put({ entity: "e", project: "p", name: "n" }, "f", Readable.from(["x"]));
    const open = (path: string) => {
      const status = statSync(path);
      const below = status.isDirectory() ? readdirSync(path).flatMap((name): string[] => open(join(path, name))) : [];
      return (status.mode & 0o077) === 0 ? below : [path, ...below];
    };
    expect(open(home)).toEqual([]);
    store.close();
    writeFileSync(join(home, "notes"), "mine");
    const loosen = (path: string) => {
      const folder = statSync(path).isDirectory();
      chmodSync(path, folder ? 0o755 : 0o644);
      if (folder) for (const name of readdirSync(path)) loosen(join(path, name));
    };
    loosen(home);
    store = openStore(home);
    makeModel("later");
    expect(open(home)).toEqual([join(home, "notes")]);
  });

  it("has everything in anneal.db alone soon after it was written", async () => {
    const model = makeModel();
    const copied = () => {
      const copy = mkdtempSync(join(tmpdir(), "store-copy-"));
      copyFileSync(join(home, "anneal.db"), join(copy, "anneal.db"));
      const other = openStore(copy);
      const found = other.models.get(model.id);
      other.close();
      rmSync(copy, { recursive: true });
      return found;
    };
    expect(copied()).toBeNull();
    await vi.waitFor(() => expect(copied()).toEqual(model), { timeout: 10_000, interval: 500 });
  });

  it("gives the disk back what a deleted model's trajectories took", async () => {
    const { id } = store.models.create({ entity: "e", project: "p", name: "m", baseModel: "b" });
    const text = JSON.stringify({ trajectories: [], metadata: { text: "x".repeat(1 << 20) } });
    store.trajectories.batch(id, 0, "train").add(new Array(20).fill({ text, continues: false }));
    const size = () => statSync(join(home, "anneal.db")).size;
    await vi.waitFor(() => expect(size()).toBeGreaterThan(20 << 20), { timeout: 60_000 });
    store.models.delete(id);
    await vi.waitFor(() => expect(size()).toBeLessThan(17 << 20), { timeout: 60_000 });
    store.check();
  });

  it("has no folder whose name could not be flushed", async () => {
    const temporary = store.files.temporary();
    const folder = store.files.checkpointFolder("m", 1);
    store.files.makeFolder(store.files.modelFolder("m"));
    const failing = failingOnce("openSync", "EMFILE");
    await expect(store.files.commitFolder(temporary, folder)).rejects.toThrow("EMFILE");
    failing.end();
    expect([existsSync(folder), existsSync(temporary)]).toEqual([false, true]);
  });

  it("replaces a folder that an interrupted run left under the final name", async () => {
    const folder = store.files.checkpointFolder("m", 3);
    for (const text of ["old", "new"]) {
      const temporary = store.files.temporary();
      writeFileSync(join(temporary, "file"), text);
      await store.files.commitFolder(temporary, folder);
    }
    expect(readFileSync(join(folder, "file"), "utf8")).toBe("new");
  });

  it("is opened where another process is found on the way to its lock, so that one of those that begin together has it", async () => {
    store.close();
    /** Reads the lock's file from when this resolves, until 30 ms after `letGo` is called. */
    async function onTheWay() {
      const told = new Int32Array(new SharedArrayBuffer(4));
      const code = `const { parentPort, workerData: { file, told } } = require("node:worker_threads");
        const database = new (require("better-sqlite3"))(file);
        database.exec("BEGIN");
        database.prepare("SELECT * FROM sqlite_master").all();
        parentPort.postMessage("reads");
        Atomics.wait(told, 0, 0);
        Atomics.wait(told, 0, 1, 30);
        database.close();`;
      const worker = new Worker(code, { eval: true, workerData: { file: join(home, "lock.db"), told } });
      await once(worker, "message");
      const letGo = () => {
        Atomics.store(told, 0, 1);
        Atomics.notify(told, 0);
      };
      return { letGo, ended: once(worker, "exit") };
    }
    // A busy machine may keep the other from letting go.
    for (let attempts = 5; ; attempts--) {
      const other = await onTheWay();
      other.letGo();
      try {
        store = openStore(home);
        return;
      } catch (error) {
        if (attempts === 1) throw error;
      } finally {
        await other.ended;
      }
    }
  });

  it("is opened once, says by whom and where, and outlives a stale description", () => {
    store.setAddress("http://127.0.0.1:8000");
    expect(() => openStore(home)).toThrow(HomeLockedError);
    try {
      openStore(home);
    } catch (error) {
      expect(error).toMatchObject({ pid: process.pid, address: "http://127.0.0.1:8000", code: "home_locked" });
      expect((error as Error).message).toMatch(/another engine of this process, which serves http/);
    }
    const lock = join(home, "lock.json");
    const described = readFileSync(lock, "utf8");
    writeFileSync(lock, JSON.stringify({ ...JSON.parse(described), host: "another" }));
    expect(() => openStore(home)).toThrow(`process ${process.pid}, which serves http`);
    writeFileSync(lock, described);
    store.close();
    writeFileSync(lock, JSON.stringify({ pid: 1, address: "http://gone" }));
    store = openStore(home);
    expect(JSON.parse(readFileSync(lock, "utf8"))).toEqual({ pid: process.pid, host: hostname(), address: null });
  });

  it("that cannot be is refused by an error that names it", () => {
    const file = join(home, "file");
    writeFileSync(file, "text");
    mkdirSync(join(home, "other"));
    writeFileSync(join(home, "other", "anneal.db"), "no database ".repeat(1000));
    const impossible = [file, join(file, "below"), join(home, "other")];
    // No name can be made there.
    if (process.platform === "linux") impossible.push("/proc/anneal/home");
    for (const folder of impossible) {
      const refused = expect.objectContaining({
        code: "home_unusable",
        param: "home",
        message: expect.stringContaining(folder),
      });
      expect(() => openStore(folder)).toThrow(refused);
      expect(() => openStore(folder)).toThrow(refused);
    }
  });

  it("that Node's permission model keeps from being flushed is refused by an error that says so", () => {
    const refused = new Error("fsync API is disabled when Permission Model is enabled.");
    expect(homeError(home, Object.assign(refused, { code: "ERR_ACCESS_DENIED" }))).toMatchObject({
      code: "home_unusable",
      message: expect.stringContaining("fsync API is disabled"),
      hint: expect.stringContaining("without it"),
    });
  });

  it("that cannot be looked at is not taken for one that is not there", () => {
    const loop = join(home, "loop");
    symlinkSync(loop, loop);
    expect(() => isHome(loop)).toThrow(expect.objectContaining({ code: "home_unusable", param: "home" }));
    expect([isHome(home), isHome(join(home, "none")), isHome(join(home, "anneal.db", "below"))]).toEqual([
      true,
      false,
      false,
    ]);
  });

  it("of nobody's naming lies in the system's temporary folder, which must be one", () => {
    vi.stubEnv("TMPDIR", join(home, "none"));
    try {
      expect(() => openStore(null)).toThrow(expect.objectContaining({ code: "home_unusable", param: "home" }));
    } finally {
      vi.unstubAllEnvs();
    }
  });

  it("is gone after close when none was named", () => {
    const temporary = openStore(null);
    temporary.models.create({ entity: "local", project: "p", name: "m", baseModel: "b" });
    expect(statSync(temporary.home).isDirectory()).toBe(true);
    temporary.close();
    expect(() => statSync(temporary.home)).toThrow(/ENOENT/);
  });
});

describe("migrations", () => {
  it("take an older database to the newest version with its rows", () => {
    const database = new Database(":memory:");
    migrate(database, "test", migrations.slice(0, 1));
    database
      .prepare("INSERT INTO models (id, entity, project, name, base_model, run_id, created_at) VALUES (?,?,?,?,?,?,?)")
      .run("id", "e", "p", "n", "b", "r", 1);
    const added = "ALTER TABLE models ADD COLUMN note TEXT NOT NULL DEFAULT 'none'";
    migrate(database, "test", [...migrations, added]);
    expect(database.pragma("user_version", { simple: true })).toBe(migrations.length + 1);
    expect(database.prepare("SELECT name, note FROM models").get()).toEqual({ name: "n", note: "none" });
  });

  it("leave the database as it was when one fails", () => {
    const database = new Database(":memory:");
    migrate(database, "test");
    const steps = [...migrations, "CREATE TABLE extra (x)", "NOT SQL"];
    expect(() => migrate(database, "test", steps)).toThrow(/syntax/);
    expect(database.pragma("user_version", { simple: true })).toBe(migrations.length);
    expect(database.prepare("SELECT name FROM sqlite_master WHERE name = 'extra'").get()).toBeUndefined();
  });

  it("refuse a database of a newer version", () => {
    const database = new Database(":memory:");
    database.pragma("user_version = 99");
    expect(() => migrate(database, "file")).toThrow(/newer|version 99/);
  });
});
