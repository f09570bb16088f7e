import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { Engine } from "../../src/anneal.js";
import type { Model } from "../../src/types/models.js";
import type { TrainingMessage } from "../../src/types/training.js";
import type { LossChoice, OptimStepParams, SessionOptions, TrainingRow } from "../../src/types/trainingSession.js";
import { rows, sumOf } from "./trainingRows.js";

let engine: Engine;
let folder: string;
let made = 0;
const newModel = () =>
  engine.models.create({
    project: "p",
    name: `s${made++}`,
    base_model: "anneal/tiny",
  });

beforeAll(async () => {
  engine = await Engine.open({});
  folder = mkdtempSync(join(tmpdir(), "session-"));
});
afterAll(async () => {
  await engine.close();
  rmSync(folder, { recursive: true, force: true });
});

describe("a training session", () => {
  it("trains with a built-in loss, samples the live weights, and saves what is served", async () => {
    const model = await newModel();
    await using session = await engine.training.open(model);
    const before = await session.logprobs(rows);
    expect([...before.logprobs[0]!.slice(0, 12)].every((value) => value === 0)).toBe(true);
    for (let i = 0; i < 4; i++) {
      const { metrics } = await session.forwardBackward(rows, {
        loss: "cross_entropy",
      });
      expect(metrics.num_trainable_tokens).toBe(24);
      const { gradNorm } = await session.optimStep({
        learningRate: 5e-3,
        weightDecay: 0,
        maxGradNorm: 1,
      });
      expect(gradNorm).toBeGreaterThan(0);
    }
    const after = await session.logprobs(rows);
    expect(sumOf(after.logprobs)).toBeGreaterThan(sumOf(before.logprobs) + 1);

    const messages = [{ role: "user", content: "Hi" }];
    const greedy = { messages, temperature: 0, max_tokens: 12, logprobs: true };
    const live = await session.sample({ ...greedy, n: 1 });
    const saved = await session.saveState({ metrics: { mine: 3 } });
    expect(saved).toMatchObject({ step: 1, metrics: { mine: 3 } });
    const served = await engine.chat.completions.create({
      ...greedy,
      model: `wandb-artifact:///local/p/${model.name}:step1`,
    });
    expect(served.choices[0]!.logprobs).toEqual(live.choices[0]!.logprobs);
  });

  it("gives a hand-written loss the gradient of the built-in one, to the bit", async () => {
    const model = await newModel();
    const other = await newModel();
    const builtIn = await engine.training.open(model);
    const byHand = await engine.training.open(other);
    await builtIn.forwardBackward(rows, { loss: "cross_entropy" });
    const { logprobs } = await byHand.logprobs(rows);
    const weights = rows.map((row, r) => logprobs[r]!.map((_, i) => (row.trained[i] ? -1 / 24 : 0)));
    await byHand.forwardBackward(rows, { weights });
    const step = { learningRate: 1e-3 };
    expect(await byHand.optimStep(step)).toEqual(await builtIn.optimStep(step));
    expect(await byHand.logprobs(rows)).toEqual(await builtIn.logprobs(rows));
    await builtIn.close();
    await byHand.close();
    await expect(byHand.logprobs(rows)).rejects.toMatchObject({
      code: "closed",
    });
  });

  it("takes an entropy bonus and temperatures, and hand-written losses of entropies, to the bit", async () => {
    const [model, other] = [await newModel(), await newModel()];
    await using builtIn = await engine.training.open(model);
    await using byHand = await engine.training.open(other);
    const tempered = rows.map((row, r) => ({
      ...row,
      temperatures: Array.from(row.trained, (_, i) => (i % 2 ? 0.7 : 1.5)),
      advantages: new Array(24).fill(r - 0.5),
    }));
    const { entropies } = await byHand.logprobs(tempered);
    expect(entropies).not.toEqual((await byHand.logprobs(rows)).entropies);
    const slopes = (slope: (r: number) => number) =>
      tempered.map((row, r) => Float32Array.from(row.trained, (trained) => (trained ? slope(r) : 0)));
    const { metrics } = await builtIn.forwardBackward(tempered, { loss: "cispo", entropy_coef: 0.5 });
    // Ratios of 1: the gradient by a logprob is minus the advantage, over the number of tokens.
    await byHand.forwardBackward(tempered, {
      weights: slopes((r) => (0.5 - r) / 24),
      entropyWeights: slopes(() => -0.5 / 24),
    });
    const step = { learningRate: 1e-3 };
    expect(await byHand.optimStep(step)).toEqual(await builtIn.optimStep(step));
    expect(await byHand.logprobs(tempered)).toEqual(await builtIn.logprobs(tempered));
    expect(metrics.loss).toBeCloseTo(metrics.policy_loss! - 0.5 * metrics.entropy!, 6);
  });

  it("prefers what dpo says is preferred", async () => {
    const session = await engine.training.open(await newModel());
    let first: number | undefined;
    let last = 0;
    for (let i = 0; i < 5; i++) {
      const { metrics } = await session.forwardBackward(rows, {
        loss: "dpo",
        beta: 0.2,
      });
      first ??= metrics.loss!;
      last = metrics.loss!;
      await session.optimStep({
        learningRate: 3e-3,
        weightDecay: 0,
        maxGradNorm: 1,
      });
    }
    expect(first).toBeCloseTo(Math.log(2), 6);
    expect(last).toBeLessThan(0.6);
    await session.close();
  });

  it("holds the model's place in the queue until it is closed", async () => {
    const model = await newModel();
    const session = await engine.training.open(model);
    const waiting = engine.training.open(model, {
      signal: AbortSignal.timeout(50),
    });
    await expect(waiting).rejects.toMatchObject({ name: "TimeoutError" });
    const { id } = await engine.trainingJobs.create({
      model_id: model.id,
      trajectory_groups: [],
    });
    await session.saveState();
    expect((await engine.trainingJobs.retrieve(id)).status).toBe("queued");
    await session.close();
    expect(await engine.trainingJobs.wait(id)).toMatchObject({
      status: "succeeded",
      step: 2,
    });
  });

  it.each([
    [[{ tokens: [], trained: [] }], "rows.0.tokens"],
    [[{ tokens: [1, 2], trained: [1] }], "rows.0.trained"],
    [[{ tokens: [1, 2], trained: [0, 1], advantages: [1] }], "rows.0.advantages"],
    [[{ tokens: [1, 2], trained: [0, 1] }], "rows.0.advantages"],
    [[{ tokens: [1, 2.5], trained: [0, 1], advantages: [0, 1] }], "rows.0.tokens.1"],
    [[null], "rows.0.tokens"],
    [[], "rows"],
  ] as [TrainingRow[], string][])("refuses rows that do not fit", async (bad, param) => {
    const session = await engine.training.open(await newModel());
    await expect(session.forwardBackward(bad, { loss: "cispo" })).rejects.toMatchObject({ param });
    await session.close();
  });

  it("names losses and settings that it does not know, and values out of range", async () => {
    const session = await engine.training.open(await newModel());
    const row = { tokens: [1, 2], trained: [0, 1], advantages: [0, 1] };
    for (const [param, loss] of [
      ["loss", null],
      ["loss", { loss: "reinforce" }],
      ["epsilonHigh", { loss: "ppo", epsilonHigh: 0.3 }],
      ["epsilon", { loss: "ppo", epsilon: -1 }],
      ["kl_penalty_coef", { loss: "cispo", kl_penalty_coef: 1e31 }],
      ["importance_sampling_level", { loss: "cispo", importance_sampling_level: "row" }],
      ["mask_prob_ratio", { loss: "cispo", mask_prob_ratio: 1 }],
      ["beta", { loss: "cross_entropy", beta: 1 }],
      ["beta", { loss: "dpo", beta: 0 }],
      ["learning_rate", { weights: [[0, 1]], learning_rate: 1 }],
      [
        "entropyWeights",
        {
          weights: [
            [0, 1],
            [0, 1],
          ],
          entropyWeights: [[0, 1]],
        },
      ],
    ] as [string, LossChoice][]) {
      await expect(session.forwardBackward([row, row], loss)).rejects.toMatchObject({ status: 400, param });
    }
    for (const [param, step] of [
      ["learningRate", undefined],
      ["learningRate", { learningRate: "1" }],
      ["weight_decay", { learningRate: 1, weight_decay: 0 }],
      ["beta1", { learningRate: 1, beta1: -1 }],
      ["beta1", { learningRate: 1, beta1: 1 }],
      ["eps", { learningRate: 1, eps: 2 }],
      ["learningRate", { learningRate: 1001 }],
    ] as [string, OptimStepParams][]) {
      await expect(session.optimStep(step)).rejects.toMatchObject({ status: 400, param });
    }
    await session.optimStep({ learningRate: 0, beta1: undefined });
    const messages = [{ role: "user" as const, content: "Hi" }];
    for (const [param, value] of [
      ["model", "anneal/tiny"],
      ["stream", true],
    ] as const) {
      const sample = session.sample({ messages, max_tokens: 1, [param]: value });
      await expect(sample).rejects.toMatchObject({ status: 400, param });
    }
    await session.sample({ messages, max_tokens: 1, stream: false, model: null } as never);
    await session.close();
  });

  it("refuses rows and states that cannot be", async () => {
    const session = await engine.training.open(await newModel());
    const row = { tokens: [1, 2], trained: [0, 1] };
    for (const [param, given] of [
      ["rows.0.tokens.1", { ...row, tokens: [1, 2 ** 32 + 1] }],
      ["advantage", { ...row, advantage: [0, 1] }],
      ["rows.0.advantages", { ...row, advantages: null }],
      ["rows.0.advantages.1", { ...row, advantages: [0, Number.NaN] }],
      ["rows.0.weights.0", { ...row, advantages: [0, 1], weights: ["1", 1] }],
      ["rows.0.temperatures.1", { ...row, advantages: [0, 1], temperatures: [1, 0] }],
      ["rows.0.temperatures", { ...row, advantages: [0, 1], temperatures: [1] }],
      ["rows.0.oldLogprobs.1", { ...row, advantages: [0, 1], oldLogprobs: [Number.NaN, 1e39] }],
    ] as [string, TrainingRow][]) {
      await expect(session.forwardBackward([given], { loss: "ppo" })).rejects.toMatchObject({ status: 400, param });
    }
    for (const weights of [null, [null], [[1]]] as never[]) {
      const refused = session.forwardBackward([row], { weights });
      await expect(refused).rejects.toMatchObject({ status: 400, param: "weights" });
    }
    const refused = session.forwardBackward([row], { weights: [[0, Number.POSITIVE_INFINITY]] });
    await expect(refused).rejects.toMatchObject({ status: 400, param: "weights.0.1" });
    for (const [param, state] of [
      ["metrics.a", { metrics: { a: Number.NaN } }],
      ["metrics.a", { metrics: { a: "1" } }],
      ["metric", { metric: {} }],
      ["params", null],
    ] as [string, { metrics: Record<string, number> }][]) {
      await expect(session.saveState(state)).rejects.toMatchObject({ status: 400, param });
    }
    await session.close();
  });

  it("is named to whoever waits for it, and can be closed from outside", async () => {
    const warned: { message: string; details: Record<string, unknown> }[] = [];
    const warn = (message: string, details?: object) => warned.push({ message, details: { ...details } });
    const logger = { debug() {}, info() {}, error() {}, warn };
    await using watched = await Engine.open({ logger });
    const model = await watched.models.create({ project: "p", name: "held", base_model: "anneal/tiny" });
    const forgotten = await watched.training.open(model);
    const { id: job } = await watched.trainingJobs.create({ model_id: model.id, trajectory_groups: [] });
    const next = watched.training.open(model);
    await vi.waitFor(() => expect(warned).toHaveLength(2));
    const held = { model: model.id, holder: forgotten.id, since: expect.stringMatching(/Z$/) };
    expect(warned[0]).toEqual({
      message: expect.stringContaining("waits for a training session"),
      details: { job, ...held },
    });
    expect(warned[1]!.details).toMatchObject(held);

    const request = (method: string, path: string) =>
      watched.fetch(`http://engine/v1/preview/training-sessions${path}`, {
        method,
        headers: { authorization: `Bearer ${watched.apiKey}` },
      });
    const listed = (await (await request("GET", "")).json()) as { id: string }[];
    expect(listed).toEqual([{ id: forgotten.id, model_id: model.id, opened_at: expect.any(String) }]);
    expect((await request("DELETE", `/${listed[0]!.id}`)).status).toBe(200);
    await expect(forgotten.saveState()).rejects.toMatchObject({
      code: "closed",
      message: `the training session ${forgotten.id} was closed from outside`,
    });
    expect((await watched.trainingJobs.wait(job)).step).toBe(1);
    const session = await next;
    expect((await watched.trainingSessions.list()).map(({ id }) => id)).toEqual([session.id]);
    await watched.trainingSessions.close(session.id);
    expect(await watched.trainingSessions.list()).toEqual([]);
    await expect(watched.trainingSessions.close(session.id)).rejects.toMatchObject({
      status: 404,
      param: "session_id",
    });
  });

  it("ends a sample whose signal aborts, also one that waits for its turn, and goes on", async () => {
    await using session = await engine.training.open(await newModel());
    const [long, waiting] = [new AbortController(), new AbortController()];
    const endless = { messages: [{ role: "user", content: "Hi" }], max_tokens: 1900, ignore_eos: true };
    const before = session.forwardBackward(rows, { loss: "cross_entropy" });
    const samples = [long, waiting].map(({ signal }) => session.sample(endless, { signal }));
    waiting.abort(new Error("not begun"));
    await expect(samples[1]).rejects.toBe(waiting.signal.reason);
    await before;
    long.abort(new Error("enough"));
    await expect(samples[0]).rejects.toBe(long.signal.reason);
    await expect(session.sample(endless, { signal: long.signal })).rejects.toBe(long.signal.reason);
    const signal = new AbortController().signal;
    const { choices } = await session.sample({ ...endless, max_tokens: 2 }, { signal });
    expect(choices[0]!.finish_reason).toBe("length");
    await expect(session.sample(endless, { signal: "now" as never })).rejects.toMatchObject({ param: "signal" });
  });

  it("is closed by its engine, whose calls then say so", async () => {
    const closing = await Engine.open({ home: join(folder, "closing") });
    const model = await closing.models.create({ project: "p", name: "m", base_model: "anneal/tiny" });
    const session = await closing.training.open(model);
    const sample = session.sample({ messages: [{ role: "user", content: "Hi" }], max_tokens: 2000, ignore_eos: true });
    const step = session.forwardBackward(rows, { loss: "cross_entropy" });
    const [, ...ended] = await Promise.allSettled([closing.close(), sample, step]);
    expect(ended.map((one) => one.status === "fulfilled" || one.reason.code)).toEqual(["closed", expect.anything()]);
    await expect(session.saveState()).rejects.toMatchObject({ code: "closed" });
    await session.close();
  });

  it("saves nothing after it was told to end, however early it was asked to", async () => {
    const model = await newModel();
    const stop = new AbortController();
    const stopped = await engine.training.open(model, { signal: stop.signal });
    stop.abort(new Error("enough"));
    await expect(stopped.saveState()).rejects.toBe(stop.signal.reason);
    await stopped.close();
    const session = await engine.training.open(model);
    const calls = [session.forwardBackward(rows, { loss: "cross_entropy" }), session.saveState()];
    await engine.trainingSessions.close(session.id);
    expect((await Promise.allSettled(calls))[1]).toMatchObject({ reason: { code: "closed" } });
    expect((await engine.checkpoints.list(model.id)).data).toMatchObject([{ step: 0 }]);
  });

  it.each([
    ["a session", (id: string) => engine.training.open(id)],
    ["a session of all weights", (id: string) => engine.training.open(id, { weights: "full" })],
    [
      "an estimate",
      (model_id: string) => {
        const messages: TrainingMessage[] = [
          { role: "user", content: "Say cat." },
          { role: "assistant", content: "No, cat!" },
        ];
        return engine.sftTrainingJobs.estimate({ model_id, data: [{ messages }] });
      },
    ],
  ])("%s finds no model that is deleted while it is read", async (_, read: (id: string) => Promise<unknown>) => {
    const { id } = await newModel();
    const { files } = engine.core.store;
    const folder = files.checkpointFolder(id, 0);
    let deleted: Promise<unknown> | undefined;
    const located = vi.spyOn(files, "checkpointFolder").mockImplementation(() => {
      deleted ??= engine.models.delete(id);
      rmSync(folder, { recursive: true, force: true });
      return folder;
    });
    await expect(read(id)).rejects.toMatchObject({ code: "model_not_found", status: 404 });
    located.mockRestore();
    await deleted;
  });

  it("refuses options that it does not know", async () => {
    const model = await newModel();
    await expect(engine.training.open(model, null as never)).rejects.toMatchObject({ param: "options" });
    await expect(engine.training.open(null as never)).rejects.toMatchObject({ status: 422 });
    await expect(engine.training.open(model, { objectiv: "sft" } as SessionOptions)).rejects.toMatchObject({
      param: "objectiv",
    });
    await expect(engine.training.open(model, { objective: "dpo" } as never)).rejects.toMatchObject({
      param: "objective",
    });
  });

  it("takes a reference from the rows that carry one, and evaluates the others'", async () => {
    const session = await engine.training.open(await newModel());
    const rows = [
      { tokens: [5, 6, 7], trained: [0, 1, 1] },
      { tokens: [5, 9, 9], trained: [0, 1, 1] },
    ];
    const own = (await session.logprobs(rows)).logprobs;
    const moved = own[0]!.map((value) => value - 1);
    const pairs = [{ ...rows[0]!, referenceLogprobs: moved }, rows[1]!];
    const { metrics } = await session.forwardBackward(pairs, { loss: "dpo", beta: 0.5 });
    expect(metrics.loss).toBeCloseTo(Math.log1p(Math.exp(-0.5 * 2)), 5);
    await session.close();
  });
});

