import { randomUUID } from "node:crypto";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { Engine } from "../../src/anneal.js";
import { NotFoundError, TrainingFailedError, ValidationError } from "../../src/errors.js";
import { createServer } from "../../src/server/createServer.js";
import { type Listening, listen } from "../../src/server/listen.js";
import type { ArtifactCreateParams } from "../../src/types/artifacts.js";
import type { ChatCompletionCreateParamsNonStreaming } from "../../src/types/chat.js";
import type { AnnealClient } from "../../src/types/client.js";
import type { ExperimentalConfig } from "../../src/types/training.js";
import type { TrajectoryGroup } from "../../src/types/trajectories.js";

let engine: Engine;
let listening: Listening;
let connected: AnnealClient;
beforeAll(async () => {
  engine = await Engine.open({});
  listening = await listen(createServer(engine), { host: "127.0.0.1", port: 0 });
  connected = await Engine.connect(listening.address, { apiKey: engine.apiKey });
});
afterAll(async () => {
  await connected?.close();
  await listening?.close(0);
  await engine?.close();
});

const messages = [{ role: "user", content: "Spell it." }];

/** What applications see is the same in this process and over HTTP. */
describe.each(["in process", "connected"] as const)("%s", (kind) => {
  const client = (): AnnealClient => (kind === "connected" ? connected : engine);
  const create = (name: string) =>
    client().models.create({ project: kind.replace(" ", "-"), name, base_model: "anneal/tiny" });

  /** Two rollouts with opposite rewards. */
  async function rollouts(model: string): Promise<TrajectoryGroup> {
    const reply = await client().chat.completions.create({ model, messages, n: 2, max_tokens: 6, seed: 3 });
    return {
      trajectories: reply.choices.map((choice, i) => ({
        messages_and_choices: [
          { role: "user", content: "Spell it." },
          { ...choice, prompt_token_ids: reply.prompt_token_ids },
        ],
        reward: i,
      })),
    };
  }

  it("trains: rollouts, a job, its events as they come, the new step", async () => {
    const model = await create("trained");
    const name = `${model.entity}/${model.project}/${model.name}`;
    const groups = [await rollouts(name), await rollouts(name)];
    const { id } = await client().trainingJobs.create({
      model_id: model.id,
      trajectory_groups: groups,
      experimental_config: { learning_rate: 1e-4 },
    });
    const seen: string[] = [];
    for await (const event of client().trainingJobs.events(id)) {
      seen.push(event.type);
      if (event.type === "training_ended") {
        // Whoever sees the end sees the checkpoint and can use it.
        const page = await client().checkpoints.list(model.id, { limit: 1, order: "desc" });
        expect(page.data[0]?.step).toBe(1);
        const reply = await client().chat.completions.create({ model: `${name}:step1`, messages, max_tokens: 2 });
        expect(reply.model).toBe(`wandb-artifact:///${name}:step1`);
      }
    }
    expect(seen).toEqual(["training_started", "gradient_step", "gradient_step", "training_ended"]);
    expect(await client().trainingJobs.wait(id)).toMatchObject({ id, status: "succeeded", step: 1 });
    const page = await client().trainingJobs.events(id, { limit: 2 });
    expect([page.data.length, page.has_more]).toEqual([2, true]);
    const all: string[] = [];
    for await (const event of page) all.push(event.type);
    expect(all).toEqual(seen);
    const rest: string[] = [];
    for await (const event of client().trainingJobs.events(id, { after: page.last_id })) rest.push(event.type);
    expect(rest).toEqual(seen.slice(2));
    const { metrics } = (await client().checkpoints.list(model.id)).data[0]!;
    expect(metrics["train/reward"]).toBeCloseTo(0.5, 12);
  });

  it("finds a model of the caller's entity by project and name, after a base model of that id", async () => {
    const { entity, project, name } = await create("named");
    const asked = async (model: string) =>
      (await client().chat.completions.create({ model, messages, max_tokens: 1 })).model;
    const full = `wandb-artifact:///${entity}/${project}/${name}:step0`;
    expect(await asked(`${project}/${name}`)).toBe(full);
    expect(await asked(`${project}/${name}:step0`)).toBe(full);
    await expect(asked(`${project}/${name}:step7`)).rejects.toThrow("has no step 7");
    await expect(asked(`${project}/nobody`)).rejects.toBeInstanceOf(NotFoundError);
    const namesake = await client().models.create({ project: "anneal", name: "tiny", base_model: "anneal/tiny" });
    expect(await asked("anneal/tiny")).toBe("anneal/tiny");
    await client().models.delete(namesake.id);
  });

  it("iterates over lists of several pages", async () => {
    const model = await create("many");
    for (let step = 1; step < 7; step++) engine.core.store.checkpoints.create({ modelId: model.id, step });
    const steps: number[] = [];
    for await (const checkpoint of client().checkpoints.list(model.id, { limit: 2 })) steps.push(checkpoint.step);
    expect(steps).toEqual([0, 1, 2, 3, 4, 5, 6]);
    const page = await client().checkpoints.list(model.id, { limit: 3, order: "desc" });
    expect(JSON.parse(JSON.stringify(page))).toEqual({
      object: "list",
      data: page.data,
      has_more: true,
      first_id: page.data[0]!.id,
      last_id: page.data[2]!.id,
    });
    expect(await client().checkpoints.delete(model.id, { steps: [1, 2, 99] })).toEqual({
      deleted_count: 2,
      not_found_steps: [99],
    });
  });

  it("fails with typed errors", async () => {
    await expect(client().models.retrieve(randomUUID())).rejects.toBeInstanceOf(NotFoundError);
    await expect(
      client().models.create({ project: "p", name: "a b", base_model: "anneal/tiny" }),
    ).rejects.toMatchObject({
      name: "ValidationError",
      status: 422,
      param: "name",
      issues: [{ loc: ["body", "name"] }],
    });
    const unknown = client().chat.completions.create({ model: "none", messages });
    await expect(unknown).rejects.toMatchObject({ name: "NotFoundError", code: "model_not_found", param: "model" });
    await create("clash");
    const hint = "choose another name, or ask for it with return_existing";
    const clash = { name: "ConflictError", status: 409, code: "model_exists", param: "name", hint };
    await expect(create("clash")).rejects.toMatchObject({
      ...clash,
      message: expect.stringMatching(/exists already$/),
    });
    const first = client().chat.completions.create({ messages, priority: 1 });
    const byPriority = { status: 422, param: "priority", hint: expect.stringContaining("scheduler") };
    await expect(first).rejects.toMatchObject(byPriority);
  });

  it.each(["..", "", 5, null, {}, new Map(), "\ud800"])("finds nothing by the id %j, and says which", async (given) => {
    const id = given as string;
    const [checked, kept] = [{ status: 422 }, { status: expect.toBeOneOf([404, 422]) }];
    for (const name of ["retrieve", "delete"] as const) {
      await expect(client().models[name](id)).rejects.toMatchObject({ ...checked, param: "path.model_id" });
    }
    const job = { ...checked, param: "path.training_job_id" };
    await expect(client().trainingJobs.cancel(id)).rejects.toMatchObject(job);
    await expect(client().trainingJobs.events(id)).rejects.toMatchObject(job);
    await expect(client().keys.revoke(id)).rejects.toMatchObject({ ...checked, param: "path.key_id" });
    const response = { ...kept, param: expect.stringMatching(/response_id$/) };
    await expect(client().responses.retrieve(id)).rejects.toMatchObject(response);
    await expect(client().responses.inputItems.list(id)).rejects.toMatchObject(response);
    await expect(client().baseModels.delete(id)).rejects.toMatchObject({
      ...kept,
      param: expect.stringMatching(/base_model$/),
    });
  });

  it("takes no number for the default that is none", async () => {
    for (const temperature of [Number.NaN, Number.POSITIVE_INFINITY]) {
      const hot = client().chat.completions.create({ messages, temperature });
      await expect(hot).rejects.toMatchObject({ name: "ValidationError", status: 422, param: "temperature" });
    }
    const { id } = await create("finite");
    const config = { learning_rate: Number.NaN };
    const job = { model_id: id, training_data_url: "file:///nothing", config };
    const refused = { name: "ValidationError", status: 422, param: "config.learning_rate" };
    await expect(client().sftTrainingJobs.create(job)).rejects.toMatchObject(refused);
  });

  it.each([
    ["a Map", { logit_bias: new Map([[5, 1]]) }, "logit_bias"],
    ["a function", { temperature: () => 1 }, "temperature"],
    ["a symbol in an object", { logit_bias: { 5: Symbol("x") } }, "logit_bias.5"],
    ["typed numbers", { stop_token_ids: new Uint32Array([1]) }, "stop_token_ids"],
    ["a Map deep within", { messages: [{ role: "user", content: new Map() }] }, "messages.0.content"],
  ])("refuses %s, which JSON would lose, by its field", async (_, field, param) => {
    const params = { messages, ...field } as unknown as ChatCompletionCreateParamsNonStreaming;
    const refused = { name: "ValidationError", status: 422, code: "invalid_request", param };
    await expect(client().chat.completions.create(params)).rejects.toMatchObject(refused);
  });

  it("takes no seed that may have been rounded", async () => {
    const seeded = (seed: number | bigint) => client().chat.completions.create({ messages, max_tokens: 1, seed });
    await expect(seeded(2 ** 60)).rejects.toMatchObject({ name: "ValidationError", status: 422, param: "seed" });
    expect((await seeded(2n ** 60n)).choices).toHaveLength(1);
  });

  it("takes what goes in circles for a wrong body", async () => {
    const circle: Record<string, unknown> = {};
    circle.again = circle;
    const params = { messages, logit_bias: circle } as unknown as ChatCompletionCreateParamsNonStreaming;
    await expect(client().chat.completions.create(params)).rejects.toMatchObject({ status: 422 });
    const text = "{}" as unknown as ChatCompletionCreateParamsNonStreaming;
    const refused = { name: "ValidationError", code: "invalid_request", param: null };
    await expect(client().chat.completions.create(text)).rejects.toMatchObject(refused);
  });

  it("stops when the signal says so", async () => {
    const reason = new Error("enough");
    const signal = AbortSignal.abort(reason);
    await expect(client().chat.completions.create({ messages }, { signal })).rejects.toBe(reason);
    const { id } = await create("stopped");
    const job = await client().trainingJobs.create({ model_id: id, trajectory_groups: [] });
    await expect(client().trainingJobs.events(job.id, {}, { signal })).rejects.toBe(reason);
    const waiting = new AbortController();
    const cancelled = client().trainingJobs.cancel(job.id, { signal: waiting.signal });
    waiting.abort(reason);
    await expect(cancelled).rejects.toBe(reason);
    const abort = new AbortController();
    const stream = await client().chat.completions.create(
      { messages, ignore_eos: true, stream: true },
      { signal: abort.signal },
    );
    await expect(
      (async () => {
        for await (const _ of stream) abort.abort(reason);
      })(),
    ).rejects.toBe(reason);
  });

  it("breaking out of a stream ends the request", async () => {
    const stream = await client().chat.completions.create({ messages, ignore_eos: true, stream: true });
    for await (const _ of stream) break;
    const { loop } = engine.core.defaultBase;
    for (let i = 0; i < 200 && loop.stats().running > 0; i++) await new Promise((resolve) => setTimeout(resolve, 20));
    expect(loop.stats().running).toBe(0);
  });

  it("cancels a job: one terminal event, no checkpoint, and waiting for it rejects", async () => {
    const model = await create("cancelled");
    const name = `${model.entity}/${model.project}/${model.name}`;
    const group = await rollouts(name);
    const job = (count: number) =>
      client().trainingJobs.create({ model_id: model.id, trajectory_groups: Array(count).fill(group) });
    const running = await job(500);
    const queued = await job(1);
    const waiting = client()
      .trainingJobs.wait(running.id)
      .catch((error: unknown) => error);
    expect(await client().trainingJobs.cancel(queued.id)).toMatchObject({ status: "cancelled", error: "cancelled" });
    expect(await client().trainingJobs.cancel(running.id)).toMatchObject({ status: "cancelled", step: null });
    const error = await waiting;
    expect(error).toBeInstanceOf(TrainingFailedError);
    expect(error).toMatchObject({ code: "training_cancelled", jobId: running.id });
    for (const { id } of [running, queued]) {
      const types: string[] = [];
      for await (const event of client().trainingJobs.events(id)) types.push(event.type);
      expect(types.filter((type) => type === "training_failed")).toHaveLength(1);
      expect(types).not.toContain("training_ended");
    }
    expect((await client().checkpoints.list(model.id)).data).toHaveLength(1);
  });

  it("measures a job against a checkpoint that is deleted while it waits", async () => {
    const model = await create("measured");
    const name = `${model.entity}/${model.project}/${model.name}`;
    const groups = [await rollouts(name), await rollouts(name)];
    const train = async (config: ExperimentalConfig) => {
      const params = { model_id: model.id, trajectory_groups: groups, experimental_config: config };
      return (await client().trainingJobs.create(params)).id;
    };
    for (let step = 1; step <= 2; step++) await client().trainingJobs.wait(await train({ learning_rate: 1e-3 }));
    const before = await train({});
    const measured = await train({ kl_penalty_coef: 0.1, kl_penalty_reference_step: 1 });
    expect(await client().checkpoints.delete(model.id, { steps: [1] })).toEqual({
      deleted_count: 1,
      not_found_steps: [],
    });
    for (const id of [before, measured]) await client().trainingJobs.wait(id);
    const events = await client().trainingJobs.events(measured);
    expect(events.data[1]!.data).toHaveProperty(["loss/kl_policy_ref"]);
    await expect(train({ kl_penalty_coef: 0.1, kl_penalty_reference_step: 1 })).rejects.toThrow(
      "no checkpoint at step 1",
    );
  });

  it.each(["rollback", "export"] as const)("finds no step that is deleted as %s reads it", async (verb) => {
    const { id } = await create(`read-for-${verb}`);
    for (let step = 1; step <= 2; step++) {
      const job = await client().trainingJobs.create({ model_id: id, trajectory_groups: [] });
      await client().trainingJobs.wait(job.id);
    }
    const { checkpoints, files } = engine.core.store;
    const folder = files.checkpointFolder(id, 1);
    const located = vi.spyOn(files, "checkpointFolder").mockImplementation(() => {
      checkpoints.delete(id, [1]);
      rmSync(folder, { recursive: true, force: true });
      return folder;
    });
    const path = join(tmpdir(), `export-${id}`);
    const reading = verb === "export" ? client().models.export(id, { path, step: 1 }) : client().models.rollback(id, 1);
    await expect(reading).rejects.toMatchObject({ code: "step_not_found", status: 404, param: "step" });
    located.mockRestore();
  });

  it("deletes a model in the middle of its jobs", async () => {
    const model = await create("doomed");
    const group = await rollouts(`${model.entity}/${model.project}/${model.name}`);
    const { id } = await client().trainingJobs.create({
      model_id: model.id,
      trajectory_groups: Array(500).fill(group),
    });
    expect(await client().models.delete(model.id)).toMatchObject({ deleted_checkpoints: 1 });
    expect(await client().trainingJobs.retrieve(id)).toMatchObject({ status: "cancelled" });
    const events = await client().trainingJobs.events(id, { limit: 100 });
    expect(events.data.at(-1)).toMatchObject({ type: "training_failed", data: { error_message: "cancelled" } });
    expect(events.has_more).toBe(false);
  });

  it("keeps data, logs trajectories and manages keys", async () => {
    const model = await create("data");
    const line = JSON.stringify({ messages: [...messages, { role: "assistant", content: "ti" }] });
    const { url } = await client().artifacts.create({
      project: "p",
      name: `set-${kind[0]}`,
      files: { "train.jsonl": line },
    });
    expect(url).toBe(`wandb-artifact:///local/p/set-${kind[0]}:v0`);
    for (const [field, files] of [
      [{}, { "a.jsonl": line, "no/name": line }],
      [{}, {}],
      [{}, { "a.jsonl": 5 }],
      [{ name: null }, { "a.jsonl": line }],
    ]) {
      const params = { project: "p", name: "refused", files, ...field } as unknown as ArtifactCreateParams;
      const param = field?.name === null ? "name" : expect.stringMatching(/^files/);
      await expect(client().artifacts.create(params)).rejects.toMatchObject({ name: "ValidationError", param });
    }
    const { id } = await client().sftTrainingJobs.create({ model_id: model.id, training_data_url: url });
    expect((await client().trainingJobs.wait(id)).step).toBe(1);
    const logged = await client().models.log(model.id, {
      split: "val",
      trajectory_groups: [
        {
          trajectories: [
            { messages_and_choices: [], reward: 2, metrics: { right: true, speed: Number.NaN, steps: null } },
            { messages_and_choices: [], reward: 2, metrics: { right: null, speed: 3, steps: Number.NaN } },
          ],
        },
      ],
    });
    expect(logged.metrics).toMatchObject({ "val/reward": 2, "val/right": 1, "val/speed": 3 });
    expect(logged).toMatchObject({ step: 1, metrics: expect.not.objectContaining({ "val/steps": expect.anything() }) });
    const history = [];
    for await (const row of client().models.metrics(model.id, { limit: 1 })) history.push(row);
    expect(history.map(({ step }) => step)).toEqual([1, 1]);
    expect(history[0]!.metrics).toHaveProperty("loss/train");
    expect(history[1]!.metrics).toEqual(logged.metrics);
    await expect(client().models.metrics(model.id, { after: "group-1" })).rejects.toMatchObject({ status: 422 });
    const key = await client().keys.create({ entity: "other", name: "theirs" });
    expect((await client().keys.list()).map((entry) => entry.id)).toContain(key.id);
    await client().keys.revoke(key.id);
    expect((await client().keys.list()).find((entry) => entry.id === key.id)?.revoked_at).not.toBeNull();
  });

  it("imports an adapter as step 0", async () => {
    const trained = await create("source");
    const group = await rollouts(`${trained.entity}/${trained.project}/${trained.name}`);
    const { id } = await client().trainingJobs.create({
      model_id: trained.id,
      trajectory_groups: [group],
      experimental_config: { learning_rate: 1e-2 },
    });
    await client().trainingJobs.wait(id);
    const folder = mkdtempSync(join(tmpdir(), "adapter-"));
    cpSync(engine.core.store.files.checkpointFolder(trained.id, 1), folder, { recursive: true });
    const imported = await client().models.import({
      project: "imported",
      name: kind.replace(" ", "-"),
      base_model: "anneal/tiny",
      path: folder,
    });
    rmSync(folder, { recursive: true });
    const logprobs = async (model: string) => {
      const reply = await client().chat.completions.create({ model, messages, max_tokens: 5, temperature: 0 });
      return reply.choices[0]!.logprobs!.content.map(({ logprob }) => logprob);
    };
    const step1 = await logprobs(`${trained.entity}/${trained.project}/${trained.name}:step1`);
    expect(await logprobs(`${imported.entity}/${imported.project}/${imported.name}@0`.replace("@0", ":step0"))).toEqual(
      step1,
    );
    expect(await logprobs(`${trained.entity}/${trained.project}/${trained.name}:step0`)).not.toEqual(step1);
  });

  it("tells of itself, and fetches", async () => {
    expect(await client().health()).toEqual({ status: "ok" });
    expect((await client().systemCheck()).database.success).toBe(true);
    expect(await client().baseModels.list()).toEqual(["anneal/tiny"]);
    const response = await client().fetch("http://engine/v1/health", {
      headers: { authorization: `Bearer ${client().apiKey}` },
    });
    expect(await response.json()).toEqual({ status: "ok" });
  });
});

