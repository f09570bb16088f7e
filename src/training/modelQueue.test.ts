import { expect, it } from "vitest";
import { Semaphore } from "../semaphore.js";
import { ModelQueue } from "./modelQueue.js";

it("admits one at a time per model, in order, past those who gave up", async () => {
  const queue = new ModelQueue();
  const order: string[] = [];
  const first = await queue.acquire("m");
  const gone = new AbortController();
  const waiting = [
    queue.acquire("m").then((release) => {
      order.push("second");
      release();
      release();
    }),
    queue.acquire("m", gone.signal).then(
      () => order.push("never"),
      (reason) => order.push(String(reason)),
    ),
    queue.acquire("m").then((release) => {
      order.push("third");
      release();
    }),
  ];
  const other = await queue.acquire("other");
  order.push("other");
  gone.abort("gave up");
  await Promise.resolve();
  first();
  await Promise.all(waiting);
  other();
  expect(order).toEqual(["other", "gave up", "second", "third"]);
  (await queue.acquire("m"))();
  await expect(queue.acquire("m", AbortSignal.abort("late"))).rejects.toBe("late");
});

it("keeps a place from the next one when it is given up twice", async () => {
  const queue = new ModelQueue();
  const first = await queue.acquire("m");
  const second = queue.acquire("m");
  first();
  const release = await second;
  first();
  await expect(queue.acquire("m", AbortSignal.timeout(1))).rejects.toMatchObject({ name: "TimeoutError" });
  release();
});

it("admits as many at once as a line has places", async () => {
  const line = new Semaphore(2);
  const [first, second] = [await line.acquire(), await line.acquire()];
  const third = line.acquire();
  const fourth = line.acquire();
  expect(line.isWaitedFor).toBe(true);
  second();
  (await third)();
  (await fourth)();
  expect(line.isWaitedFor).toBe(false);
  first();
  for (let i = 0; i < 2; i++) await line.acquire();
  await expect(line.acquire(AbortSignal.timeout(1))).rejects.toMatchObject({ name: "TimeoutError" });
});
