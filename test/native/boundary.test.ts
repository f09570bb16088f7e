// Whatever JavaScript passes, native code answers with a typed error that names the argument; it never crashes and never believes it.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AnnealError } from "../../src/errors.js";
import { nativeAddon } from "../../src/runtime/nativeAddon.js";
import {
  adapterTensors,
  type DeviceModel,
  openRuntime,
  type StepSequence,
  type Trainer,
  weightTensors,
} from "../../src/runtime/runtime.js";
import { samplingNumbers } from "../../src/samplingNumbers.js";
import { openWeightFolder } from "../../src/weights/weightFolder.js";
import { DEVICE, isGpu } from "./device.js";
import { failure } from "./nativeFailure.js";
import { caseAdapter, caseFolder, loadCase, plainSlot } from "./referenceModel.js";
import { ids, sequenceOf } from "./sequenceOf.js";

let model: DeviceModel;
let trainer: Trainer;
let slot: number;

beforeAll(async () => {
  model = await loadCase("qwen3", { kvPages: 8 });
  trainer = await model.trainAdapter((await caseAdapter("qwen3")).spec, { seed: 1n });
  slot = model.openSlot(plainSlot());
});
afterAll(() => model.close());

const sequence = (change: object = {}) => sequenceOf({ slot, ...change });

describe("a step", () => {
  it.each<[string, object]>([
    ["sequences[0].slot", { slot: 999 }],
    ["sequences[0].slot", { slot: -1 }],
    ["sequences[0].slot", { slot: 1.5 }],
    ["sequences[0].tokens", { tokens: ids() }],
    ["sequences[0].tokens", { tokens: [1, 2] }],
    ["sequences[0].tokens", { tokens: Float32Array.of(1) }],
    ["sequences[0].tokens", { tokens: null }],
    ["sequences[0].tokens[1]", { tokens: ids(1, 384) }],
    ["sequences[0].tokens[0]", { tokens: ids(-1) }],
    ["sequences[0].position", { position: -1 }],
    ["sequences[0].position", { position: 256 }],
    ["sequences[0].position", { position: Number.NaN }],
    ["sequences[0].tokens", { position: 255, tokens: ids(1, 2) }],
    ["sequences[0].blocks", { blocks: ids() }],
    ["sequences[0].blocks", { position: 62 }],
    ["sequences[0].blocks[0]", { blocks: ids(8) }],
    ["sequences[0].blocks[0]", { blocks: ids(-1) }],
    ["sequences[0].adapter", { adapter: 77 }],
    ["sequences[0].sample", { sample: 1 }],
    ["sequences[0].outputIndex", { outputIndex: -1 }],
    ["sequences[0].maxDrafts", { maxDrafts: 16 }],
    ["sequences[0].maxDrafts", { maxDrafts: -1 }],
    ["sequences[0].lookup", { lookup: "text" }],
    ["sequences[0].lookup[1]", { lookup: ids(1, 384) }],
    ["sequences[0].lookup[0]", { lookup: ids(-1) }],
    ["sequences[0].outputIndex", { outputIndex: 2 ** 31 - 1 }],
    ["sequences[0].promptLogprobs", { promptLogprobs: 385 }],
    ["sequences[0].next", { promptLogprobs: 1, next: null }],
    ["sequences[0].next", { promptLogprobs: 1, next: ids(1) }],
    ["sequences[0].next[2]", { promptLogprobs: 1, next: ids(1, 2, 384) }],
  ])("names %s", async (param, change) => {
    const error = await failure(() => model.step([sequence(change)]));
    expect(error).toMatchObject({ code: "invalid_argument", status: 400, param });
  });

  it("refuses two sequences that write one page, or share a slot", async () => {
    const other = model.openSlot(plainSlot());
    const pages = await failure(() => model.step([sequence(), sequence({ slot: other })]));
    expect(pages.param).toBe("sequences[1].blocks");
    const slots = await failure(() => model.step([sequence(), sequence({ blocks: ids(1) })]));
    expect(slots.param).toBe("sequences[1].slot");
    model.closeSlot(other);
  });

  it("sees a detached buffer as empty, and is not moved by changes made after the call", async () => {
    const detached = ids(1, 2, 3);
    structuredClone(detached.buffer, { transfer: [detached.buffer] });
    expect((await failure(() => model.step([sequence({ tokens: detached })]))).param).toBe("sequences[0].tokens");

    const before = await model.step([sequence()]);
    const tokens = ids(1, 2, 3);
    const blocks = ids(0);
    const running = model.step([sequence({ tokens, blocks })]);
    tokens.fill(-5);
    blocks.fill(1 << 30);
    expect((await running).logprobs).toEqual(before.logprobs);
  });

  it("notices a model that an argument's getter has closed", async () => {
    const closing = await loadCase("llama", { kvPages: 4 });
    const own = closing.openSlot(plainSlot());
    const hostile = sequence({ slot: own });
    Object.defineProperty(hostile, "next", { get: () => closing.close() });
    Object.defineProperty(hostile, "promptLogprobs", { value: 0 });
    Object.defineProperty(hostile, "outputIndex", {
      get() {
        closing.close();
        return 0;
      },
    });
    expect(["closed", "invalid_argument"]).toContain((await failure(() => closing.step([hostile]))).code);
    const thrower = sequence();
    Object.defineProperty(thrower, "blocks", {
      get: () => {
        throw new RangeError("mine");
      },
    });
    await expect(model.step([thrower])).rejects.toThrow(new RangeError("mine"));
  });
});

