// One log-probability, the same 32 bits wherever it is computed: prefill, chunks of it, decode in any batch, training, every kernel set,
// any number of threads.

import { afterAll, describe, expect, it } from "vitest";
import type { AnnealError } from "../../src/errors.js";
import {
  type DeviceModel,
  type NamedTensors,
  openRuntime,
  type StepSequence,
  type TrainRow,
} from "../../src/runtime/runtime.js";
import { openWeightFolder } from "../../src/weights/weightFolder.js";
import { DEVICE, isGpu, someOnGpu, TYPES } from "./device.js";
import {
  type Case,
  caseAdapter,
  caseFolder,
  expected,
  loadCase,
  pagesFrom,
  plainSlot,
  promptLogprobs,
} from "./referenceModel.js";

const runtime = openRuntime({ device: DEVICE });
/** The GPU's own arithmetic is one. */
const kernelSets = isGpu ? [undefined] : runtime.kernelSets;
/** The bits of a matrix unit, by vectors where there is none. */
const fastKernelSets = isGpu ? [] : runtime.fastKernelSets;
const threads = runtime.threads;
afterAll(() => runtime.setThreads(threads));

const OUTPUTS = 20;
const OPTIMIZER = { learningRate: 1e-2, beta1: 0.9, beta2: 0.99, eps: 1e-8, weightDecay: 0.1, maxGradNorm: 0.1 };
const quiet = { slot: -1, sample: false, outputIndex: 0, promptLogprobs: -1, next: null };

/** The bits of floats, so that a difference in the last one shows. */
const bits = (values: Iterable<number>) => [...new Uint32Array(Float32Array.from(values).buffer)];

interface Sampled {
  tokens: number[];
  logprobs: number[];
}

/** Samples OUTPUTS tokens after each prompt, all prompts in one batch, every sequence with its own seed and pages. */
async function sample(model: DeviceModel, prompts: Int32Array[], adapter: number, seed0: number): Promise<Sampled[]> {
  const slots = prompts.map((_, i) => model.openSlot(plainSlot({ seed: BigInt(seed0 + i) })));
  const results: Sampled[] = prompts.map(() => ({ tokens: [], logprobs: [] }));
  for (let output = 0; output < OUTPUTS; output++) {
    const { tokens, logprobs } = await model.step(
      prompts.map((prompt, i): StepSequence => {
        const position = output === 0 ? 0 : prompt.length + output - 1;
        const blocks = pagesFrom(4 * i, prompt.length + OUTPUTS, model);
        const given = {
          ...quiet,
          slot: slots[i]!,
          tokens: output === 0 ? prompt : null,
          position,
          recurrent: i,
          blocks,
        };
        return { ...given, adapter, sample: true, outputIndex: output };
      }),
    );
    for (const [i, result] of results.entries()) {
      result.tokens.push(tokens[i]!);
      result.logprobs.push(logprobs[i]!);
    }
  }
  for (const slot of slots) model.closeSlot(slot);
  return results;
}

/** Prompt log-probabilities of a row whose prefill is cut into pieces, each of `size(index)` tokens. */
async function prefill(
  model: DeviceModel,
  row: Int32Array,
  adapter: number,
  size: (index: number) => number,
): Promise<number[]> {
  const logprobs: number[] = [];
  const blocks = pagesFrom(0, row.length, model);
  for (let position = 0, piece = 0; position < row.length; position += size(piece++)) {
    const tokens = row.slice(position, position + size(piece));
    const next = Int32Array.from(tokens, (_, t) => row[position + t + 1] ?? -1);
    const sequence = { ...quiet, tokens, position, recurrent: 0, blocks, adapter, promptLogprobs: 0, next };
    logprobs.push(...(await model.step([sequence])).prompt[0]!.map((entry) => entry.logprob));
  }
  return logprobs;
}

