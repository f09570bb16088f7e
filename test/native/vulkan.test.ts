// Models on a GPU: the processor's bits, for whatever a step may be. Without a Vulkan device (Debian: apt install
// mesa-vulkan-drivers libvulkan1) all but what holds without one is skipped.

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual, stripVTControlCharacters } from "node:util";
import { afterAll, describe, expect, it } from "vitest";
import { compilerVersion, generated, sourceHash } from "../../native/backends/vulkan/shaders/compile.mjs";
import { Engine, InsufficientMemoryError } from "../../src/index.js";
import {
  type DeviceModel,
  type ElementType,
  listGpus,
  measureGpu,
  type StepSequence,
  type TrainRow,
} from "../../src/runtime/runtime.js";
import {
  CASES,
  type Case,
  caseAdapter,
  convolves,
  expected,
  hasExperts,
  isRecurrent,
  loadCase,
  pagesFrom,
  plainSlot,
  sharesKeys,
} from "./referenceModel.js";

const root = join(import.meta.dirname, "../..");
const gpus = await listGpus();
const gpu = gpus.find(({ problem, exact }) => problem === "" && exact);
const needsGpu = describe.skipIf(gpu === undefined);
if (gpu === undefined) console.info("no Vulkan device with the processor's bits: skipped");

/** Compiling shaders for a processor takes seconds for every shape of a model. */
const TIMEOUT = 120_000;
type Tried = [name: Case, dtype: ElementType, cache: "exact" | "int8"];
const SOME: Tried[] = [
  ["qwen3", "bfloat16", "exact"],
  ["gemma3_odd", "float32", "exact"],
  // Three queries to a key: rows of a tile do not come in pairs.
  ["smollm3_odd", "bfloat16", "exact"],
  ["smollm3_odd", "bfloat16", "int8"],
  ["gemma3_odd", "float32", "int8"],
  ["qwen3_5", "bfloat16", "exact"],
];
const TRIED =
  process.env.ANNEAL_TEST_VULKAN === "all"
    ? CASES.filter((name) => !hasExperts(name) && !convolves(name) && !sharesKeys(name)).flatMap((name) =>
        (["float32", "bfloat16"] as const).flatMap((dtype) =>
          // Codes of either type, of half of them.
          (name.endsWith("_odd") === (dtype === "float32") ? (["exact", "int8"] as const) : (["exact"] as const)).map(
            (cache): Tried => [name, dtype, cache],
          ),
        ),
      )
    : SOME;

const quiet = { slot: -1, recurrent: 0, sample: false, outputIndex: 0, promptLogprobs: -1, next: null };
const bits = (values: Iterable<number>) => [...new Uint32Array(Float32Array.from(values).buffer)];

const open: DeviceModel[] = [];
afterAll(() => {
  for (const model of open) model.close();
});
async function load(
  name: Case,
  dtype: ElementType,
  device: string,
  more: { gpuLayers?: number; kvCache?: "exact" | "int8" } = {},
): Promise<DeviceModel> {
  const model = await loadCase(name, { dtype, device, ...more });
  open.push(model);
  return model;
}

/** What a model computes of a row in pieces of so many tokens, and then of a batch that goes on from prompts. */
async function compute(model: DeviceModel, name: Case) {
  const { spec, tensors } = await caseAdapter(name);
  const version = await model.loadAdapter(spec, tensors);
  const row = expected(name).rows[1]!.slice(0, 96);
  const prefills: number[][] = [];
  for (const [adapter, piece] of [
    [0, 96],
    [version, 96],
    [version, 23],
  ] as const) {
    const logprobs: number[] = [];
    for (let position = 0; position < row.length; position += piece) {
      const tokens = row.slice(position, position + piece);
      const next = Int32Array.from(tokens, (_, t) => row[position + t + 1] ?? -1);
      const blocks = pagesFrom(0, row.length, model);
      const sequence = { ...quiet, tokens, position, blocks, adapter, promptLogprobs: 2, next, states: 1 };
      const { prompt, states } = await model.step([sequence]);
      for (const entry of prompt[0]!) logprobs.push(entry.logprob, entry.rank, ...entry.topLogprobs);
      logprobs.push(...states[0]!);
    }
    prefills.push(bits(logprobs));
  }

  const prompts = expected(name).rows.map((whole) => whole.slice(0, 60));
  const slots = prompts.map((_, i) => model.openSlot(plainSlot({ seed: BigInt(i) })));
  const sampled: number[][] = [];
  for (let output = 0; output < 8; output++) {
    const { tokens, logprobs } = await model.step(
      prompts.map((prompt, i): StepSequence => {
        const position = output === 0 ? 0 : prompt.length + output - 1;
        const given = { ...quiet, slot: slots[i]!, tokens: output === 0 ? prompt : null, position };
        return {
          ...given,
          blocks: pagesFrom(8 * i, 70, model),
          recurrent: i,
          adapter: i === 1 ? version : 0,
          sample: true,
          outputIndex: output,
        };
      }),
    );
    sampled.push([...tokens], bits(logprobs));
  }
  for (const slot of slots) model.closeSlot(slot);
  // The second sequence goes on from copies of its pages and its state; its last token was drawn, and not computed.
  model.copyPages(pagesFrom(8, 128, model), pagesFrom(40, 128, model));
  if (isRecurrent(name)) model.copyRecurrentStates(Int32Array.of(1), Int32Array.of(9));
  const tokens = Int32Array.of(3, 1, 4);
  const next = Int32Array.of(1, 4, 2);
  const blocks = pagesFrom(40, 70, model);
  const copied = { ...quiet, recurrent: 9, tokens, position: 67, blocks, adapter: version, promptLogprobs: 0, next };
  const { prompt } = await model.step([copied]);
  return { prefills, sampled, copied: bits(prompt[0]!.map(({ logprob }) => logprob)) };
}