describe("a slot", () => {
  it.each<[string, object]>([
    ["params.temperature", { temperature: -0.1 }],
    ["params.temperature", { temperature: Number.POSITIVE_INFINITY }],
    ["params.topP", { topP: 1.1 }],
    ["params.topK", { topK: 0.5 }],
    ["params.minP", { minP: Number.NaN }],
    ["params.repetitionPenalty", { repetitionPenalty: 0 }],
    ["params.seed", { seed: 1 }],
    ["params.seed", { seed: 1n << 64n }],
    ["params.minTokens", { minTokens: -1 }],
    ["params.endIds[0]", { endIds: ids(384) }],
    ["params.biasValues", { biasIds: ids(1), biasValues: new Float32Array(2) }],
    ["params.biasValues[0]", { biasIds: ids(1), biasValues: Float32Array.of(Number.NaN) }],
    ["params.biasIds", { biasIds: ids(1, 1), biasValues: new Float32Array(2) }],
    ["params.allowedIds[0]", { allowedIds: ids(-1) }],
    ["params.badWords[0]", { badWords: [ids()] }],
    ["params.prompt[0]", { prompt: ids(1 << 30) }],
    ["params.topLogprobs", { topLogprobs: -2 }],
    ["params.logprobIds[1]", { logprobIds: ids(3, 384) }],
    ["params.thinking", { thinking: 3 }],
    ["params.thinking.tokens", { thinking: { tokens: -1, used: 0, open: ids(1), close: ids(2) } }],
    ["params.thinking.used", { thinking: { tokens: 1, used: -2, open: ids(1), close: ids(2) } }],
    ["params.thinking.open", { thinking: { tokens: 1, used: 0, open: ids(), close: ids(2) } }],
    ["params.thinking.close[0]", { thinking: { tokens: 1, used: 0, open: ids(1), close: ids(384) } }],
  ])("names %s", async (param, change) => {
    const error = await failure(() => model.openSlot(plainSlot(change)));
    expect(error).toMatchObject({ code: "invalid_argument", param });
  });

  it.each(samplingNumbers.map(({ key }) => key))("takes the number %s from a request, and names it", async (key) => {
    model.closeSlot(model.openSlot(plainSlot()));
    const error = await failure(() => model.openSlot(plainSlot({ [key]: Number.NaN })));
    expect(error).toMatchObject({ code: "invalid_argument", param: `params.${key}` });
  });

  it("takes seeds of either sign", () => {
    for (const seed of [-(1n << 63n), (1n << 64n) - 1n]) model.closeSlot(model.openSlot(plainSlot({ seed })));
  });

  it("with nothing permitted draws -1, and so does what goes on from it", async () => {
    const none = model.openSlot(plainSlot({ allowedIds: ids() }));
    const first = model.step([sequence({ slot: none })]);
    const second = model.step([sequence({ slot: none, tokens: null, position: 3, outputIndex: 1 })]);
    expect([...(await first).tokens, ...(await second).tokens]).toEqual([-1, -1]);
    model.closeSlot(none);
  });

  it("does not go on from a token older than an aborted step", async () => {
    const own = model.openSlot(plainSlot());
    const abort = new AbortController();
    await model.step([sequence({ slot: own })]);
    const next = { slot: own, tokens: null, position: 3, outputIndex: 1 };
    const aborted = model.step([sequence(next)], abort.signal);
    const after = model.step([sequence({ ...next, position: 4, outputIndex: 2 })]);
    abort.abort(new Error("enough"));
    const ended = await aborted.then(
      () => "finished",
      (error: Error) => error.message,
    );
    // It may have run before it was aborted.
    if (ended === "enough") expect([...(await after).tokens]).toEqual([-1]);
    const again = sequence({ slot: own, position: 3, tokens: ids(9), outputIndex: 1 });
    expect((await model.step([again])).tokens[0]).toBeGreaterThanOrEqual(0);
    model.closeSlot(own);
  });
});