describe("a supervised job", () => {
  const line = (answer: string) =>
    JSON.stringify({
      messages: [
        { role: "user", content: "Who?" },
        { role: "assistant", content: answer },
      ],
    });

  async function run(model: Model, url: string, config: object) {
    const { id } = await engine.sftTrainingJobs.create({
      model_id: model.id,
      training_data_url: url,
      config,
    });
    const events = [];
    for await (const event of engine.trainingJobs.events(id)) events.push(event);
    return { id, events };
  }

  it("learns its data from an artifact, one step per batch", async () => {
    const model = await newModel();
    const data = Array.from({ length: 11 }, () => line("Rumpelstiltskin!")).join("\n");
    const { url } = await engine.artifacts.create({
      project: "p",
      name: "set",
      files: { "train.jsonl": data },
    });
    const { events } = await run(model, url, {
      learning_rate: 1e-2,
      metric_logging: { enabled: true },
    });
    expect(events.map((event) => event.type)).toEqual([
      "training_started",
      ...new Array(6).fill("gradient_step"),
      "training_ended",
    ]);
    const steps = events.filter((event) => event.type === "gradient_step").map((event) => event.data);
    expect(events[0]!.data).toMatchObject({
      num_sequences: 6,
      num_trajectories: 11,
    });
    expect(steps.map((data) => data.num_trajectories)).toEqual([2, 2, 2, 2, 2, 1]);
    for (const name of [
      "loss",
      "learning_rate",
      "grad_norm",
      "num_tokens",
      "num_trainable_tokens",
      "num_dropped_trajectories",
      "tokens_per_second",
    ]) {
      expect(steps[0]![name], name).toBeTypeOf("number");
    }
    expect(Number(steps.at(-1)!.loss)).toBeLessThan(Number(steps[0]!.loss) / 2);
    const mean = steps.reduce((sum, data) => sum + Number(data.loss), 0) / 6;
    const newest = (await engine.checkpoints.list(model.id, { order: "desc", limit: 1 })).data[0]!;
    expect(newest).toMatchObject({ step: 1, metrics: { "train/loss": expect.closeTo(mean, 9) } });
    const rows = [];
    for await (const row of engine.models.metrics(model.id, { step: 1, limit: 3 })) rows.push(row);
    const batches = rows.filter(({ metrics }) => "sft/gradient_step" in metrics);
    expect(batches.map(({ metrics }) => metrics["sft/gradient_step"])).toEqual([1, 2, 3, 4, 5, 6]);
    expect(batches.map(({ metrics }) => metrics["sft/loss"])).toEqual(steps.map((data) => data.loss));
    const answer = await engine.chat.completions.create({
      model: `wandb-artifact:///local/p/${model.name}`,
      messages: [{ role: "user", content: "Who?" }],
      temperature: 0,
      max_tokens: 24,
    });
    expect(answer.choices[0]!.message.content).toContain("Rumpel");
  });

  it("takes one learning rate per batch, and fails when their number is wrong", async () => {
    const model = await newModel();
    const file = join(folder, "train.jsonl");
    writeFileSync(file, [line("a"), line("b"), line("c")].join("\n"));
    const rates = await run(model, file, { learning_rate: [1e-3, 2e-3] });
    expect(rates.events.slice(1, 3).map((event) => event.data.learning_rate)).toEqual([1e-3, 2e-3]);
    await expect(run(model, file, { learning_rate: [1e-3] })).rejects.toMatchObject({
      status: 422,
      message: expect.stringContaining("config.learning_rate: holds 1 values for 2 batches"),
    });
    writeFileSync(file, `${line("a")}\n{"messages": []}\n`);
    const bad = await run(model, file, {});
    expect(bad.events.at(-1)!.data.error_message).toMatch(/train\.jsonl, line 2/);
  });

  it("calls its data what it was asked for as", async () => {
    const model = await newModel();
    const saidOf = async (url: string) => (await run(model, url, {})).events.at(-1)!.data.error_message as string;
    const files = { "train.jsonl": `${line("a")}\n{}` };
    const { url } = await engine.artifacts.create({ project: "p", name: "bad", files });
    expect(await saidOf(url)).toMatch("wandb-artifact:///local/p/bad:v0/train.jsonl, line 2: ");
    const place = join(folder, "place");
    mkdirSync(place);
    writeFileSync(join(place, "train.jsonl"), "{}");
    symlinkSync(place, join(folder, "linked"));
    for (const asked of [join(folder, "linked"), pathToFileURL(join(folder, "linked/train.jsonl")).href]) {
      expect(await saidOf(asked)).toMatch(`${join(folder, "linked", "train.jsonl")}, line 1: `);
    }
  });

  it("refuses what cannot be right when it is made", async () => {
    const model = await newModel();
    const create = (url: string, config: object) =>
      engine.sftTrainingJobs.create({
        model_id: model.id,
        training_data_url: url,
        config,
      });
    await expect(create("/etc/no-such-file", {})).rejects.toMatchObject({
      status: 422,
      param: "training_data_url",
    });
    writeFileSync(join(folder, "x.jsonl"), line("a"));
    await expect(create(join(folder, "x.jsonl"), { batch_size: 0 })).rejects.toMatchObject({ status: 422 });
    await expect(create(join(folder, "x.jsonl"), { learning_rate: -1 })).rejects.toMatchObject({ status: 422 });
  });
});

it("an adapter that the memory limit has no room for is refused, by sessions, estimates and jobs, before memory is taken", async () => {
  await using engine = await Engine.open({ memoryLimit: 60 * 2 ** 20, contextLength: 512 });
  const create = (name: string, rank: number) =>
    engine.models.create({ project: "p", name, base_model: "anneal/tiny", adapter: { rank } });
  const large = await create("large", 256);
  const refusal = { code: "insufficient_memory", param: "adapter", hint: expect.stringContaining("memoryLimit") };
  const data = [{ messages: [{ role: "assistant" as const, content: "a" }] }];
  await expect(engine.training.open(large)).rejects.toMatchObject(refusal);
  await expect(engine.sftTrainingJobs.estimate({ model_id: large.id, data })).rejects.toMatchObject(refusal);
  const { id } = await engine.sftTrainingJobs.create({ model_id: large.id, data });
  await expect(engine.trainingJobs.wait(id)).rejects.toThrow("training the adapter");
  // Nothing is held by what was refused, and of what was trained nothing stays.
  for (let i = 0; i < 2; i++) await (await engine.training.open(await create(`small${i}`, 32))).close();
});
