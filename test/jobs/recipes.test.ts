import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { fileRights } from "../../src/engine/core/access.js";
import { openStore, type Store } from "../../src/store/store.js";
import { ChatTemplate } from "../../src/text/index.js";
import { resolveTrainingData } from "../../src/training/dataLocation.js";
import type { TrainingOptions } from "../../src/training/host.js";
import { type JobRequest, writeJobRequest } from "../../src/training/jobRequest.js";
import { JobRunner } from "../../src/training/jobRunner.js";
import { OPTIMIZER } from "../../src/training/optimizer.js";
import { checkRatesOfFile, resolveSftSettings } from "../../src/training/sftRecipe.js";
import type { TrainingBase } from "../../src/training/trainingBase.js";
import type { ExperimentalConfig, SftConfig } from "../../src/types/training.js";
import type { TrajectoryChoice } from "../../src/types/trajectories.js";
import { readSafetensors } from "../../src/weights/index.js";
import { itUnlessSlow, someOnGpu } from "../native/device.js";
import { createHost, loadTestBase, madeUpGroups, quiet, registerModel } from "./jobHost.js";

let base: TrainingBase;
let store: Store;
let made = 0;

beforeAll(async () => {
  const plain = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";
  const open = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  base = { ...(await loadTestBase()), template: new ChatTemplate(plain + open) };
});
afterAll(() => base.device.close());
beforeEach(() => {
  store = openStore(null);
});
afterEach(() => store.close());

const newModel = () => registerModel(store, base, `m${made++}`);

async function run(
  modelId: string,
  request: JobRequest,
  options: Partial<TrainingOptions> = {},
  warn: (message: string) => void = () => undefined,
) {
  const host = createHost(store, base, { ...quiet, warn });
  const runner = new JobRunner({ ...host, options: { ...host.options, ...options } });
  const { id } = store.jobs.create({ kind: request.kind, modelId, entity: "local" });
  writeJobRequest(store.files, id, request);
  runner.enqueue(id);
  while (store.events.terminal(id) === null) await new Promise((resolve) => setTimeout(resolve, 3));
  await runner.close();
  const events = store.events.list(id, { limit: 1000 }).items;
  return {
    started: events[0]!.data,
    steps: events
      .filter((event) => event.type === "gradient_step")
      .map((event) => event.data as Record<string, number>),
    last: events.at(-1)!,
  };
}

const rl = (config: ExperimentalConfig, groups = madeUpGroups(2)): JobRequest => ({ kind: "rl", config, groups });

const file = (modelId: string, step: number, name: string) => join(store.files.checkpointFolder(modelId, step), name);

function adapterBits(modelId: string, step: number): string {
  return createHash("sha256")
    .update(readFileSync(file(modelId, step, "adapter_model.safetensors")))
    .digest("hex");
}