/** Two passes over rows that share a prompt, with gradients by log-probabilities and entropies, and a step of AdamW. */
async function learn(model: DeviceModel, name: Case, options: { keepBytes?: number } = {}) {
  const { rows } = expected(name);
  const group: TrainRow[] = [
    { tokens: rows[1]! },
    // Completions of the first row's prompt, whose computation they share; it ends inside a page.
    { tokens: rows[2]!, prefix: 0, prefixLength: 70 },
    { tokens: rows[0]!, prefix: 0, prefixLength: 70, temperatures: Float32Array.from(rows[0]!, () => 0.7) },
    { tokens: rows[0]!, trained: Uint8Array.from(rows[0]!, (_, t) => t % 3) },
    // One that goes on from behind a row's last token.
    { tokens: rows[2]!.slice(0, 5), prefix: 0, prefixLength: rows[1]!.length },
  ];
  const { spec, tensors } = await caseAdapter(name);
  const trainer = await model.trainAdapter(spec, { seed: 3n, tensors });
  const numbers: number[][] = [];
  const keep = async (part: "value" | "gradient") => {
    for (const { data } of (await trainer.read(part)).values()) numbers.push(bits(data));
  };
  for (const entropyGradient of [true, false]) {
    const pass = await trainer.forward(group, { ...options, entropyGradient });
    const derivatives = (of: (t: number) => number) =>
      pass.entropies.map((row) => row.map((entropy, t) => (entropy === 0 ? 0 : of(t))));
    for (const row of [...pass.logprobs, ...pass.entropies]) numbers.push(bits(row));
    await pass.backward(derivatives(Math.sin), entropyGradient ? derivatives((t) => Math.cos(t) / 10) : undefined);
    await keep("gradient");
    pass.close();
  }
  const settings = { learningRate: 1e-2, beta1: 0.9, beta2: 0.99, eps: 1e-8, weightDecay: 0.1, maxGradNorm: 0.1 };
  numbers.push([(await trainer.optimStep(settings)).gradNorm]);
  await keep("value");
  for (const row of (await trainer.evaluate(group)).logprobs) numbers.push(bits(row));
  trainer.close();
  return numbers;
}

/** Places of lists that differ: of their numbers a report would be long. */
const differing = (a: number[][], b: number[][]) =>
  Array.from({ length: Math.max(a.length, b.length) }, (_, i) => i).filter((i) => !isDeepStrictEqual(a[i], b[i]));

