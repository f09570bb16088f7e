// What a trainer holds, in pieces for a file: as it is, and as it was.

import { afterAll, beforeAll, expect, it } from "vitest";
import { elementCount } from "../../src/elementCount.js";
import { type NativeTrainer, nativeAddon } from "../../src/runtime/nativeAddon.js";
import type { DeviceModel, Trainer } from "../../src/runtime/runtime.js";
import { DEFAULT_ADAPTER } from "../../src/training/checkpointFiles.js";
import { OPTIMIZER } from "../../src/training/optimizer.js";
import { openWeightFolder } from "../../src/weights/weightFolder.js";
import { loadTestBase, modelFolder } from "../jobs/jobHost.js";
import { DEVICE, isGpu } from "./device.js";
import { caseAdapter, caseFolder } from "./referenceModel.js";

let model: DeviceModel;
let trainer: Trainer;

/** Several pieces of each part. */
const RANK = 128;

beforeAll(async () => {
  model = (await loadTestBase()).device;
  trainer = await model.trainAdapter({ ...DEFAULT_ADAPTER, rank: RANK }, { seed: 1n });
});
afterAll(() => model.close());

const PARTS = ["value", "moment1", "moment2"] as const;

/** A copy of what comes in pieces, and how many there were. */
async function streamed(part: (typeof PARTS)[number]): Promise<{ bytes: Buffer; pieces: number }> {
  const copies: Buffer[] = [];
  for await (const piece of trainer.here!.pieces(part)) copies.push(Buffer.from(piece));
  return { bytes: Buffer.concat(copies), pieces: copies.length };
}

async function read(part: (typeof PARTS)[number]): Promise<Buffer> {
  const tensors = [...(await trainer.read(part)).values()];
  return Buffer.concat(tensors.map(({ data }) => Buffer.from(data.buffer, data.byteOffset, data.byteLength)));
}

async function step(): Promise<void> {
  const pass = await trainer.forward([{ tokens: Int32Array.of(1, 2, 3, 4) }]);
  await pass.backward([Float32Array.of(0.5, -1, 0.25, 0)]);
  await trainer.optimStep({ ...OPTIMIZER.rl, learningRate: 1e-2 });
}

it("is held as it was, while training goes on and until it is held again", async () => {
  for (let steps = 1; steps < 3; steps++) {
    await step();
    const before = await Promise.all(PARTS.map(read));
    await trainer.here!.hold();
    await step();
    for (const [p, part] of PARTS.entries()) {
      expect((await read(part)).equals(before[p]!)).toBe(false);
      const { bytes, pieces } = await streamed(part);
      expect(bytes.equals(before[p]!)).toBe(true);
      expect(pieces).toBeGreaterThan(2);
    }
  }
});

it("is read while a pass goes on, and may be left in the middle", async () => {
  await trainer.here!.hold();
  const value = await read("value");
  const ends: string[] = [];
  const rows = Array.from({ length: isGpu ? 1 : 8 }, () => ({ tokens: new Int32Array(1500).fill(7) }));
  const pass = trainer.forward(rows).then((made) => {
    ends.push("pass");
    made.close();
  });
  expect((await streamed("value")).bytes.equals(value)).toBe(true);
  ends.push("stream");
  await pass;
  expect(ends).toEqual(["stream", "pass"]);
  for await (const piece of trainer.here!.pieces("value")) {
    expect(piece.length).toBeGreaterThan(0);
    break;
  }
  expect((await streamed("value")).bytes.equals(value)).toBe(true);
});