describe("an RL job", () => {
  const stepsOf = [
    ["group", 2],
    ["completion", 8],
    ["job", 1],
  ] as const;
  it.each(someOnGpu(stepsOf, ([step]) => step === "group"))("makes one step per %s", async (optimizerStep, count) => {
    const { started, steps, last } = await run(await newModel(), rl({}), { optimizerStep });
    expect(last.type).toBe("training_ended");
    expect(started.num_sequences).toBe(count);
    expect(steps).toHaveLength(count);
  });

  it("starts from ratios of exactly 1 when logprobs are calculated first", async () => {
    const sampled = await run(await newModel(), rl({}));
    expect(sampled.steps[0]!.ratio_exact_share).toBe(0);
    const config = { precalculate_logprobs: true, truncated_importance_sampling: 2 };
    const { steps } = await run(await newModel(), rl(config));
    expect(steps[0]).toMatchObject({ ratio_exact_share: 1, ratio_max: 1 });
    expect(steps[1]!.ratio_exact_share).toBeLessThan(1);
  });

  itUnlessSlow("steps as the operator set the optimizer", async () => {
    const config = { learning_rate: 1e-3 };
    const [plain, other, same] = [await newModel(), await newModel(), await newModel()];
    await run(plain, rl(config));
    const optimizer = { ...OPTIMIZER, rl: { ...OPTIMIZER.rl, weightDecay: 0, beta2: 0.9 } };
    await run(other, rl(config), { optimizer });
    await run(same, rl(config), { optimizer: { ...OPTIMIZER, sft: optimizer.rl } });
    expect(adapterBits(other, 1)).not.toBe(adapterBits(plain, 1));
    expect(adapterBits(same, 1)).toBe(adapterBits(plain, 1));
  });

  itUnlessSlow("measures KL against the base model, a step, or a step back", async () => {
    const modelId = await newModel();
    const kl = { learning_rate: 1e-3, kl_penalty_coef: 0.1, kl_penalty_source: "current_learner" as const };
    const first = await run(modelId, rl(kl));
    expect(first.steps[0]!["loss/kl_policy_ref"]).toBe(0);
    expect(first.steps[1]!["loss/kl_policy_ref"]).not.toBe(0);
    const lag = await run(modelId, rl({ ...kl, kl_penalty_step_lag: 1 }));
    const named = await run(await newModel(), rl({ ...kl, kl_penalty_reference_step: 0 }));
    const self = await run(modelId, rl({ ...kl, kl_penalty_reference_step: 2 }));
    expect(lag.steps[0]!["loss/kl_policy_ref"]).not.toBe(0);
    expect(named.steps).toEqual(first.steps.map((step) => ({ ...step, tokens_per_second: expect.any(Number) })));
    expect(self.steps[0]!["loss/kl_policy_ref"]).toBe(0);
  });

  itUnlessSlow("reads a reference adapter from a folder under the data roots only", async () => {
    const modelId = await newModel();
    const folder = store.files.checkpointFolder(modelId, 0);
    const config = { kl_penalty_coef: 0.1, kl_ref_adapter_path: folder };
    expect((await run(modelId, rl(config))).last.type).toBe("training_ended");
    const outside = await run(modelId, rl({ ...config, kl_ref_adapter_path: "/etc" }));
    expect(outside.last.data.error_message).toContain("kl_ref_adapter_path");
    const empty = await run(modelId, rl({ ...config, kl_ref_adapter_path: store.home }));
    expect(empty.last.data.error_message).toContain("kl_ref_adapter_path: adapter_config.json: is missing");
  });

  itUnlessSlow("multiplies the learning rate by the rows of a step to a power", async () => {
    const one = await newModel();
    const other = await newModel();
    await run(one, rl({ learning_rate: 1e-3, num_trajectories_learning_rate_multiplier_power: 1 }));
    const { steps } = await run(other, rl({ learning_rate: 4e-3 }));
    expect(adapterBits(one, 1)).toBe(adapterBits(other, 1));
    expect(steps[0]!["loss/learning_rate"]).toBe(4e-3);
  });

  it("fails before its first step when rows make the learning rate of a later one too large", async () => {
    const config = { learning_rate: 300, num_trajectories_learning_rate_multiplier_power: 1 };
    const [large, small] = madeUpGroups(2);
    small!.trajectories = small!.trajectories.slice(0, 3);
    const { steps, last } = await run(await newModel(), rl(config, [small!, large!]));
    expect(steps).toEqual([]);
    expect(last.data.error_message).toBe(
      "body.experimental_config.num_trajectories_learning_rate_multiplier_power: makes 300 a learning rate of 1200 in a step of 4 rows; at most 1000 can be",
    );
  });

  it("fails once its weights are too large to compute with", async () => {
    const model = await newModel();
    const { last } = await run(model, rl({ learning_rate: 1000 }, madeUpGroups(30)));
    expect(last.data.error_message).toMatch("the trained weights have diverged");
    expect(store.checkpoints.steps(model)).toEqual([0]);
  });

  itUnlessSlow("lets the learning rate rise and fall over its steps", async () => {
    const config = { learning_rate: 1e-3, learning_rate_schedule: "linear", warmup_ratio: 0.5 } as const;
    const { steps } = await run(await newModel(), rl(config, madeUpGroups(4)));
    expect(steps.map((step) => step["loss/learning_rate"])).toEqual([5e-4, 1e-3, 1e-3, 0]);
  });

  itUnlessSlow("warns of groups that have nothing to compare", async () => {
    const [first, second] = madeUpGroups(2);
    const { started, steps } = await run(
      await newModel(),
      rl({}, [first!, { trajectories: second!.trajectories.slice(0, 1) }]),
    );
    expect(steps).toHaveLength(1);
    expect(started.warnings).toEqual([expect.stringMatching(/^1 of 2 groups hold a single trajectory/)]);
  });

  itUnlessSlow("drops rows that are too long, and says so", async () => {
    const config = { packed_sequence_length: 36, logprob_calculation_chunk_size: 12 };
    const { started, last } = await run(await newModel(), rl(config));
    expect(last.type).toBe("training_ended");
    expect(started.num_dropped_rows).toBeGreaterThan(0);
    expect(Number(started.num_datums) + Number(started.num_dropped_rows)).toBe(8);
    expect(started.warnings).toEqual([`${started.num_dropped_rows} rows longer than 36 tokens were dropped`]);
  });

  itUnlessSlow("reports the share of tokens that were not sampled plainly", async () => {
    const groups = madeUpGroups(1);
    for (const { messages_and_choices: items } of groups[0]!.trajectories) {
      (items[1] as TrajectoryChoice).sampling_settings = { temperature: 0.7 };
    }
    const { started } = await run(await newModel(), rl({}, groups));
    expect(started.off_policy_sampling).toBe(1);
    expect(started.warnings).toHaveLength(1);
  });
});

