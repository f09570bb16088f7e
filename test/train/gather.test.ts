import { syncBuiltinESMExports } from "node:module";
import timers from "node:timers";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { Engine } from "../../src/anneal.js";
import { gather, RolloutError, train } from "../../src/gather/index.js";
import type { Rollout, TrainProgress } from "../../src/types/gather.js";
import type { Model } from "../../src/types/models.js";
import { choicesOf, drawn, short } from "./rollouts.js";

let engine: Engine;
let model: Model;
let made = 0;
const newModel = () => engine.models.create({ project: "p", name: `m${made++}`, base_model: "anneal/tiny" });

beforeAll(async () => {
  engine = await Engine.open({});
  model = await newModel();
});
afterAll(() => engine.close());

it("makes a group per scenario from a pinned step, with ids and logprobs", async () => {
  const groups = await gather(engine, {
    model,
    scenarios: ["red", "blue"],
    rollout: drawn,
    groupSize: 3,
  });
  expect(groups.map((group) => group.trajectories.length)).toEqual([3, 3]);
  for (const trajectory of groups.flatMap((group) => group.trajectories)) {
    expect(trajectory).toMatchObject({
      initial_policy_version: 0,
      final_policy_version: 0,
      additional_histories: [],
    });
    const [choice] = choicesOf(trajectory.messages_and_choices);
    expect(choice!.token_ids!.length).toBe(choice!.logprobs!.content!.length);
    expect(choice!.prompt_token_ids!.length).toBeGreaterThan(0);
  }
});

it("repeats a run exactly, whatever runs beside it, and differs between seeds and members", async () => {
  const ids = async (seed: number, concurrency: number) => {
    const rollout: Rollout<string> = async ({ chat, scenario }) =>
      (await chat(scenario, { max_tokens: 8, temperature: 2 })).length;
    const options = {
      model,
      scenarios: ["red", "blue"],
      rollout,
      groupSize: 4,
      seed,
      concurrency,
    };
    const groups = await gather(engine, options);
    return groups.map((group) => group.trajectories.map((one) => choicesOf(one.messages_and_choices)[0]!.token_ids));
  };
  const first = await ids(1, 8);
  expect(await ids(1, 1)).toEqual(first);
  expect(await ids(2, 8)).not.toEqual(first);
  expect(new Set(first[0]!.map((tokens) => JSON.stringify(tokens))).size).toBeGreaterThan(1);
});

it("records what other clients ask through its fetch, streamed or not, and leaves other models alone", async () => {
  const groups = await gather(engine, {
    model,
    scenarios: [0],
    groupSize: 1,
    async rollout({ fetch, model: name, signal, complete }) {
      const client = new OpenAI({
        baseURL: "http://anneal/v1",
        apiKey: "any",
        fetch,
        maxRetries: 0,
      });
      const messages = [{ role: "user" as const, content: "Hi" }];
      const first = await client.chat.completions.create({ model: name, messages, max_tokens: 8 }, { signal });
      const reply = first.choices[0]!.message;
      const next = [...messages, reply, { role: "user" as const, content: "More" }];
      const stream = await client.chat.completions.create({
        model: name,
        messages: next,
        max_tokens: 8,
        stream: true,
      });
      let streamed = "";
      for await (const chunk of stream) streamed += chunk.choices[0]?.delta.content ?? "";
      await complete({ model: "anneal/tiny", messages, max_tokens: 4 });
      return { reward: 1, metadata: { first: reply.content, streamed } };
    },
  });
  const { messages_and_choices: items, additional_histories, metadata } = groups[0]!.trajectories[0]!;
  const choices = choicesOf(items);
  expect(additional_histories).toEqual([]);
  expect(choices.map((choice) => choice.message.content)).toEqual([metadata!.first, metadata!.streamed]);
  for (const choice of choices) expect(choice.token_ids!.length).toBe(choice.logprobs!.content!.length);
});

it("keeps failed rollouts as exceptions, up to a number", async () => {
  const failing: Rollout<number> = async ({ scenario }) => {
    if (scenario === 1) throw new TypeError("no luck");
    return scenario === 2 ? Number.NaN : 1;
  };
  const options = {
    model,
    scenarios: [0, 1, 2],
    rollout: failing,
    groupSize: 2,
  };
  const groups = await gather(engine, { ...options, maxExceptions: 4 });
  expect(groups.map((group) => [group.trajectories.length, group.exceptions!.length])).toEqual([
    [2, 0],
    [0, 2],
    [0, 2],
  ]);
  expect(groups[1]!.exceptions![0]).toMatchObject({
    type: "TypeError",
    message: "no luck",
  });
  const error = await gather(engine, options).catch((cause: unknown) => cause);
  expect(error).toBeInstanceOf(RolloutError);
  expect((error as RolloutError).cause).toBeInstanceOf(TypeError);
});

