// However much one request asks for, other work of the thread has its turn in between.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Engine, type Model } from "../src/index.js";
import { cpuMilliseconds } from "./fixtures/cpuTime.js";
import { canMeasureTurns, longestTurn } from "./fixtures/longestTurn.js";

/** Milliseconds of processor time: about three times what is measured, since a core that is shared does less in its time. */
const MAX_TURN = 100;

const messages = [{ role: "user" as const, content: "What is 3 + 4?" }];

let engine: Engine;
beforeAll(async () => {
  engine = await Engine.open({ maxSequences: 512, tokenBudget: 1024 });
  await engine.chat.completions.create({ messages, max_tokens: 1 });
});
afterAll(() => engine?.close());

describe.skipIf(!canMeasureTurns)("the event loop turns", { timeout: 240_000 }, () => {
  const n = 16_384;

  it("while thousands of choices are made", async () => {
    const turn = await longestTurn(async () => {
      const many = 3000;
      const { choices, usage } = await engine.chat.completions.create({ messages, n: many, max_tokens: 1, seed: 1 });
      expect(choices.map(({ index }) => index)).toEqual(Array.from({ length: many }, (_, i) => i));
      expect(choices.every(({ finish_reason }) => finish_reason !== "abort")).toBe(true);
      expect(usage.completion_tokens).toBe(many);
    });
    expect(turn).toBeLessThan(MAX_TURN);
  });

  it("while thousands of choices begin to be streamed, and when they are left", async () => {
    const turn = await longestTurn(async () => {
      const begun = new Set<number>();
      let left = n + 10;
      const chunks = await engine.chat.completions.create({ messages, n, max_tokens: 2, stream: true });
      for await (const { choices } of chunks) {
        if (choices[0]!.delta.role === "assistant") begun.add(choices[0]!.index);
        if (--left === 0) break;
      }
      expect(begun.size).toBe(n);
    });
    expect(turn).toBeLessThan(MAX_TURN);
  });

  it("while several large schemas that come together are read", async () => {
    const turn = await longestTurn(async () => {
      const ask = (k: number) => {
        const field = (i: number) => [
          `field_${k}_${i}`,
          { type: "string", pattern: `^[a-z]{${i % 7},12}-[0-9]{1,${(i % 9) + 1}}$` },
        ];
        const properties = Object.fromEntries(Array.from({ length: 400 }, (_, i) => field(i)));
        const schema = { type: "object", additionalProperties: false, properties };
        return engine.chat.completions.create({
          messages,
          max_tokens: 2,
          response_format: { type: "json_schema", json_schema: { name: "wide", schema } },
        });
      };
      const replies = await Promise.all(Array.from({ length: 10 }, (_, k) => ask(k)));
      expect(replies.map(({ choices }) => choices[0]!.message.content![0])).toEqual(new Array(10).fill("{"));
    });
    expect(turn).toBeLessThan(MAX_TURN);
  });

  it("while a schema of very many values is read, which is refused", async () => {
    const values = Array.from({ length: 300_000 }, (_, i) => `value ${i}`);
    const turn = await longestTurn(async () => {
      const asked = engine.chat.completions.create({ messages, structured_outputs: { json: { enum: values } } });
      await expect(asked).rejects.toThrow("too much work");
    });
    expect(turn).toBeLessThan(MAX_TURN);
  });

  it("while a body is read that nests too deep", async () => {
    const turn = await longestTurn(async () => {
      for (const body of ["[".repeat(2e6), `{"messages":${'{"a":['.repeat(3e5)}`]) {
        const response = await engine.fetch("http://anneal/v1/chat/completions", {
          method: "POST",
          headers: { authorization: `Bearer ${engine.apiKey}`, "content-type": "application/json" },
          body,
        });
        expect(response.status).toBe(422);
        expect(await response.text()).toContain("nested more than 1000 deep");
      }
    });
    expect(turn).toBeLessThan(MAX_TURN);
  });

  it("while a text of megabytes is encoded, which nobody need wait for who comes after one that has left", async () => {
    const prompt = "ab ".repeat(500_000);
    const leaving = new AbortController();
    const turn = await longestTurn(async () => {
      expect((await engine.tokens.tokenize({ prompt })).count).toBe(1_500_000);
      const left = engine.tokens.tokenize({ prompt: prompt.repeat(16) }, { signal: leaving.signal });
      setTimeout(() => leaving.abort(new Error("left")), 500);
      await expect(left).rejects.toThrow("left");
      const begin = cpuMilliseconds();
      expect((await engine.tokens.tokenize({ prompt: "ab ".repeat(20_000) })).count).toBe(60_000);
      // Sixteen times what was encoded at first takes more than ten seconds.
      expect(cpuMilliseconds() - begin).toBeLessThan(5000);
    });
    expect(turn).toBeLessThan(MAX_TURN);
  });

  it("while the application hands over many megabytes of trajectories and conversations", async () => {
    const model = await engine.models.create({ project: "long", name: "work", base_model: "anneal/tiny" });
    const content = Array.from({ length: 300 }, (_, i) => ({ token: `token_id:${i}`, logprob: -0.5 }));
    const choice = { finish_reason: "stop", message: { role: "assistant", content: "a" }, logprobs: { content } };
    const trajectories = [0, 1].map((reward) => ({
      messages_and_choices: [{ role: "user" as const, content: "q" }, choice],
      reward,
    }));
    const trajectory_groups = Array.from({ length: 1500 }, () => ({ trajectories }));
    const data = Array.from({ length: 3000 }, () => ({
      messages: [
        { role: "user" as const, content: "q" },
        { role: "assistant" as const, content: "a ".repeat(5000) },
      ],
    }));
    expect(JSON.stringify(trajectory_groups).length).toBeGreaterThan(30e6);
    expect(JSON.stringify(data).length).toBeGreaterThan(30e6);
    const turn = await longestTurn(async () => {
      await engine.models.log(model.id, { split: "val", trajectory_groups });
      const jobs = [
        await engine.trainingJobs.create({ model_id: model.id, trajectory_groups }),
        await engine.sftTrainingJobs.create({ model_id: model.id, data }),
      ];
      for (const { id } of jobs) await engine.trainingJobs.cancel(id);
    });
    expect(turn).toBeLessThan(MAX_TURN);
    await engine.models.delete(model.id);
  });
});