/** With windows, soft caps, groups of three and recurrent layers also with a cache of 8 bits. */
const INT8_CACHE: readonly Case[] = ["mistral", "gemma2", "ministral_odd", "qwen3_5"];
const kvCaches = (name: Case) => (INT8_CACHE.includes(name) ? (["exact", "int8"] as const) : (["exact"] as const));

/** A row shared by all kernel sets: what each of them computed. */
const acrossKernelSets = new Map<string, number[]>();

describe.each(
  someOnGpu(
    [
      "llama",
      "mistral",
      "qwen2",
      "qwen3_yarn",
      "smollm3_odd",
      "granite_odd",
      "ministral_odd",
      "qwen2_window",
      "phi3",
      "gemma3_odd",
      "gemma2",
      "ministral3_odd",
      "qwen3_5",
      "qwen3_5_odd",
      "qwen3_moe",
      "qwen3_moe_odd",
      "qwen3_5_moe",
      "lfm2_moe",
    ] as const,
    (name) => name === "gemma3_odd" || name === "qwen3_5",
  ).flatMap((name) =>
    TYPES.flatMap((dtype) =>
      [...kernelSets, ...(dtype === "bfloat16" ? fastKernelSets : [])]
        // Software multiply-adds: one model tells as much as four.
        .filter((kernelSet) => kernelSet !== "portable" || name === "mistral")
        .flatMap((kernelSet) =>
          someOnGpu(kvCaches(name), (kvCache) => (kvCache === "int8") === INT8_CACHE.includes(name)).map((kvCache) => ({
            name,
            dtype,
            kernelSet,
            kvCache,
          })),
        ),
    ),
  ),
)("$name in $dtype by $kernelSet, $kvCache cache", ({ name, dtype, kernelSet, kvCache }) => {
  it("computes every log-probability with the same bits", async () => {
    const model = await loadCase(name, { dtype, kernelSet, kvCache });
    const { spec, tensors } = await caseAdapter(name);
    const version = await model.loadAdapter(spec, tensors);
    const trainer = await model.trainAdapter(spec, { seed: 1n });
    // Prompts of 37, 96 and 5 tokens: pages end inside prompts and inside outputs.
    const rows = expected(name).rows.map((row) => row.slice(0, 100));
    for (const adapter of [0, version]) {
      const prompts = Array.from({ length: 16 }, (_, i) => rows[i % 3]!);
      const sampled = await sample(model, prompts, adapter, 0);
      const [alone] = await sample(model, [prompts[7]!], adapter, 7);
      expect(alone).toEqual(sampled[7]);
      expect(await sample(model, prompts.slice(2, 5), adapter, 2)).toEqual(sampled.slice(2, 5));

      const whole = prompts.map((prompt, i) => Int32Array.of(...prompt, ...sampled[i]!.tokens));
      const trained = await trainer.evaluate(
        whole.map((tokens) => ({ tokens })),
        { adapter },
      );
      for (const [i, prompt] of prompts.entries()) {
        const outputs = trained.logprobs[i]!.subarray(prompt.length - 1, -1);
        expect(bits(outputs)).toEqual(bits(sampled[i]!.logprobs));
      }
      for (const i of [0, 1]) {
        for (const chunk of [1000, 64, 23, 1]) {
          expect(bits(await prefill(model, whole[i]!, adapter, () => chunk))).toEqual(bits(trained.logprobs[i]!));
        }
      }
      const family = fastKernelSets.includes(kernelSet!) ? "fast" : "exact";
      const key = `${name} ${dtype} ${kvCache} ${adapter} ${family}`;
      const known = acrossKernelSets.get(key) ?? bits(trained.logprobs.flatMap((row) => [...row]));
      acrossKernelSets.set(key, known);
      expect(bits(trained.logprobs.flatMap((row) => [...row]))).toEqual(known);
    }
    model.close();
  });
});