describe("the optimizer's state", () => {
  itUnlessSlow("goes on from job to job, and starts over with the first step of another objective", async () => {
    const modelId = await newModel();
    const stepsAt = async (step: number) =>
      (await readSafetensors(file(modelId, step, "optimizer.safetensors"))).metadata;
    await run(modelId, rl({}));
    await run(modelId, rl({}));
    expect(await stepsAt(2)).toEqual({ objective: "rl", steps: "4" });
    const data = join(store.home, "data.jsonl");
    const messages = [
      { role: "user", content: "Hi" },
      { role: "assistant", content: "Hello" },
    ];
    writeFileSync(data, `${JSON.stringify({ messages })}\n`);
    const sft = await run(modelId, { kind: "sft", config: {}, data });
    expect(sft.last.type).toBe("training_ended");
    expect(await stepsAt(3)).toEqual({ objective: "sft", steps: "1" });
    const alike = madeUpGroups(1).map(({ trajectories }) => ({ trajectories: trajectories.slice(0, 1) }));
    await run(modelId, rl({}, alike));
    expect(await stepsAt(4)).toEqual({ objective: "sft", steps: "1" });
    await run(modelId, rl({}));
    expect(await stepsAt(5)).toEqual({ objective: "rl", steps: "2" });
  });

  it("belongs to the weights it was made from", async () => {
    const modelId = await newModel();
    const host = { ...base };
    base = { ...base, hash: "another" };
    const { last } = await run(modelId, rl({}));
    base = host;
    expect(last).toMatchObject({ type: "training_failed" });
    expect(last.data.error_message).toContain("other weights");
  });
});

describe("an RL job whose prompts were not recorded", () => {
  itUnlessSlow("warns when rendering them again does not give what was sampled from", async () => {
    const groups = madeUpGroups(2);
    for (const item of groups.flatMap((group) => group.trajectories.flatMap((one) => one.messages_and_choices))) {
      if ("message" in item) delete item.prompt_token_ids;
    }
    const warnings: string[] = [];
    const { started } = await run(await newModel(), rl({}, groups), {}, (message) => warnings.push(message));
    expect(started.rerendered_prompts).toBe(1);
    expect(warnings).toEqual([expect.stringContaining("only 0 % of the first step's importance ratios are 1")]);
    await run(await newModel(), rl({ precalculate_logprobs: true }, groups), {}, (message) => warnings.push(message));
    await run(await newModel(), rl({}), {}, (message) => warnings.push(message));
    expect(warnings).toHaveLength(1);
  });
});