describe("training", () => {
  const row = { tokens: ids(1, 2, 3, 4) };

  it.each<[string, object[]]>([
    ["rows", []],
    ["rows[0].tokens", [{ tokens: ids() }]],
    ["rows[0].tokens[0]", [{ tokens: ids(384) }]],
    ["rows[0].tokens", [{ tokens: new Int32Array(257) }]],
    ["rows[0].trained", [{ tokens: ids(1, 2), trained: new Uint8Array(1) }]],
    ["rows[0].prefix", [{ tokens: ids(1), prefix: 0, prefixLength: 1 }]],
    ["rows[1].prefixLength", [row, { tokens: ids(1), prefix: 0 }]],
    ["rows[1].prefixLength", [row, { tokens: ids(1), prefix: 0, prefixLength: 5 }]],
    [
      "rows[2].prefix",
      [row, { tokens: ids(1), prefix: 0, prefixLength: 1 }, { tokens: ids(1), prefix: 1, prefixLength: 1 }],
    ],
    [
      "rows[1].tokens",
      [{ tokens: new Int32Array(200) }, { tokens: new Int32Array(100), prefix: 0, prefixLength: 200 }],
    ],
  ])("names %s", async (param, rows) => {
    expect(await failure(() => trainer.forward(rows as never))).toMatchObject({ code: "invalid_argument", param });
    expect(await failure(() => trainer.evaluate(rows as never))).toMatchObject({ code: "invalid_argument", param });
  });

  it("checks the gradient it is given, and its age", async () => {
    const pass = await trainer.forward([{ ...row, trained: Uint8Array.of(0, 1, 1, 1) }]);
    const bad: [string, unknown][] = [
      ["dLogprobs", []],
      ["dLogprobs[0]", [new Float32Array(3)]],
      ["dLogprobs[0][1]", [Float32Array.of(0, Number.NaN, 0, 0)]],
      ["dLogprobs[0][0]", [Float32Array.of(1, 0, 0, 0)]],
      ["dLogprobs[0][3]", [Float32Array.of(0, 0, 0, 1)]],
    ];
    for (const [param, gradient] of bad) {
      expect(await failure(() => pass.backward(gradient as never))).toMatchObject({ code: "invalid_argument", param });
    }
    const settings = { learningRate: 0, beta1: 0.9, beta2: 0.99, eps: 1e-8, weightDecay: 0, maxGradNorm: 0 };
    for (const [name, value] of Object.entries({
      learningRate: Number.NaN,
      beta1: 1,
      beta2: -1,
      eps: 0,
      maxGradNorm: -1,
    })) {
      expect((await failure(() => trainer.optimStep({ ...settings, [name]: value }))).param).toBe(`settings.${name}`);
    }
    await trainer.optimStep(settings);
    expect((await failure(() => pass.backward([new Float32Array(4)]))).code).toBe("conflict");
    pass.close();
    expect((await failure(() => pass.backward([new Float32Array(4)]))).code).toBe("closed");
  });

  it("checks tensors by name, shape and value", async () => {
    const { spec, tensors } = await caseAdapter("qwen3");
    const [name, { shape, data }] = [...tensors][0]!;
    const changed = (change: (copy: typeof tensors) => void) => {
      const copy = new Map(tensors);
      change(copy);
      return failure(() => model.loadAdapter(spec, copy));
    };
    expect((await changed((copy) => copy.delete(name))).message).toContain(`${name} is missing`);
    expect((await changed((copy) => copy.set("other", { shape, data }))).param).toBe("other");
    expect((await changed((copy) => copy.set(name, { shape: [1, 1], data }))).param).toBe(name);
    expect((await changed((copy) => copy.set(name, { shape, data: data.slice(1) }))).param).toBe(name);
    expect((await changed((copy) => copy.set(name, { shape, data: data.map(() => Number.NaN) }))).param).toBe(
      `${name}[0]`,
    );
    for (const change of [
      { rank: 0 },
      { rank: 4096 },
      { alpha: Number.NaN },
      { targets: [] },
      { targets: ["lm_head"] },
    ]) {
      expect((await failure(() => model.loadAdapter({ ...spec, ...change }, tensors))).code).toBe("invalid_argument");
    }
    await expect(trainer.read("nothing" as never)).rejects.toMatchObject({ param: "part" });
    await expect(trainer.read("value", "nothing")).rejects.toMatchObject({ param: "tensor" });
    const [lastName, last] = [...(await trainer.read("value"))].at(-1)!;
    expect([...(await trainer.read("value", lastName))]).toEqual([[lastName, last]]);
    const negative = await trainer.read("moment2");
    negative.values().next().value!.data.fill(-1);
    await expect(trainer.write("moment2", negative)).rejects.toMatchObject({ code: "invalid_argument" });
  });

  it("publishes what takes no more than the same adapter loaded", async () => {
    const { spec, tensors } = await caseAdapter("qwen3");
    const learner = await model.trainAdapter(spec, { seed: 1n, tensors });
    const [published, loaded] = [await learner.publish(), await model.loadAdapter(spec, tensors)];
    const bytes = model.adapterBytes(loaded);
    expect(bytes).toBeGreaterThan([...tensors.values()].reduce((sum, { data }) => sum + data.length, 0));
    expect(model.adapterBytes(published)).toBe(bytes);
    for (const version of [published, loaded]) model.releaseAdapter(version);
    expect((await failure(() => model.adapterBytes(loaded))).param).toBe("version");
    learner.close();
  });

  it.skipIf(isGpu)("of all weights excludes adapters and other trainers", async () => {
    expect((await failure(() => model.trainWeights())).code).toBe("conflict");
    const other = await loadCase("llama_linear", { kvPages: 4 });
    const { spec, tensors } = await caseAdapter("llama_linear");
    const whole = await other.trainWeights();
    expect((await failure(() => other.loadAdapter(spec, tensors))).code).toBe("conflict");
    expect((await failure(() => other.trainAdapter(spec, { seed: 1n }))).code).toBe("conflict");
    whole.close();
    const loading = other.loadAdapter(spec, tensors);
    expect((await failure(() => other.trainWeights())).code).toBe("conflict");
    const version = await loading;
    expect((await failure(() => other.trainWeights())).code).toBe("conflict");
    other.releaseAdapter(version);
    (await other.trainWeights()).close();
    other.close();
  });
});