const NUMBERS = someOnGpu(
  [
    { dtype: "float32", kvCache: "exact" },
    { dtype: "bfloat16", kvCache: "exact" },
    { dtype: "bfloat16", kvCache: "int8" },
  ] as const,
  ({ dtype, kvCache }) => dtype === "bfloat16" && kvCache === "exact",
);

describe.each(NUMBERS)("training in $dtype, $kvCache cache", ({ dtype, kvCache }) => {
  const { rows } = expected("qwen3");
  const group: TrainRow[] = [
    { tokens: rows[1]! },
    // Completions of the first row's prompt, whose computation they share; it ends inside a page.
    { tokens: rows[2]!, prefix: 0, prefixLength: 70 },
    { tokens: rows[0]!, prefix: 0, prefixLength: 70 },
    { tokens: rows[0]!, trained: Uint8Array.from(rows[0]!, (_, t) => t % 3) },
  ];

  async function learn(options: { threads: number; keepBytes?: number; kernelSet?: string }) {
    runtime.setThreads(options.threads);
    const model = await loadCase("qwen3", { dtype, kvCache, kernelSet: options.kernelSet });
    const { spec, tensors } = await caseAdapter("qwen3");
    const trainer = await model.trainAdapter(spec, { seed: 3n, tensors });
    const trace: number[][] = [];
    const record = (values: NamedTensors) => trace.push([...values.values()].flatMap(({ data }) => bits(data)));
    for (let step = 0; step < 2; step++) {
      for (let pass = 0; pass < 2; pass++) {
        const forward = await trainer.forward(group, { keepBytes: options.keepBytes });
        trace.push(...forward.logprobs.map(bits), ...forward.entropies.map(bits));
        await forward.backward(
          forward.logprobs.map((row, r) =>
            row.map((_, t) => (t + 1 === row.length || group[r]!.trained?.[t] === 0 ? 0 : Math.sin(t + r))),
          ),
        );
      }
      record(await trainer.read("gradient"));
      trace.push(bits([(await trainer.optimStep(OPTIMIZER)).gradNorm]));
    }
    record(await trainer.read("value"));
    record(await trainer.read("moment2"));
    const version = await trainer.publish();
    const [sampled] = await sample(model, [rows[0]!], version, 5);
    const row = Int32Array.of(...rows[0]!, ...sampled!.tokens);
    const own = await trainer.evaluate([{ tokens: row }]);
    expect(bits(own.logprobs[0]!.subarray(rows[0]!.length - 1, -1))).toEqual(bits(sampled!.logprobs));
    trace.push(bits(own.logprobs[0]!));
    model.close();
    return trace;
  }

  it("learns the same bits with any number of threads, any memory and any kernel set", async () => {
    const once = await learn({ threads: 1 });
    // A GPU has no threads of which there could be more.
    for (const count of someOnGpu([2, 3, 5], () => false)) expect(await learn({ threads: count })).toEqual(once);
    // Room for one layer at most: the others are computed again.
    expect(await learn({ threads: 2, keepBytes: 1 })).toEqual(once);
    const others = runtime.kernelSets.filter((set) => set !== "portable" || dtype === "float32");
    for (const kernelSet of someOnGpu(others, () => false))
      expect(await learn({ threads: 2, kernelSet })).toEqual(once);
  });

  it.skipIf(fastKernelSets.length === 0 || dtype === "float32")(
    "learns the same bits within the fast family",
    async () => {
      const [first, ...others] = fastKernelSets;
      const once = await learn({ threads: 1, kernelSet: first });
      expect(once).not.toEqual(await learn({ threads: 1 }));
      expect(await learn({ threads: 2, kernelSet: first, keepBytes: 1 })).toEqual(once);
      for (const kernelSet of others) expect(await learn({ threads: 2, kernelSet })).toEqual(once);
    },
  );

  it.skipIf(fastKernelSets.length === 0 || dtype === "float32")(
    "measures the fast family against the exact one over all groups of layers",
    async () => {
      const gateText = expected("gemma3").rows[0]!.slice(0, 100);
      const fast = await loadCase("gemma3", { dtype, kvCache, gateText, kernelSet: fastKernelSets[0]! });
      const exact = await loadCase("gemma3", { dtype, kvCache });
      expect(fast.pageGroups.length).toBeGreaterThan(1);
      const [own, wanted] = [await promptLogprobs(fast, gateText), await promptLogprobs(exact, gateText)];
      const sum = own.reduce((total, logprob, t) => total + Math.abs(logprob - wanted[t]!), 0);
      expect(fast.differenceToExact).toBeCloseTo(sum / own.length, 12);
      expect(fast.differenceToExact).toBeGreaterThan(0);
      for (const model of [fast, exact]) model.close();
    },
  );

  it("refuses a pass that its budget cannot hold, saying what it needs, and holds it within just that", async () => {
    const model = await loadCase("qwen3", { dtype, kvCache });
    const { spec, tensors } = await caseAdapter("qwen3");
    const trainer = await model.trainAdapter(spec, { seed: 3n, tensors });
    const refusal = await trainer.forward(group, { memoryBudget: 1 }).catch((error: AnnealError) => error);
    expect(refusal).toMatchObject({ code: "insufficient_memory", param: "memoryBudget" });
    const needed = Number(/at least (\d+) bytes/.exec((refusal as AnnealError).message)![1]);
    await expect(trainer.forward(group, { memoryBudget: needed - 1 })).rejects.toMatchObject({
      code: "insufficient_memory",
    });
    const whole = await trainer.forward(group);
    const tight = await trainer.forward(group, { memoryBudget: needed });
    expect(tight.logprobs).toEqual(whole.logprobs);
    model.close();
  });

  it("computes a shared prompt as if each row had its own", async () => {
    const model = await loadCase("qwen3", { dtype, kvCache });
    const { spec, tensors } = await caseAdapter("qwen3");
    const trainer = await model.trainAdapter(spec, { seed: 3n, tensors });
    const shared = await trainer.evaluate(group);
    const apart = await trainer.evaluate(
      [1, 2].map((r) => ({ tokens: Int32Array.of(...rows[1]!.subarray(0, 70), ...group[r]!.tokens) })),
    );
    for (const r of [1, 2]) {
      const own = apart.logprobs[r - 1]!;
      expect(bits(shared.logprobs[r]!)).toEqual(bits(own.subarray(70)));
    }
    model.close();
  });
});