needsGpu("a model on a GPU", { timeout: TIMEOUT }, () => {
  it.each(TRIED)("computes %s in %s, its cache %s, with the processor's bits", async (name, dtype, kvCache) => {
    const wanted = await compute(await load(name, dtype, "cpu", { kvCache }), name);
    expect(await compute(await load(name, dtype, gpu!.id, { kvCache }), name)).toEqual(wanted);
  });

  it.each(TRIED)("trains an adapter of %s in %s, its cache %s, as the processor does", async (name, dtype, kvCache) => {
    const wanted = await learn(await load(name, dtype, "cpu", { kvCache }), name);
    expect(differing(await learn(await load(name, dtype, gpu!.id, { kvCache }), name), wanted)).toEqual([]);
  });

  it("computes layers again for which there is no room, with the same bits, and refuses what cannot be", async () => {
    const model = await load("llama", "bfloat16", gpu!.id);
    const wanted = await learn(await load("llama", "bfloat16", "cpu"), "llama");
    expect(differing(await learn(model, "llama", { keepBytes: 1 }), wanted)).toEqual([]);
    const { spec } = await caseAdapter("llama");
    const trainer = await model.trainAdapter(spec, { seed: 1n });
    const pass = trainer.forward([{ tokens: expected("llama").rows[1]! }], { memoryBudget: 1 << 16 });
    await expect(pass).rejects.toMatchObject({ code: "insufficient_memory" });
    trainer.close();
  });

  it("serves while it trains", async () => {
    const model = await load("llama", "bfloat16", gpu!.id);
    const row = expected("llama").rows[1]!.slice(0, 40);
    const next = Int32Array.from(row, (_, t) => row[t + 1] ?? -1);
    const step = async () => {
      const sequence = {
        ...quiet,
        tokens: row,
        position: 0,
        blocks: pagesFrom(0, 40, model),
        adapter: 0,
        promptLogprobs: 0,
      };
      const { prompt } = await model.step([{ ...sequence, next }]);
      return bits(prompt[0]!.map(({ logprob }) => logprob));
    };
    const wanted = await step();
    const alone = await learn(await load("llama", "bfloat16", "cpu"), "llama");
    const training = learn(model, "llama");
    for (let i = 0; i < 5; i++) expect(await step()).toEqual(wanted);
    expect(differing(await training, alone)).toEqual([]);
  });

  it("has its first layers computed by the processor where that is asked, with the same bits", async () => {
    // With windows, of which the processor keeps pages of their own, and a head of its own.
    for (const [name, gpuLayers] of [
      ["gemma3_odd", 1],
      ["smollm3_odd", 1],
      // Recurrent layers on both.
      ["qwen3_5", 2],
    ] as const) {
      const whole = await load(name, "bfloat16", "cpu");
      const split = await load(name, "bfloat16", gpu!.id, { gpuLayers });
      expect(split.bytes).toBeLessThan((await load(name, "bfloat16", gpu!.id)).bytes);
      expect(await compute(split, name)).toEqual(await compute(whole, name));
      expect(differing(await learn(split, name), await learn(whole, name))).toEqual([]);
    }
  });

  it.each(["llama", "mistral_window"] as const)(
    "splits %s's attention over a long context, with the same bits",
    async (name) => {
      const [row] = expected(name).rows;
      const tokens = Int32Array.from({ length: 1060 }, (_, t) => row![(t * t) % row!.length]!);
      const found = async (device: string) => {
        const model = await loadCase(name, { dtype: "bfloat16", device, maxPositions: 2048 });
        open.push(model);
        const logprobs: number[] = [];
        for (let position = 0; position < tokens.length; ) {
          // The last ones one by one, as they are decoded.
          const count = position < 1020 ? Math.min(300, 1020 - position) : position < 1030 ? 1 : 30;
          const piece = tokens.slice(position, position + count);
          const next = Int32Array.from(piece, (_, t) => tokens[position + t + 1] ?? -1);
          const blocks = pagesFrom(0, tokens.length, model);
          const sequence = { ...quiet, tokens: piece, position, blocks, adapter: 0, promptLogprobs: 0, next };
          const { prompt } = await model.step([sequence]);
          logprobs.push(...prompt[0]!.map(({ logprob }) => logprob));
          position += count;
        }
        return bits(logprobs);
      };
      expect(await found(gpu!.id)).toEqual(await found("cpu"));
    },
  );

  it("is measured by what it reads and multiplies", async () => {
    const { bandwidth, operations, matrixOperations } = await measureGpu(gpu!.id);
    expect(bandwidth).toBeGreaterThan(0);
    expect(operations).toBeGreaterThan(0);
    expect(matrixOperations > 0).toBe(gpu!.fast);
  });

  it("does not train all weights, and says so", async () => {
    const model = await loadCase("llama", { device: gpu!.id });
    await expect(model.trainWeights()).rejects.toMatchObject({ code: "unusable_device", param: "device" });
    model.close();
  });

  it("is refused where it does not fit", async () => {
    const tooMany = loadCase("llama", { device: gpu!.id, kvPages: 1 << 24 });
    await expect(tooMany).rejects.toMatchObject({ code: "insufficient_memory" });
    const model = await load("llama", "bfloat16", gpu!.id);
    const { spec } = await caseAdapter("llama");
    const trainer = await model.trainAdapter(spec, { seed: 1n });
    const refusal = await trainer
      .evaluate([{ tokens: expected("llama").rows[1]! }], { memoryBudget: 1000 })
      .catch((e) => e);
    expect(refusal).toBeInstanceOf(InsufficientMemoryError);
    expect(refusal).toMatchObject({ param: "memoryBudget", available: 1000 });
    expect(refusal.needed).toBeGreaterThan(1000);
    expect(refusal.message).toMatch(/^a pass over these rows, .* needed, 1000 bytes available, .* missing$/);
    trainer.close();
  });

  const layer = "/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json";
  it.skipIf(!existsSync(layer) || process.env.VK_INSTANCE_LAYERS)("finds nothing that validation objects to", () => {
    const args = [
      "vitest",
      "run",
      "--config",
      ".vitest.config.ts",
      "test/native/vulkan.test.ts",
      "-t",
      // Also those that hold states.
      process.env.ANNEAL_TEST_VULKAN === "all"
        ? "(gemma3_odd in float32|qwen3_5 in bfloat16)"
        : "gemma3_odd in float32",
    ];
    const { status, stdout, stderr } = spawnSync("npx", args, {
      cwd: root,
      encoding: "utf8",
      env: {
        ...process.env,
        ANNEAL_TEST_VULKAN: "some",
        VK_INSTANCE_LAYERS: "VK_LAYER_KHRONOS_validation",
        VK_LAYER_ENABLES: "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT",
      },
    });
    expect(`${stdout}${stderr}`).not.toMatch(/VUID|SYNC-HAZARD|UNASSIGNED|Validation (Error|Warning)/);
    expect(stripVTControlCharacters(stdout)).toMatch(
      new RegExp(`Tests +${process.env.ANNEAL_TEST_VULKAN === "all" ? 6 : 4} passed`),
    );
    expect(status, stderr).toBe(0);
  });
});

