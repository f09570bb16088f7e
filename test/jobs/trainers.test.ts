// A trainer that waits for the job that goes on from where another has ended: the same weights, without reading them.

import { createHash } from "node:crypto";
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { openStore, type Store } from "../../src/store/store.js";
import { DEFAULT_ADAPTER } from "../../src/training/checkpointFiles.js";
import { type JobRequest, writeJobRequest } from "../../src/training/jobRequest.js";
import { JobRunner } from "../../src/training/jobRunner.js";
import { stampsOf, Trainers } from "../../src/training/trainers.js";
import type { TrainingBase } from "../../src/training/trainingBase.js";
import { isGpu } from "../native/device.js";
import { residentMemory } from "../native/residentMemory.js";
import { createHost, loadTestBase, madeUpGroups, registerModel } from "./jobHost.js";

const A_MINUTE = 60_000;

let base: TrainingBase;
let home: string;
let store: Store;
/** Bytes of trainers that are open. */
let held = 0;
const opened = vi.fn();

beforeAll(async () => {
  base = await loadTestBase();
  base.device.keepTrainingMemory!(A_MINUTE);
  const open = base.device.trainAdapter.bind(base.device);
  base.device.trainAdapter = (...options) => {
    opened();
    return open(...options);
  };
});
afterAll(() => base.device.close());
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "trainers-"));
  store = openStore(home);
  held = 0;
});
afterEach(() => {
  store.close();
  rmSync(home, { recursive: true, force: true });
});

function holdAdapter(bytes: number) {
  held += bytes;
  return () => {
    held -= bytes;
  };
}

function runnerWith(trainers: Trainers): JobRunner {
  return new JobRunner({ ...createHost(store, base), trainers });
}

const rl = (salt: number, groups = 2): JobRequest => ({
  kind: "rl",
  config: { learning_rate: 1e-2 },
  groups: madeUpGroups(groups, salt),
});

async function run(
  runner: JobRunner,
  modelId: string,
  request: JobRequest,
  whenEnded = () => {},
): Promise<string | null | undefined> {
  const { id } = store.jobs.create({ kind: request.kind, modelId, entity: "local" });
  writeJobRequest(store.files, id, request);
  const stop = store.events.subscribe(id, ({ type }) => {
    if (type !== "training_ended") return;
    stop();
    whenEnded();
  });
  runner.enqueue(id);
  while (store.events.terminal(id) === null) await sleep(5);
  // Its model is another's then.
  (await runner.lease(modelId))();
  return store.jobs.get(id)!.error;
}

function bits(modelId: string): string[] {
  const hash = (file: string) => createHash("sha256").update(readFileSync(file)).digest("hex");
  return store.checkpoints.steps(modelId).flatMap((step) => {
    const folder = store.files.checkpointFolder(modelId, step);
    const files = readdirSync(folder).filter((name) => name.endsWith(".safetensors"));
    return files.sort().map((name) => `${step} ${name} ${hash(join(folder, name))}`);
  });
}

it("goes on with the same bits as one that is read, once for each job of a model", async () => {
  const found: string[][] = [];
  for (const [restsFor, times] of [
    [0, 3],
    [A_MINUTE, 1],
  ] as const) {
    const modelId = await registerModel(store, base, `m${restsFor}`);
    const trainers = new Trainers(holdAdapter, restsFor);
    const runner = runnerWith(trainers);
    opened.mockClear();
    for (const salt of [1, 2, 3]) expect(await run(runner, modelId, rl(salt))).toBeNull();
    expect(opened).toHaveBeenCalledTimes(times);
    found.push(bits(modelId));
    expect(held > 0).toBe(restsFor > 0);
    await runner.close();
    trainers.close();
    expect(held).toBe(0);
  }
  expect(found[0]).toHaveLength(1 + 3 * 2);
  expect(found[1]).toEqual(found[0]);
});