it.each(someOnGpu(["qwen3", "ministral_odd"] as const, (name) => name === "qwen3"))(
  "agrees beyond a segment of 1024 positions: %s",
  async (name) => {
    const { config, tensors } = await openWeightFolder(caseFolder(name));
    // Token by token over both ends of a segment; on a GPU, over one.
    const pieces = [1020, ...Array(10).fill(1), ...(isGpu ? [34] : [1010, ...Array(20).fill(1), 140])];
    const length = pieces.reduce((sum, piece) => sum + piece, 0);
    const row = Int32Array.from({ length }, (_, t) => (t * 7919 + (t >> 3)) % config.vocab);
    for (const { dtype, kvCache } of NUMBERS) {
      const options = { config: { ...config, kvCache, maxPositions: 4096 }, tensors, dtype, kvPages: 80 };
      const model = await runtime.load(options);
      const trainer = await model.trainAdapter((await caseAdapter(name)).spec, { seed: 0n });
      const [trained] = (await trainer.evaluate([{ tokens: row }], { adapter: 0 })).logprobs;
      expect(bits(await prefill(model, row, 0, () => 4096))).toEqual(bits(trained!));
      expect(bits(await prefill(model, row, 0, () => 777))).toEqual(bits(trained!));
      const pieced = await prefill(model, row, 0, (index) => pieces[index]!);
      expect(bits(pieced)).toEqual(bits(trained!));
      model.close();
    }
  },
);
