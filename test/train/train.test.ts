import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Engine } from "../../src/anneal.js";
import { gather, train } from "../../src/gather/index.js";
import { createServer } from "../../src/server/createServer.js";
import { listen } from "../../src/server/listen.js";
import type { AnnealClient } from "../../src/types/client.js";
import type { Rollout, StepReport } from "../../src/types/gather.js";
import { choicesOf, drawn, short } from "./rollouts.js";

let engine: Engine;
let made = 0;
const newModel = () => engine.models.create({ project: "p", name: `m${made++}`, base_model: "anneal/tiny" });

beforeAll(async () => {
  engine = await Engine.open({});
});
afterAll(() => engine.close());

it("starts on policy to the bit, and reports what it did", async () => {
  const trained = await newModel();
  const reports: StepReport[] = [];
  const options = {
    model: trained,
    scenarios: ["red", "blue", "green"],
    rollout: drawn,
    validation: ["grey"],
    groupSize: 6,
    steps: 2,
    config: { learning_rate: 1e-4 },
  };
  for await (const report of train(engine, options)) {
    reports.push(report);
    const events = await engine.trainingJobs.events(report.jobId);
    const first = events.data.find((event) => event.type === "gradient_step")!;
    expect(first.data).toMatchObject({
      ratio_exact_share: 1,
      ratio_max: 1,
      ratio_min: 1,
    });
  }
  expect(reports.map((report) => report.step)).toEqual([1, 2]);
  expect(reports[0]!.baseline).not.toBeNull();
  expect(reports[1]!.baseline).toBeNull();
  for (const report of reports) {
    expect(report.tokens.training).toBeGreaterThan(0);
    expect(report.tokens.rollout).toBeGreaterThanOrEqual(report.tokens.training);
    expect(report.validation!.reward).toBeTypeOf("number");
    expect(report.best!.reward).toBeGreaterThanOrEqual(report.median!.reward);
    expect(report.median!.reward).toBeGreaterThanOrEqual(report.worst!.reward);
    expect(report.warnings.some((warning) => warning.includes("cut off"))).toBe(true);
  }
  const metrics = [];
  for await (const checkpoint of engine.checkpoints.list(trained.id)) metrics.push(Object.keys(checkpoint.metrics));
  expect(metrics).toHaveLength(3);
  for (const names of metrics) expect(names).toContain("val/reward");
  for (const names of metrics.slice(0, 2)) expect(names).toContain("train/reward");
});

it("lets the learning rate follow its schedule over the run", async () => {
  const options = { model: await newModel(), scenarios: ["red"], rollout: drawn, groupSize: 4, steps: 4 };
  const config = { learning_rate: 1e-4, learning_rate_schedule: "linear" as const, warmup_ratio: 0.25 };
  const rates: number[] = [];
  for await (const { metrics } of train(engine, { ...options, config })) rates.push(metrics["loss/learning_rate"]!);
  expect(rates).toEqual([1e-4, 1e-4, 5e-5, 0]);
});

it("makes the same run, to the bit, on an engine behind an address", async () => {
  const listening = await listen(createServer(engine), { host: "127.0.0.1", port: 0 });
  const connected = await Engine.connect(listening.address, { apiKey: engine.apiKey });
  const rollout: Rollout<string> = async (context) => {
    await context.chat(`Say ${context.scenario}.`, { max_tokens: 4 });
    if (context.seed % 7n === 0n) throw new TypeError(`no ${context.scenario}`);
    return { reward: Number(context.seed % 5n), metrics: { even: context.seed % 2n === 0n } };
  };
  const run = async (client: AnnealClient) => {
    const trained = await newModel();
    const options = {
      model: trained,
      scenarios: ["red", "blue"],
      rollout,
      validation: ["grey"],
      groupSize: 5,
      steps: 2,
      maxExceptions: 10,
      seed: 11n,
      config: { learning_rate: 1e-3 },
    };
    const reports: unknown[] = [];
    for await (const { jobId: _, seconds, metrics, ...report } of train(client, options)) {
      const { duration, tokens_per_second, ...reproducible } = metrics;
      expect([seconds.rollout, duration, tokens_per_second].every((value) => value! > 0)).toBe(true);
      reports.push({ ...report, metrics: reproducible });
    }
    const { files } = engine.core.store;
    const adapter = readFileSync(join(files.checkpointFolder(trained.id, 2), "adapter_model.safetensors"));
    return { reports, adapter: createHash("sha256").update(adapter).digest("hex") };
  };
  try {
    const here = await run(engine);
    const there = await run(connected);
    const seen = (value: unknown) =>
      JSON.parse(
        JSON.stringify(value, (key, entry) =>
          ["duration", "start_time", "traceback"].includes(key) ? undefined : entry,
        ),
      );
    expect(seen(there.reports)).toEqual(seen(here.reports));
    expect(there.adapter).toBe(here.adapter);
    expect(JSON.stringify(here.reports)).toContain('"type":"TypeError"');
  } finally {
    await connected.close();
    await listening.close(0);
  }
});

