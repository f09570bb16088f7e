import { randomUUID } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { loggedGroups } from "../fixtures/loggedGroups.js";
import { Harness } from "./harness.js";

let server: Harness;
beforeAll(async () => {
  server = await Harness.open();
});
afterAll(() => server?.close());

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

describe("POST /v1/preview/models", () => {
  it("creates a model of the caller's entity, with step 0", async () => {
    const { status, body } = await server.call("POST", "/v1/preview/models", {
      project: "p",
      name: "first",
      base_model: "anneal/tiny",
      entity: null,
      return_existing: false,
      unknown: 1,
    });
    expect(status).toBe(200);
    expect(body).toEqual({
      id: expect.stringMatching(uuid),
      entity: "local",
      project: "p",
      name: "first",
      base_model: "anneal/tiny",
      run_id: expect.any(String),
      adapter: {
        rank: 8,
        alpha: 16,
        targets: ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
      },
      optimizer: {
        rl: { beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0.1, max_grad_norm: 0.1 },
        sft: { beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0, max_grad_norm: 1 },
      },
    });
    const list = await server.call("GET", `/v1/preview/models/${body.id}/checkpoints`);
    const folder = join(server.home, "checkpoints", body.id, "0");
    const said = { created_at: expect.stringMatching(/Z$/), bytes: expect.any(Number), path: folder };
    expect(list.body.data).toEqual([{ id: expect.stringMatching(uuid), step: 0, metrics: {}, ...said }]);
    expect(readdirSync(folder)).toEqual(expect.arrayContaining(["adapter_config.json", "adapter_model.safetensors"]));
    expect((await server.call("GET", `/v1/preview/models/${body.id}`)).body).toEqual(body);
  });

  it("answers a name clash by what was asked for", async () => {
    const id = await server.makeModel("taken");
    const body = { project: "test", name: "taken", base_model: "anneal/tiny" };
    const clash = await server.call("POST", "/v1/preview/models", body);
    expect([clash.status, typeof clash.body.detail]).toEqual([409, "string"]);
    const again = await server.call("POST", "/v1/preview/models", { ...body, return_existing: true });
    expect([again.status, again.body.id]).toEqual([200, id]);
    for (const return_existing of [true, false]) {
      const other = { ...body, base_model: "other/base", return_existing };
      expect((await server.call("POST", "/v1/preview/models", other)).status).toBe(409);
    }
    const elsewhere = await server.call("POST", "/v1/preview/models", { ...body, entity: "team", project: "other" });
    expect([elsewhere.status, elsewhere.body.entity]).toEqual([200, "team"]);
  });

  it("makes one model of simultaneous requests for it", async () => {
    const body = { project: "test", name: "race", base_model: "anneal/tiny", return_existing: true };
    const answers = await Promise.all(Array.from({ length: 6 }, () => server.call("POST", "/v1/preview/models", body)));
    expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([200]));
    expect(new Set(answers.map((answer) => answer.body.id)).size).toBe(1);
    expect(existsSync(join(server.home, "temporary")) ? readdirSync(join(server.home, "temporary")) : []).toEqual([]);
  });

  it.each([
    [{ project: "p", name: "x", base_model: "gpt-9" }, "body.base_model"],
    [{ project: "p", name: "..", base_model: "anneal/tiny" }, "body.name"],
    [{ project: "a/b", name: "x", base_model: "anneal/tiny" }, "body.project"],
    [{ project: "p", name: "x".repeat(129), base_model: "anneal/tiny" }, "body.name"],
    [{ project: "p", name: "x" }, "body.base_model"],
    [{ project: null, name: "x", base_model: "anneal/tiny" }, "body.project"],
    [{ project: "p", name: "x", base_model: "anneal/tiny", entity: "é" }, "body.entity"],
    [[], "body"],
  ])("refuses %j", async (body, place) => {
    const answer = await server.call("POST", "/v1/preview/models", body);
    expect(answer.status).toBe(422);
    expect(Object.keys(answer.body)).toEqual(["detail"]);
    for (const { loc, msg, type } of answer.body.detail) {
      expect(loc.every((part) => typeof part === "string")).toBe(true);
      expect([typeof msg, typeof type]).toEqual(["string", "string"]);
    }
    expect(answer.body.detail.map((issue) => issue.loc.join("."))).toEqual([place]);
  });
});

