// Models most of whose layers have a recurrent state, through the engine: the same numbers however requests are served, and training on
// the bits that were sampled.

import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { BaseModel } from "../../src/engine/core/baseModel.js";
import type { EngineCore } from "../../src/engine/core/core.js";
import { Engine, gather } from "../../src/index.js";
import { type NamedTensors, weightTensors } from "../../src/runtime/runtime.js";
import { JsonFields } from "../../src/weights/jsonFields.js";
import { modelSpec } from "../../src/weights/modelSpec.js";
import { openWeightFolder } from "../../src/weights/weightFolder.js";
import { writeSafetensors } from "../fixtures/writeSafetensors.js";
import { DEVICE, isGpu, someOnGpu } from "../native/device.js";
import { caseFolder } from "../native/referenceModel.js";

const folder = mkdtempSync(join(tmpdir(), "anneal-recurrent-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** GPUs compute no short convolutions. */
const KINDS = someOnGpu(["qwen3_5", "lfm2"] as const, (kind) => kind === "qwen3_5");
type Kind = (typeof KINDS)[number];

/** The reference models' shapes with a vocabulary for bytes, and random weights. */
beforeAll(async () => {
  for (const kind of KINDS) await make(kind);
});

async function make(kind: Kind, name: string = kind, changes: object = {}) {
  const base = join(folder, name);
  mkdirSync(base);
  cpSync(fileURLToPath(new URL("../reference/jobs/tokenizer", import.meta.url)), base, { recursive: true });
  const config = JSON.parse(readFileSync(join(caseFolder(kind), "config.json"), "utf8"));
  const changed = { ...config, vocab_size: 262, eos_token_id: 261, ...changes };
  writeFileSync(join(base, "config.json"), JSON.stringify(changed));
  let state = 1;
  const uniform = (bound: number) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return (state / 2 ** 31 - 1) * bound;
  };
  const tensors: NamedTensors = new Map();
  for (const { name, shape } of weightTensors(modelSpec(new JsonFields("config.json", changed)))) {
    const [middle, bound] = name.endsWith("A_log")
      ? [-2, 2]
      : name.endsWith("linear_attn.norm.weight") || (kind === "lfm2" && name.endsWith("norm.weight"))
        ? [1, 0.2]
        : [0, shape.length === 1 ? 0.2 : 1.7 / Math.sqrt(shape.at(-1)!)];
    const data = Float32Array.from({ length: shape.reduce((a, b) => a * b) }, () => middle + uniform(bound));
    tensors.set(name, { shape, data });
  }
  await writeSafetensors(join(base, "model.safetensors"), tensors, { format: "pt" });
}

const open = (kind: string, model: object = {}, options: object = {}) =>
  Engine.open({
    models: [{ path: join(folder, kind), dtype: "bfloat16", ...model }],
    device: DEVICE,
    home: mkdtempSync(join(folder, "home-")),
    ...options,
  });

/** Each of the choices' tokens with the bits of their logprobs. */
async function ask(engine: Engine, content: string, seed: number, n = 1) {
  const { choices, usage } = await engine.chat.completions.create({
    messages: [{ role: "user", content }],
    ...{ seed, n, logprobs: true, max_completion_tokens: 90, temperature: 1, ignore_eos: true },
  });
  const told = choices.map(({ logprobs }) => logprobs!.content!.map(({ token, logprob }) => `${token} ${logprob}`));
  return { told, cached: usage!.prompt_tokens_details?.cached_tokens ?? 0 };
}

const QUESTION = "Which of these came first, and how would anyone know? ".repeat(2);

it.skipIf(isGpu).each(KINDS)("replies of %s are the same where tokens are guessed ahead", async (kind) => {
  await using guessing = await open(kind);
  await using plain = await open(kind, {}, { speculation: "none" });
  const replies = async (engine: Engine) => {
    const all: string[][][] = [];
    for (const [i, temperature] of [0, 0.2, 0.5, 1].entries()) {
      const { choices } = await engine.chat.completions.create({
        messages: [{ role: "user", content: QUESTION.repeat(1 + (i % 2)) }],
        // Of so few tokens something can be guessed.
        ...{ allowed_token_ids: [65, 66, 67], logprobs: true, temperature, seed: i, n: 1 + (i % 2) },
        ...{ max_completion_tokens: 250, ignore_eos: true },
      });
      all.push(choices.map(({ logprobs }) => logprobs!.content!.map(({ token, logprob }) => `${token} ${logprob}`)));
    }
    return all;
  };
  expect(await replies(guessing)).toEqual(await replies(plain));
  const { loop } = (guessing as unknown as { core: EngineCore }).core.defaultBase;
  expect(loop.stats().keptTokens).toBeGreaterThan(0);
});

describe.each(KINDS)("a reply of %s has the same logprobs", (kind) => {
  it("alone, from the cache, beside others, as one of several, and after it lost its pages", async () => {
    await using engine = await open(kind);
    const alone = await Promise.all(
      [3, 4, 5].map(async (seed) => {
        await using fresh = await open(kind);
        return (await ask(fresh, QUESTION, seed)).told[0];
      }),
    );
    expect(alone[0]).toHaveLength(90);
    const first = await ask(engine, QUESTION, 3);
    const again = await ask(engine, QUESTION, 3);
    expect([first.told[0], again.told[0]]).toEqual([alone[0], alone[0]]);
    expect([first.cached, again.cached]).toEqual([0, 64]);
    const crowd = await Promise.all([
      ...[3, 4, 5].map((seed) => ask(engine, QUESTION, seed)),
      ...[6, 7].map((seed) => ask(engine, `Something else: ${seed}`, seed)),
    ]);
    expect(crowd.slice(0, 3).map(({ told }) => told[0])).toEqual(alone);
    expect((await ask(engine, QUESTION, 3, 3)).told).toEqual(alone);

    await using small = await open(kind, { kvPages: 5 });
    const squeezed = await Promise.all([ask(small, QUESTION, 3, 3), ask(small, QUESTION, 4), ask(small, QUESTION, 5)]);
    expect(squeezed.map(({ told }) => told)).toEqual([alone, [alone[1]], [alone[2]]]);
    const [{ loop }] = [...small.core.bases.values()] as [BaseModel];
    expect(loop.stats().preemptions).toBeGreaterThan(0);
  });
});

it.skipIf(isGpu)("convolutions of one token need no states", async () => {
  await make("lfm2", "pointwise", { conv_L_cache: 1 });
  await using engine = await open("pointwise");
  const [{ device }] = [...engine.core.bases.values()] as [BaseModel];
  expect(device.recurrentStates).toBe(0);
  const [{ told, cached }, again] = [await ask(engine, QUESTION, 3, 2), await ask(engine, QUESTION, 3)];
  expect([told[0]!.length, cached, again.cached]).toEqual([90, 0, 112]);
  expect(again.told[0]).toEqual(told[0]);
  const model = await engine.models.create({ project: "p", name: "pointwise", base_model: "pointwise" });
  const session = await engine.training.open(model);
  const tokens = Array.from({ length: 100 }, (_, i) => (i * 37) % 250);
  await session.forwardBackward([{ tokens, trained: tokens.map(() => true) }], { loss: "cross_entropy" });
  expect((await session.optimStep({ learningRate: 1e-3 })).gradNorm).toBeGreaterThan(0);
});

describe.each(KINDS)("training %s", (kind) => {
  it.each([undefined, "q8"] as const)(
    "by rewards is on the bits that were sampled, quantised: %s",
    async (quantize) => {
      await using engine = await open(kind, { quantize });
      const model = await engine.models.create({ project: "p", name: "rl", base_model: kind });
      for (let round = 0; round < 2; round++) {
        const trajectory_groups = await gather(engine, {
          model,
          scenarios: [QUESTION, "And this one?"],
          groupSize: 4,
          rollout: async ({ chat, scenario, seed }) => {
            await chat(scenario, { max_tokens: 70 });
            return Number(seed % 7n);
          },
        });
        const experimental_config = { learning_rate: 1e-2 };
        const { id } = await engine.trainingJobs.create({ model_id: model.id, trajectory_groups, experimental_config });
        expect((await engine.trainingJobs.wait(id)).status).toBe("succeeded");
        const { data } = await engine.trainingJobs.events(id, { limit: 100 });
        const step = data.find(({ type }) => type === "gradient_step")!.data as Record<string, number>;
        expect(step).toMatchObject({ ratio_exact_share: 1, ratio_max: 1, ratio_min: 1, approx_kl: 0 });
        expect(step.grad_norm).toBeGreaterThan(0);
      }
    },
  );

  it("from conversations lowers their loss, in an adapter of all modules that PEFT has names for", async () => {
    const file = join(folder, "lines.jsonl");
    const messages = (i: number) => [
      { role: "user", content: `Count from ${i}` },
      { role: "assistant", content: "one two three four five six" },
    ];
    writeFileSync(file, Array.from({ length: 8 }, (_, i) => `${JSON.stringify({ messages: messages(i) })}\n`).join(""));
    await using engine = await open(kind);
    const model = await engine.models.create({ project: "p", name: "sft", base_model: kind });
    const { id } = await engine.sftTrainingJobs.create({
      model_id: model.id,
      training_data_url: file,
      config: { batch_size: 4, num_epochs: 8, learning_rate: 1e-2 },
    });
    expect((await engine.trainingJobs.wait(id)).status).toBe("succeeded");
    const { data } = await engine.trainingJobs.events(id, { limit: 100 });
    const losses = data.flatMap(({ type, data: told }) =>
      type === "gradient_step" ? [(told as { loss: number }).loss] : [],
    );
    expect(losses.at(-1)!).toBeLessThan(losses[0]! / 2);
    const to = join(folder, `adapter-${kind}`);
    await engine.models.export(model.id, { path: to, format: "peft" });
    const { target_modules } = JSON.parse(readFileSync(join(to, "adapter_config.json"), "utf8"));
    const modules = {
      qwen3_5: ["in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj", "q_proj", "o_proj", "down_proj"],
      lfm2: ["in_proj", "out_proj", "q_proj", "w1", "w2", "w3"],
    };
    expect(target_modules).toEqual(expect.arrayContaining(modules[kind]));
  });

  it("of all weights leaves a model that loads", async () => {
    await using engine = await open(kind, { dtype: "float32" });
    const model = await engine.models.create({ project: "p", name: "whole", base_model: kind });
    const session = await engine.training.open(model, { weights: "full" });
    const tokens = Array.from({ length: 100 }, (_, i) => (i * 37) % 250);
    const row = { tokens, trained: tokens.map(() => true) };
    const losses: number[] = [];
    for (let step = 0; step < 3; step++) {
      const { logprobs } = await session.forwardBackward([row], { loss: "cross_entropy" });
      losses.push(-logprobs[0]!.reduce((sum, logprob) => sum + logprob, 0));
      await session.optimStep({ learningRate: 1e-3 });
    }
    expect(losses[2]!).toBeLessThan(losses[0]!);
    const { path } = await session.saveState({ name: "trained" });
    await session.close();
    const { tensors } = await openWeightFolder(path);
    // As transformers stores it.
    const convolution = tensors.find(({ name }) =>
      /^model\.layers\.0\.(linear_attn\.conv1d|conv\.conv)\.weight$/.test(name),
    );
    expect(convolution!.shape).toEqual(kind === "lfm2" ? [48, 1, 3] : [80, 1, 4]);
  });
});
