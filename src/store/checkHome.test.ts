import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { backupHome } from "./backupHome.js";
import { checkHome } from "./checkHome.js";
import { folderChecksums } from "./checksums.js";
import { openStore, type Store } from "./store.js";

/** What the copying of folders fails with; null: it does not. */
const copying = vi.hoisted(() => ({ code: null as string | null }));
vi.mock("node:fs/promises", async (original) => {
  const files = await original<typeof import("node:fs/promises")>();
  const cp: typeof files.cp = async (from, to, options) => {
    const { code } = copying;
    if (code === null) return files.cp(from, to, options);
    const message = `${code}: refused, copyfile '${from}' -> '${to}'`;
    throw Object.assign(new Error(message), { code, syscall: "copyfile", path: String(from), dest: String(to) });
  };
  return { ...files, cp };
});

let top: string;
let home: string;
let store: Store;

beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), "home-test-"));
  home = join(top, "home");
  store = openStore(home);
});
afterEach(() => {
  store.close();
  rmSync(top, { recursive: true, force: true });
});

async function makeCheckpoint(modelId: string, step: number): Promise<string> {
  const folder = store.files.temporary();
  writeFileSync(join(folder, "adapter_model.safetensors"), "weights");
  writeFileSync(join(folder, "meta.json"), JSON.stringify({ sha256: await folderChecksums(folder) }));
  const final = store.files.checkpointFolder(modelId, step);
  await store.files.commitFolder(folder, final);
  store.checkpoints.create({ modelId, step });
  return final;
}

const makeModel = (name: string) => store.models.create({ entity: "e", project: "p", name, baseModel: "b" });

