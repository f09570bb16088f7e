// Runs the jobs of a home to their end: the process that the tests kill. Usage: jobProcess.ts HOME

import { setTimeout as sleep } from "node:timers/promises";
import { openStore } from "../../src/store/store.js";
import { JobRunner } from "../../src/training/jobRunner.js";
import { createHost, loadTestBase } from "./jobHost.js";

const store = openStore(process.argv[2]!);
const base = await loadTestBase();
const runner = new JobRunner(createHost(store, base));
runner.start();
process.stdout.write("started\n");
while (store.jobs.unfinished().length > 0) await sleep(5);
await runner.close();
base.device.close();
store.close();