const fastGpu = gpus.find(({ problem, fast }) => problem === "" && fast);
if (fastGpu === undefined) console.info("no Vulkan device with cooperative matrices: the fast family is skipped");

describe.skipIf(fastGpu === undefined)("a model on cooperative matrices", { timeout: TIMEOUT }, () => {
  const loadFast = async (name: Case) => {
    const model = await loadCase(name, { dtype: "bfloat16", device: fastGpu!.id, kernelSet: "fast" });
    open.push(model);
    return model;
  };
  /** Log-probabilities of a row computed in pieces of so many tokens, and all at the side of others. */
  async function logprobsOf(model: DeviceModel, adapter: number, row: Int32Array, piece: number, beside = 0) {
    const found: number[] = [];
    for (let position = 0; position < row.length; position += piece) {
      const tokens = row.slice(position, position + piece);
      const next = Int32Array.from(tokens, (_, t) => row[position + t + 1] ?? -1);
      const sequences = Array.from({ length: beside + 1 }, (_, i): StepSequence => {
        const blocks = pagesFrom(4 * i, row.length, model);
        return { ...quiet, tokens, position, blocks, adapter: i === 0 ? adapter : 0, promptLogprobs: 0, next };
      });
      const { prompt } = await model.step(sequences);
      found.push(...prompt[0]!.map(({ logprob }) => logprob));
    }
    return found.slice(0, row.length - 1);
  }

  it.each(["qwen3", "smollm3_odd"] as const)(
    "has one set of bits of its own for %s, near the exact ones",
    async (name) => {
      const model = await loadFast(name);
      expect(model.kernelSet).toBe("vulkan-fast");
      const { spec, tensors } = await caseAdapter(name);
      const version = await model.loadAdapter(spec, tensors);
      const row = expected(name).rows[1]!.slice(0, 70);
      const whole = await logprobsOf(model, version, row, 70);
      for (const [piece, beside] of [
        [1, 0],
        [1, 7],
        [23, 0],
        [70, 3],
      ] as const)
        expect([piece, beside, bits(await logprobsOf(model, version, row, piece, beside))]).toEqual([
          piece,
          beside,
          bits(whole),
        ]);
      const trainer = await model.trainAdapter(spec, { seed: 3n, tensors });
      const { logprobs } = await trainer.evaluate([{ tokens: row }]);
      expect(bits([...logprobs[0]!].slice(0, 69))).toEqual(bits(whole));
      trainer.close();

      // About as far from float32 as the processor's, and not the same numbers.
      const of = async (dtype: "bfloat16" | "float32") => {
        const other = await load(name, dtype, "cpu");
        return logprobsOf(other, await other.loadAdapter(spec, tensors), row, 70);
      };
      const [exact, truth] = [await of("bfloat16"), await of("float32")];
      const distance = (x: number[], y: number[]) => Math.hypot(...x.map((logprob, t) => logprob - y[t]!));
      expect(distance(whole, truth)).toBeLessThan(1.2 * distance(exact, truth));
      expect(distance(whole, exact)).toBeGreaterThan(0);
    },
  );

  it("has gradients near the processor's, which do not depend on what is kept", async () => {
    const model = await loadFast("llama");
    const numbers = await learn(model, "llama");
    expect(differing(await learn(model, "llama", { keepBytes: 1 }), numbers)).toEqual([]);
    const wanted = await learn(await load("llama", "bfloat16", "cpu"), "llama");
    const floats = (all: number[][]) => all.flatMap((row) => [...new Float32Array(Uint32Array.from(row).buffer)]);
    // Log-probabilities, entropies and gradients of the first pass: its values differ as AdamW's signs do.
    const [own, exact] = [floats(numbers.slice(0, 40)), floats(wanted.slice(0, 40))];
    const norm = (values: number[]) => Math.hypot(...values);
    expect(norm(own.map((x, i) => x - exact[i]!)) / norm(exact)).toBeLessThan(0.02);
  });

  it("is measured against exact arithmetic when it is loaded", async () => {
    const gateText = expected("qwen3").rows[1]!.slice(0, 60);
    const options = { dtype: "bfloat16", device: fastGpu!.id, gateText } as const;
    const [fast, exact] = [
      await loadCase("qwen3", { ...options, kernelSet: "fast" }),
      await loadCase("qwen3", { ...options, kernelSet: "exact" }),
    ];
    open.push(fast, exact);
    expect(fast.differenceToExact).toBeGreaterThan(0);
    // Operands are exact in float16; sums are taken in another order, and cut off by some devices, so that outputs are rounded to a
    // neighbouring bfloat16 now and then.
    expect(fast.differenceToExact).toBeLessThan(0.06);
    expect(exact.differenceToExact).toBe(0);
  });

  it("is refused in float32", async () => {
    const refused = loadCase("llama", { dtype: "float32", device: fastGpu!.id, kernelSet: "fast" });
    await expect(refused).rejects.toMatchObject({ code: "unusable_device" });
  });
});