describe.skipIf(!canMeasureTurns)(
  "the event loop turns while hundreds of calls write at once",
  { timeout: 120_000 },
  () => {
    const calls = 200;
    const data = [{ messages: [{ ...messages[0]! }, { role: "assistant" as const, content: "7" }] }];
    const trajectory_groups = [{ trajectories: [0, 1].map((reward) => ({ messages_and_choices: messages, reward })) }];
    let model: Model;
    beforeAll(async () => {
      model = await engine.models.create({ project: "long", name: "writes", base_model: "anneal/tiny" });
      await engine.trainingJobs.create({ model_id: model.id, trajectory_groups });
    });
    afterAll(() => engine.models.delete(model.id));

    it.each<[string, (i: number) => Promise<unknown>]>([
      ["supervised jobs", () => engine.sftTrainingJobs.create({ model_id: model.id, data })],
      ["jobs by reward", () => engine.trainingJobs.create({ model_id: model.id, trajectory_groups })],
      ["logs", () => engine.models.log(model.id, { split: "val", trajectory_groups })],
      ["models", (i) => engine.models.create({ project: "many", name: `m${i}`, base_model: "anneal/tiny" })],
    ])("%s", async (_, call) => {
      const turn = await longestTurn(() => Promise.all(Array.from({ length: calls }, (_, i) => call(i))));
      expect(turn).toBeLessThan(MAX_TURN);
    });

    it("and when all jobs are cancelled", async () => {
      const { data: jobs } = await engine.trainingJobs.list({ model_id: model.id, limit: 100 });
      const turn = await longestTurn(() => Promise.all(jobs.map(({ id }) => engine.trainingJobs.cancel(id))));
      expect(turn).toBeLessThan(MAX_TURN);
    });
  },
);

describe("what an application hands over has the limits of a body", () => {
  it("for a trajectory and for a conversation", { timeout: 60_000 }, async () => {
    const model = await engine.models.create({ project: "long", name: "limits", base_model: "anneal/tiny" });
    const refused = (param: string, msg: RegExp) =>
      expect.objectContaining({ status: 422, param, message: expect.stringMatching(msg) });
    const trajectory = { messages_and_choices: [], reward: 1 };
    const groups = (extra: object) => [{ trajectories: [trajectory, { ...trajectory, ...extra }] }];
    const wide = { logs: Array.from({ length: 17 }, () => "x".repeat(2 ** 20)) };
    const crowded = {
      messages_and_choices: Array.from({ length: 16 }, () => ({
        role: "user" as const,
        content: Array.from({ length: 16_000 }, () => ({ type: "text", text: "", more: [[], [], []] })),
      })),
    };
    const place = "trajectory_groups.0.trajectories.1";
    for (const [extra, why] of [
      [wide, /longer than/],
      [crowded, /holds more than/],
    ] as const) {
      const trajectory_groups = groups(extra);
      await expect(engine.trainingJobs.create({ model_id: model.id, trajectory_groups })).rejects.toEqual(
        refused(place, why),
      );
      await expect(engine.models.log(model.id, { split: "val", trajectory_groups })).rejects.toEqual(
        refused(place, why),
      );
    }
    const message = { role: "assistant" as const, content: "x".repeat(2 ** 20) };
    const conversation = { messages: Array.from({ length: 65 }, () => message) };
    await expect(engine.sftTrainingJobs.create({ model_id: model.id, data: [conversation] })).rejects.toEqual(
      refused("data.0", /longer than/),
    );
    expect((await engine.models.trajectories(model.id)).data).toEqual([]);
  });
});
