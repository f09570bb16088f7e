import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { ModelFileError, UnavailableError } from "../../src/errors.js";
import { openStore, type Store } from "../../src/store/store.js";
import type { TrainingHost } from "../../src/training/host.js";
import { type JobRequest, writeJobRequest } from "../../src/training/jobRequest.js";
import { JobRunner } from "../../src/training/jobRunner.js";
import type { TrainingBase } from "../../src/training/trainingBase.js";
import type { ExperimentalConfig } from "../../src/types/training.js";
import { isGpu, itUnlessSlow } from "../native/device.js";
import { createHost, loadTestBase, madeUpGroups, quiet, registerModel } from "./jobHost.js";

let base: TrainingBase;
let home: string;
let store: Store;
let host: TrainingHost;
let runner: JobRunner;

beforeAll(async () => {
  base = await loadTestBase();
});
afterAll(() => base.device.close());
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "jobs-"));
  reopen();
});
afterEach(async () => {
  await runner.close();
  store.close();
  rmSync(home, { recursive: true, force: true });
});

function reopen(): void {
  store = openStore(home);
  host = createHost(store, base);
  runner = new JobRunner(host);
}

function queue(modelId: string, request: JobRequest): string {
  const { id } = store.jobs.create({ kind: request.kind, modelId, entity: "local" });
  writeJobRequest(store.files, id, request);
  return id;
}

const rl = (groups: number, config: ExperimentalConfig = { learning_rate: 1e-3 }): JobRequest => ({
  kind: "rl",
  config,
  groups: madeUpGroups(groups),
});

async function ended(jobId: string): Promise<void> {
  while (store.events.terminal(jobId) === null) await new Promise((resolve) => setTimeout(resolve, 5));
}

const events = (jobId: string) => store.events.list(jobId, { limit: 1000 }).items;
const typesOf = (jobId: string) => events(jobId).map((event) => event.type);

/** Resolves within the event that makes `count` of a type: nothing has happened after it. */
function reached(jobId: string, type: string, count = 1): Promise<void> {
  return new Promise((resolve) => {
    store.events.subscribe(jobId, (event) => {
      if (event.type === type && store.events.count(jobId, type) === count) resolve();
    });
  });
}

/** Hash of every tensor file of a checkpoint. */
function checkpointBits(of: Store, modelId: string, step: number): Record<string, string> {
  const folder = of.files.checkpointFolder(modelId, step);
  const hash = (name: string) =>
    createHash("sha256")
      .update(readFileSync(join(folder, name)))
      .digest("hex");
  return Object.fromEntries(
    readdirSync(folder)
      .filter((name) => name.endsWith(".safetensors"))
      .map((name) => [name, hash(name)]),
  );
}

