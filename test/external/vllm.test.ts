// Publishing to a real vLLM, and rollouts drawn from it. Needs ANNEAL_TEST_VLLM, a virtual environment that has it: see vllm.sh.

import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Engine, type Model, type RemoteServerError, type RolloutContext, train } from "../../src/index.js";
import { freePort, ServerProcess } from "./serverProcess.js";

const environment = process.env.ANNEAL_TEST_VLLM;
const embedded = join(import.meta.dirname, "../../models/tiny");
const MINUTE = 60_000;

function vllm(model: string, port: number): { server: ServerProcess; url: string } {
  const url = `http://127.0.0.1:${port}`;
  const args = ["serve", model, "--dtype", "float32", "--enforce-eager", "--enable-lora"];
  args.push("--max-lora-rank", "16", "--max-loras", "4", "--max-num-seqs", "16", "--host", "127.0.0.1");
  args.push("--port", String(port), "--served-model-name", "base");
  const env = {
    VLLM_CPU_KVCACHE_SPACE: "1",
    VLLM_ALLOW_RUNTIME_LORA_UPDATING: "1",
    HF_HUB_OFFLINE: "1",
    VLLM_NO_USAGE_STATS: "1",
  };
  return { server: new ServerProcess(join(environment!, "bin/vllm"), args, env, `${url}/health`), url };
}

/** A copy of the embedded model whose matrices are random: nothing that it says is sure. */
function randomModel(folder: string): string {
  cpSync(embedded, folder, { recursive: true });
  const path = join(folder, "model.safetensors");
  const bytes = readFileSync(path);
  const header = Number(bytes.readBigUInt64LE(0));
  const tensors = JSON.parse(bytes.toString("utf8", 8, 8 + header)) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >;
  let state = 1;
  for (const [name, tensor] of Object.entries(tensors)) {
    if (name === "__metadata__" || tensor.shape.length !== 2) continue;
    expect(tensor.dtype).toBe("BF16");
    const [begin, end] = tensor.data_offsets;
    for (let at = 8 + header + begin; at < 8 + header + end; at += 2) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      const value = Buffer.alloc(4);
      value.writeFloatLE((state / 2 ** 32 - 0.5) * 0.2);
      bytes.writeUInt16LE(value.readUInt16LE(2), at);
    }
  }
  writeFileSync(path, bytes);
  return folder;
}

async function collected<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

const exact = { max_logprob_difference: 1e-3, max_tokens: 24 };
const rollout = async ({ chat, scenario }: RolloutContext<string>) => {
  const text = await chat(`Say ${scenario}`, { max_tokens: 12 });
  return [...text].filter((letter) => "aeiou".includes(letter)).length / 12;
};
const scenarios = ["cat", "dog", "sun", "tree", "house", "moon", "star", "fish"];

