// Publishing to, and rollouts from, a server with vLLM's adapter routes: another engine behind a port. Beside vLLM itself:
// test/external.

import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Engine, gather, type Model, type RolloutContext, type StepReport, train } from "../../src/index.js";

const folder = mkdtempSync(join(tmpdir(), "anneal-publish-"));
let engine: Engine;
let other: Engine;
let server: Server;
let url: string;
/** What the server was asked to load, in order. */
const loaded: { lora_name: string; lora_path: string; load_inplace: boolean }[] = [];
/** The other engine's model behind each name. */
const served = new Map<string, string>();
let imported = 0;
let key: string | null = null;
let answers: (path: string) => { status: number; body: string } | null = () => null;

async function answer(path: string, body: Record<string, unknown>): Promise<{ status: number; body: string }> {
  if (path === "/v1/models") {
    const data = [{ id: "base" }, ...[...served.keys()].map((id) => ({ id }))];
    return { status: 200, body: JSON.stringify({ object: "list", data }) };
  }
  if (path === "/v1/load_lora_adapter") {
    const request = body as unknown as (typeof loaded)[number];
    loaded.push(request);
    const made = await other.models.import({
      project: "served",
      name: `a${++imported}`,
      base_model: "anneal/tiny",
      path: request.lora_path,
    });
    served.set(request.lora_name, `${made.entity}/${made.project}/${made.name}`);
    return { status: 200, body: "Success" };
  }
  if (path === "/v1/unload_lora_adapter") {
    served.delete(body.lora_name as string);
    return { status: 200, body: "Success" };
  }
  const model = served.get(body.model as string);
  const text = JSON.stringify({ ...body, model });
  const headers = { authorization: `Bearer ${other.apiKey}`, "content-type": "application/json" };
  const response = await other.fetch(`http://anneal.local${path}`, { method: "POST", body: text, headers });
  return { status: response.status, body: await response.text() };
}