describe("a training job", () => {
  it("starts, makes one step per group, and ends with a checkpoint that is there before its last event", async () => {
    const modelId = await registerModel(store, base, "m");
    const jobId = queue(modelId, rl(3));
    const latest: (number | undefined)[] = [];
    store.events.subscribe(jobId, (event) => {
      if (event.type === "training_ended") latest.push(store.checkpoints.latest(modelId)?.step);
    });
    runner.enqueue(jobId);
    await ended(jobId);
    expect(typesOf(jobId)).toEqual([
      "training_started",
      "gradient_step",
      "gradient_step",
      "gradient_step",
      "training_ended",
    ]);
    expect(events(jobId)[0]!.data).toMatchObject({
      num_sequences: 3,
      num_groups_submitted: 3,
      num_groups_trainable: 3,
      kernel_set: expect.stringMatching(isGpu ? /^vulkan/ : /^(portable|neon|avx)/),
    });
    for (const event of events(jobId).slice(1, 4)) {
      for (const name of [
        "loss/train",
        "loss/entropy",
        "loss/learning_rate",
        "loss/grad_norm",
        "policy_loss",
        "grad_norm",
      ]) {
        expect(event.data[name], name).toBeTypeOf("number");
      }
      expect(Object.values(event.data).every((value) => Number.isFinite(value))).toBe(true);
    }
    expect(latest).toEqual([1]);
    expect(store.jobs.get(jobId)).toMatchObject({ status: "succeeded", step: 1, error: null });
    expect(store.checkpoints.get(modelId, 0)!.metrics).toMatchObject({ "train/reward": 1.5 });
    expect(store.checkpoints.get(modelId, 1)!.metrics["loss/train"]).toBeTypeOf("number");
    expect(readdirSync(store.files.checkpointFolder(modelId, 1)).sort()).toEqual([
      "adapter_config.json",
      "adapter_model.safetensors",
      "meta.json",
      "optimizer.safetensors",
    ]);
  });

  it("that has nothing to learn still makes the next step, with the same weights", async () => {
    const modelId = await registerModel(store, base, "m");
    const groups = madeUpGroups(2);
    for (const group of groups) for (const trajectory of group.trajectories) trajectory.reward = 0.1;
    const jobId = queue(modelId, { kind: "rl", config: {}, groups });
    runner.enqueue(jobId);
    await ended(jobId);
    expect(typesOf(jobId)).toEqual(["training_started", "training_ended"]);
    expect(events(jobId)[0]!.data).toMatchObject({ num_sequences: 0, num_groups_trainable: 0 });
    expect(store.checkpoints.latest(modelId)!.step).toBe(1);
    expect(checkpointBits(store, modelId, 1)).toEqual(checkpointBits(store, modelId, 0));
  });

  itUnlessSlow("waits for its model's earlier jobs but not for those of others", async () => {
    const one = await registerModel(store, base, "one");
    const other = await registerModel(store, base, "other");
    // The first would take a hundred times as long as the other model's; it is cut short once that has ended.
    const [first, second, beside] = [queue(one, rl(200)), queue(one, rl(2)), queue(other, rl(2))];
    const order: string[] = [];
    for (const [name, id] of Object.entries({ first, second, beside })) {
      store.events.subscribe(id, (event) => order.push(`${name} ${event.type}`));
    }
    for (const id of [first, second, beside]) runner.enqueue(id);
    await ended(beside);
    await runner.cancel(first);
    await ended(second);
    expect(order.indexOf("beside training_ended")).toBeLessThan(order.indexOf("first training_failed"));
    expect(order.indexOf("second training_started")).toBeGreaterThan(order.indexOf("first training_failed"));
    expect(store.checkpoints.steps(one)).toEqual([0, 1]);
    expect(store.checkpoints.steps(other)).toEqual([0, 1]);
  });

  itUnlessSlow("waits when as many models train as may", async () => {
    host.options.maxTrainingJobs = 2;
    runner = new JobRunner(host);
    const models = await Promise.all(["one", "two", "three"].map((name) => registerModel(store, base, name)));
    const [first, second, third] = models.map((id) => queue(id, rl(200))) as [string, string, string];
    const started = [first, second].map((id) => reached(id, "training_started"));
    for (const id of [first, second, third]) runner.enqueue(id);
    await Promise.all(started);
    await reached(second, "gradient_step", 3);
    expect(store.jobs.get(third)!.status).toBe("queued");
    // A session needs no such place.
    (await runner.lease(await registerModel(store, base, "four")))();
    const admitted = reached(third, "training_started");
    await runner.cancel(first);
    await admitted;
    expect(store.jobs.get(second)!.status).toBe("running");
    for (const id of [second, third]) await runner.cancel(id);
  });

  it("ends as cancelled without a checkpoint, whether it runs or waits", async () => {
    const modelId = await registerModel(store, base, "m");
    const running = queue(modelId, rl(50));
    const waiting = queue(modelId, rl(1));
    const underWay = reached(running, "gradient_step");
    runner.enqueue(running);
    runner.enqueue(waiting);
    await underWay;
    await runner.cancel(waiting);
    await runner.cancel(running);
    for (const id of [running, waiting]) {
      expect(events(id).at(-1)).toMatchObject({ type: "training_failed", data: { error_message: "cancelled" } });
      expect(store.jobs.get(id)).toMatchObject({ status: "cancelled", step: null, error: "cancelled" });
    }
    expect(typesOf(waiting)).toEqual(["training_failed"]);
    expect(store.checkpoints.steps(modelId)).toEqual([0]);
    const before = typesOf(running).length;
    await runner.cancel(running);
    expect(typesOf(running)).toHaveLength(before);
  });

  it("that cannot go on fails with the reason, and the next one runs", async () => {
    const modelId = await registerModel(store, base, "m");
    const groups = madeUpGroups(1);
    for (const trajectory of groups[0]!.trajectories) {
      for (const item of trajectory.messages_and_choices) if ("message" in item) delete item.prompt_token_ids;
    }
    const bad = queue(modelId, { kind: "rl", config: {}, groups });
    const gone = queue(modelId, rl(1));
    store.files.remove(store.files.jobFolder(gone));
    const good = queue(modelId, rl(1));
    for (const id of [bad, gone, good]) runner.enqueue(id);
    await Promise.all([bad, gone, good].map(ended));
    expect(events(gone)[0]!.data.error_message).toMatch(/^the job's files are gone: /);
    expect(typesOf(bad)).toEqual(["training_failed"]);
    expect(events(bad)[0]!.data.error_message).toContain("chat template");
    expect(store.jobs.get(good)!.status).toBe("succeeded");
  });

  itUnlessSlow("waits for room on a full disk, wherever it is met, and makes the same weights", async () => {
    const modelId = await registerModel(store, base, "waiting");
    const untouched = await registerModel(store, base, "untouched");
    const full = () => Object.assign(new Error("no space left on device"), { code: "EDQUOT" });
    const [start, step, commit] = [store.startJob, store.commitStep, store.files.commitFolder];
    const [waiting, other] = [queue(modelId, rl(2)), queue(untouched, rl(2))];
    const met: string[] = [];
    const once = (place: string, jobId: string) => {
      if (jobId !== waiting || met.includes(place)) return;
      met.push(place);
      throw full();
    };
    vi.spyOn(store, "startJob").mockImplementation((jobId, event) => {
      once("start", jobId);
      start(jobId, event);
    });
    vi.spyOn(store, "commitStep").mockImplementation((jobId, made) => {
      once("step", jobId);
      step(jobId, made);
    });
    vi.spyOn(store.files, "commitFolder").mockImplementation(async (from, to) => {
      once("checkpoint", to.includes(modelId) ? waiting : other);
      await commit(from, to);
    });
    const warn = vi.spyOn(host.logger, "warn");
    runner.start();
    await Promise.all([ended(waiting), ended(other)]);
    expect(met).toEqual(["start", "step", "checkpoint"]);
    expect(typesOf(waiting)).toEqual(typesOf(other));
    expect(store.jobs.get(waiting)!.status).toBe("succeeded");
    expect(checkpointBits(store, modelId, 1)).toEqual(checkpointBits(store, untouched, 1));
    expect(warn.mock.calls.filter(([message]) => message.includes("job waits for room"))).toHaveLength(3);
    warn.mockRestore();
  });

  itUnlessSlow("waits while the process has too many files open, wherever it is met", async () => {
    const modelId = await registerModel(store, base, "files");
    const jobId = queue(modelId, rl(1));
    const outOf = Object.assign(new Error("EMFILE: too many open files"), { code: "EMFILE" });
    const errors = [outOf, new ModelFileError("meta.json", "too many open files", { cause: outOf })];
    const start = store.startJob;
    vi.spyOn(store, "startJob").mockImplementation((id, event) => {
      const error = errors.shift();
      if (error) throw error;
      start(id, event);
    });
    const warn = vi.spyOn(host.logger, "warn");
    runner.enqueue(jobId);
    await ended(jobId);
    expect([store.jobs.get(jobId)!.status, errors]).toEqual(["succeeded", []]);
    expect(warn.mock.calls.filter(([message]) => message.includes("open files"))).toHaveLength(1);
    warn.mockRestore();
  });

  itUnlessSlow("says once that it waits for room, and once that it no longer does", async () => {
    const modelId = await registerModel(store, base, "told");
    const jobId = queue(modelId, rl(1));
    const start = store.startJob;
    let attempts = 0;
    const waited: boolean[] = [];
    vi.spyOn(store, "startJob").mockImplementation((id, event) => {
      waited.push(runner.isOutOfRoom(id));
      attempts += 1;
      if (attempts < 3) throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
      start(id, event);
    });
    const warn = vi.spyOn(host.logger, "warn");
    runner.enqueue(jobId);
    await ended(jobId);
    expect(waited).toEqual([false, true, true]);
    expect(runner.outOfRoom).toBe(0);
    expect(warn.mock.calls.map(([message]) => message).filter((message) => message.includes("room"))).toEqual([
      "training job waits for room on the disk",
      "training job no longer waits for room on the disk",
    ]);
    warn.mockRestore();
  });

  it("that waits for room can be cancelled", async () => {
    const modelId = await registerModel(store, base, "cancelled");
    const jobId = queue(modelId, rl(1));
    const full = Object.assign(new Error("file too large"), { code: "EFBIG" });
    const met = new Promise<void>((resolve) => {
      vi.spyOn(store, "startJob").mockImplementation(() => {
        resolve();
        throw full;
      });
    });
    runner.enqueue(jobId);
    const behind = queue(modelId, rl(1));
    runner.enqueue(behind);
    await met;
    await vi.waitFor(() => expect(runner.unfinished).toEqual({ queued: 1, running: 0, out_of_room: 1 }));
    await Promise.all([runner.cancel(behind), runner.cancel(jobId)]);
    expect(store.jobs.get(jobId)!.status).toBe("cancelled");
    expect(runner.unfinished).toEqual({ queued: 0, running: 0, out_of_room: 0 });
    expect(runner.ended).toEqual({ succeeded: 0, failed: 0, cancelled: 2 });
  });

  itUnlessSlow("ends when its end can be written, whatever keeps it from that, and holds up nobody else", async () => {
    const [failing, other] = [await registerModel(store, base, "failing"), await registerModel(store, base, "other")];
    const finish = store.finishJob;
    const refused = new Set<string>();
    const bad = queue(failing, { kind: "sft", config: {}, data: join(home, "missing.jsonl") });
    const good = queue(other, rl(1));
    vi.spyOn(store, "finishJob").mockImplementation((jobId, end) => {
      if (jobId !== bad || refused.has(jobId)) return finish(jobId, end);
      refused.add(jobId);
      throw new Error("database or disk is full");
    });
    runner.start();
    await Promise.all([ended(bad), ended(good)]);
    expect([[...refused], typesOf(bad), typesOf(good).at(-1)]).toEqual([[bad], ["training_failed"], "training_ended"]);
    await vi.waitFor(() => expect(runner.ended).toEqual({ succeeded: 1, failed: 1, cancelled: 0 }));
  });

  it("trains on data, batch by batch, and names the bad line", async () => {
    const modelId = await registerModel(store, { ...base }, "m");
    const line = JSON.stringify({ messages: [{ role: "assistant", content: "x" }] });
    const file = join(home, "train.jsonl");
    writeFileSync(file, `${line}\n{"messages": 1}\n`);
    const jobId = queue(modelId, { kind: "sft", config: {}, data: file });
    runner.enqueue(jobId);
    await ended(jobId);
    expect(events(jobId).at(-1)!.data.error_message).toMatch(/train\.jsonl, line/);
  });
});

describe("a job that is taken up again", () => {
  itUnlessSlow("goes on with the settings it began with", async () => {
    const modelId = await registerModel(store, base, "m");
    const jobId = queue(modelId, rl(6));
    const halfWay = reached(jobId, "gradient_step", 2);
    runner.enqueue(jobId);
    await halfWay;
    await runner.close();
    expect(store.events.count(jobId, "gradient_step")).toBeLessThan(6);
    store.close();
    reopen();
    host.options.optimizerStep = "job";
    host.base = async () => ({ ...base, contextLength: 16 });
    runner.start();
    await ended(jobId);
    expect(typesOf(jobId)).toEqual(["training_started", ...new Array(6).fill("gradient_step"), "training_ended"]);
  });

  itUnlessSlow("is measured against the same checkpoint, also once that is deleted", async () => {
    const [deleted, kept] = [await registerModel(store, base, "deleted"), await registerModel(store, base, "kept")];
    const config = { learning_rate: 1e-3, kl_penalty_coef: 0.1, kl_penalty_step_lag: 1 };
    const ids = [deleted, kept].map((modelId) => [queue(modelId, rl(1)), queue(modelId, rl(4, config))]);
    const [first, jobId] = ids[0]!;
    const halfWay = reached(jobId!, "gradient_step", 2);
    for (const id of ids.flat()) runner.enqueue(id);
    await halfWay;
    store.checkpoints.delete(deleted, [0]);
    store.files.remove(store.files.checkpointFolder(deleted, 0));
    await runner.close();
    expect(store.events.count(jobId!, "gradient_step")).toBeLessThan(4);
    store.close();
    reopen();
    runner.start();
    await Promise.all(ids.flat().map(ended));
    expect(ids.flat().map((id) => store.jobs.get(id)!.status)).toEqual(new Array(4).fill("succeeded"));
    expect(store.checkpoints.get(deleted, 1)!.jobId).toBe(first);
    expect(checkpointBits(store, deleted, 2)).toEqual(checkpointBits(store, kept, 2));
    const gone = queue(deleted, rl(1, { ...config, kl_penalty_step_lag: 2 }));
    runner.enqueue(gone);
    await ended(gone);
    expect(store.jobs.get(gone)!.error).toBe(
      "body.experimental_config.kl_penalty_step_lag: the model has no checkpoint at step 0",
    );
  });

  itUnlessSlow("waits as long as its base model is not served", async () => {
    const modelId = await registerModel(store, base, "m");
    const jobId = queue(modelId, rl(1));
    const warnings: string[] = [];
    const host = createHost(store, base, { ...quiet, warn: (message) => warnings.push(message) });
    const without = new JobRunner({
      ...host,
      base: async () => {
        throw new UnavailableError("the base model is not served now", { code: "base_model_missing" });
      },
    });
    without.start();
    while (warnings.length === 0) await new Promise((resolve) => setTimeout(resolve, 2));
    expect(warnings[0]).toContain("serves its base model");
    await without.close();
    expect(typesOf(jobId)).toEqual([]);
    runner.start();
    await ended(jobId);
    expect(store.jobs.get(jobId)!.status).toBe("succeeded");
  });

  it("is refused by name when its base has other weights now", async () => {
    const modelId = await registerModel(store, base, "m");
    const jobId = queue(modelId, rl(1));
    const other = new JobRunner(createHost(store, { ...base, hash: "0".repeat(64) }));
    other.enqueue(jobId);
    await ended(jobId);
    await other.close();
    expect(events(jobId).at(-1)!.data.error_message).toMatch(/trained from "anneal\/tiny" with other weights/);
    expect(store.checkpoints.steps(modelId)).toEqual([0]);
  });
});

interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
  /** What it wrote on its way out. */
  said: string;
}