describe.runIf(environment).each(["embedded", "random"])("beside vLLM, on the %s model", (kind) => {
  const folder = mkdtempSync(join(tmpdir(), "anneal-vllm-"));
  let engine: Engine;
  let server: ServerProcess;
  let url: string;

  beforeAll(async () => {
    const path = kind === "embedded" ? embedded : randomModel(join(folder, "model"));
    engine = await Engine.open({ home: join(folder, "home"), models: [{ id: "base", path }], dtype: "float32" });
    ({ server, url } = vllm(path, await freePort()));
    await server.start();
  }, 5 * MINUTE);
  afterAll(async () => {
    server.kill();
    await engine.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const newModel = (name: string, rank = 8): Promise<Model> =>
    engine.models.create({ project: "remote", name, base_model: "base", adapter: { rank } });
  const options = (model: Model, steps: number) => ({
    model,
    scenarios,
    rollout,
    steps,
    groupSize: 4,
    groupsPerStep: 4,
    seed: 7,
    config: { learning_rate: 2e-3 },
    rollouts: { url, check: exact },
  });

  it("serves every step of a run there, with the same tokens", { timeout: 5 * MINUTE }, async () => {
    const model = await newModel("steps");
    const publish = { url, shared: join(folder, "shared"), check: exact };
    const reports = await collected(train(engine, { ...options(model, 3), publish }));
    expect(reports.map(({ published }) => published?.name)).toEqual(
      [1, 2, 3].map((step) => `remote/steps:step${step}`),
    );
    for (const { remote, published, train: trained } of reports) {
      expect(published?.check?.agreed_tokens).toBe(published?.check?.tokens);
      expect(remote?.staleness).toBe(0);
      if (trained.deviation > 0) expect(remote?.logprobDifference?.max).toBeLessThan(1e-3);
    }
    const { data } = (await (await fetch(`${url}/v1/models`)).json()) as {
      data: { id: string; root: string }[];
    };
    const latest = data.find(({ id }) => id === "remote/steps");
    expect(latest?.root).toBe(reports[2]!.published!.path);
  });

  it("replaces the latest in place under load", { timeout: 5 * MINUTE }, async () => {
    const model = await newModel("loaded");
    await engine.models.publish(model.id, { url, check: exact });
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
    let asking = true;
    let answers = 0;
    const load = Array.from({ length: 4 }, async () => {
      while (asking) {
        const messages = [{ role: "user" as const, content: `Count to ${answers}` }];
        const reply = await client.chat.completions.create({ model: "remote/loaded", messages, max_tokens: 16 });
        if (reply.choices.length === 1) answers += 1;
      }
    });
    for await (const { published } of train(engine, {
      ...options(model, 2),
      publish: { url, check: exact },
    })) {
      expect(published?.latest_name).toBe("remote/loaded");
    }
    asking = false;
    await Promise.all(load);
    expect(answers).toBeGreaterThan(0);
  });

  it("draws rollouts from stale weights, and says by how much", { timeout: 5 * MINUTE }, async () => {
    const given = options(await newModel("stale"), 4);
    const reports = await collected(train(engine, { ...given, rollouts: { ...given.rollouts, publishEvery: 2 } }));
    expect(reports.map(({ remote }) => remote?.staleness)).toEqual([0, 1, 0, 1]);
    expect(reports[1]!.warnings.join()).toContain("stale");
  });

  it("records completions of a client that streams", { timeout: 5 * MINUTE }, async () => {
    const given = options(await newModel("streamed"), 1);
    const streamed = async ({ fetch, model, scenario }: RolloutContext<string>) => {
      const client = new OpenAI({ baseURL: "http://remote.invalid/v1", apiKey: "none", fetch });
      const messages = [{ role: "user" as const, content: `Say ${scenario}` }];
      let text = "";
      for await (const chunk of await client.chat.completions.create({
        model,
        messages,
        max_tokens: 12,
        stream: true,
      })) {
        text += chunk.choices[0]?.delta.content ?? "";
      }
      return [...text].filter((letter) => "aeiou".includes(letter)).length / 12;
    };
    const [report] = await collected(train(engine, { ...given, rollout: streamed }));
    expect(report!.tokens.rollout).toBeGreaterThan(0);
    if (report!.train.deviation > 0) expect(report!.remote!.logprobDifference!.max).toBeLessThan(1e-3);
  });

  it("tells refusals in the server's words", { timeout: 5 * MINUTE }, async () => {
    const { id } = await newModel("high", 32);
    const refused = (what: Promise<unknown>) =>
      what.then(
        () => "served",
        (error: RemoteServerError) => error.message,
      );
    expect(await refused(engine.models.publish(id, { url }))).toContain("rank 32 is greater than max_lora_rank");
    mkdirSync(join(folder, "unseen"), { recursive: true });
    const model = await newModel("unseen");
    const unseen = { url, shared: join(folder, "unseen"), server_path: "/not/there" };
    expect(await refused(engine.models.publish(model.id, unseen))).toContain("No adapter found");
    await expect(engine.models.publish(model.id, { url, name: "base" })).rejects.toThrow("conflicts");
  });

  it.each([
    ["is to load it", "/v1/load_lora_adapter"],
    ["is to be compared", "/v1/chat/completions"],
  ])(
    "ends publishing with a clear error when the server is killed as it %s, and does it again",
    {
      timeout: 10 * MINUTE,
    },
    async (_, path) => {
      const model = await newModel(`cut${path.replaceAll(/\W/g, "")}`);
      const publish = () => engine.models.publish(model.id, { url, shared: join(folder, "shared"), check: exact });
      const real = globalThis.fetch;
      let kills = 0;
      globalThis.fetch = (input, init) => {
        const answer = real(input, init);
        if (String(input).endsWith(path) && kills++ === 0) server.kill();
        return answer;
      };
      await expect(publish()).rejects.toMatchObject({ name: "RemoteServerError", code: "remote_unreachable" });
      globalThis.fetch = real;
      expect(kills).toBeGreaterThan(0);
      await server.start();
      const { check } = await publish();
      expect(check!.agreed_tokens).toBe(check!.tokens);
    },
  );

  it("ends a run whose server is killed, and takes it up again", { timeout: 5 * MINUTE }, async () => {
    const model = await newModel("killed");
    const run = { ...options(model, 4), name: "killed", maxExceptions: 0 };
    const ended = (async () => {
      for await (const { step } of train(engine, run)) if (step === 1) setTimeout(() => server.kill(), 100);
    })();
    await expect(ended).rejects.toThrow(/could not be reached|rollouts failed/);
    const made = (await engine.checkpoints.list(model.id, { order: "desc", limit: 1 })).data[0]!.step;
    expect(made).toBeGreaterThan(0);
    await server.start();
    const steps = [];
    for await (const { step } of train(engine, run)) steps.push(step);
    expect(steps.at(-1)).toBe(4);
    expect(steps.length).toBe(4 - made);
  });
});
