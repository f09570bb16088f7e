import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Engine } from "../../src/anneal.js";
import { train } from "../../src/gather/index.js";
import { openStore } from "../../src/store/store.js";
import type { Rollout, StepReport, TrainOptions, TrainProgress } from "../../src/types/gather.js";
import type { Model } from "../../src/types/models.js";
import { madeUpGroups } from "../jobs/jobHost.js";

interface Reported {
  step: number;
  reward: number;
  warnings: string[];
}

function runProcess(
  ...args: string[]
): Promise<{ reports: Reported[]; signal: NodeJS.Signals | null; code: number | null }> {
  const script = fileURLToPath(new URL("./runProcess.ts", import.meta.url));
  const child = spawn(process.execPath, ["--import", "tsx", script, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.on("data", (chunk: Buffer) => {
    text += chunk.toString();
  });
  return new Promise((resolve) => {
    child.on("close", (code, signal) => {
      const reports = text.split("\n").filter(Boolean);
      resolve({ reports: reports.map((line) => JSON.parse(line) as Reported), code, signal });
    });
  });
}

/** Everything that a run leaves: the bits of every checkpoint, its validation, its jobs. */
function left(home: string) {
  const store = openStore(home);
  try {
    const [model] = store.models.list();
    return store.checkpoints.list(model!.id, { limit: 100 }).items.map(({ step, metrics }) => {
      const folder = store.files.checkpointFolder(model!.id, step);
      const bits = readdirSync(folder)
        .filter((name) => name.endsWith(".safetensors"))
        .map((name) => [
          name,
          createHash("sha256")
            .update(readFileSync(join(folder, name)))
            .digest("hex"),
        ]);
      return { step, bits, validation: metrics["val/reward"], reward: metrics["train/reward"] };
    });
  } finally {
    store.close();
  }
}

it("goes on after kill -9, wherever it strikes, and ends with the bits of a run that nobody disturbed", {
  timeout: 180_000,
}, async () => {
  const homes = ["undisturbed", "disturbed"].map((name) => mkdtempSync(join(tmpdir(), `${name}-`)));
  const [calm, rough] = homes as [string, string];
  try {
    const undisturbed = await runProcess(calm);
    expect(undisturbed).toMatchObject({ code: 0, reports: [{ step: 1 }, { step: 2 }, { step: 3 }, { step: 4 }] });
    const killed = [
      await runProcess(rough, "rollout", "1"),
      await runProcess(rough, "gradient_step", "1"),
      await runProcess(rough, "training_ended", "2"),
    ];
    expect(killed.map(({ signal }) => signal)).toEqual(["SIGKILL", "SIGKILL", "SIGKILL"]);
    const last = await runProcess(rough);
    const reports = [...killed, last].flatMap((one) => one.reports);
    // The jobs of steps 2 and 3 ended while nobody was there to report them.
    expect(reports).toEqual(undisturbed.reports.filter(({ step }) => step === 1 || step === 4));
    expect(left(rough)).toEqual(left(calm));
    // There is nothing left to be made.
    expect(await runProcess(rough)).toEqual({ code: 0, signal: null, reports: [] });
  } finally {
    for (const home of homes) rmSync(home, { recursive: true, force: true });
  }
});

describe("a run", () => {
  let engine: Engine;
  let model: Model;
  beforeAll(async () => {
    engine = await Engine.open({});
  });
  afterAll(() => engine.close());

  const rollout: Rollout<string> = async ({ chat, scenario, seed }) => {
    await chat(scenario, { max_tokens: 2 });
    return Number(seed % 5n);
  };
  const newModel = async (name: string) => {
    model = await engine.models.create({ project: "p", name, base_model: "anneal/tiny" });
  };
  const made = async (more: Partial<TrainOptions<string>> = {}): Promise<StepReport[]> => {
    const reports: StepReport[] = [];
    const options = { model, scenarios: ["red", "blue"], rollout, groupSize: 3, steps: 2, ...more };
    for await (const report of train(engine, options)) reports.push(report);
    return reports;
  };
  const steps = async (more?: Partial<TrainOptions<string>>) => (await made(more)).map(({ step }) => step);

  it("is resumed by its name, or when asked, to its total of steps", async () => {
    await newModel("named");
    expect(await steps({ name: "a" })).toEqual([1, 2]);
    expect(await steps({ name: "a" })).toEqual([]);
    expect(await steps({ name: "a", steps: 3 })).toEqual([3]);
    expect(await steps({ name: "b" })).toEqual([4, 5]);
    expect(await steps({ name: "a", steps: 3 })).toEqual([]);
    expect(await steps({ name: "a", resume: false, steps: 1 })).toEqual([6]);
    expect(await steps({ name: "a" })).toEqual([7]);
    expect(await steps({})).toEqual([8, 9]);
    expect(await steps({})).toEqual([10, 11]);
    expect(await steps({ resume: true, steps: 3 })).toEqual([12]);
    const jobs = await engine.trainingJobs.list({ model_id: model.id, limit: 2, order: "desc" });
    expect(jobs.data.map((job) => [job.step, job.run])).toEqual([
      [
        12,
        expect.objectContaining({ name: null, first_step: 9, steps: 3, seed: "0", scenarios: 2, groups_per_step: 2 }),
      ],
      [11, expect.objectContaining({ name: null, first_step: 9, steps: 2 })],
    ]);
  });

  it("keeps its seed, and refuses to go on with other scenarios", async () => {
    await newModel("kept");
    await made({ name: "a", seed: 7n, steps: 1 });
    const [report] = await made({ name: "a", steps: 2 });
    await newModel("whole");
    const [, expected] = await made({ name: "a", seed: 7, steps: 2 });
    const replies = ({ groups }: StepReport) => groups.map((group) => group.trajectories.map((one) => one.reward));
    expect(replies(report!)).toEqual(replies(expected!));
    for (const [param, more] of [
      ["seed", { seed: 8 }],
      ["scenarios.length", { scenarios: ["red"] }],
      ["groupsPerStep", { groupsPerStep: 1 }],
    ] as const) {
      await expect(made({ name: "a", ...more }), param).rejects.toMatchObject({ status: 400, param });
    }
  });

  it("waits for the model's jobs before it pins a step", async () => {
    await newModel("waiting");
    const { id } = await engine.trainingJobs.create({ model_id: model.id, trajectory_groups: madeUpGroups(4) });
    const phases: TrainProgress["phase"][] = [];
    const [report] = await made({ steps: 1, onProgress: ({ phase }) => phases.push(phase) });
    expect(phases[0]).toBe("waiting");
    expect((await engine.trainingJobs.retrieve(id)).step).toBe(1);
    expect(report!.step).toBe(2);
    expect(report!.groups[0]!.trajectories[0]!.initial_policy_version).toBe(1);
    expect(report!.warnings.join()).not.toContain("stale");
  });

  it("names the session that it waits for, before its first step and before a job", async () => {
    await newModel("behind");
    const waits: unknown[] = [];
    const heard = (message: unknown) => waits.push(message);
    subscribe("anneal:training:wait", heard);
    const first = await engine.training.open(model);
    const { id } = await engine.trainingJobs.create({ model_id: model.id, trajectory_groups: [] });
    let second: ReturnType<typeof engine.training.open> | null = null;
    const holders: TrainProgress["holder"][] = [];
    const opening = async (context: Parameters<Rollout<string>>[0]) => {
      second ??= engine.training.open(model);
      await second;
      return rollout(context);
    };
    const onProgress = ({ phase, holder }: TrainProgress) => {
      if (phase !== "waiting") return;
      holders.push(holder);
      if (holder?.kind === "session") void engine.trainingSessions.close(holder.id);
    };
    expect((await made({ steps: 1, rollout: opening, onProgress }))[0]!.step).toBe(2);
    unsubscribe("anneal:training:wait", heard);
    const ids = holders.map((holder) => [holder!.kind, holder!.id]);
    expect(ids.filter(([kind]) => kind === "session")).toEqual([
      ["session", first.id],
      ["session", (await second!).id],
    ]);
    expect(ids[0]).toEqual(["job", id]);
    expect(waits).toContainEqual(expect.objectContaining({ modelId: model.id, holder: first.id, job: id }));
  });

  describe("with validation", () => {
    /** Rewards of the validations, in their order: before the first step, then of every step. */
    const judged = (rewards: readonly number[]): Partial<TrainOptions<string>> => {
      let looks = 0;
      const rollout: Rollout<string> = async ({ chat, scenario, seed }) => {
        await chat(scenario, { max_tokens: 2 });
        return scenario === "held out" ? rewards[looks++]! : Number(seed % 5n);
      };
      return { rollout, validation: ["held out"] };
    };
    const told = (reports: StepReport[]) =>
      reports.map(({ step, bestStep, endedEarly, keptAs }) => [step, bestStep, endedEarly, keptAs]);

    it("ends when it gets no better, and keeps the best step", async () => {
      await newModel("early");
      const settings = { steps: 9, earlyStopping: { patience: 2, threshold: 0.1 }, keepBest: true, name: "a" };
      const reports = await made({ ...settings, ...judged([1, 2, 2.05, 1.5]) });
      expect(told(reports)).toEqual([
        [1, 1, false, null],
        [2, 1, false, null],
        [3, 1, true, 4],
      ]);
      const { data } = await engine.checkpoints.list(model.id, { order: "desc" });
      expect(data.map(({ step, metrics }) => [step, metrics["val/reward"]])).toEqual([
        [4, 2],
        [3, 1.5],
        [2, 2.05],
        [1, 2],
        [0, 1],
      ]);
      // Asked again, it has ended; what others make of the model later stays.
      expect(await made({ ...settings, ...judged([]) })).toEqual([]);
      await engine.trainingJobs.wait(
        (await engine.trainingJobs.create({ model_id: model.id, trajectory_groups: [] })).id,
      );
      expect(await made({ ...settings, ...judged([]) })).toEqual([]);
      expect((await engine.checkpoints.list(model.id, { order: "desc", limit: 1 })).data[0]!.step).toBe(5);
    });

    it("counts what was before it was cut off, and keeps the best step where that was all it lacked", async () => {
      await newModel("cut");
      const settings = { earlyStopping: { patience: 3 }, name: "a" };
      expect(told(await made({ ...settings, steps: 2, ...judged([3, 1, 2]) }))).toEqual([
        [1, 0, false, null],
        [2, 0, false, null],
      ]);
      const later = { ...settings, steps: 9, keepBest: true };
      expect(told(await made({ ...later, ...judged([1]) }))).toEqual([[3, 0, true, 4]]);
      await newModel("lacking");
      await made({ name: "a", steps: 2, ...judged([1, 3, 2]) });
      expect(await made({ name: "a", steps: 2, keepBest: true, ...judged([]) })).toEqual([]);
      const [latest] = (await engine.checkpoints.list(model.id, { order: "desc" })).data;
      expect(latest).toMatchObject({ step: 3, metrics: { "val/reward": 3 } });
    });

    it("validates the last step of a run that was cut off before it had", async () => {
      const cutOff = async (rewards: readonly number[], settings: Partial<TrainOptions<string>>) => {
        const { rollout, validation } = judged(rewards) as Required<ReturnType<typeof judged>>;
        const cut: Rollout<string> = async (context) => {
          const reward = await rollout(context);
          if (reward === undefined) throw new Error("cut off");
          return reward;
        };
        const work = made({ ...settings, name: "a", keepBest: true, validation, rollout: cut, maxExceptionShare: 0 });
        await expect(work).rejects.toThrow("cut off");
      };
      const ends = async () => {
        const { data } = await engine.checkpoints.list(model.id, { order: "desc", limit: 1 });
        return data.map(({ step, metrics }) => [step, metrics["val/reward"]]);
      };
      await newModel("lastIsBest");
      await cutOff([1, 2], { steps: 2 });
      expect(await made({ name: "a", steps: 2, keepBest: true, ...judged([3]) })).toEqual([]);
      expect(await ends()).toEqual([[2, 3]]);
      await newModel("lastEndsEarly");
      const settings = { steps: 9, earlyStopping: { patience: 2 } };
      await cutOff([3, 1], settings);
      expect(await made({ ...settings, name: "a", keepBest: true, ...judged([2]) })).toEqual([]);
      expect(await ends()).toEqual([[3, 3]]);
      // What others make of the model later is none of the run.
      await engine.trainingJobs.wait(
        (await engine.trainingJobs.create({ model_id: model.id, trajectory_groups: [] })).id,
      );
      expect(await made({ ...settings, name: "a", keepBest: true, ...judged([]) })).toEqual([]);
      expect(await ends()).toEqual([[4, undefined]]);
    });

    it("refuses settings that cannot be", async () => {
      const validation = ["held out"];
      for (const more of [
        { earlyStopping: { patience: 0 }, validation },
        { earlyStopping: { patience: 1, threshold: -1 }, validation },
        { earlyStopping: { patience: 1, min: 1 }, validation },
        { earlyStopping: { patience: 1 } },
      ]) {
        await expect(made(more as Partial<TrainOptions<string>>)).rejects.toMatchObject({ param: "earlyStopping" });
      }
      await expect(made({ keepBest: true })).rejects.toMatchObject({ param: "keepBest" });
    });
  });

  it("says when others trained the model between its rollouts and its job", async () => {
    await newModel("stale");
    const busy: Rollout<string> = async (context) => {
      if (context.seed % 2n === 0n) {
        const { id } = await engine.trainingJobs.create({ model_id: model.id, trajectory_groups: [] });
        await engine.trainingJobs.wait(id);
      }
      return rollout(context);
    };
    const [report] = await made({ steps: 1, rollout: busy });
    const from = report!.step - 1;
    expect(from).toBeGreaterThan(0);
    expect(report!.warnings).toContain(`6 of 6 trajectories are stale: sampled at step 0, trained from step ${from}`);
  });
});