it("is on policy to the bit with choices that kept only their logprobs, as other clients store them", async () => {
  const tools = [
    { type: "function", function: { name: "look", description: "looks", parameters: { type: "object" } } },
  ];
  const groups = await gather(engine, {
    model: await newModel(),
    scenarios: ["red"],
    groupSize: 4,
    async rollout({ chat, complete, scenario, seed }) {
      await chat([
        { role: "system", content: "Be brief." },
        { role: "user", content: `What is ${scenario}?` },
      ]);
      await chat("And then?", { max_tokens: 12 });
      await complete({ messages: [{ role: "user", content: "Look." }], tools, max_tokens: 12 });
      return Number(seed % 7n);
    },
  });
  for (const trajectory of groups[0]!.trajectories) {
    for (const history of [trajectory, ...trajectory.additional_histories!]) {
      for (const choice of choicesOf(history.messages_and_choices)) {
        delete choice.prompt_token_ids;
        delete choice.token_ids;
      }
    }
  }
  const job = await engine.trainingJobs.create({ model_id: (await newModel()).id, trajectory_groups: groups });
  const types: string[] = [];
  for await (const event of engine.trainingJobs.events(job.id)) {
    types.push(event.type);
    if (event.type === "gradient_step") expect(event.data).toMatchObject({ ratio_exact_share: 1, ratio_max: 1 });
  }
  expect(types).toEqual(["training_started", "gradient_step", "training_ended"]);
});

it("names and validates the step that its own job made, whatever others train meanwhile", async () => {
  const trained = await newModel();
  const other = { trajectory_groups: [], model_id: trained.id };
  const waiting: Engine["trainingJobs"]["wait"] = async (id, options) => {
    const job = await engine.trainingJobs.wait(id, options);
    await engine.trainingJobs.wait((await engine.trainingJobs.create(other)).id);
    return job;
  };
  const trainingJobs = Object.assign(Object.create(engine.trainingJobs), {
    list: engine.trainingJobs.list.bind(engine.trainingJobs),
    create: engine.trainingJobs.create.bind(engine.trainingJobs),
    events: engine.trainingJobs.events.bind(engine.trainingJobs),
    wait: waiting,
  });
  const client: AnnealClient = Object.assign(Object.create(engine), { trainingJobs });
  const options = { model: trained, scenarios: [1], validation: [2], groupSize: 2, steps: 2 };
  const asked: string[] = [];
  const rollout: Rollout<number> = async ({ chat, model: name, seed }) => {
    asked.push(name.slice(name.lastIndexOf(":") + 1));
    await chat("Hi", short);
    return Number(seed % 5n);
  };
  const reports: StepReport[] = [];
  for await (const report of train(client, { ...options, rollout })) reports.push(report);
  expect(reports.map(({ step }) => step)).toEqual([1, 3]);
  for (const { step, jobId } of reports) expect((await engine.trainingJobs.retrieve(jobId)).step).toBe(step);
  expect(asked).toEqual(["step0", "step0", "step0", "step1", "step2", "step2", "step3"]);
  const { data } = await engine.checkpoints.list(trained.id);
  const validated = data.filter(({ metrics }) => metrics["val/reward"] !== undefined).map(({ step }) => step);
  expect(validated).toEqual([0, 1, 3]);
  await expect(engine.models.log(trained.id, { split: "val", trajectory_groups: [], step: 9 })).rejects.toMatchObject({
    code: "step_not_found",
    param: "step",
  });
});

it("says when nothing can be learned, and still makes its step", async () => {
  const trained = await newModel();
  const rollout: Rollout<number> = async ({ chat }) => Number((await chat("Hi", short)) === "");
  for await (const report of train(engine, {
    model: trained,
    scenarios: [1, 2],
    rollout,
    groupSize: 2,
    steps: 1,
  })) {
    expect(report.step).toBe(1);
    expect(report.warnings).toContain("2 of 2 groups have equal rewards throughout and teach nothing");
  }
});

it("learns", async () => {
  const trained = await newModel();
  const rollout: Rollout<number> = async ({ chat }) => {
    const reply = await chat("zq xv, kk wjj?", { max_tokens: 10 });
    return (reply.match(/e/g) ?? []).length / Math.max(reply.length, 5);
  };
  const rewards: number[] = [];
  const options = {
    model: trained,
    scenarios: [0],
    rollout,
    groupSize: 24,
    steps: 8,
    config: { learning_rate: 3e-3 },
  };
  for await (const report of train(engine, options)) rewards.push(report.train.reward!);
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  expect(mean(rewards.slice(-2))).toBeGreaterThan(mean(rewards.slice(0, 2)) + 0.02);
});