beforeAll(async () => {
  engine = await Engine.open({ home: join(folder, "home") });
  other = await Engine.open();
  server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", async () => {
      const path = request.url!;
      const isAllowed = key === null || request.headers.authorization === `Bearer ${key}`;
      const text = Buffer.concat(chunks).toString();
      const result = isAllowed
        ? (answers(path) ??
          (await answer(path, text === "" ? {} : JSON.parse(text)).catch((error) => ({
            status: 500,
            body: JSON.stringify({ error: `${error}` }),
          }))))
        : { status: 401, body: JSON.stringify({ error: "Unauthorized" }) };
      response.writeHead(result.status, { "content-type": "application/json" }).end(result.body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await Promise.all([engine.close(), other.close()]);
  rmSync(folder, { recursive: true, force: true });
});

const newModel = (name: string): Promise<Model> =>
  engine.models.create({ project: "p", name, base_model: "anneal/tiny" });

/** Another adapter than the first: one step of training. */
async function stepOf(model: Model): Promise<void> {
  await using session = await engine.training.open(model);
  const rows = [{ tokens: [5, 6, 7, 8], trained: [0, 1, 1, 1] }];
  await session.forwardBackward(rows, { loss: "cross_entropy" });
  await session.optimStep({ learningRate: 5e-2 });
  await session.saveState();
}

describe("publishing", () => {
  it("serves one name per step and the latest in its place", async () => {
    const model = await newModel("steps");
    loaded.length = 0;
    const first = await engine.models.publish(model.id, { url: `${url}/v1/` });
    await stepOf(model);
    const second = await engine.models.publish(model.id, { url, shared: join(folder, "shared") });
    expect([first.name, second.name]).toEqual(["p/steps:step0", "p/steps:step1"]);
    expect(loaded.map(({ lora_name }) => lora_name)).toEqual(["p/steps:step0", "p/steps", "p/steps:step1", "p/steps"]);
    expect(loaded.every(({ load_inplace }) => load_inplace)).toBe(true);
    expect(second.path.startsWith(join(folder, "shared"))).toBe(true);
    for (const { check } of [first, second]) {
      expect(check).toMatchObject({ max_logprob_difference: 0 });
      expect(check!.tokens).toBeGreaterThan(3);
      expect(check!.agreed_tokens).toBe(check!.tokens);
    }
    // What is there already is not copied again.
    expect(await engine.models.publish(model.id, { url, shared: join(folder, "shared"), latest: false })).toEqual({
      ...second,
      latest_name: null,
    });
  });

  it("leaves the latest alone, and takes the step back, when the server says something else", async () => {
    const model = await newModel("wrong");
    await stepOf(model);
    const before = [...served];
    const untrained = await newModel("untrained");
    const { path } = (await engine.checkpoints.list(untrained.id)).data[0]!;
    answers = (route) => {
      if (route !== "/v1/load_lora_adapter") return null;
      served.set("p/wrong:step1", served.get("p/steps:step0")!);
      return { status: 200, body: "Success" };
    };
    await expect(
      engine.models.publish(model.id, { url, check: { max_logprob_difference: 1e-3 } }),
    ).rejects.toMatchObject({ name: "RemoteServerError", code: "remote_mismatch", status: 502 });
    answers = () => null;
    expect([...served]).toEqual(before);
    expect(path).toBeDefined();
  });

  it.each([
    ["/v1/models", { data: [null] }],
    ["/v1/chat/completions", { choices: [{ logprobs: { content: 5 } }] }],
    ["/v1/chat/completions", { choices: [{ logprobs: { content: [null] } }] }],
    ["/v1/chat/completions", { choices: [{ logprobs: { content: [{ token: "a", logprob: -1 }] } }] }],
  ])("says so where %s answers %j", async (route, body) => {
    const model = await engine.models.create({
      project: "p",
      name: "odd",
      base_model: "anneal/tiny",
      return_existing: true,
    });
    answers = (path) => (path === route ? { status: 200, body: JSON.stringify(body) } : null);
    const refused = { name: "RemoteServerError", code: "remote_unexpected" };
    await expect(engine.models.publish(model.id, { url })).rejects.toMatchObject(refused);
    answers = () => null;
  });

  it("tells refusals in the server's own words", async () => {
    const { id } = await newModel("refused");
    const words = "LoRA rank 64 is greater than max_lora_rank 16.";
    answers = (route) =>
      route === "/v1/load_lora_adapter" ? { status: 400, body: JSON.stringify({ error: { message: words } }) } : null;
    const refused = { code: "remote_refused", remoteStatus: 400, message: expect.stringContaining(words) };
    await expect(engine.models.publish(id, { url })).rejects.toMatchObject(refused);
    answers = (route) => (route === "/v1/load_lora_adapter" ? { status: 404, body: '{"detail":"Not Found"}' } : null);
    const hint = expect.stringContaining("--enable-lora");
    await expect(engine.models.publish(id, { url })).rejects.toMatchObject({ remoteStatus: 404, hint });
    answers = () => ({ status: 200, body: "<html>" });
    await expect(engine.models.publish(id, { url })).rejects.toMatchObject({ code: "remote_unexpected" });
    answers = () => null;
    key = "secret";
    await expect(engine.models.publish(id, { url })).rejects.toThrow("Unauthorized");
    expect((await engine.models.publish(id, { url, api_key: key })).step).toBe(0);
    key = null;
  });

  it("names what is wrong with its parameters before anything is sent", async () => {
    const { id } = await newModel("parameters");
    loaded.length = 0;
    await expect(engine.models.publish(id, { url: "vllm" })).rejects.toMatchObject({ param: "url" });
    await expect(engine.models.publish(id, { url, step: 3 })).rejects.toMatchObject({ param: "step" });
    await expect(engine.models.publish(id, { url, server_path: "/x" })).rejects.toMatchObject({ param: "server_path" });
    const unknown = { url, stepp: 1 } as { url: string };
    await expect(engine.models.publish(id, unknown)).rejects.toMatchObject({ param: "stepp" });
    const gone = engine.models.publish(id, { url: "http://127.0.0.1:9" });
    await expect(gone).rejects.toMatchObject({ code: "remote_unreachable", remoteStatus: null });
    expect(loaded).toEqual([]);
  });
});

const rollout = async ({ chat, scenario }: RolloutContext<string>) => {
  const text = await chat(`Say ${scenario}`, { max_tokens: 12 });
  return [...text].filter((letter) => "aeiou".includes(letter)).length / 12;
};
const scenarios = ["cat", "sun", "tree", "moon"];

describe("rollouts of another server", () => {
  const options = (model: Model, steps: number) => ({
    model,
    scenarios,
    rollout,
    steps,
    groupSize: 4,
    seed: 3,
    config: { learning_rate: 1e-3 },
  });
  async function reportsOf(run: Parameters<typeof train<string>>[1]): Promise<StepReport[]> {
    const reports: StepReport[] = [];
    for await (const report of train(engine, run)) reports.push(report);
    return reports;
  }

  it("teach exactly what this engine's own do, when both compute the same bits", async () => {
    const remote = await reportsOf({ ...options(await newModel("remote"), 2), rollouts: { url } });
    const local = await reportsOf(options(await newModel("local"), 2));
    expect(remote.map((report) => report.train)).toEqual(local.map((report) => report.train));
    expect(remote.map((report) => report.metrics["loss/train"])).toEqual(
      local.map((report) => report.metrics["loss/train"]),
    );
    expect(remote[0]!.remote).toEqual({ staleness: 0, logprobDifference: { mean: 0, max: 0 } });
    expect(local[0]!.remote).toBeNull();
  });

  it("are stale between publications, and say so", async () => {
    const model = await newModel("stale");
    const reports = await reportsOf({ ...options(model, 3), rollouts: { url, publishEvery: 2 } });
    expect(reports.map(({ remote }) => remote!.staleness)).toEqual([0, 1, 0]);
    expect(reports[1]!.warnings.join()).toContain("sampled at step 0, trained from step 1");
    expect(reports[1]!.remote!.logprobDifference!.mean).toBeGreaterThan(0);
  });

  it("leave only what is needed loaded: the latest, the best, and what others had there", async () => {
    const model = await newModel("unloaded");
    await engine.models.publish(model.id, { url, latest: false });
    const names = () => [...served.keys()].filter((name) => name.startsWith("p/unloaded"));
    const loadedAt: string[][] = [];
    const watched = async (context: RolloutContext<string>) => {
      loadedAt[Number(/:step(\d+)$/.exec(context.model)![1])] = names();
      return rollout(context);
    };
    await reportsOf({ ...options(model, 4), rollout: watched, rollouts: { url } });
    const [zero, one, two, three] = [0, 1, 2, 3].map((step) => `p/unloaded:step${step}`);
    expect(loadedAt).toEqual([[zero], [zero, one], [zero, two], [zero, three]]);

    const kept = await newModel("kept");
    const run = { ...options(kept, 4), validation: ["sun", "fish"], rollouts: { url } };
    const publish = { url, when: "best" as const, latest: false };
    const reports = await reportsOf({ ...run, publish });
    const made = reports.flatMap(({ published }) => (published ? [published.name] : []));
    const left = [...served.keys()].filter((name) => name.startsWith("p/kept"));
    expect(left).toEqual(expect.arrayContaining([...made, "p/kept:step3"]));
    expect(left.length).toBeLessThanOrEqual(made.length + 2);
  });

  it("end the run before anything is changed when the server's logprobs are too far off", async () => {
    const model = await newModel("far");
    const rollouts = { url, publishEvery: 2, maxLogprobDifference: 1e-9 };
    await expect(reportsOf({ ...options(model, 3), rollouts })).rejects.toThrow("more than 1e-9");
    // The first step was fresh; the second was not made.
    expect((await engine.checkpoints.list(model.id, { order: "desc", limit: 1 })).data[0]!.step).toBe(1);
  });

  it("say how they were sampled, whatever defaults the server has", async () => {
    const model = await newModel("sampled");
    const [group] = await gather(engine, {
      model,
      scenarios: ["cat"],
      groupSize: 2,
      rollouts: { url },
      rollout: async ({ chat }) => (await chat("Say cat", { max_tokens: 4, temperature: 0.5 })).length,
    });
    const choices = group!.trajectories[0]!.messages_and_choices.filter((item) => "message" in item);
    expect(choices).toHaveLength(1);
    expect(choices[0]).toMatchObject({ sampling_settings: { temperature: 0.5 } });
  });

  it("publish what a run makes, and the best of it", async () => {
    const published = await reportsOf({ ...options(await newModel("every"), 2), publish: { url } });
    expect(published.map((report) => report.published?.name)).toEqual(["p/every:step1", "p/every:step2"]);
    const model = await newModel("best");
    const run = { ...options(model, 3), name: "run", validation: ["sun"], publish: { url, when: "best" as const } };
    const reports = await reportsOf(run);
    for (const { step, bestStep, published: made } of reports) expect(made !== null).toBe(bestStep === step);
    await expect(reportsOf({ ...run, publish: { url, when: "ever" as "best" } })).rejects.toThrow("publish.when");
  });

  it("name their faulty options", async () => {
    const model = await newModel("faulty");
    for (const [param, rollouts] of [
      ["rollouts.publishEvery", { url, publishEvery: 0 }],
      ["rollouts.maxLogprobDifference", { url, maxLogprobDifference: -1 }],
      ["rollouts.url", {}],
      ["rollouts.step", { url, step: 3 }],
    ] as const) {
      const run = { ...options(model, 1), rollouts: rollouts as unknown as { url: string } };
      await expect(reportsOf(run)).rejects.toMatchObject({ param });
    }
    await expect(
      gather(engine, { ...options(model, 1), model: "anneal/tiny", rollouts: { url } } as never),
    ).rejects.toThrow();
  });
});
