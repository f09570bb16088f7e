import { expect, it } from "vitest";
import { AdapterCache } from "./adapterCache.js";
import type { BaseModel } from "./baseModel.js";

/** A device of which the cache uses two methods: records what it is told to release; a version takes as many bytes as its id. */
function fixture(maxIdle: number, maxIdleBytes = Number.POSITIVE_INFINITY) {
  const released: number[] = [];
  const device = {
    adapterBytes: (version: number) => version,
    releaseAdapter: (version: number) => released.push(version),
  };
  const base = { device } as unknown as BaseModel;
  let loads = 0;
  let counted = 0;
  const count = (bytes: number) => {
    counted += bytes;
    return () => {
      counted -= bytes;
    };
  };
  const cache = new AdapterCache({ maxIdle, maxIdleBytes }, count, async (_base, _modelId, step) => {
    loads++;
    if (step === 99) throw new Error("unreadable");
    return 100 + step;
  });
  return { cache, base, released, loads: () => loads, counted: () => counted };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

it("loads a version once and keeps the most recently used when they are idle", async () => {
  const { cache, base, released, loads } = fixture(2);
  const [a, b] = await Promise.all([cache.acquire(base, "m", 1), cache.acquire(base, "m", 1)]);
  expect([a.version, b.version, loads()]).toEqual([101, 101, 1]);
  a.release();
  a.release();
  b.release();
  for (const step of [2, 1, 3]) (await cache.acquire(base, "m", step)).release();
  await settled();
  expect(released).toEqual([102]);
  expect(loads()).toBe(3);
});

it("keeps a version in use past any limit, and past being forgotten", async () => {
  const { cache, base, released } = fixture(0);
  const pin = await cache.acquire(base, "m", 1);
  (await cache.acquire(base, "m", 2)).release();
  cache.forget("m");
  await settled();
  expect(released).toEqual([102]);
  pin.release();
  await settled();
  expect(released).toEqual([102, 101]);
  expect(cache.size).toBe(0);
});

it("takes over published versions and forgets single steps", async () => {
  const { cache, base, released, loads } = fixture(5);
  cache.put(base, "m", 1, 7);
  cache.put(base, "m", 1, 8);
  cache.put(base, "m", 2, 9);
  expect((await cache.acquire(base, "m", 1)).version).toBe(8);
  cache.forget("m", [2]);
  await settled();
  expect(released).toEqual([7, 9]);
  expect(loads()).toBe(0);
});

it("keeps of idle versions what has room, and the last one used whatever it takes", async () => {
  const { cache, base, released } = fixture(5, 210);
  for (const step of [1, 2, 3]) (await cache.acquire(base, "m", step)).release();
  expect(released).toEqual([101]);
  const pins = await Promise.all([2, 3, 4].map((step) => cache.acquire(base, "m", step)));
  for (const pin of pins) pin.release();
  expect(released).toEqual([101, 102]);
  cache.put(base, "m", 5, 1000);
  expect(released).toEqual([101, 102, 103, 104]);
  expect(cache.size).toBe(1);
});

it("counts the memory of every version from its load to its release", async () => {
  const { cache, base, counted } = fixture(1);
  const pin = await cache.acquire(base, "m", 1);
  const other = await cache.acquire(base, "m", 2);
  expect(counted()).toBe(203);
  other.release();
  pin.release();
  pin.release();
  expect(counted()).toBe(102);
  cache.put(base, "n", 1, 50);
  expect(counted()).toBe(50);
  await expect(cache.acquire(base, "m", 99)).rejects.toThrow("unreadable");
  cache.forget("n");
  expect(counted()).toBe(0);
});

it("tries again after a failed load", async () => {
  const { cache, base, loads } = fixture(5);
  await expect(cache.acquire(base, "m", 99)).rejects.toThrow("unreadable");
  await expect(cache.acquire(base, "m", 99)).rejects.toThrow("unreadable");
  expect(loads()).toBe(2);
});
