import fs, {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { loggedGroups } from "../../test/fixtures/loggedGroups.js";
import { useStore } from "../../test/fixtures/useStore.js";
import { ClosedError, ConflictError, NotFoundError } from "../errors.js";
import { equalSecrets } from "./keys.js";
import { migrate, migrations } from "./migrations.js";
import type { EventRecord } from "./records.js";
import { openStore, type Store } from "./store.js";

let home: string;
let store: Store;
const { makeModel, makeCheckpoint, reopen } = useStore((opened, folder) => {
  store = opened;
  home = folder;
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
    reopen();
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
    reopen();
    expect(store.ownerKey()).toBe(owner);
  });

  it("compares secrets of any length", () => {
    expect(equalSecrets("a", "a")).toBe(true);
    expect(equalSecrets("a", "ab")).toBe(false);
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
