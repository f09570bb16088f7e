// As boundary.test.ts, of layers that not every model has.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { nativeAddon } from "../../src/runtime/nativeAddon.js";
import { type DeviceModel, openRuntime } from "../../src/runtime/runtime.js";
import { openWeightFolder } from "../../src/weights/weightFolder.js";
import { failure } from "./nativeFailure.js";
import { caseFolder, loadCase } from "./referenceModel.js";
import { ids, sequenceOf } from "./sequenceOf.js";

describe("a model with recurrent layers", () => {
  let model: DeviceModel;
  beforeAll(async () => {
    model = await loadCase("qwen3_5", { kvPages: 8, recurrentStates: 2 });
  });
  afterAll(() => model.close());

  const prefill = (change: object) => sequenceOf({ sample: false, recurrent: 0, ...change });

  it.each<[string, object[]]>([
    ["sequences[0].recurrent", [{ recurrent: undefined }]],
    ["sequences[0].recurrent", [{ recurrent: -1 }]],
    ["sequences[0].recurrent", [{ recurrent: 2 }]],
    ["sequences[0].recurrent", [{ recurrent: 0.5 }]],
    ["sequences[1].recurrent", [{}, { blocks: ids(1) }]],
  ])("refuses %s, case %#", async (param, changes) => {
    const error = await failure(() => model.step(changes.map(prefill)));
    expect(error).toMatchObject({ code: "invalid_argument", param });
    await model.step([prefill({}), prefill({ blocks: ids(1), recurrent: 1 })]);
  });

  it("refuses copies of states that are not there", async () => {
    for (const [from, to, param] of [
      [[0], [2], "to[0]"],
      [[-1], [0], "from[0]"],
      [[0, 1], [1], "to"],
    ] as const) {
      const error = await failure(() => model.copyRecurrentStates(ids(...from), ids(...to)));
      expect(error).toMatchObject({ code: "invalid_argument", param });
    }
  });

  it("is refused without states, and by devices that do not compute it, by name", async () => {
    const load = failure(() => loadCase("qwen3_5", { recurrentStates: 0 }));
    expect((await load).param).toBe("options.recurrentStates");
    const { config } = await openWeightFolder(caseFolder("qwen3_5"));
    for (const field of ["keyDim", "valueDim"] as const) {
      const layers = config.layers.map((layer) => ({ ...layer, deltaRule: { ...layer.deltaRule!, [field]: 513 } }));
      const error = await failure(() => nativeAddon().memory({ ...config, layers }, "float32", "vulkan:0"));
      expect(error).toMatchObject({ code: "invalid_argument", param: `config.layers[0].deltaRule.${field}` });
    }
    const wrong = config.layers.map((layer, i) =>
      i === 1 ? { ...layer, deltaRule: { ...layer.deltaRule!, valueHeads: 3 } } : layer,
    );
    const sizes = await failure(() => openRuntime().memory({ ...config, layers: wrong }, "float32"));
    expect(sizes.param).toBe("config.layers[1].deltaRule.valueHeads");
  });

  it("says what a state takes", async () => {
    const { config } = await openWeightFolder(caseFolder("qwen3_5"));
    const { recurrentState } = openRuntime().memory(config, "bfloat16");
    // Three layers of 2 key heads, each with 2 states of 12 x 8 (in panels of 16) and 3 x 40 inputs of its convolution (to 16).
    expect(recurrentState).toBe(3 * 2 * (2 * 12 * 16 + 128) * 4);
    // On a GPU without padding; and the processor's, where that has all layers that have one.
    const onGpu = (gpuLayers?: number) =>
      nativeAddon().memory(config, "bfloat16", "vulkan:0", gpuLayers).recurrentState;
    expect(onGpu()).toBe(3 * (4 * 12 * 8 + 3 * 80) * 4);
    expect(onGpu(1)).toBe(recurrentState);
  });
});

describe("a layer with a short convolution", () => {
  it.each([
    ["shortConvolution.width", { width: 0 }],
    ["shortConvolution.kernel", { kernel: 17 }],
    ["shortConvolution.bias", { bias: 1 }],
  ])("is refused for its %s", async (param, changes) => {
    const { config } = await openWeightFolder(caseFolder("lfm2"));
    const [first, ...others] = config.layers;
    const layers = [{ ...first!, shortConvolution: { ...first!.shortConvolution!, ...changes } }, ...others];
    const error = await failure(() => nativeAddon().memory({ ...config, layers } as never, "float32", "cpu"));
    expect(error).toMatchObject({ code: "invalid_argument", param: `config.layers[0].${param}` });
  });

  it("is refused for unknown names, and by devices that do not compute it, by name", async () => {
    const { config } = await openWeightFolder(caseFolder("lfm2"));
    const layers = config.layers.map((layer) => ({ ...layer, names: "lfm3" }));
    const names = await failure(() => nativeAddon().memory({ ...config, layers } as never, "float32", "cpu"));
    expect(names).toMatchObject({ code: "invalid_argument", param: "config.layers[0].names" });
    const { config: other } = await openWeightFolder(caseFolder("qwen3_5"));
    const named = other.layers.map((layer) => ({ ...layer, names: "lfm2" as const }));
    const unfit = await failure(() => nativeAddon().memory({ ...other, layers: named }, "float32", "cpu"));
    expect(unfit).toMatchObject({ code: "invalid_argument", param: "config.layers[0].names" });
    const onGpu = await failure(() => nativeAddon().memory(config, "float32", "vulkan:0"));
    expect(onGpu).toMatchObject({ code: "invalid_argument", param: "config.layers[0].shortConvolution" });
  });

  it("says what a state takes", async () => {
    const { config } = await openWeightFolder(caseFolder("lfm2"));
    // Three layers, each with the last two of 48 products.
    expect(openRuntime().memory(config, "bfloat16").recurrentState).toBe(3 * 2 * 48 * 4);
  });
});