describe("a check", () => {
  it("finds nothing wrong with a home that is whole, open or closed", async () => {
    const model = makeModel("m");
    await makeCheckpoint(model.id, 0);
    const whole = { home, models: 1, checkpoints: 1, artifacts: 0, jobs: 0, problems: [], quarantined: [] };
    expect(await checkHome(home)).toEqual(whole);
    store.close();
    expect(await checkHome(home)).toEqual(whole);
    // Looking at it leaves it to others.
    store = openStore(home);
  });

  it("and a copy find a version whose folder a crash kept from its place, which the next opening moves there", async () => {
    const key = { entity: "e", project: "p", name: "a" };
    const { id } = await store.artifacts.create(key, [["train.jsonl", "x"]]);
    store.close();
    const [place, pending] = [join(home, "artifacts", id), join(home, "artifacts", "pending", id)];
    renameSync(place, pending);
    expect((await checkHome(home)).problems).toEqual([]);
    const copy = join(top, "copy");
    expect((await backupHome(home, copy)).problems).toEqual([]);
    for (const folder of [copy, home]) {
      store = openStore(folder);
      expect(existsSync(join(folder, "artifacts", id, "train.jsonl"))).toBe(true);
      if (folder === copy) store.close();
    }
    rmSync(place, { recursive: true });
    expect((await checkHome(home)).problems).toMatchObject([{ kind: "missing", path: `artifacts/${id}` }]);
  });

  it("names what is missing, damaged, unknown and set aside", async () => {
    const model = makeModel("m");
    const [flipped, lost, partly] = [0, 1, 2].map((step) => makeCheckpoint(model.id, step));
    writeFileSync(join(await flipped!, "adapter_model.safetensors"), "Weights");
    rmSync(await lost!, { recursive: true });
    rmSync(join(await partly!, "adapter_model.safetensors"));
    const job = store.jobs.create({ kind: "rl", modelId: model.id, entity: "e" });
    mkdirSync(join(home, "checkpoints", "nobody's"));
    const at = (step: number, file: string) => `checkpoints/${model.id}/${step}/${file}`;
    const { problems } = await checkHome(home);
    expect(problems.map(({ kind, path }) => [kind, path])).toEqual([
      ["damaged", at(0, "adapter_model.safetensors")],
      ["missing", at(1, "meta.json")],
      ["missing", at(2, "adapter_model.safetensors")],
      ["missing", `jobs/${job.id}`],
      ["unknown", "checkpoints/nobody's"],
    ]);
    store.close();
    store = openStore(home);
    const after = await checkHome(home);
    expect(after.problems).toHaveLength(4);
    expect(after.quarantined).toEqual([expect.stringMatching(/^quarantine\/.*\/checkpoints\/nobody's$/)]);
  });

  it("says what becomes of what a killed process left, and that it does", async () => {
    const model = makeModel("m");
    await makeCheckpoint(model.id, 0);
    const whole = await makeCheckpoint(model.id, 1);
    store.checkpoints.delete(model.id, [1]);
    const begun = join(home, "jobs", "begun");
    mkdirSync(begun, { recursive: true });
    writeFileSync(join(begun, "request.jsonl.1.part"), "{");
    const { problems } = await checkHome(home);
    expect(problems.map(({ kind, path, reason }) => [kind, path, /next opening (\w+)/.exec(reason)?.[1]])).toEqual([
      ["unknown", `checkpoints/${model.id}/1`, "moves"],
      ["unknown", "jobs/begun", "removes"],
    ]);
    store.close();
    store = openStore(home);
    expect([existsSync(whole), existsSync(begun)]).toEqual([false, false]);
    expect((await checkHome(home)).problems).toEqual([]);
    expect(store.swept.quarantined).toEqual([`checkpoints/${model.id}/1`]);
  });

  it("says what is wrong with the database", async () => {
    for (let i = 0; i < 300; i++) makeModel(`${i}-${"x".repeat(1000)}`);
    store.close();
    const file = join(home, "anneal.db");
    const content = readFileSync(file);
    writeFileSync(file, Buffer.concat([content.subarray(0, 8192), Buffer.alloc(40_000, 7), content.subarray(48_192)]));
    const report = await checkHome(home).catch((error) => error);
    expect(report.code === "home_unusable" || report.problems.length > 0).toBe(true);
    truncateSync(file, 100);
    await expect(checkHome(home)).rejects.toMatchObject({ code: "home_unusable" });
    rmSync(file);
    await expect(checkHome(home)).rejects.toMatchObject({ code: "home_not_found" });
    store = openStore(join(top, "other"));
  });
});

describe("a backup", () => {
  it("is a home with everything that is in the database", async () => {
    const model = makeModel("m");
    await makeCheckpoint(model.id, 0);
    const key = { entity: "e", project: "p", name: "data" };
    for (const text of ["first", "pending"]) {
      writeFileSync(join(store.artifacts.pendingFolder(key), "train.jsonl"), text);
      if (text === "first") store.artifacts.commit(key);
    }
    const owner = store.ownerKey();
    const target = join(top, "deep", "copy");
    expect(await backupHome(home, target)).toEqual({
      folder: target,
      checkpoints: 1,
      artifacts: 1,
      jobs: 0,
      problems: [],
    });
    expect(statSync(target).mode & 0o077).toBe(0);
    const copy = openStore(target);
    expect(copy.swept.quarantined).toEqual([]);
    expect(copy.ownerKey()).toBe(owner);
    expect(copy.models.list()).toEqual([model]);
    expect(existsSync(join(copy.files.checkpointFolder(model.id, 0), "adapter_model.safetensors"))).toBe(true);
    expect(copy.artifacts.commit(key).version).toBe(1);
    copy.close();
  });

  it("tells what is missing or damaged, and copies the rest", async () => {
    const model = makeModel("m");
    for (const step of [0, 1]) await makeCheckpoint(model.id, step);
    writeFileSync(join(store.files.checkpointFolder(model.id, 1), "adapter_model.safetensors"), "other");
    const { problems } = await backupHome(home, join(top, "copy"));
    const path = `checkpoints/${model.id}/1/adapter_model.safetensors`;
    expect(problems).toEqual([expect.objectContaining({ kind: "damaged", path: expect.stringContaining(path) })]);
    expect((await checkHome(join(top, "copy"))).checkpoints).toBe(2);
  });

  it("fails where it cannot be written, instead of calling what it copies damaged", async () => {
    await makeCheckpoint(makeModel("m").id, 0);
    const target = join(top, "copy");
    for (const [code, fault] of [
      ["ENOSPC", { code: "disk_full" }],
      ["EMFILE", { code: "file_unusable", message: expect.stringContaining("EMFILE: refused") }],
      ["EIO", { code: "file_unusable", param: expect.stringContaining(target) }],
    ] as const) {
      copying.code = code;
      await expect(backupHome(home, target)).rejects.toMatchObject(fault);
      copying.code = null;
      expect(readdirSync(top)).toEqual(["home"]);
    }
    const refused = Object.assign(new Error("disk I/O error"), { code: "SQLITE_IOERR_TRUNCATE" });
    const database = vi.spyOn(Database.prototype, "backup").mockRejectedValueOnce(refused);
    await expect(backupHome(home, target)).rejects.toMatchObject({
      code: "backup_failed",
      message: expect.stringMatching(/cannot be copied to .*copy/),
    });
    database.mockRestore();
    expect((await backupHome(home, target)).problems).toEqual([]);
  });

  it("tells of a checkpoint that cannot be read, and copies the rest", async () => {
    const { id } = makeModel("m");
    const folder = await makeCheckpoint(id, 0);
    rmSync(join(folder, "adapter_model.safetensors"));
    copying.code = "EIO";
    const made = await backupHome(home, join(top, "copy")).finally(() => {
      copying.code = null;
    });
    const path = `checkpoints/${id}/0/adapter_model.safetensors`;
    expect(made.problems).toEqual([{ path, kind: "missing", reason: "is missing" }]);
  });

  it("leaves nothing of a model, or of a step, that is deleted while it is made", async () => {
    const [model, other] = [makeModel("m"), makeModel("n")];
    for (let step = 0; step < 20; step++) for (const { id } of [other, model]) await makeCheckpoint(id, step);
    const target = join(top, "copy");
    const backup = backupHome(home, target);
    const isCopied = () =>
      readdirSync(top, { recursive: true, encoding: "utf8" }).some(
        (path) => !path.startsWith("home") && path.endsWith(join(model.id, "2", "meta.json")),
      );
    while (!isCopied()) await new Promise(setImmediate);
    store.models.delete(model.id);
    store.files.remove(store.files.modelFolder(model.id));
    store.checkpoints.delete(other.id, [18]);
    store.files.removeCheckpoint(other.id, 18);
    expect((await backup).problems).toEqual([]);
    expect(await checkHome(target)).toMatchObject({ models: 1, problems: [] });
  });

  it("replaces nothing, and is not put into its own home", async () => {
    mkdirSync(join(top, "full"));
    writeFileSync(join(top, "full", "file"), "");
    await expect(backupHome(home, join(top, "full"))).rejects.toMatchObject({ code: "backup_exists" });
    await expect(backupHome(home, home)).rejects.toMatchObject({ code: "backup_exists" });
    await expect(backupHome(home, join(home, "copy"))).rejects.toMatchObject({ status: 422 });
    await expect(backupHome(join(top, "none"), join(top, "copy"))).rejects.toMatchObject({ code: "home_not_found" });
    mkdirSync(join(top, "empty"));
    await backupHome(home, join(top, "empty"));
    expect(existsSync(join(top, "empty", "anneal.db"))).toBe(true);
  });
});