describe("an SFT job", () => {
  const lines = (count: number) =>
    Array.from({ length: count }, (_, i) => {
      const messages = [
        { role: "user", content: `Say ${i}` },
        { role: "assistant", content: `${i}` },
      ];
      return `${JSON.stringify({ messages })}\n`;
    }).join("");

  itUnlessSlow("lets one learning rate rise and fall over its batches", async () => {
    const data = join(store.home, "data.jsonl");
    writeFileSync(data, lines(10));
    const config = { learning_rate: 4e-4, learning_rate_schedule: "linear", warmup_ratio: 0.4 } as const;
    const { steps } = await run(await newModel(), { kind: "sft", config, data });
    expect(steps.map((step) => step.learning_rate)).toEqual([2e-4, 4e-4, 4e-4, 2e-4, 0]);
    const list: SftConfig = { learning_rate: [1e-4, 0, 0, 0, 0], learning_rate_schedule: "cosine" };
    const both = await run(await newModel(), { kind: "sft", config: list, data });
    expect(both.last.data.error_message).toContain("learning_rate_schedule: cannot be combined with a list");
  });

  itUnlessSlow("takes a list with one learning rate per batch, and tells at once of another", async () => {
    const data = join(store.home, "data.jsonl");
    writeFileSync(data, `\n${lines(5)}  \n`);
    const config: SftConfig = { learning_rate: [1e-4, 0, 1e-5], batch_size: 2 };
    await checkRatesOfFile(resolveSftSettings(config, 1), data, "data");
    const { steps } = await run(await newModel(), { kind: "sft", config, data });
    expect(steps.map((step) => step.learning_rate)).toEqual(config.learning_rate);
    for (const count of [2, 4]) {
      const wrong = resolveSftSettings({ ...config, learning_rate: new Array(count).fill(1e-4) }, 1);
      await expect(checkRatesOfFile(wrong, data, "data")).rejects.toThrow(
        `config.learning_rate: holds ${count} values for 3 batches`,
      );
      await expect(checkRatesOfFile(wrong, join(store.home, "missing"), "data")).rejects.toMatchObject({
        status: 422,
        code: "invalid_training_data",
      });
    }
    const wrong = await run(await newModel(), { kind: "sft", config: { learning_rate: [1e-4] }, data });
    expect(wrong.last.data.error_message).toContain("holds 1 values for 3 batches");
    await checkRatesOfFile(resolveSftSettings({ learning_rate: [1, 2] }, 1), "https://example.org/train.jsonl", "data");
  });

  itUnlessSlow("reads data from a host that the operator allowed, and from no other", async () => {
    const server = createServer((request, response) => {
      if (request.url === "/train.jsonl") response.end(lines(4));
      else if (request.url === "/elsewhere") response.writeHead(302, { location: "/train.jsonl" }).end();
      else response.writeHead(404).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    try {
      const { port } = server.address() as AddressInfo;
      const url = (path: string) => `http://127.0.0.1:${port}/${path}`;
      const rights = fileRights("owner", store.home, [store.home]);
      const sources = { rights, allowedHosts: [`127.0.0.1:${port}`], artifactFolder: () => null };
      const data = resolveTrainingData(url("train.jsonl"), sources);
      const { steps, last } = await run(await newModel(), { kind: "sft", config: {}, data });
      expect([steps.length, last.type]).toEqual([2, "training_ended"]);
      for (const [path, reason] of [
        ["missing", "answered 404"],
        ["elsewhere", "cannot be read"],
      ] as const) {
        const failed = await run(await newModel(), { kind: "sft", config: {}, data: url(path) });
        expect(failed.last).toMatchObject({ type: "training_failed" });
        expect(failed.last.data.error_message).toContain(reason);
      }
      const refused = { ...sources, allowedHosts: ["example.org", `127.0.0.1:${port + 1}`] };
      for (const address of [url("train.jsonl"), `http://example.org@127.0.0.1:${port}/train.jsonl`]) {
        expect(() => resolveTrainingData(address, refused)).toThrow("data from 127.0.0.1 is not allowed here");
      }
    } finally {
      server.close();
      server.closeAllConnections();
    }
  });
});