describe("DELETE /v1/preview/models/{id}", () => {
  it("removes the model and says what went", async () => {
    const id = await server.makeModel("gone");
    const answer = await server.call("DELETE", `/v1/preview/models/${id}`);
    expect(answer).toMatchObject({
      status: 200,
      body: { model_id: id, deleted_checkpoints: 1, deleted_run: true },
    });
    expect(existsSync(join(server.home, "checkpoints", id))).toBe(false);
    const again = await server.call("DELETE", `/v1/preview/models/${id}`);
    expect(again).toMatchObject({ status: 404, body: { detail: expect.stringContaining(id) } });
    expect((await server.call("GET", `/v1/preview/models/${id}/checkpoints`)).status).toBe(404);
    expect(await server.makeModel("gone")).not.toBe(id);
  });

  it("refuses what is no id", async () => {
    const answer = await server.call("DELETE", "/v1/preview/models/mine");
    expect(answer).toMatchObject({ status: 422, body: { detail: [{ loc: ["path", "model_id"] }] } });
  });
});

describe("checkpoints", () => {
  async function withSteps(name: string, count: number): Promise<string> {
    const id = await server.makeModel(name);
    const { store } = server.engine.core;
    for (let step = 1; step < count; step++) store.checkpoints.create({ modelId: id, step });
    return id;
  }

  it("are paged by cursor in either order", async () => {
    const id = await withSteps("paged", 5);
    const path = `/v1/preview/models/${id}/checkpoints`;
    const steps = (body: { data: { step: number }[] }) => body.data.map(({ step }) => step);
    const first = await server.call("GET", `${path}?limit=2`);
    expect(Object.keys(first.body).sort()).toEqual(["data", "first_id", "has_more", "last_id", "object"]);
    expect(first.body).toMatchObject({ object: "list", has_more: true });
    expect(steps(first.body)).toEqual([0, 1]);
    expect([first.body.first_id, first.body.last_id]).toEqual(first.body.data.map(({ id }) => id));
    const rest = await server.call("GET", `${path}?limit=100&after=${first.body.last_id}`);
    expect([steps(rest.body), rest.body.has_more]).toEqual([[2, 3, 4], false]);
    const end = await server.call("GET", `${path}?after=${rest.body.last_id}`);
    expect(end.body).toEqual({ object: "list", data: [], has_more: false, first_id: "", last_id: "" });
    expect(steps((await server.call("GET", `${path}?limit=1&order=desc`)).body)).toEqual([4]);
    expect(steps((await server.call("GET", `${path}?order=desc&after=${first.body.last_id}`)).body)).toEqual([0]);
  });

  it.each([
    ["limit=0", "query.limit"],
    ["limit=101", "query.limit"],
    ["limit=x", "query.limit"],
    ["limit=1.5", "query.limit"],
    ["order=up", "query.order"],
    ["after=x", "query.after"],
  ])("refuse ?%s", async (query, place) => {
    const id = await server.makeModel(`refuse-${query.replace("=", "-")}`);
    const answer = await server.call("GET", `/v1/preview/models/${id}/checkpoints?${query}`);
    expect(answer.status).toBe(422);
    expect(answer.body.detail.map((issue) => issue.loc.join("."))).toEqual([place]);
  });

  it("answer 404 for a cursor that is no checkpoint of the model", async () => {
    const id = await server.makeModel("cursor");
    const answer = await server.call("GET", `/v1/preview/models/${id}/checkpoints?after=${randomUUID()}`);
    expect(answer).toMatchObject({ status: 404, body: { detail: expect.any(String) } });
  });

  it("are deleted by step, the latest never, and again without harm", async () => {
    const id = await withSteps("thinned", 4);
    const path = `/v1/preview/models/${id}/checkpoints`;
    const refused = await server.call("DELETE", path, { steps: [0, 3] });
    expect(refused).toMatchObject({ status: 422, body: { detail: [{ loc: ["body", "steps", "1"] }] } });
    expect((await server.call("GET", path)).body.data).toHaveLength(4);
    const done = await server.call("DELETE", path, { steps: [0, 2, 2, 9] });
    expect(done).toMatchObject({ status: 200, body: { deleted_count: 2, not_found_steps: [9] } });
    const again = await server.call("DELETE", path, { steps: [0, 2, 9] });
    expect(again.body).toEqual({ deleted_count: 0, not_found_steps: [0, 2, 9] });
    expect(existsSync(join(server.home, "checkpoints", id, "0"))).toBe(false);
    expect((await server.call("DELETE", path)).status).toBe(422);
    expect((await server.call("DELETE", path, { steps: [1.5] })).status).toBe(422);
    expect((await server.call("DELETE", path, { steps: [] })).body).toEqual({ deleted_count: 0, not_found_steps: [] });
  });
});