it("goes on while no more than a share of the rollouts fail, and says what they failed of", async () => {
  const trained = await newModel();
  const rollout: Rollout<number> = async ({ chat, scenario, seed }) => {
    await chat("Hi", short);
    if (scenario === 1) throw new TypeError("no luck");
    return Number(seed % 5n);
  };
  const options = { model: trained, scenarios: [0, 1, 2, 3], rollout, groupSize: 4 };
  for await (const report of train(engine, { ...options, steps: 1 })) {
    expect(report.train.exceptions).toBe(4);
    expect(report.warnings).toContain("4 of 16 rollouts failed and are left out: TypeError: no luck");
  }
  const strict = gather(engine, { ...options, maxExceptionShare: 0.1 });
  await expect(strict).rejects.toThrow(/^2 of 16 rollouts failed: no luck$/);
  const failing = gather(engine, { ...options, scenarios: [1, 1, 2] });
  await expect(failing).rejects.toThrow(/^7 of 12 rollouts failed: no luck$/);
});

it("takes right and wrong as rewards", async () => {
  const rollout: Rollout<number> = async ({ scenario }) => (scenario > 1 ? { reward: scenario > 2 } : scenario > 0);
  const options = { model, scenarios: [0, 1, 2, 3], rollout, groupSize: 1 };
  const rewards = async (more: object = {}) =>
    (await gather(engine, { ...options, ...more })).map((group) => group.trajectories[0]!.reward);
  expect(await rewards()).toEqual([0, 1, 0, 1]);
  const scoreGroup = async (_: unknown, { scenario }: { scenario: number }) => [scenario < 2];
  expect(await rewards({ scoreGroup })).toEqual([1, 1, 0, 0]);
  const messages_and_choices = [{ role: "user" as const, content: "x" }];
  const groups = [{ trajectories: [true, false].map((reward) => ({ messages_and_choices, reward: reward as never })) }];
  const { metrics } = await engine.models.log(model.id, { split: "val", trajectory_groups: groups });
  expect(metrics["val/reward"]).toBe(0.5);
});

it("counts the trajectories of a group whose scoring throws as failed", async () => {
  const rollout: Rollout<number> = async () => 1;
  const scoreGroup = async (trajectories: readonly unknown[], { scenario }: { scenario: number }) => {
    if (scenario === 1) throw new RangeError("no judge");
    return trajectories.map(() => 2);
  };
  const options = { model, rollout, groupSize: 2, scoreGroup };
  const groups = await gather(engine, { ...options, scenarios: [0, 1] });
  expect(groups.map((group) => [group.trajectories.length, group.exceptions!.length])).toEqual([
    [2, 0],
    [0, 2],
  ]);
  expect(groups[1]!.exceptions![0]).toMatchObject({ type: "RangeError", message: "no judge" });
  const hopeless = gather(engine, { ...options, scenarios: [1] });
  await expect(hopeless).rejects.toMatchObject({ code: "rollout_failed", cause: { message: "no judge" } });
});

it("ends rollouts that take too long, and everything when aborted", async () => {
  const stuck: Rollout<number> = ({ scenario }) => (scenario === 0 ? new Promise(() => {}) : Promise.resolve(1));
  const groups = await gather(engine, {
    model,
    scenarios: [0, 1],
    rollout: stuck,
    groupSize: 1,
    timeoutMs: 50,
    maxExceptions: 1,
  });
  expect(groups[0]!.exceptions![0]!.type).toBe("TimeoutError");
  expect(groups[1]!.trajectories).toHaveLength(1);
  const stop = new AbortController();
  const aborted = gather(engine, {
    model,
    scenarios: [0],
    rollout: stuck,
    groupSize: 2,
    signal: stop.signal,
  });
  stop.abort("enough");
  await expect(aborted).rejects.toBe("enough");
});

it("begins no rollout once it is aborted", async () => {
  const stop = new AbortController();
  let begun = 0;
  const rollout: Rollout<number> = async ({ signal }) => {
    begun += 1;
    signal.throwIfAborted();
    return 1;
  };
  const given = { model, scenarios: [0, 1, 2], rollout, groupSize: 1, concurrency: 1, signal: stop.signal };
  await expect(gather(engine, { ...given, onProgress: () => stop.abort("enough") })).rejects.toBe("enough");
  expect(begun).toBe(1);
});