it("in process, unknown parameters are errors that name them", async () => {
  const failure = engine.models.create({ project: "p", name: "n", base_model: "anneal/tiny", colour: 1 } as never);
  await expect(failure).rejects.toBeInstanceOf(ValidationError);
  await expect(failure).rejects.toThrow(/colour/);
  await expect(engine.chat.completions.create({ messages, heat: 1 } as never)).rejects.toThrow(/heat/);
  await expect(connected.chat.completions.create({ messages, max_tokens: 1, heat: 1 } as never)).resolves.toBeDefined();
});

it("step 0 answers as the base does, bit by bit", async () => {
  await engine.models.create({ project: "p", name: "fresh", base_model: "anneal/tiny" });
  const ask = async (model: string) => {
    const reply = await engine.chat.completions.create({ model, messages, max_tokens: 8, seed: 1, logprobs: true });
    return reply.choices[0]!.logprobs!.content.map(({ logprob }) => logprob);
  };
  expect(await ask("fresh@0")).toEqual(await ask("anneal/tiny"));
});

it("a checkpoint of other weights is neither served nor imported, and says which", async () => {
  const { id, name } = await engine.models.create({ project: "p", name: "changed", base_model: "anneal/tiny" });
  const folder = engine.core.store.files.checkpointFolder(id, 0);
  const meta = JSON.parse(readFileSync(join(folder, "meta.json"), "utf8"));
  writeFileSync(join(folder, "meta.json"), JSON.stringify({ ...meta, base_hash: "0".repeat(64) }));
  const refusal = { status: 422, code: "base_model_changed", message: expect.stringContaining('"anneal/tiny"') };
  await expect(engine.chat.completions.create({ model: name, messages, max_tokens: 1 })).rejects.toMatchObject(refusal);
  const again = engine.models.import({ project: "p", name: "again", base_model: "anneal/tiny", path: folder });
  await expect(again).rejects.toMatchObject(refusal);
  expect((await engine.models.list()).data.map((entry) => entry.id)).not.toContain("wandb-artifact:///local/p/again");
});