describe("closing", () => {
  it("ends what is in progress and refuses what comes later", async () => {
    const own = await loadCase("llama", { kvPages: 4 });
    const { spec, tensors } = await caseAdapter("llama");
    const learner = await own.trainAdapter(spec, { seed: 1n, tensors });
    const pass = await learner.forward([{ tokens: ids(1, 2, 3) }]);
    const running = Array.from({ length: isGpu ? 3 : 20 }, () => learner.evaluate([{ tokens: new Int32Array(250) }]));
    own.close();
    own.close();
    const ends = await Promise.allSettled(running);
    expect(ends.at(-1)).toMatchObject({ status: "rejected", reason: { code: "closed" } });
    for (const call of [
      () => own.openSlot(plainSlot()),
      () => own.step([sequence()]),
      () => own.copyPages(ids(0), ids(1)),
      () => own.loadAdapter(spec, tensors),
      () => own.trainAdapter(spec, { seed: 1n }),
      () => learner.forward([{ tokens: ids(1) }]),
      () => learner.optimStep({ learningRate: 0, beta1: 0, beta2: 0, eps: 1, weightDecay: 0, maxGradNorm: 0 }),
      () => learner.read("value"),
      () => learner.publish(),
      () => pass.backward([new Float32Array(3)]),
    ]) {
      expect((await failure(call)).code).toBe("closed");
    }
  });

  it("rejects an aborted call with the signal's reason", async () => {
    const abort = new AbortController();
    const reason = new Error("changed my mind");
    // Long enough that the second waits, however late this thread goes on.
    const first = trainer.evaluate(Array.from({ length: isGpu ? 4 : 64 }, () => ({ tokens: new Int32Array(250) })));
    const second = trainer.evaluate([{ tokens: ids(1, 2) }], { signal: abort.signal });
    abort.abort(reason);
    await expect(second).rejects.toBe(reason);
    await expect(model.step([sequence()], abort.signal)).rejects.toBe(reason);
    await first;
  });
});

