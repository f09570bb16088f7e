// Training and sampling on a server with Tinker's interface. Beside a real one: test/external.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import {
  type AdapterTarget,
  Engine,
  type LossChoice,
  type Model,
  type StepReport,
  type TinkerOptions,
  type TrainingRow,
  train,
} from "../../src/index.js";
import { type Fault, TinkerService } from "./tinkerService.js";

const folder = mkdtempSync(join(tmpdir(), "anneal-tinker-"));
const service = new TinkerService();
let homes = 0;
const newHome = () => join(folder, `home-${homes++}`);

beforeAll(() => service.start());
afterAll(async () => {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => {
  service.fault = () => null;
  service.pollsBefore = [];
  service.archive = null;
  service.key = null;
  service.kind = "published";
  service.seen.length = 0;
});

const connect = (options: Partial<TinkerOptions> = {}) =>
  Engine.connect(service.url, { protocol: "tinker", patienceMs: 5000, ...options });
const create = (engine: Engine, name = "speller") =>
  engine.models.create({ project: "demo", name, base_model: "anneal/tiny" });

const ROWS: TrainingRow[] = [
  { tokens: [5, 6, 7, 8, 9], trained: [0, 1, 1, 1, 1] },
  { tokens: [5, 6, 10, 11], trained: [0, 0, 1, 1] },
];
const policyRows = (): TrainingRow[] =>
  ROWS.map((row, r) => ({
    ...row,
    advantages: Array.from(row.tokens, () => (r === 0 ? 1 : -0.5)),
    oldLogprobs: Array.from(row.tokens, () => -6),
  }));
const sum = (lists: Float32Array[]) => lists.flatMap((list) => [...list]).reduce((total, value) => total + value, 0);

/** Some steps of training; what the weights then make of the rows. */
async function trained(
  engine: Engine,
  model: Model,
  rows: TrainingRow[],
  loss: LossChoice,
  steps = 3,
): Promise<Float32Array[]> {
  await using session = await engine.training.open(model);
  for (let step = 0; step < steps; step++) {
    await session.forwardBackward(rows, loss);
    await session.optimStep({ learningRate: 1e-3, weightDecay: 0, maxGradNorm: 0 });
  }
  const { logprobs } = await session.logprobs(rows);
  await session.saveState();
  return logprobs;
}

/** The largest difference of two lists of rows. */
function difference(a: readonly Float32Array[], b: readonly Float32Array[]): number {
  return Math.max(...a.flatMap((row, r) => [...row].map((value, i) => Math.abs(value - b[r]![i]!))));
}

/** A program written for one machine. */
async function program(engine: Engine, steps = 2, name?: string): Promise<StepReport[]> {
  const model = await engine.models.create({
    project: "demo",
    name: "program",
    base_model: "anneal/tiny",
    return_existing: true,
  });
  const reports: StepReport[] = [];
  for await (const report of train(engine, {
    model,
    scenarios: ["planet", "river"],
    validation: ["window"],
    groupSize: 3,
    groupsPerStep: 1,
    steps,
    ...(name === undefined ? {} : { name }),
    config: { learning_rate: 1e-3 },
    rollout: async ({ chat, scenario }) => (await chat(`Spell "${scenario}" backwards.`, { max_tokens: 6 })).length,
  })) {
    reports.push(report);
  }
  return reports;
}

const KINDS = ["published", "protobuf", "skyrl"] as const;

describe.each(KINDS)("a server of the kind %s", (kind) => {
  // It differs in how rows and results are written alone.
  const isEncoding = kind === "protobuf";
  beforeEach(() => {
    service.kind = kind;
  });

  it("runs a program that was written for one machine, whose steps this machine then serves", async () => {
    const home = newHome();
    const remote = await connect({ home });
    const reports = await program(remote);
    expect(reports.map(({ step }) => step)).toEqual([1, 2]);
    for (const { metrics } of reports) {
      expect(metrics.ratio_mean).toBeCloseTo(1, 4);
      expect(metrics.skipped_update).toBe(0);
    }
    const ask = {
      messages: [{ role: "user", content: "Spell planet." }],
      temperature: 0,
      max_tokens: 8,
      logprobs: true,
    };
    const model = "local/demo/program";
    const there = await remote.chat.completions.create({ ...ask, model });
    const first = await remote.chat.completions.create({ ...ask, model: `${model}:step0` });
    await remote.close();
    await using here = await Engine.open({ home });
    const local = await here.chat.completions.create({ ...ask, model });
    expect(local.choices).toEqual(there.choices);
    expect((await here.chat.completions.create({ ...ask, model: `${model}:step0` })).choices).toEqual(first.choices);
    // It goes on here, with other moments.
    expect((await program(here, 1)).map(({ step }) => step)).toEqual([3]);
  });

  const losses: [string, TrainingRow[], LossChoice][] = [
    ["cross_entropy", ROWS, { loss: "cross_entropy" }],
    ["cispo", policyRows(), { loss: "cispo" }],
    ["ppo", policyRows(), { loss: "ppo", epsilon: 0.1 }],
    ["ppo at the level of sequences", policyRows(), { loss: "ppo", importance_sampling_level: "sequence" }],
    ["dpo", ROWS, { loss: "dpo", beta: 0.2 }],
    ["given weights", ROWS, { weights: ROWS.map(({ tokens }) => Array.from(tokens, (_, i) => (i % 2 ? -1 : 0.5))) }],
  ];
  // How a loss crosses the wire depends on the kind; which loss it is does not.
  it.each(kind === "skyrl" ? losses : losses.slice(0, 2))(
    "makes of %s the weights that this machine makes",
    async (_, rows, loss) => {
      await using remote = await connect();
      await using here = await Engine.open({ adapter: { alpha: 32 } });
      const there = await trained(remote, await create(remote), rows, loss);
      expect(difference(there, await trained(here, await create(here), rows, loss))).toBeLessThan(2e-4);
    },
  );

  it.skipIf(isEncoding)("makes each step once, whatever connections do in the middle", async () => {
    await using remote = await connect();
    const undisturbed = await trained(remote, await create(remote, "undisturbed"), ROWS, { loss: "cross_entropy" });
    for (const [i, path] of ["/forward_backward", "/optim_step"].entries()) {
      for (const fault of kind === "skyrl" ? (["before", "after"] as const) : (["after"] as const)) {
        let broken = 0;
        service.fault = (route) => (route === path && broken++ === 0 ? fault : null);
        const model = await create(remote, `broken-${i}-${fault}`);
        // The state to go back to is that of the checkpoint: the first step of a session is the one that is broken.
        const disturbed = await trained(remote, model, ROWS, { loss: "cross_entropy" });
        expect(broken).toBeGreaterThan(3);
        expect(difference(disturbed, undisturbed)).toBeLessThan(1e-5);
      }
    }
  });

  it.skipIf(isEncoding)("goes on in the middle of a job when the server comes back without what it held", async () => {
    const home = newHome();
    await using remote = await connect({ home });
    let steps = 0;
    service.fault = (path) => {
      if (path === "/optim_step" && ++steps === 2) service.forget();
      return null;
    };
    expect((await program(remote)).map(({ step }) => step)).toEqual([1, 2]);
    // Two steps, and the one that was made again.
    expect(steps).toBeGreaterThan(2);
  });

  it.skipIf(isEncoding)("ends a run with a clear error when the server stays away, and takes it up again", async () => {
    const home = newHome();
    await using remote = await connect({ home, patienceMs: 300 });
    let steps = 0;
    let isAway = false;
    service.fault = (path) => {
      if (path === "/optim_step" && ++steps === 3) isAway = true;
      return isAway ? "before" : null;
    };
    await expect(program(remote, 3, "run")).rejects.toThrow(/could not be reached|may or may not have done/);
    isAway = false;
    service.forget();
    const steps_ = (await program(remote, 3, "run")).map(({ step }) => step);
    expect(steps_.at(-1)).toBe(3);
    const { data } = await remote.checkpoints.list(
      (await remote.models.list()).data.find(({ model_id }) => model_id)!.model_id!,
    );
    expect(data.map(({ step }) => step)).toEqual([0, 1, 2, 3]);
  });
});

describe("the wire", () => {
  const failing: [string, Fault[] | "try_again"][] = [
    ["try again", "try_again"],
    ["408, 429 and 5xx", [{ status: 408 }, { status: 429 }, { status: 502, body: "<html>" }]],
  ];
  it.each(failing)("asks for results until they are there: %s", async (_, polls) => {
    service.pollsBefore = polls;
    await using remote = await connect();
    const reply = await remote.chat.completions.create({
      messages: [{ role: "user", content: "What is 3 + 4?" }],
      temperature: 0,
      n: 2,
      logprobs: true,
    });
    expect(reply.choices.map(({ message, finish_reason }) => [message.content, finish_reason])).toEqual([
      ["7", "stop"],
      ["7", "stop"],
    ]);
    expect(reply.choices[0]!.logprobs!.content.every(({ logprob }) => logprob <= 0)).toBe(true);
  });

  it.each([
    ["/get_server_capabilities", { supported_models: [null, { model_name: "base/tiny", max_context_length: 0 }] }],
    ["/openapi.json", { paths: null, components: null }],
    ["/openapi.json", { paths: { "/x": null }, components: { schemas: { LoRAConfig: { properties: null } } } }],
  ])("takes an odd %s for one that does not tell: %j", async (route, body) => {
    service.fault = (path) => (path === route ? { status: 200, body: JSON.stringify(body) } : null);
    await using remote = await connect();
    const reply = await remote.completions.create({ prompt: "3 + 4 =", max_tokens: 2, temperature: 0 });
    expect(reply.usage!.completion_tokens).toBe(2);
  });

  it("waits for a server that is overloaded, as long as it asks", async () => {
    const refused = new Map<string, number>();
    service.fault = (path) => {
      const count = (refused.get(path) ?? 0) + 1;
      refused.set(path, count);
      if (path === "/retrieve_future" || count > 2) return null;
      return { status: count === 1 ? 429 : 503, headers: { "retry-after": "0.01" } };
    };
    await using remote = await connect();
    const model = await create(remote);
    expect(model.adapter).toMatchObject({ rank: 8, alpha: 32 });
    const numbers = service.seen.filter(({ path }) => path === "/save_weights").map(({ body }) => body.seq_id);
    expect(numbers).toEqual([1, 1, 1]);
  });

  it("sends its key, and to this server alone; tells what is refused in the server's words", async () => {
    service.key = "secret";
    await expect(connect()).rejects.toMatchObject({
      name: "RemoteServerError",
      remoteStatus: 401,
      message: expect.stringContaining("Invalid API key"),
    });
    await using remote = await connect({ apiKey: "secret" });
    await create(remote);
    expect(service.seen.filter(({ path }) => path.startsWith("/files/")).length).toBeGreaterThan(0);
    await expect(Engine.connect("http://127.0.0.1:1", { protocol: "tinker", patienceMs: 0 })).rejects.toMatchObject({
      code: "remote_unreachable",
    });
    await expect(Engine.connect("nowhere", { protocol: "tinker" })).rejects.toMatchObject({ param: "url" });
    await expect(connect({ threads: 2 } as object)).rejects.toThrow("threads");
    await expect(connect({ protocol: "other" as "tinker" })).rejects.toThrow("protocol");
    service.key = null;
    service.fault = (path) => (path === "/get_server_capabilities" ? { status: 200, body: '{"models":[]}' } : null);
    await expect(connect()).rejects.toMatchObject({ code: "remote_unexpected" });
  });

  it("tells failed futures, answers that do not fit and archives that are none", async () => {
    await using remote = await connect();
    const model = await create(remote);
    service.archive = (bytes) => bytes.subarray(0, bytes.length / 2);
    await expect(trained(remote, model, ROWS, { loss: "cross_entropy" }, 1)).rejects.toMatchObject({
      code: "remote_unexpected",
    });
    service.archive = () => Buffer.from("no archive");
    await expect(trained(remote, model, ROWS, { loss: "cross_entropy" }, 1)).rejects.toMatchObject({
      code: "remote_unexpected",
    });
    service.archive = null;
    const words = "Datum 0 is too long";
    service.fault = (path) =>
      path === "/retrieve_future" ? { status: 200, body: JSON.stringify({ error: words, category: "user" }) } : null;
    await expect(trained(remote, model, ROWS, { loss: "cross_entropy" }, 1)).rejects.toMatchObject({
      code: "remote_refused",
      message: expect.stringContaining(words),
    });
    service.fault = (path) => (path === "/retrieve_future" ? { status: 200, body: '{"loss_fn_outputs":[]}' } : null);
    await expect(trained(remote, model, ROWS, { loss: "cross_entropy" }, 1)).rejects.toMatchObject({
      code: "remote_unexpected",
    });
    service.fault = () => null;
    expect(sum(await trained(remote, model, ROWS, { loss: "cross_entropy" }, 1))).toBeLessThan(0);
  });

  it("leaves nothing behind of what nothing goes on from", async () => {
    const before = new Set(service.saved);
    const left = (kind: string) =>
      service.saved.filter((name) => !before.has(name) && name.includes(`/${kind}/`)).length;
    const home = newHome();
    const remote = await connect({ home });
    const reports = await program(remote, 3);
    const { model_id: id } = (await remote.models.list()).data.find(({ model_id }) => model_id)!;
    const ask = { messages: [{ role: "user" as const, content: "Hi" }], max_tokens: 2 };
    await using session = await remote.training.open(id!);
    await session.sample(ask);
    await session.forwardBackward(ROWS, { loss: "cross_entropy" });
    await session.optimStep({ learningRate: 1e-3 });
    await session.sample(ask);
    await session.close();
    // One for each step: those of samples and of jobs have gone.
    await expect.poll(() => left("weights")).toBe(reports.length + 1);
    await remote.checkpoints.delete(id!, { steps: [1, 2] });
    await expect.poll(() => left("weights")).toBe(2);
    await remote.close();
    await expect.poll(() => left("sampler_weights")).toBe(0);
    expect(left("weights")).toBe(2);
    await using again = await connect({ home });
    expect(await again.models.retrieve(id!)).toMatchObject({ name: "program" });
    await again.models.delete(id!);
    await expect.poll(() => left("weights")).toBe(0);
  });

  it.each(["cancelled", "failed"] as const)("leaves nothing of a job that is %s", async (status) => {
    const home = newHome();
    await using remote = await connect({ home });
    const { id } = await create(remote);
    const before = service.saved.length;
    const data = join(home, "chats.jsonl");
    const chat = { messages: ["user", "assistant"].map((role) => ({ role, content: "planet" })) };
    writeFileSync(data, `${JSON.stringify(chat)}\n`.repeat(8));
    let steps = 0;
    const third = new Promise<void>((resolve) => {
      service.fault = (path) => {
        if (path !== "/optim_step" || ++steps < 3) return null;
        resolve();
        return status === "failed" ? { status: 400, body: '{"detail":"no"}' } : null;
      };
    });
    const config = { batch_size: 1, num_epochs: 4 };
    const job = await remote.sftTrainingJobs.create({ model_id: id, training_data_url: data, config });
    await third;
    expect(service.saved.length).toBeGreaterThan(before);
    if (status === "cancelled") await remote.trainingJobs.cancel(job.id);
    await expect.poll(async () => (await remote.trainingJobs.retrieve(job.id)).status).toBe(status);
    await expect.poll(() => service.saved.length).toBe(before);
  });

  it("takes everything away that an engine without a home has saved", async () => {
    const before = service.saved.length;
    const remote = await connect();
    await program(remote, 1);
    expect(service.saved.length).toBeGreaterThan(before);
    await remote.close();
    await expect.poll(() => service.saved.length).toBe(before);
  });

  it("keeps no program waiting for a server that is gone", async () => {
    const remote = await connect({ patienceMs: 60_000 });
    await trained(remote, await create(remote), ROWS, { loss: "cross_entropy" }, 1);
    const { port } = new URL(service.url);
    await service.stop();
    const requests = vi.spyOn(globalThis, "fetch");
    await remote.close();
    await sleep(2500);
    expect(requests).toHaveBeenCalled();
    requests.mockClear();
    // The next attempt would come within this time.
    await sleep(2000);
    expect(requests).not.toHaveBeenCalled();
    requests.mockRestore();
    await service.start(Number(port));
  });

  it("gives back the places of adapters", async () => {
    service.forget();
    const remote = await connect();
    await trained(remote, await create(remote), ROWS, { loss: "cross_entropy" });
    expect(service.count("/create_model")).toBeGreaterThan(2);
    await remote.close();
    await expect.poll(() => service.adapters).toBe(0);
  });
});

describe("a session whose server cannot be known to have made a step", () => {
  it("says so from then on, and can be opened anew at the checkpoint", async () => {
    service.kind = "skyrl";
    await using remote = await connect();
    const model = await create(remote);
    const session = await remote.training.open(model);
    const step = async () => {
      await session.forwardBackward(ROWS, { loss: "cross_entropy" });
      return session.optimStep({ learningRate: 1e-3 });
    };
    const before = await session.logprobs(ROWS);
    expect(await step()).toEqual({ gradNorm: Number.NaN });
    service.fault = (path) => (path === "/optim_step" ? "after" : null);
    await expect(step()).rejects.toMatchObject({ name: "RemoteServerError", code: "remote_uncertain" });
    service.fault = () => null;
    await expect(session.logprobs(ROWS)).rejects.toMatchObject({ code: "remote_uncertain" });
    await expect(session.saveState()).rejects.toMatchObject({ code: "remote_uncertain" });
    await session.close();
    await using again = await remote.training.open(model);
    expect(difference((await again.logprobs(ROWS)).logprobs, before.logprobs)).toBe(0);
  });
});

describe("what such servers do not do", () => {
  beforeEach(() => {
    service.kind = "skyrl";
  });

  it("is refused by name", async () => {
    await using remote = await connect();
    const unsupported = (param: string) => ({ code: "remote_unsupported", param });
    const ask = (params: object) =>
      remote.chat.completions.create({ messages: [{ role: "user", content: "Hi" }], max_tokens: 4, ...params });
    await expect(ask({ min_p: 0.1 })).rejects.toMatchObject(unsupported("min_p"));
    await expect(ask({ structured_outputs: { choice: ["a"] } })).rejects.toMatchObject(
      unsupported("structured_outputs"),
    );
    await expect(ask({ top_logprobs: 2, logprobs: true })).rejects.toMatchObject(unsupported("top_logprobs"));
    await expect(ask({ use_beam_search: true, n: 2 })).rejects.toMatchObject(unsupported("use_beam_search"));
    expect((await ask({ stop: "e", temperature: 0.7, top_k: 5, top_p: 0.9, seed: 3 })).choices).toHaveLength(1);
    const adapter = { rank: 4, alpha: 8 };
    await expect(
      remote.models.create({ project: "p", name: "a", base_model: "anneal/tiny", adapter }),
    ).rejects.toMatchObject(unsupported("adapter.alpha"));
    const targets: AdapterTarget[] = ["q_proj", "v_proj"];
    await expect(
      remote.models.create({ project: "p", name: "b", base_model: "anneal/tiny", adapter: { targets } }),
    ).rejects.toMatchObject(unsupported("adapter.targets"));

    const model = await create(remote);
    await expect(remote.training.open(model, { weights: "full" })).rejects.toMatchObject(unsupported("weights"));
    await using session = await remote.training.open(model);
    await expect(session.forwardBackward(policyRows(), { loss: "cispo", entropy_coef: 0.1 })).rejects.toMatchObject(
      unsupported("entropy_coef"),
    );
    const warm = ROWS.map((row) => ({ ...row, temperatures: Array.from(row.tokens, () => 0.5) }));
    await expect(session.logprobs(warm)).rejects.toMatchObject(unsupported("temperatures"));
    await session.forwardBackward(ROWS, { loss: "cross_entropy" });
    await expect(session.optimStep({ learningRate: 1e-3, maxGradNorm: 0.1 })).rejects.toMatchObject(
      unsupported("maxGradNorm"),
    );
    expect(service.count("/optim_step")).toBe(0);
  });

  it("includes weights that were made elsewhere, unless they are those of an untrained model", async () => {
    const home = newHome();
    const here = await Engine.open({ home, adapter: { alpha: 32 } });
    const untrained = await create(here, "untrained");
    const model = await create(here, "trained-here");
    await trained(here, model, ROWS, { loss: "cross_entropy" });
    await here.close();
    await using remote = await connect({ home });
    await trained(remote, untrained, ROWS, { loss: "cross_entropy" }, 1);
    await expect(trained(remote, model, ROWS, { loss: "cross_entropy" })).rejects.toMatchObject({
      code: "remote_unsupported",
      hint: expect.stringContaining("made there"),
    });
  });
});
