import { spawn } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it } from "vitest";
import { HomeLockedError } from "../src/errors.js";
import { backupHome } from "../src/store/backupHome.js";
import { checkHome } from "../src/store/checkHome.js";
import { openStore, type Store } from "../src/store/store.js";

interface Line {
  opened?: number;
  model?: string;
  checkpoint?: number;
  job?: string;
  step?: number;
  finished?: string;
  artifact?: string;
  content?: string;
  deleted?: string;
}

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "store-crash-"));
});
afterEach(() => {
  for (const folder of [home, `${home}-copy`]) rmSync(folder, { recursive: true, force: true });
});

/** Runs the writer and kills it (SIGKILL) once it has printed `lines` lines and `meanwhile`, which begins then, has ended. */
async function writeUntilKilled(
  lines: number,
  meanwhile?: (pid: number, said: () => Line[]) => unknown,
): Promise<Line[]> {
  const script = fileURLToPath(new URL("fixtures/storeWriter.ts", import.meta.url));
  const child = spawn(process.execPath, ["--import", "tsx", script, home], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("close", resolve));
  let text = "";
  const said = () =>
    text
      .slice(0, text.lastIndexOf("\n"))
      .split("\n")
      .map((line) => JSON.parse(line) as Line);
  let doing: Promise<unknown> | null = null;
  for await (const chunk of child.stdout) {
    text += String(chunk);
    if (text.split("\n").length <= lines || doing) continue;
    doing = (async () => meanwhile?.(child.pid!, said))().finally(() => child.kill("SIGKILL"));
  }
  await ended;
  await doing;
  return said();
}

/** Everything in the store is whole, but for the folders of `ended` jobs. */
function expectWhole(store: Store, ended = new Set<string>()): void {
  for (const model of store.models.list()) {
    for (const job of store.jobs.listByModel(model.id)) {
      const events = store.events.list(job.id, { limit: 100 }).items.map((event) => event.type);
      const steps = events.filter((type) => type === "gradient_step").length;
      if (job.status === "running") {
        expect(job.state).toEqual(steps === 0 ? null : { step: steps - 1 });
        if (steps > 0 && !ended.has(job.id))
          expect(existsSync(join(store.files.jobFolder(job.id), `state-${steps - 1}`))).toBe(true);
      }
      if (job.status === "succeeded") {
        expect(events).toEqual(["training_started", ...Array(3).fill("gradient_step"), "training_ended"]);
        const folder = store.files.checkpointFolder(model.id, 1);
        expect(readFileSync(join(folder, "adapter_model.safetensors")).equals(Buffer.alloc(20_000, 1))).toBe(true);
      }
    }
  }
}

/** Everything that was acknowledged is in the store. */
function expectKept(store: Store, said: readonly Line[]): void {
  for (const line of said) {
    if (line.model) expect(store.models.get(line.model)).not.toBeNull();
    if (line.checkpoint !== undefined) {
      expect(store.checkpoints.get(line.model!, line.checkpoint)).not.toBeNull();
      expect(existsSync(join(store.files.checkpointFolder(line.model!, line.checkpoint), "meta.json"))).toBe(true);
    }
    if (line.deleted) expect(store.models.get(line.deleted)).toBeNull();
    if (line.job) {
      const steps = store.events.list(line.job, { limit: 100 }).items.filter((e) => e.type === "gradient_step");
      expect(steps.length).toBeGreaterThan(line.step!);
    }
    if (line.finished) {
      expect(store.jobs.get(line.finished)?.status).toBe("succeeded");
      expect(store.events.terminal(line.finished)?.type).toBe("training_ended");
    }
    if (line.artifact) {
      expect(store.artifacts.ids()).toContain(line.artifact);
      expect(readFileSync(join(home, "artifacts", line.artifact, "train.jsonl"), "utf8")).toBe(line.content);
    }
  }
}

it("loses nothing that was acknowledged and shows nothing half done when its process is killed", async () => {
  const said: Line[] = [];
  for (const lines of [7, 40, 123, 30, 31, 32, 33]) {
    said.push(
      ...(await writeUntilKilled(lines, (pid) => {
        // While it lives, its home is its own.
        expect(() => openStore(home)).toThrow(HomeLockedError);
        try {
          openStore(home);
        } catch (error) {
          expect((error as HomeLockedError).pid).toBe(pid);
        }
      })),
    );
  }
  const store = openStore(home);
  expectKept(store, said);
  expectWhole(store);
  expect(said.filter((line) => line.finished).length).toBeGreaterThan(10);
  expect(said.filter((line) => line.deleted).length).toBeGreaterThan(3);
  store.close();
  expect((await checkHome(home)).problems).toEqual([]);
});

it("loses nothing when the database is emptied or goes back to what anneal.db alone held", async () => {
  const said = await writeUntilKilled(60);
  openStore(home).close();
  const whole = join(home, "whole.db");
  copyFileSync(join(home, "anneal.db"), whole);
  const later = await writeUntilKilled(60);
  // What a copy of one file would have held, and worse.
  for (const spoil of ["log", "database"] as const) {
    if (spoil === "log") rmSync(join(home, "anneal.db-wal"), { force: true });
    else truncateSync(join(home, "anneal.db"), 0);
    // A job that ended after the log was last moved runs again for anneal.db alone, but its folder has gone with its end.
    const ended = new Set(later.flatMap(({ finished }) => finished ?? []));
    const spoilt = openStore(home);
    expectWhole(spoilt, ended);
    spoilt.close();
    const { problems, quarantined } = await checkHome(home);
    if (spoil === "log")
      for (const { path, kind } of problems) expect([ended.has(basename(path)), kind]).toEqual([true, "missing"]);
    else expect(problems).toEqual([]);
    if (spoil === "database") expect(quarantined.length).toBeGreaterThan(10);
  }
  copyFileSync(whole, join(home, "anneal.db"));
  const store = openStore(home);
  expectKept(store, said);
  expectWhole(store);
  expect(store.swept.restored.length).toBeGreaterThan(10);
  // What only the lost database knew is kept as well.
  const { quarantined } = await checkHome(home);
  for (const { artifact } of later) {
    if (artifact) expect(quarantined.some((path) => path.endsWith(artifact))).toBe(true);
  }
  store.close();
});

it("is copied while it is written to, as it was at one moment", async () => {
  for (const lines of [20, 60]) {
    const before: Line[] = [];
    await writeUntilKilled(lines, async (_pid, said) => {
      before.push(...said());
      expect((await checkHome(home)).problems).toEqual([]);
      const made = await backupHome(home, `${home}-copy`);
      expect(made.problems).toEqual([]);
      expect(made.checkpoints).toBeGreaterThan(0);
    });
    expect((await checkHome(`${home}-copy`)).problems).toEqual([]);
    const copy = openStore(`${home}-copy`);
    expect(copy.swept).toEqual({ quarantined: [], restored: [] });
    expectKept(copy, before);
    expectWhole(copy);
    copy.close();
    rmSync(`${home}-copy`, { recursive: true });
  }
});
