// Training and sampling on a real SkyRL tx. Needs ANNEAL_TEST_SKYRL, a virtual environment that has it: see skyrl.sh.

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ChatCompletion, Engine, type Model, type StepReport, type TrainingRow, train } from "../../src/index.js";
import { freePort, ServerProcess } from "./serverProcess.js";

const environment = process.env.ANNEAL_TEST_SKYRL;
const embedded = join(import.meta.dirname, "../../models/tiny");
const MINUTE = 60_000;

/** The embedded model in float32, so that two programs can be compared; "random": with matrices that know nothing. */
function float32Model(folder: string, kind: "embedded" | "random"): string {
  cpSync(embedded, folder, { recursive: true });
  const bytes = readFileSync(join(embedded, "model.safetensors"));
  const begin = 8 + Number(bytes.readBigUInt64LE(0));
  const stored = JSON.parse(bytes.toString("utf8", 8, begin)) as Record<
    string,
    { shape: number[]; data_offsets: number[] }
  >;
  const header: Record<string, object> = {};
  const parts: Buffer[] = [];
  let length = 0;
  let state = 1;
  for (const [name, { shape, data_offsets }] of Object.entries(stored)) {
    if (name === "__metadata__") continue;
    const [from, to] = data_offsets as [number, number];
    const values = Buffer.alloc(2 * (to - from));
    for (let at = 0; at < to - from; at += 2) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      if (kind === "random" && shape.length === 2) values.writeFloatLE((state / 2 ** 32 - 0.5) * 0.2, 2 * at);
      else values.writeUInt16LE(bytes.readUInt16LE(begin + from + at), 2 * at + 2);
    }
    header[name] = { dtype: "F32", shape, data_offsets: [length, length + values.length] };
    length += values.length;
    parts.push(values);
  }
  const text = JSON.stringify(header).padEnd(Math.ceil(JSON.stringify(header).length / 8) * 8);
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(join(folder, "model.safetensors"), Buffer.concat([size, Buffer.from(text), ...parts]));
  const config = join(folder, "config.json");
  writeFileSync(config, JSON.stringify({ ...JSON.parse(readFileSync(config, "utf8")), torch_dtype: "float32" }));
  return folder;
}

const task = (word: string) => `Spell "${word}" backwards, one word.`;
const words = ["planet", "river", "garden", "candle"];

/** A program written for one machine, as the demo's. */
async function program(engine: Engine, options: { steps: number; name?: string; onStep?: (step: number) => void }) {
  const model = await engine.models.create({
    project: "demo",
    name: "speller",
    base_model: "base",
    return_existing: true,
  });
  const reports: StepReport[] = [];
  for await (const report of train(engine, {
    model,
    scenarios: words,
    groupsPerStep: 2,
    groupSize: 4,
    steps: options.steps,
    ...(options.name === undefined ? {} : { name: options.name }),
    config: { learning_rate: 2e-3 },
    async rollout({ chat, scenario }) {
      const text = (await chat(task(scenario), { max_completion_tokens: 16 })).trim();
      return [...scenario].reverse().filter((letter, i) => text[i] === letter).length / scenario.length;
    },
  })) {
    reports.push(report);
    options.onStep?.(report.step);
  }
  return { model, reports };
}

const greedy = (engine: Engine, model: string): Promise<ChatCompletion> =>
  engine.chat.completions.create({
    model,
    messages: [{ role: "user", content: task("window") }],
    temperature: 0,
    max_tokens: 16,
    logprobs: true,
    return_token_ids: true,
  });

function expectSame(a: ChatCompletion, b: ChatCompletion): void {
  expect(a.choices[0]!.token_ids).toEqual(b.choices[0]!.token_ids);
  const [mine, other] = [a, b].map((one) => one.choices[0]!.logprobs!.content.map(({ logprob }) => logprob));
  for (const [i, logprob] of mine!.entries()) expect(Math.abs(logprob - other![i]!)).toBeLessThan(1e-3);
}