it("takes nothing but what it asks for, whatever is passed", async () => {
  const { config, tensors } = await openWeightFolder(caseFolder("qwen3"));
  const { spec, tensors: values } = await caseAdapter("qwen3");
  const load = { config: { ...config, kvCache: "int8" }, tensors, dtype: "float32", kvPages: 4 };
  const runtime = openRuntime({ device: DEVICE });
  const targets: [object, string, unknown[]][] = [
    [runtime, "load", [load]],
    [runtime, "memory", [config, "float32"]],
    [runtime, "setThreads", [2]],
    [{ weightTensors }, "weightTensors", [config]],
    [{ adapterTensors }, "adapterTensors", [config, spec]],
    [model, "openSlot", [plainSlot()]],
    [model, "closeSlot", [slot]],
    [model, "step", [[sequence()]]],
    [model, "copyPages", [ids(0, 1), ids(2, 3)]],
    [model, "loadAdapter", [spec, values]],
    [model, "releaseAdapter", [1]],
    [model, "adapterBytes", [1]],
    [model, "trainAdapter", [spec, { seed: 1n, tensors: values }]],
    [trainer, "forward", [[{ tokens: ids(1, 2, 3) }], { memoryBudget: 10 }]],
    [trainer, "evaluate", [[{ tokens: ids(1, 2, 3) }], { adapter: 0 }]],
    [trainer, "write", ["value", await trainer.read("value"), 3]],
    [trainer, "read", ["value"]],
  ];
  const junk = [
    undefined,
    null,
    Number.NaN,
    -1,
    1.5,
    2 ** 53,
    Number.POSITIVE_INFINITY,
    1n << 70n,
    "",
    "x\0y",
    "\ud800",
    Symbol("s"),
    true,
    {},
    [],
    [[]],
    [null],
    () => 0,
    new Proxy({}, {}),
    new Float64Array(3),
    ids(2 ** 31 - 1, -(2 ** 31)),
    new Uint8Array(new SharedArrayBuffer(8)),
    new DataView(new ArrayBuffer(8)),
    Object.create(null),
    new Date(),
  ];
  let state = 12345;
  const random = (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  /** A copy with one value, somewhere inside, replaced. */
  const spoil = (value: unknown, depth = 0): unknown => {
    const inside = typeof value === "object" && value !== null && !ArrayBuffer.isView(value) && !(value instanceof Map);
    if (!inside || (depth > 0 && random(3) === 0)) return junk[random(junk.length)];
    const keys = Object.keys(value);
    const key = keys[random(keys.length)];
    if (key === undefined) return junk[random(junk.length)];
    const copy: Record<string, unknown> = Array.isArray(value) ? ([...value] as never) : { ...value };
    copy[key] = spoil(copy[key], depth + 1);
    return copy;
  };
  for (let round = 0; round < (isGpu ? 300 : 3000); round++) {
    const [target, method, given] = targets[random(targets.length)]!;
    const change = random(given.length);
    const spoiled = given.map((argument, i) => (i === change ? spoil(argument) : argument));
    try {
      const result = await (target as Record<string, (...values: unknown[]) => unknown>)[method]!(...spoiled);
      if (typeof result === "object" && result !== null && "close" in result) (result as { close(): void }).close();
    } catch (error) {
      // A TypeError comes from our own destructuring of something that is no object.
      if (!(error instanceof TypeError)) expect(error).toBeInstanceOf(AnnealError);
    }
  }
  runtime.setThreads(2);
  const own = model.openSlot(plainSlot());
  expect((await model.step([sequence({ slot: own })])).tokens[0]).toBeGreaterThanOrEqual(0);
});

it.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, "one more", "1", true, {}])(
  "refuses %s layers of a GPU, on any device",
  async (wrong) => {
    const { config, tensors } = await openWeightFolder(caseFolder("qwen3"));
    const gpuLayers = (wrong === "one more" ? config.layers.length + 1 : wrong) as number;
    for (const device of ["cpu", "vulkan:0"]) {
      const options = { config, tensors, dtype: "float32" as const, kvPages: 4, recurrentStates: 1, device, gpuLayers };
      const [load, memory] = await Promise.all([
        failure(() => nativeAddon().load(options)),
        failure(() => nativeAddon().memory(config, "float32", device, gpuLayers)),
      ]);
      expect([load.code, load.param]).toEqual(["invalid_argument", "options.gpuLayers"]);
      expect([memory.code, memory.param]).toEqual(["invalid_argument", "gpuLayers"]);
      expect(load.message).toContain(`from 1 to ${config.layers.length}`);
    }
  },
);

