import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Engine } from "../../src/engine.js";
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