describe("a layer that attends to the keys of another", () => {
  it.each([
    [3, { keysOf: 3 }, "layers[3].attention.keysOf"],
    [3, { keysOf: 0 }, "layers[3].attention.keysOf"], // of other heads
    [5, { keysOf: 3 }, "layers[5].attention.keysOf"], // which has none of its own
    [3, { keysOf: -1 }, "layers[3].attention.keysOf"],
    [1, { qkNorm: false }, "layers[1].attention.qkNorm"],
    [1, { vNorm: 1 }, "layers[1].attention.vNorm"],
  ])("is refused where layer %i says %o", async (at, changes, param) => {
    const { config } = await openWeightFolder(caseFolder("gemma4"));
    const layers = config.layers.map((layer, i) =>
      i === at ? { ...layer, attention: { ...layer.attention!, ...changes } } : layer,
    );
    const error = await failure(() => nativeAddon().memory({ ...config, layers } as never, "float32", "cpu"));
    expect(error).toMatchObject({ code: "invalid_argument", param: `config.${param}` });
  });

  it("is refused by devices that do not compute it, by name", async () => {
    const { config } = await openWeightFolder(caseFolder("gemma4"));
    const onGpu = await failure(() => nativeAddon().memory(config, "float32", "vulkan:0"));
    expect(onGpu).toMatchObject({ code: "invalid_argument", param: "config.tokenInputs" });
    const { config: without } = await openWeightFolder(caseFolder("gemma4_odd"));
    const norms = await failure(() => nativeAddon().memory(without, "float32", "vulkan:0"));
    expect(norms).toMatchObject({ code: "invalid_argument", param: "config.layers[0].attention.vNorm" });
    for (const tokenInputs of [0, 1.5, 2 ** 20]) {
      const error = await failure(() => nativeAddon().memory({ ...config, tokenInputs }, "float32", "cpu"));
      expect(error).toMatchObject({ code: "invalid_argument", param: "config.tokenInputs" });
    }
  });

  it("takes no memory for keys and values", async () => {
    const { config } = await openWeightFolder(caseFolder("gemma4"));
    const [first, second, third] = config.layers;
    const own = { ...config, layers: [first!, second!, third!] };
    const { page } = openRuntime().memory(own, "bfloat16");
    expect(openRuntime().memory(config, "bfloat16").page).toBe(page);
  });
});

describe("a layer with experts", () => {
  it.each([
    ["experts.perToken", { perToken: 9 }],
    ["experts.count", { count: 0 }],
    ["experts.intermediate", { intermediate: Number.NaN }],
    ["experts.sharedIntermediate", { sharedIntermediate: -1 }],
    ["experts.activation", { activation: "relu" }],
    ["experts.normalized", { normalized: 1 }],
    ["experts.scores", { scores: "tanh" }],
    ["experts.scoreBias", { scoreBias: true }],
    ["experts.scoreBias", { scores: "logistic", scoreBias: true }],
    ["experts.scale", { scale: 2 }],
    ["experts.scale", { scores: "logistic", scale: Number.NaN }],
    ["experts", null],
  ])("is refused for its %s", async (param, changes) => {
    const { config } = await openWeightFolder(caseFolder("qwen3_moe"));
    const layers = config.layers.map((layer) => ({ ...layer, experts: changes && { ...layer.experts!, ...changes } }));
    const error = await failure(() => nativeAddon().memory({ ...config, layers } as never, "float32", "cpu"));
    // Without experts there would have to be a feed-forward.
    const wanted = changes === null ? "feedForward" : param;
    expect(error).toMatchObject({ code: "invalid_argument", param: `config.layers[0].${wanted}` });
  });

  it("is refused with a feed-forward beside them, and by devices that do not compute it, by name", async () => {
    const { config } = await openWeightFolder(caseFolder("qwen3_moe_odd"));
    const { feedForward } = config.layers.find((layer) => layer.feedForward)!;
    const layers = config.layers.map((layer) => ({ ...layer, feedForward }));
    const both = await failure(() => nativeAddon().memory({ ...config, layers }, "float32", "cpu"));
    expect(both).toMatchObject({ code: "invalid_argument", param: "config.layers[0].feedForward" });
    const onGpu = await failure(() => nativeAddon().memory(config, "float32", "vulkan:0"));
    expect(onGpu).toMatchObject({ code: "invalid_argument", param: "config.layers[0].experts" });
  });
});