it("quantises numbers that are too small for a scale as zeros", async () => {
  const quantize = (step: number) =>
    nativeAddon().quantize(
      "Q8_0",
      Float32Array.from({ length: 64 }, (_, i) => i * step),
    );
  expect(await quantize(1e-40)).toEqual(await quantize(0));
});

describe("a model whose logits are given", () => {
  const vocab = 40;
  const open = () => nativeAddon().givenLogits({ vocab, maxPositions: 128, pages: 2 });
  const row = (best: number) => new Float32Array(vocab).fill(-1).fill(2, best, best + 1);

  it("samples from them, and tells log-probabilities of prompts", async () => {
    const given = open();
    const slot = given.openSlot({ ...plainSlot(), temperature: 0, topLogprobs: 1 });
    const sampled = await given.step([{ ...sequence({ slot }), logits: row(7) } as StepSequence]);
    const logprob = 2 - Math.log(Math.exp(2) + (vocab - 1) * Math.exp(-1));
    expect(sampled.tokens[0]).toBe(7);
    expect(sampled.logprobs[0]).toBeCloseTo(logprob, 5);
    const logits = Float32Array.from([...row(4), ...row(5), ...row(6)]);
    const asked = { slot, promptLogprobs: 1, next: ids(4, 9, -1), logits };
    const { prompt, tokens } = await given.step([sequence(asked)]);
    expect(tokens[0]).toBe(6);
    expect(prompt[0]!.map(({ rank, topIds }) => [rank, topIds[0]])).toEqual([
      [1, 4],
      [vocab, 5],
      [0, 6],
    ]);
    given.close();
  });

  it.each<[string, object]>([
    ["sequences[0].logits", { logits: new Float32Array(vocab - 1) }],
    ["sequences[0].logits", { logits: new Float64Array(vocab) }],
    ["sequences[0].logits", {}],
    ["sequences[0].logits", { logits: row(1), promptLogprobs: 0, next: ids(1, 2, 3) }],
    ["sequences[0].tokens", { tokens: null, logits: row(1) }],
    ["sequences[0].states", { states: 1, logits: row(1) }],
    ["sequences[0].blocks[0]", { blocks: ids(2), logits: row(1) }],
  ])("refuses %s, case %#", async (param, change) => {
    const given = open();
    const slot = given.openSlot({ ...plainSlot(), temperature: 0 });
    const error = await failure(() => given.step([sequence({ slot, ...change })]));
    expect(error).toMatchObject({ code: "invalid_argument", param });
    given.close();
  });

  it("has no weights to train or adapt", async () => {
    const given = open();
    const { spec } = await caseAdapter("qwen3");
    for (const call of [
      () => given.trainWeights(),
      () => given.trainAdapter(spec, 1n, null),
      () => given.loadAdapter(spec, []),
    ]) {
      expect((await failure(call)).code).toBe("internal_error");
    }
    given.close();
    for (const wrong of [{ vocab: 0 }, { pages: 0 }, { maxPositions: 2 ** 30 }]) {
      const error = await failure(() => nativeAddon().givenLogits({ vocab, maxPositions: 128, pages: 2, ...wrong }));
      expect(error.param).toBe(`options.${Object.keys(wrong)[0]}`);
    }
  });
});