describe("POST /v1/preview/models/{id}/log", () => {
  const trajectory = (reward: number) => ({
    messages_and_choices: [
      { role: "user", content: "2+2?" },
      { index: 0, finish_reason: "stop", message: { role: "assistant", content: "4" }, extra: 1 },
    ],
    reward,
    metrics: { correct: reward > 0 },
    start_time: "2026-01-01T00:00:00Z",
  });

  it("attaches metrics to the latest checkpoint, the last value of a name winning", async () => {
    const id = await server.makeModel("logged");
    const log = (rewards: number[]) =>
      server.call("POST", `/v1/preview/models/${id}/log`, {
        model_id: id,
        split: "val",
        trajectory_groups: [
          {
            trajectories: rewards.map(trajectory),
            exceptions: [{ type: "<class 'ValueError'>", message: "x", traceback: "y" }],
          },
        ],
      });
    expect((await log([1, 0])).status).toBe(200);
    const { status, body } = await log([1, 0, 1, 1]);
    // Mean reward, population deviation sqrt(3)/4, one exception beside four trajectories.
    expect(status).toBe(200);
    expect(body.step).toBe(0);
    const { data } = (await server.call("GET", `/v1/preview/models/${id}/checkpoints`)).body;
    expect(data[0]!.metrics["val/reward"]).toBeCloseTo(0.75, 12);
    expect(data[0]!.metrics["val/reward_std_dev"]).toBeCloseTo(Math.sqrt(3) / 4, 12);
    expect(data[0]!.metrics["val/exception_rate"]).toBeCloseTo(0.2, 12);
    expect(data[0]!.metrics["val/correct"]).toBeCloseTo(0.75, 12);
    expect(loggedGroups(server.engine.core.store, id, { split: "val" })).toHaveLength(2);
  });

  it("refuses a missing reward and a missing split", async () => {
    const id = await server.makeModel("unlogged");
    const groups = [{ trajectories: [{ ...trajectory(1), reward: null }] }];
    const answer = await server.call("POST", `/v1/preview/models/${id}/log`, { trajectory_groups: groups });
    expect(answer.status).toBe(422);
    expect(answer.body.detail.map((issue) => issue.loc.join(".")).sort()).toEqual([
      "body.split",
      "body.trajectory_groups.0.trajectories.0.reward",
    ]);
  });
});

describe("training jobs", () => {
  it("refuses a job of a model that is not there, and settings that cannot be", async () => {
    const body = { model_id: randomUUID(), trajectory_groups: [] };
    expect((await server.call("POST", "/v1/preview/training-jobs", body)).status).toBe(404);
    const model_id = await server.makeModel("jobless");
    const wrong = [
      { model_id },
      { model_id, trajectory_groups: [], experimental_config: { learning_rate: "fast" } },
      { model_id, trajectory_groups: [], experimental_config: { advantage_balance: 1.5 } },
      { model_id, trajectory_groups: [], experimental_config: { importance_sampling_level: "word" } },
      { model_id, trajectory_groups: [{ trajectories: [{ reward: "high" }] }] },
    ];
    for (const job of wrong) expect((await server.call("POST", "/v1/preview/training-jobs", job)).status).toBe(422);
  });

  it("runs a job with nothing to train on to a new checkpoint", async () => {
    const model_id = await server.makeModel("idle");
    const created = await server.call("POST", "/v1/preview/training-jobs", {
      model_id,
      trajectory_groups: [],
      experimental_config: { learning_rate: null, variant_k2_tau: null },
    });
    expect(created).toMatchObject({ status: 200, body: { id: expect.stringMatching(uuid) } });
    const { id } = created.body;
    await server.engine.trainingJobs.wait(id);
    await vi.waitFor(async () => {
      const metrics = await (await server.request("GET", "/metrics")).text();
      expect(metrics).toMatch(/^anneal:training_jobs_ended_total\{status="succeeded"\} [1-9]/m);
    });
    const job = await server.call("GET", `/v1/preview/training-jobs/${id}`);
    expect(job.body).toEqual({
      id,
      status: "succeeded",
      model_id,
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      started_at: expect.any(String),
      ended_at: expect.any(String),
      step: 1,
      error: null,
      waits_for: null,
    });
    const events = await server.call("GET", `/v1/preview/training-jobs/${id}/events`);
    expect(events.body).toMatchObject({ object: "list", has_more: false });
    expect(events.body.data.map((event) => event.type)).toEqual(["training_started", "training_ended"]);
    expect(events.body.data[0]!.data.num_sequences).toBe(0);
    const one = await server.call("GET", `/v1/preview/training-jobs/${id}/events?limit=1`);
    expect([one.body.has_more, one.body.last_id]).toEqual([true, events.body.first_id]);
    const two = await server.call("GET", `/v1/preview/training-jobs/${id}/events?after=${one.body.last_id}`);
    expect(two.body.data).toEqual(events.body.data.slice(1));
    const latest = await server.call("GET", `/v1/preview/models/${model_id}/checkpoints?limit=1&order=desc`);
    expect(latest.body.data[0]!.step).toBe(1);
  });

  it("answers 404 and 422 for jobs and cursors that are not there", async () => {
    expect((await server.call("GET", `/v1/preview/training-jobs/${randomUUID()}`)).status).toBe(404);
    expect((await server.call("GET", `/v1/preview/training-jobs/${randomUUID()}/events`)).status).toBe(404);
    expect((await server.call("GET", "/v1/preview/training-jobs/1")).status).toBe(422);
    const model_id = await server.makeModel("cursors");
    const { body } = await server.call("POST", "/v1/preview/training-jobs", { model_id, trajectory_groups: [] });
    const events = `/v1/preview/training-jobs/${body.id}/events`;
    expect((await server.call("GET", `${events}?after=${randomUUID()}`)).status).toBe(404);
    expect((await server.call("GET", `${events}?after=abc`)).status).toBe(422);
    expect((await server.call("GET", `${events}?limit=500`)).status).toBe(422);
  });
});