/** Runs the jobs of a home in a process of its own, which kills itself after `events` more events. */
function runProcess(folder: string, events?: number): Promise<Exit> {
  const script = fileURLToPath(new URL("./jobProcess.ts", import.meta.url));
  const args = ["--import", "tsx", script, folder, ...(events === undefined ? [] : [String(events)])];
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      said += text;
    });
    child.on("error", reject);
    child.on("close", (code, signal) => resolve({ code, signal, said }));
  });
}

async function expectExit(run: Promise<Exit>, how: Pick<Exit, "code" | "signal">): Promise<void> {
  const exit = await run;
  expect(exit, exit.said).toMatchObject(how);
}

const DONE = { code: 0, signal: null };
const KILLED = { code: null, signal: "SIGKILL" } as const;

/** Of seven processes; on a GPU in software each compiles shaders first. */
const TIMEOUT = isGpu ? 1_200_000 : 240_000;

describe("a job whose process dies", () => {
  itUnlessSlow("goes on where its last event was and makes the same weights", { timeout: TIMEOUT }, async () => {
    const modelId = await registerModel(store, base, "m");
    const config = { learning_rate: 1e-3, precalculate_logprobs: true, kl_penalty_coef: 0.1 };
    const jobs = [queue(modelId, rl(6, config)), queue(modelId, rl(4))];
    const copy = `${home}-undisturbed`;
    store.close();
    cpSync(home, copy, { recursive: true });
    await expectExit(runProcess(copy), DONE);
    // Once the first job has started, after its steps 2 and 4, once the second has started, and after its step 2.
    for (const events of [1, 2, 2, 4, 2]) await expectExit(runProcess(home, events), KILLED);
    await expectExit(runProcess(home), DONE);

    reopen();
    const undisturbed = openStore(copy);
    try {
      for (const id of jobs) {
        expect(typesOf(id)).toEqual(undisturbed.events.list(id, { limit: 1000 }).items.map((event) => event.type));
      }
      expect(typesOf(jobs[0]!)).toEqual(["training_started", ...new Array(6).fill("gradient_step"), "training_ended"]);
      for (const step of [1, 2]) {
        expect(checkpointBits(store, modelId, step)).toEqual(checkpointBits(undisturbed, modelId, step));
      }
      expect(readdirSync(join(home, "jobs"))).toEqual([]);
    } finally {
      undisturbed.close();
      rmSync(copy, { recursive: true, force: true });
    }
  });
});
