// Engines whose models a GPU computes: what they answer and learn is what the processor's do, whatever else it is busy with. `npm run
// test:vulkan` names the GPU.

import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { Engine } from "../../src/index.js";
import { listGpus } from "../../src/runtime/runtime.js";
import type { ChatCompletionCreateParamsNonStreaming } from "../../src/types/chat.js";
import type { TrajectoryGroup } from "../../src/types/trajectories.js";
import { DEVICE, isGpu } from "../native/device.js";
import { rows } from "../train/trainingRows.js";
import { expectFastJob, gathered } from "./fastJob.js";

const device = DEVICE;
const isFast = (await listGpus()).some(({ id, problem, fast }) => id === device && problem === "" && fast);
const folder = mkdtempSync(join(tmpdir(), "gpu-"));
afterAll(() => rmSync(folder, { recursive: true }));

const messages = [{ role: "user" as const, content: "Tell me of a river." }];
const schema = {
  type: "object",
  properties: { name: { enum: ["Rhine", "Nile"] }, length: { type: "integer", minimum: 0, maximum: 99 } },
  required: ["name", "length"],
  additionalProperties: false,
};
/** All that a draw may depend on, on rows of one batch. */
const ASKED: Omit<ChatCompletionCreateParamsNonStreaming, "messages">[] = [
  { temperature: 0, logprobs: true, top_logprobs: 5 },
  { temperature: 0.9, top_p: 0.8, seed: 1, n: 2, logprobs: true },
  { temperature: 1.3, top_k: 20, min_p: 0.05, seed: 2, presence_penalty: 0.7, frequency_penalty: 0.3 },
  { seed: 3, repetition_penalty: 1.2, logit_bias: { 70: 4, 71: -100 }, min_tokens: 6 },
  { seed: 4, bad_words: ["river", "the"], allowed_token_ids: Array.from({ length: 300 }, (_, id) => id + 20) },
  { seed: 5, response_format: { type: "json_schema", json_schema: { name: "river", schema } } },
  { seed: 6, prompt_logprobs: 3 },
];

const answers = (engine: Engine, model = "anneal/tiny") =>
  Promise.all(
    ASKED.map(async (params) => {
      const reply = await engine.chat.completions.create({ model, messages, max_tokens: 16, ...params });
      return { choices: reply.choices, prompt: reply.prompt_logprobs };
    }),
  );

async function learn(engine: Engine, trajectory_groups: TrajectoryGroup[]): Promise<string> {
  const model = await engine.models.create({ project: "p", name: "learner", base_model: "anneal/tiny" });
  const experimental_config = { learning_rate: 1e-3 };
  const { id } = await engine.trainingJobs.create({ model_id: model.id, trajectory_groups, experimental_config });
  expect((await engine.trainingJobs.wait(id)).status).toBe("succeeded");
  const { data } = await engine.trainingJobs.events(id, { limit: 100 });
  expect(data.find(({ type }) => type === "gradient_step")!.data).toMatchObject({ ratio_exact_share: 1 });
  return "wandb-artifact:///local/p/learner:step1";
}

describe.runIf(isGpu)("engines on a GPU", () => {
  it("answer as one on the processor does, two of them beside a training job, and learn the same", async () => {
    await using own = await Engine.open({ device: "cpu" });
    const wanted = await answers(own);
    const source = await own.models.create({ project: "p", name: "source", base_model: "anneal/tiny" });
    const groups = await gathered(own, source);
    const learned = await answers(own, await learn(own, groups));

    await using one = await Engine.open({ device });
    await using two = await Engine.open({ device });
    expect(await answers(one)).toEqual(wanted);
    const job = learn(one, groups);
    const beside = await Promise.all([answers(one), answers(two)]);
    expect(beside).toEqual([wanted, wanted]);
    expect(await answers(one, await job)).toEqual(learned);
  });

  it("answer and learn the same where the processor has some of the layers", async () => {
    await using own = await Engine.open({ device: "cpu" });
    await using split = await Engine.open({ device, gpuLayers: 1 });
    await using none = await Engine.open({ device, gpuLayers: 0 });
    const wanted = await answers(own);
    expect(await answers(split)).toEqual(wanted);
    expect(await answers(none)).toEqual(wanted);
    const losses = await Promise.all(
      [own, split].map(async (engine) => {
        const model = await engine.models.create({ project: "p", name: "split", base_model: "anneal/tiny" });
        await using session = await engine.training.open(model);
        const metrics: unknown[] = [];
        for (let step = 0; step < 2; step++) {
          metrics.push((await session.forwardBackward(rows, { loss: "cross_entropy" })).logprobs);
          metrics.push((await session.optimStep({ learningRate: 1e-3 })).gradNorm);
        }
        return metrics;
      }),
    );
    expect(losses[1]).toEqual(losses[0]);
  });

  it("train all weights on the processor", async () => {
    await using engine = await Engine.open({ device });
    const model = await engine.models.create({ project: "p", name: "whole", base_model: "anneal/tiny" });
    await using session = await engine.training.open(model, { weights: "full" });
    await session.forwardBackward(rows, { loss: "cross_entropy" });
    expect((await session.optimStep({ learningRate: 1e-3 })).gradNorm).toBeGreaterThan(0);
  });

  it("keep what the driver made of shaders in the home", async () => {
    const home = join(folder, "home");
    const file = join(home, "pipelines", device.replace(":", "-"));
    const chat = async () => {
      await using engine = await Engine.open({ home, device });
      return (await engine.chat.completions.create({ messages, temperature: 0, max_tokens: 2 })).choices;
    };
    const wanted = await chat();
    expect(existsSync(file)).toBe(true);
    expect(await chat()).toEqual(wanted);
    writeFileSync(file, "no pipelines");
    expect(await chat()).toEqual(wanted);
  });

  it.runIf(isFast)(
    "say of a job on cooperative matrices that it was one, and how far it is from exact arithmetic",
    async () => {
      await using engine = await Engine.open({ device, precision: "fast" });
      await expectFastJob(engine, "vulkan-fast");
    },
  );
});