it("ends with what onProgress throws or rejects with", async () => {
  const fails = () => {
    throw new RangeError("mine");
  };
  const given = { model, scenarios: [0], groupSize: 2, rollout: async () => 1 };
  await expect(gather(engine, { ...given, onProgress: fails })).rejects.toThrow(new RangeError("mine"));
  await expect(gather(engine, { ...given, onProgress: async () => fails() })).rejects.toThrow(new RangeError("mine"));
  const failing = { model: await newModel(), scenarios: ["red", "blue"], rollout: drawn, groupSize: 2, steps: 1 };
  for (const failsAt of ["rollout", "training"]) {
    const onProgress = async ({ phase }: TrainProgress) => void (phase === failsAt && fails());
    const run = async () => {
      for await (const _ of train(engine, { ...failing, onProgress })) break;
    };
    await expect(run(), failsAt).rejects.toThrow(new RangeError("mine"));
  }
});

it("keeps the process alive until a rollout's time is over", async () => {
  const set = vi.spyOn(timers, "setTimeout");
  syncBuiltinESMExports();
  try {
    const options = { model, scenarios: [0], groupSize: 1, maxExceptions: 1, timeoutMs: 53 };
    await gather(engine, { ...options, rollout: () => new Promise(() => {}) });
    const made = set.mock.calls.findIndex(([, delay]) => delay === 53);
    expect((set.mock.results[made]!.value as NodeJS.Timeout).hasRef()).toBe(true);
  } finally {
    set.mockRestore();
    syncBuiltinESMExports();
  }
});

it("leaves out what has no value in a rollout's metrics, and fails the rollout for what cannot be one", async () => {
  const answers: unknown[] = [
    { reward: 1, metrics: { a: Number.NaN, b: undefined, c: true }, metadata: { d: undefined, e: null } },
    { reward: 1, metrics: { a: "one" } },
    { reward: 1, metadata: { a: ["one"] } },
    "1",
    undefined,
  ];
  const rollout = (({ scenario }) => answers[scenario]) as Rollout<number>;
  const options = { model, scenarios: [0, 1, 2, 3, 4], rollout, groupSize: 1, maxExceptions: 4 };
  const groups = await gather(engine, options);
  const { metrics, metadata } = groups[0]!.trajectories[0]!;
  expect([Object.keys(metrics!), metadata]).toEqual([["completion_tokens", "duration", "c"], { e: null }]);
  expect(groups.slice(1).map((group) => group.exceptions![0]!.message)).toEqual([
    "metrics.a of a rollout must be number or boolean, got string",
    "metadata.a of a rollout must be number or boolean or string or null, got object",
    "a rollout must answer with a finite reward, got '1'",
    "a rollout must answer with a finite reward, got undefined",
  ]);
});

it("passes on to the engine what is no completion, and takes nothing more once the rollout has answered", async () => {
  let late: Promise<unknown> = Promise.resolve();
  const [group] = await gather(engine, {
    model,
    scenarios: [0],
    groupSize: 1,
    async rollout({ chat, fetch }) {
      const init = { method: "POST", headers: { "content-type": "application/json" }, body: "no JSON" };
      const { status } = await fetch("http://engine/v1/chat/completions", init);
      await chat("red", { max_tokens: 2 });
      late = chat("blue", { max_tokens: 2 });
      return status;
    },
  });
  await late;
  const [trajectory] = group!.trajectories;
  expect([trajectory!.reward, trajectory!.messages_and_choices.length]).toEqual([422, 2]);
});

it("names what a rollout's own completions cannot do", async () => {
  const streaming: Rollout<number> = async ({ chat }) => Number(await chat("Hi", { ...short, stream: true } as object));
  const gathering = gather(engine, { model, scenarios: [1], rollout: streaming, groupSize: 1 });
  await expect(gathering).rejects.toMatchObject({ code: "rollout_failed", cause: { status: 400, param: "stream" } });
});

it("scores groups together", async () => {
  const groups = await gather(engine, {
    model,
    scenarios: ["red"],
    rollout: drawn,
    groupSize: 3,
    scoreGroup: async (trajectories, { scenario }) => trajectories.map((_, i) => i + scenario.length),
  });
  expect(groups[0]!.trajectories.map((trajectory) => trajectory.reward)).toEqual([3, 4, 5]);
});

it("names a scoring that cannot be, and does not wait for one when aborted", async () => {
  const options = { model, scenarios: [0], rollout: async () => 0, groupSize: 2 };
  const unscored = gather(engine, { ...options, scoreGroup: async () => undefined as never });
  await expect(unscored).rejects.toMatchObject({ code: "bad_request", param: "scoreGroup" });
  const uncounted = gather(engine, { ...options, scoreGroup: () => [Number.NaN, 1n] as never });
  await expect(uncounted).rejects.toMatchObject({
    param: "scoreGroup",
    message: expect.stringMatching(/got \[ NaN, 1n \]$/),
  });
  const stop = new AbortController();
  const scoreGroup = () => {
    stop.abort("enough");
    return new Promise<never>(() => {});
  };
  await expect(gather(engine, { ...options, scoreGroup, signal: stop.signal })).rejects.toBe("enough");
});
