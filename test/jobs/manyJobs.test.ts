// A thousand jobs that wait when a process starts: all run, and none is lost to processes that end before they come to it.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openStore } from "../../src/store/store.js";
import { writeJobRequest } from "../../src/training/jobRequest.js";
import { JobRunner } from "../../src/training/jobRunner.js";
import { createHost, loadTestBase, madeUpGroups, registerModel } from "./jobHost.js";

const JOBS = 1000;
const MODELS = 20;

it("run after processes that were ended while they took them up", { timeout: 600_000 }, async () => {
  const home = mkdtempSync(join(tmpdir(), "many-jobs-"));
  const base = await loadTestBase();
  let store = openStore(home);
  const statuses = () => {
    const counts: Record<string, number> = {};
    const { items } = store.jobs.list({ limit: JOBS + 1 });
    for (const { status } of items) counts[status] = (counts[status] ?? 0) + 1;
    return counts;
  };
  try {
    const [group] = madeUpGroups(1);
    // Nothing to learn: each job makes its checkpoint and no step.
    const groups = [{ ...group!, trajectories: group!.trajectories.slice(0, 1) }];
    const models: string[] = [];
    for (let i = 0; i < MODELS; i++) models.push(await registerModel(store, base, `m${i}`));
    store.transaction(() => {
      for (let i = 0; i < JOBS; i++) {
        const { id } = store.jobs.create({ kind: "rl", modelId: models[i % MODELS]!, entity: "local" });
        writeJobRequest(store.files, id, { kind: "rl", config: {}, groups });
      }
    });
    for (const ms of [0, 200]) {
      const runner = new JobRunner(createHost(store, base));
      runner.start();
      await new Promise((resolve) => setTimeout(resolve, ms));
      await runner.close();
      const { queued = 0, running = 0, succeeded = 0 } = statuses();
      expect(queued + running + succeeded).toBe(JOBS);
      expect(queued).toBeGreaterThan(JOBS / 2);
      store.close();
      store = openStore(home);
    }
    const runner = new JobRunner(createHost(store, base));
    runner.start();
    while (store.jobs.unfinished().length > 0) await new Promise((resolve) => setTimeout(resolve, 50));
    await runner.close();
    expect(statuses()).toEqual({ succeeded: JOBS });
    for (const model of models) expect(store.checkpoints.latest(model)?.step).toBe(JOBS / MODELS);
  } finally {
    store.close();
    base.device.close();
    rmSync(home, { recursive: true, force: true });
  }
});
