// What a trainer holds, in pieces for a file: as it is, and as it was.

import { afterAll, beforeAll, expect, it } from "vitest";
import { type NativeTrainer, nativeAddon } from "../../src/runtime/nativeAddon.js";
import type { DeviceModel, Trainer } from "../../src/runtime/runtime.js";
import { DEFAULT_ADAPTER } from "../../src/training/checkpointFiles.js";
import { OPTIMIZER } from "../../src/training/optimizer.js";
import { openWeightFolder } from "../../src/weights/weightFolder.js";
import { loadTestBase } from "../jobs/jobHost.js";
import { DEVICE } from "./device.js";
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
async function streamed(part: (typeof PARTS)[number], held = false): Promise<{ bytes: Buffer; pieces: number }> {
  const copies: Buffer[] = [];
  for await (const piece of trainer.here!.pieces(part, held)) copies.push(Buffer.from(piece));
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

it("is the same in pieces as read at once; what is held stays while training goes on", async () => {
  await step();
  const before = await Promise.all(PARTS.map(read));
  await trainer.here!.hold();
  await step();
  for (const [p, part] of PARTS.entries()) {
    const now = await read(part);
    expect(now.equals(before[p]!)).toBe(false);
    const { bytes, pieces } = await streamed(part);
    expect(bytes.equals(now)).toBe(true);
    expect(pieces).toBeGreaterThan(2);
    expect((await streamed(part, true)).bytes.equals(before[p]!)).toBe(true);
  }
});

it("may be left in the middle of a stream, and streamed again", async () => {
  for await (const piece of trainer.here!.pieces("value")) {
    expect(piece.length).toBeGreaterThan(0);
    break;
  }
  expect((await streamed("value")).bytes.equals(await read("value"))).toBe(true);
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

it("refuses whatever else JavaScript passes", async () => {
  const { config, tensors } = await openWeightFolder(caseFolder("qwen3"));
  const own = await nativeAddon().load({ config, tensors, dtype: "float32", kvPages: 1, device: DEVICE });
  const { spec } = await caseAdapter("qwen3");
  const native: NativeTrainer = await own.trainAdapter(spec, 1n, null);
  const count = native.tensors().length;
  const refused = async (call: () => unknown, param: string) => {
    await expect((async () => call())()).rejects.toMatchObject({ code: "invalid_argument", param });
  };
  await refused(() => native.gather("nothing", 0, 1, false), "part");
  for (const first of [-1, count, 0.5, Number.NaN, null]) {
    await refused(() => native.gather("value", first as number, 1, false), "first");
  }
  for (const wrong of [0, count + 1, -1, 2 ** 31])
    await refused(() => native.gather("value", 0, wrong, false), "count");
  await refused(() => native.gather("value", count - 1, 2, false), "count");
  await refused(() => native.gather("value", 0, 1, true), "held");
  await native.hold();
  await refused(() => native.gather("gradient", 0, 1, true), "held");
  await refused(() => native.gathered(new Float32Array(1)), "to");
  const length = await native.gather("value", 0, 1, true);
  for (const to of [new Float32Array(length + 1), new Float64Array(length), [], null]) {
    await refused(() => native.gathered(to as Float32Array), "to");
  }
  const detached = new Float32Array(length);
  structuredClone(detached.buffer, { transfer: [detached.buffer] });
  await refused(() => native.gathered(detached), "to");
  const to = new Float32Array(length);
  native.gathered(to);
  expect(to).toEqual((await native.read("value")).at(0)!.data);
  // Two at once: each has memory of its own.
  expect(await Promise.all([native.gather("value", 0, 1, false), native.gather("value", 0, count, false)])).toEqual([
    length,
    expect.any(Number),
  ]);
  await native.rest();
  await refused(() => native.gather("value", 0, 1, true), "held");
  native.close();
  for (const call of [() => native.gather("value", 0, 1, false), () => native.hold(), () => native.rest()]) {
    await expect((async () => call())()).rejects.toMatchObject({ code: "closed" });
  }
  own.close();
});