it("a checkpoint that has lost what it belongs to is not served; its adapter can be imported", async () => {
  const { id, name } = await engine.models.create({ project: "p", name: "lost", base_model: "anneal/tiny" });
  const folder = engine.core.store.files.checkpointFolder(id, 0);
  const meta = join(folder, "meta.json");
  const ask = () => engine.chat.completions.create({ model: name, messages, max_tokens: 1 });
  rmSync(meta);
  const refusal = { status: 422, code: "unusable_model_file", param: meta };
  await expect(ask()).rejects.toMatchObject({ ...refusal, message: expect.stringContaining("damaged") });
  await expect(engine.training.open(id)).rejects.toMatchObject(refusal);
  writeFileSync(meta, "{}");
  await expect(ask()).rejects.toMatchObject(refusal);
  await engine.models.import({ project: "p", name: "found", base_model: "anneal/tiny", path: folder });
  await engine.chat.completions.create({ model: "found", messages, max_tokens: 1 });
});

it("an adapter that does not fit is refused by file and tensor", async () => {
  const { id } = await engine.models.create({ project: "p", name: "whole", base_model: "anneal/tiny" });
  const folder = mkdtempSync(join(tmpdir(), "misfit-"));
  cpSync(engine.core.store.files.checkpointFolder(id, 0), folder, { recursive: true });
  const file = join(folder, "adapter_config.json");
  const config = JSON.parse(readFileSync(file, "utf8"));
  writeFileSync(file, JSON.stringify({ ...config, target_modules: ["q_proj"] }));
  const misfit = engine.models.import({ project: "p", name: "misfit", base_model: "anneal/tiny", path: folder });
  await expect(misfit).rejects.toMatchObject({
    status: 422,
    code: "unusable_model_file",
    message: expect.stringContaining(join(folder, "adapter_model.safetensors")),
    param: expect.stringMatching(/_proj\.lora_[AB]\.weight$/),
  });
  rmSync(folder, { recursive: true });
});

it("nobody is at the address", async () => {
  const lost = await Engine.connect("http://127.0.0.1:9", { apiKey: "x" });
  await expect(lost.models.create({ project: "p", name: "n", base_model: "b" })).rejects.toMatchObject({
    code: "unreachable",
  });
});