describe.runIf(environment).each(["embedded", "random"] as const)("beside SkyRL tx, on the %s model", (kind) => {
  const folder = mkdtempSync(join(tmpdir(), "anneal-skyrl-"));
  const home = join(folder, "home");
  let models: { id: string; path: string }[];
  let server: ServerProcess;
  let url: string;

  beforeAll(async () => {
    const path = float32Model(join(folder, "model"), kind);
    models = [{ id: "base", path }];
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    const backend = { max_lora_adapters: 12, max_lora_rank: 8, train_micro_batch_size: 8, sample_max_num_sequences: 8 };
    const args = ["-m", "tx.tinker.api", "--base-model", path, "--backend-config", JSON.stringify(backend)];
    args.push("--checkpoints-base", join(folder, "checkpoints"), "--host", "127.0.0.1", "--port", String(port));
    args.push("--database-url", `sqlite:///${join(folder, "skyrl.db")}`);
    const python = join(environment!, "bin/python");
    const env = { PATH: `${join(environment!, "bin")}:${process.env.PATH}`, HF_HUB_OFFLINE: "1", JAX_PLATFORMS: "cpu" };
    server = new ServerProcess(python, args, env, `${url}/api/v1/healthz`);
    await server.start();
  }, 10 * MINUTE);
  afterAll(() => {
    server.kill();
    rmSync(folder, { recursive: true, force: true });
  });

  const connect = (patienceMs = 15 * MINUTE, where = home) =>
    Engine.connect(url, { protocol: "tinker", home: where, models, patienceMs });

  it("runs the demo's program by one changed line, and this machine serves its steps", {
    timeout: 30 * MINUTE,
  }, async () => {
    const remote = await connect();
    const { model, reports } = await program(remote, { steps: 2 });
    expect(reports.map(({ step }) => step)).toEqual([1, 2]);
    for (const { metrics } of reports) expect(metrics.skipped_update ?? 0).toBe(0);
    const names = ["", ":step1", ":step0"].map((step) => `${model.entity}/${model.project}/${model.name}${step}`);
    const there = [];
    for (const name of [...names, "base"]) there.push(await greedy(remote, name));
    await remote.close();
    await using here = await Engine.open({ home, models, dtype: "float32" });
    for (const [i, name] of [...names, "base"].entries()) expectSame(await greedy(here, name), there[i]!);
  });

  it("makes the updates that this machine makes", { timeout: 30 * MINUTE }, async () => {
    const rows: TrainingRow[] = [
      { tokens: [5, 6, 7, 8, 9], trained: [0, 1, 1, 1, 1] },
      { tokens: [5, 6, 10, 11], trained: [0, 0, 1, 1] },
    ].map((row, r) => ({
      ...row,
      advantages: row.tokens.map(() => (r === 0 ? 1 : -0.5)),
      oldLogprobs: row.tokens.map(() => -6),
    }));
    const steps = async (engine: Engine, model: Model) => {
      await using session = await engine.training.open(model);
      for (let step = 0; step < 3; step++) {
        await session.forwardBackward(rows, { loss: "cispo" });
        await session.optimStep({ learningRate: 1e-3, weightDecay: 0, maxGradNorm: 0 });
      }
      return (await session.logprobs(rows)).logprobs.flatMap((row) => [...row]);
    };
    const where = join(folder, "updates");
    const remote = await connect(undefined, where);
    const model = await remote.models.create({ project: "p", name: "m", base_model: "base" });
    const there = await steps(remote, model);
    await remote.close();
    // From the same step 0, which was brought back.
    await using here = await Engine.open({ home: where, models, dtype: "float32" });
    const mine = await steps(here, model);
    expect(Math.max(...mine.map((logprob, i) => Math.abs(logprob - there[i]!)))).toBeLessThan(5e-3);
  });

  it("ends a run whose server is killed, and takes it up again", { timeout: 40 * MINUTE }, async () => {
    const where = join(folder, "killed");
    const impatient = await connect(2000, where);
    const ended = program(impatient, {
      steps: 3,
      name: "run",
      onStep: (step) => step === 1 && setTimeout(() => server.kill(), 200),
    });
    await expect(ended).rejects.toThrow(/could not be reached|may or may not have done|rollouts? failed/);
    await impatient.close();
    await server.start();
    await using remote = await connect(undefined, where);
    const { reports } = await program(remote, { steps: 3, name: "run" });
    expect(reports.at(-1)!.step).toBe(3);
  });

  it("goes on in a run whose server is killed and comes back", { timeout: 40 * MINUTE }, async () => {
    await using remote = await connect(undefined, join(folder, "back"));
    const restart = async () => {
      server.kill();
      await server.start();
    };
    let restarting: Promise<void> | null = null;
    const onStep = (step: number) => {
      if (step === 1) setTimeout(() => (restarting = restart()), 200);
    };
    const { reports } = await program(remote, { steps: 3, onStep });
    await restarting;
    expect(reports.map(({ step }) => step)).toEqual([1, 2, 3]);
  });
});
