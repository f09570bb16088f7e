import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { listRuns, readRun, runText } from "../../src/cli/runs.js";
import { Engine } from "../../src/index.js";
import type { Trajectory } from "../../src/types/trajectories.js";
import { madeUpGroups } from "../jobs/jobHost.js";

let engine: Engine;
let modelId: string;

const describeRun = async (...asked: Parameters<typeof readRun>) => runText(await readRun(...asked));

const spoken = (reward: number, content: string): Trajectory => ({
  messages_and_choices: [
    { role: "user", content: "Look it up." },
    {
      index: 0,
      finish_reason: "length",
      message: {
        role: "assistant",
        content,
        tool_calls: [{ id: "1", type: "function", function: { name: "find", arguments: '{"x":1}' } }],
      },
    },
  ],
  metrics: { turns: 1, "odd\u001b[2J": 1 },
  reward,
});

beforeAll(async () => {
  engine = await Engine.open();
  const model = await engine.models.create({ project: "p", name: "runner", base_model: "anneal/tiny" });
  await engine.models.create({ project: "q", name: "runner", base_model: "anneal/tiny" });
  modelId = model.id;
  for (let i = 0; i < 2; i++) {
    const job = await engine.trainingJobs.create({ model_id: modelId, trajectory_groups: madeUpGroups(2) });
    await engine.trainingJobs.wait(job.id);
  }
  const trajectories = [spoken(-0.5, "low"), spoken(2.5, "high\u001b[2J"), spoken(1, "middle"), spoken(0.5, "lower")];
  await engine.models.log(modelId, { split: "val", trajectory_groups: [{ trajectories }] });
});
afterAll(() => engine.close());

it("runs list tells of every trained model how far it is", async () => {
  const [trained, untrained] = await listRuns(engine);
  expect(trained).toMatchObject({ name: "local/p/runner", base: "anneal/tiny", step: 2 });
  // Of the step that was trained last, and of the one that was scored last.
  expect(trained!.metrics).toMatchObject({ "train/reward": 1.5, "val/reward": 0.875 });
  expect(untrained).toMatchObject({ name: "local/q/runner", step: 0, metrics: {} });
});

describe("runs show", () => {
  it("draws rewards over steps, and the latest step's best, median and worst trajectory", async () => {
    const text = (await describeRun(engine, "p/runner")).join("\n");
    expect(text).toContain("local/p/runner, trained from anneal/tiny, at step 2");
    // The rewards of every made-up group are 0 to 3.
    expect(text).toMatch(/train\/reward, step 0 to 1\n {2}1\.5 ┤██████/);
    expect(text).toMatch(/val\/reward, step 2 to 2\n/);
    expect(text).toMatch(/step +train\/reward +train\/reward_std_dev +val\/reward +loss\/train/);
    expect(text).toContain("Step 2, split val: 4 trajectories");
    const [best, median, worst] = ["Best, reward 2.500", "Median, reward 1", "Worst, reward -0.5000"].map((title) =>
      text.indexOf(title),
    );
    expect(best).toBeGreaterThan(0);
    expect(median).toBeGreaterThan(best!);
    expect(worst).toBeGreaterThan(median!);
    expect(text).toContain("user: Look it up.");
    expect(text).toContain('calls find({"x":1}) (cut off)');
    expect(text).toContain("(turns 1, odd");
    expect(text).not.toContain("\u001b");
  });

  it("shows the step that is asked for", async () => {
    const text = (await describeRun(engine, "local/p/runner", 1)).join("\n");
    expect(text).toContain("Step 1, split train: 8 trajectories");
    expect(text).toContain("Best, reward 3");
    expect(text).toContain("Worst, reward 0");
    expect(text).toMatch(/train\/reward +1\.500/);
  });

  it("says what there is when the name or the step is wrong", async () => {
    await expect(describeRun(engine, "runner")).rejects.toThrow(
      '"runner" may be any of local/p/runner, local/q/runner',
    );
    await expect(describeRun(engine, "nobody")).rejects.toMatchObject({ code: "model_not_found" });
    await expect(describeRun(engine, "p/runner", 7)).rejects.toMatchObject({
      code: "step_not_found",
      message: "local/p/runner has no trajectories at step 7; its latest step is 2",
    });
    await expect(describeRun(engine, "q/runner")).resolves.toContain("No trajectories were logged yet.");
  });
});

describe("a model's trajectories", () => {
  it("are listed in pages, of a step and split", async () => {
    const page = await engine.models.trajectories(modelId, { limit: 3 });
    expect(page).toMatchObject({ has_more: true, data: [{ step: 0, split: "train" }, { step: 0 }, { step: 1 }] });
    expect(page.data[0]!.group.trajectories).toHaveLength(4);
    const all = [];
    for await (const { step, split } of engine.models.trajectories(modelId, { limit: 2 })) all.push([step, split]);
    expect(all).toEqual([
      [0, "train"],
      [0, "train"],
      [1, "train"],
      [1, "train"],
      [2, "val"],
    ]);
    const val = await engine.models.trajectories(modelId, { split: "val" });
    expect(val.data.map(({ step }) => step)).toEqual([2]);
    expect((await engine.models.trajectories(modelId, { step: 5 })).data).toEqual([]);
    const overHttp = await engine.fetch(`http://engine/v1/preview/models/${modelId}/trajectories?step=1&limit=1`, {
      headers: { authorization: `Bearer ${engine.apiKey}` },
    });
    expect(await overHttp.json()).toMatchObject({ has_more: true, data: [{ id: page.data[2]!.id, step: 1 }] });
    await expect(engine.models.trajectories(modelId, { after: "3" })).rejects.toMatchObject({ status: 422 });
  });
});

it("remembers the rewards of steps that have been deleted", async () => {
  await engine.checkpoints.delete(modelId, { steps: [0, 1] });
  const text = (await describeRun(engine, "p/runner")).join("\n");
  expect(text).toMatch(/train\/reward, step 0 to 1\n/);
  await expect(describeRun(engine, "p/runner", 1)).resolves.toContain("Step 1, split train: 8 trajectories");
});
