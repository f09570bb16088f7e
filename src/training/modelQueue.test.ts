import { expect, it } from "vitest";
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