it("rests only where its device keeps memory of training, and goes on with the same values and no gradient", async () => {
  expect(await trainer.here!.rest()).toBe(false);
  model.keepTrainingMemory!(60_000);
  const fresh = await model.trainAdapter(DEFAULT_ADAPTER, { seed: 1n });
  const values = await fresh.read("value");
  const pass = await fresh.forward([{ tokens: Int32Array.of(1, 2, 3, 4) }]);
  await pass.backward([Float32Array.of(1, 1, 1, 0)]);
  expect(await fresh.here!.rest()).toBe(true);
  fresh.here!.resume();
  for (const { data } of (await fresh.read("gradient")).values()) expect(data.every((value) => value === 0)).toBe(true);
  expect(await fresh.read("value")).toEqual(values);
  expect((await fresh.optimStep({ ...OPTIMIZER.rl, learningRate: 1 })).gradNorm).toBe(0);
  fresh.close();
});

it("tells nothing that was read while it was closed", async () => {
  const spec = { ...DEFAULT_ADAPTER, rank: 256 };
  const { config, tensors } = await openWeightFolder(modelFolder);
  const own = await nativeAddon().load({ config, tensors, dtype: "bfloat16", kvPages: 1, device: DEVICE });
  const joined = (parts: Float32Array[]) =>
    Buffer.concat(parts.map(({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength)));
  let whole: Buffer | null = null;
  for (let round = 0; round < 20; round++) {
    const native: NativeTrainer = await own.trainAdapter(spec, 1n, null);
    whole ??= joined((await native.read("value")).map(({ data }) => data));
    const reading = native.read("value").then((read) => joined(read.map(({ data }) => data)));
    const holding = native.hold().then(() => {
      const to = new Float32Array(whole!.length / Float32Array.BYTES_PER_ELEMENT);
      native.held("value", 0, to);
      return joined([to]);
    });
    // At another moment each time.
    for (const until = performance.now() + round / 4; performance.now() < until; );
    native.close();
    for (const result of await Promise.allSettled([reading, holding])) {
      if (result.status === "fulfilled") expect(result.value.equals(whole)).toBe(true);
      else expect(result.reason).toMatchObject({ code: "closed" });
    }
  }
  own.close();
});

it("refuses whatever else JavaScript passes", async () => {
  const { config, tensors } = await openWeightFolder(caseFolder("qwen3"));
  const own = await nativeAddon().load({ config, tensors, dtype: "float32", kvPages: 1, device: DEVICE });
  const { spec } = await caseAdapter("qwen3");
  const native: NativeTrainer = await own.trainAdapter(spec, 1n, null);
  const refused = async (call: () => unknown, param: string) => {
    await expect((async () => call())()).rejects.toMatchObject({ code: "invalid_argument", param });
  };
  const first = native.tensors()[0]!;
  const length = elementCount(first.shape);
  const total = native.tensors().reduce((sum, { shape }) => sum + elementCount(shape), 0);
  const to = new Float32Array(length);
  await refused(() => native.held("value", 0, to), "part");
  await native.hold();
  for (const part of ["gradient", "nothing", 1]) await refused(() => native.held(part as string, 0, to), "part");
  for (const from of [-1, total + 1, 0.5, Number.NaN, null]) {
    await refused(() => native.held("value", from as number, to), "from");
  }
  for (const wrong of [new Float32Array(total + 1), new Float64Array(length), [], null]) {
    await refused(() => native.held("value", 0, wrong as Float32Array), "to");
  }
  await refused(() => native.held("moment2", total - length + 1, to), "to");
  const detached = new Float32Array(length);
  structuredClone(detached.buffer, { transfer: [detached.buffer] });
  native.held("value", total, detached);
  native.held("value", 0, to);
  expect(to).toEqual((await native.read("value")).at(0)!.data);
  // Two at once: each has memory of its own.
  const both = Promise.all([native.hold(), native.hold()]);
  await refused(() => native.held("value", 0, to), "part");
  await both;
  await native.rest();
  native.held("value", 0, to);
  native.close();
  for (const call of [() => native.held("value", 0, to), () => native.hold(), () => native.rest()]) {
    await expect((async () => call())()).rejects.toMatchObject({ code: "closed" });
  }
  own.close();
});
