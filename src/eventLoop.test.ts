import { setImmediate as turned } from "node:timers/promises";
import { expect, it } from "vitest";
import { shouldYield, yieldToEventLoop } from "./eventLoop.js";

/** Keeps the thread busy, a piece of work every millisecond. */
async function work(pieces: number): Promise<void> {
  for (let i = 0; i < pieces; i++) {
    while (shouldYield()) await yieldToEventLoop();
    const began = performance.now();
    while (performance.now() - began < 1);
  }
}

it("lets short work go on while long work has not ended", async () => {
  const ended: string[] = [];
  const long = work(100).then(() => ended.push("long"));
  const other = work(100).then(() => ended.push("other"));
  await turned();
  await work(1);
  ended.push("short");
  await Promise.all([long, other]);
  expect(ended[0]).toBe("short");
});

it("goes on with all that wait, in the order in which they asked", async () => {
  const order: number[] = [];
  const waiters = Array.from({ length: 1000 }, async (_, i) => {
    while (shouldYield()) await yieldToEventLoop();
    await yieldToEventLoop();
    order.push(i);
  });
  await Promise.all(waiters);
  expect(order).toEqual(Array.from({ length: 1000 }, (_, i) => i));
});

it("waits for a turn of the event loop however much time is left of this one", async () => {
  await yieldToEventLoop();
  let turns = 0;
  const counted = setImmediate(() => turns++);
  await yieldToEventLoop();
  expect(turns).toBe(1);
  clearImmediate(counted);
});