it("is closed when another one is opened, and does not answer for another model, or objective", async () => {
  const [first, second] = [await registerModel(store, base, "first"), await registerModel(store, base, "second")];
  const trainers = new Trainers(holdAdapter, A_MINUTE);
  const runner = runnerWith(trainers);
  await run(runner, first, rl(1));
  const one = held;
  opened.mockClear();
  await run(runner, second, rl(2));
  expect(opened).toHaveBeenCalledTimes(1);
  expect(held).toBe(one);
  const folder = store.files.checkpointFolder(second, 1);
  expect(await trainers.resume(base, store.files.checkpointFolder(first, 1), "rl")).toBeNull();
  expect(await trainers.resume(base, folder, "sft")).toBeNull();
  expect(await trainers.resume({ ...base, device: { ...base.device } }, folder, "rl")).toBeNull();
  const resumed = await trainers.resume(base, folder, "rl");
  expect(resumed?.trainer.steps).toBe(2);
  // It is whoever resumed it that has it.
  expect(await trainers.resume(base, folder, "rl")).toBeNull();
  resumed!.close();
  expect(held).toBe(0);
  await runner.close();
});

it("has gone when a file of its checkpoint has changed, which is told as ever", async () => {
  for (const change of [(file: string) => appendFileSync(file, "x"), (file: string) => truncateSync(file, 3000)]) {
    for (const name of ["adapter_model.safetensors", "optimizer.safetensors"]) {
      const modelId = await registerModel(store, base, `${name} ${change}`);
      const trainers = new Trainers(holdAdapter, A_MINUTE);
      const runner = runnerWith(trainers);
      await run(runner, modelId, rl(1));
      change(join(store.files.checkpointFolder(modelId, 1), name));
      expect(await run(runner, modelId, rl(2))).toContain(`${name}: is damaged`);
      expect(held).toBe(0);
      await runner.close();
    }
  }
});

it("does not go on where a file has changed as soon as it was there", async () => {
  const modelId = await registerModel(store, base, "m");
  const trainers = new Trainers(holdAdapter, A_MINUTE);
  const runner = runnerWith(trainers);
  const file = join(store.files.checkpointFolder(modelId, 1), "adapter_model.safetensors");
  await run(runner, modelId, rl(1), () => appendFileSync(file, "x"));
  expect(await run(runner, modelId, rl(2))).toContain("is damaged");
  expect(held).toBe(0);
  await runner.close();
});

it.skipIf(process.platform !== "linux" || isGpu)("has given its memory back before another one is opened", async () => {
  const spec = { ...DEFAULT_ADAPTER, rank: 1024 };
  const made = await base.device.trainAdapter(spec, { seed: 1n });
  const state = { spec, values: await made.read("value"), optimizer: null };
  made.close();
  const trainers = new Trainers(holdAdapter, A_MINUTE);
  await (await trainers.open(base, state, "rl")).leave(home, stampsOf(home));
  const before = residentMemory().now;
  let then = before;
  opened.mockImplementationOnce(() => {
    then = residentMemory().now;
  });
  const next = await trainers.open(base, state, "rl");
  expect(before - then).toBeGreaterThan(base.device.adapterTrainingBytes(spec) / 8);
  next.close();
});

it("goes when nothing goes on from it for a while, and with a job that has failed at once", async () => {
  const modelId = await registerModel(store, base, "m");
  const runner = runnerWith(new Trainers(holdAdapter, 1));
  await run(runner, modelId, rl(1));
  await sleep(100);
  expect(held).toBe(0);
  expect(await run(runner, modelId, { kind: "sft", data: "nowhere.jsonl", config: {} } as JobRequest)).not.toBeNull();
  expect(held).toBe(0);
  await runner.close();
});

it("does not wait where memory of training does not stay", async () => {
  const modelId = await registerModel(store, base, "m");
  const trainers = new Trainers(holdAdapter, A_MINUTE);
  const runner = runnerWith(trainers);
  base.device.keepTrainingMemory!(0);
  try {
    await run(runner, modelId, rl(1));
    expect(held).toBe(0);
  } finally {
    base.device.keepTrainingMemory!(A_MINUTE);
  }
  await runner.close();
});