describe("without a GPU", () => {
  it("names a device that is not there", async () => {
    await expect(loadCase("llama", { device: "vulkan:99" })).rejects.toMatchObject({ code: "unusable_device" });
    await expect(loadCase("llama", { device: "abacus" })).rejects.toMatchObject({ code: "unusable_device" });
  });

  it.skipIf(gpus.some(({ kind }) => kind === "discrete" || kind === "integrated"))(
    "takes no processor for a GPU that is asked for",
    async () => {
      const opened = Engine.open({ home: null, device: "gpu" });
      await expect(opened).rejects.toMatchObject({ code: "unusable_device", param: "device" });
      const misspelt = Engine.open({ home: null, device: "gpu:0" as "gpu" });
      await expect(misspelt).rejects.toMatchObject({ issues: [{ loc: ["options", "device"] }] });
    },
  );

  it("opens no GPU in software that nobody asked for", async () => {
    const kinds = (await listGpus({ hardware: true })).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind !== "discrete" && kind !== "integrated")).toEqual([]);
  });

  it("is silent, and computes on the processor", () => {
    const program = `import { Engine, listDevices } from ${JSON.stringify(join(root, "dist/index.js"))};
const engine = await Engine.open({ home: null, device: "auto" });
await engine.close();
console.log(JSON.stringify((await listDevices()).map(({ id }) => id)));`;
    const { stdout, stderr, status } = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
      encoding: "utf8",
      env: { ...process.env, VK_DRIVER_FILES: "/nowhere.json", VK_ICD_FILENAMES: "/nowhere.json" },
    });
    expect({ stdout, stderr, status }).toEqual({ stdout: '["cpu"]\n', stderr: "", status: 0 });
  });
});

describe("shaders", () => {
  const folder = join(root, "native/backends/vulkan/shaders");
  const header = readFileSync(join(folder, "spirv.h"), "utf8");

  it("were compiled when they were changed", () => {
    expect(header).toContain(`// Sources: ${sourceHash()}\n`);
  });

  // Another version of the compiler may write other words for the same.
  const madeWith = /with (glslang .*)\.$/m.exec(header)![1];
  const asWell = process.env.ANNEAL_TEST_VULKAN === "all" && compilerVersion() === madeWith;
  it.skipIf(!asWell)(`are what ${madeWith} makes of their sources`, { timeout: TIMEOUT }, () => {
    for (const [file, text] of Object.entries(generated()))
      expect(readFileSync(join(folder, file), "utf8") === text, `${file} is up to date`).toBe(true);
  });
});