describe("artifacts and supervised jobs", () => {
  const example = {
    messages: [
      { role: "user", content: "2+2?" },
      { role: "assistant", content: "4" },
    ],
  };

  it("takes data in and trains on it", async () => {
    const model_id = await server.makeModel("supervised");
    const path = "/v1/preview/artifacts/local/test/data";
    const lines = `${JSON.stringify(example)}\n`.repeat(3);
    const octets = { "content-type": "application/octet-stream" };
    const put = await server.call("PUT", `${path}/trajectories.jsonl`, lines, octets);
    expect(put).toMatchObject({ status: 200, body: { bytes: lines.length } });
    await server.call("PUT", `${path}/metadata.json`, "{}", octets);
    const committed = await server.call("POST", path);
    expect(committed.body).toEqual({ url: "wandb-artifact:///local/test/data:v0" });
    const job = await server.call("POST", "/v1/preview/sft-training-jobs", {
      model_id,
      training_data_url: committed.body.url,
      config: { batch_size: 2, learning_rate: 1e-4 },
    });
    expect(job.status).toBe(200);
    expect((await server.engine.trainingJobs.wait(job.body.id)).step).toBe(1);
    const types = (await server.call("GET", `/v1/preview/training-jobs/${job.body.id}/events`)).body.data.map(
      (event) => event.type,
    );
    expect(types).toEqual(["training_started", "gradient_step", "gradient_step", "training_ended"]);
  });

  it("refuses names outside the rules and versions without files", async () => {
    expect((await server.call("PUT", "/v1/preview/artifacts/local/test/data/..%2Fx", "x")).status).toBe(422);
    expect((await server.call("PUT", "/v1/preview/artifacts/local/te%20st/data/x", "x")).status).toBe(422);
    // Files on their way in are called so.
    const part = await server.call("PUT", "/v1/preview/artifacts/local/test/data/x.part", "x");
    expect([part.status, part.body.detail[0]!.loc.at(-1)]).toEqual([422, "file"]);
    expect((await server.call("POST", "/v1/preview/artifacts/local/test/nothing")).status).toBe(422);
  });

  it.each([
    "wandb-artifact:///local/test/none:v0",
    "wandb-artifact:///local/test",
    "/etc/passwd",
    "file:///etc/passwd",
    "https://example.com/train.jsonl",
    "relative/path",
  ])("refuses the data %s, naming the field", async (training_data_url) => {
    const model_id = await server.makeModel(`refused-${randomUUID()}`);
    const answer = await server.call("POST", "/v1/preview/sft-training-jobs", { model_id, training_data_url });
    expect(answer).toMatchObject({ status: 422, body: { detail: [{ loc: ["body", "training_data_url"] }] } });
  });
});

it("GET /v1/preview/base-models lists ids", async () => {
  expect((await server.call("GET", "/v1/preview/base-models")).body).toEqual(["anneal/tiny"]);
});
