// Runs the jobs of a home to their end, or kills itself once so many more events are on the disk.
// Usage: jobProcess.ts HOME [EVENTS]

import { setTimeout as sleep } from "node:timers/promises";
import { openStore } from "../../src/store/store.js";
import { JobRunner } from "../../src/training/jobRunner.js";
import { createHost, loadTestBase } from "./jobHost.js";

const [home, events] = process.argv.slice(2) as [string, string?];
const store = openStore(home);
const base = await loadTestBase();
let left = events === undefined ? Number.POSITIVE_INFINITY : Number(events);
for (const job of store.jobs.unfinished()) {
  store.events.subscribe(job.id, () => {
    left -= 1;
    if (left === 0) process.kill(process.pid, "SIGKILL");
  });
}
const runner = new JobRunner(createHost(store, base));
runner.start();
while (store.jobs.unfinished().length > 0) await sleep(5);
await runner.close();
base.device.close();
store.close();
