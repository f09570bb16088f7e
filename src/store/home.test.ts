import { randomUUID } from "node:crypto";
import { once } from "node:events";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { Worker } from "node:worker_threads";
import { describe, expect, it, vi } from "vitest";
import { failingOnce, useStore } from "../../test/fixtures/useStore.js";
import { HomeLockedError } from "../errors.js";
import { checkHome } from "./checkHome.js";
import { homeError, isHome } from "./homeFolder.js";
import { openStore, type Store } from "./store.js";
import { quarantined } from "./sweep.js";

let home: string;
let store: Store;
const { makeModel, makeCheckpoint, reopen } = useStore((opened, folder) => {
  store = opened;
  home = folder;
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
    reopen();
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
      reopen();
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
      reopen();
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
      reopen();
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
      reopen();
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
    reopen();
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
        reopen();
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
    reopen();
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
