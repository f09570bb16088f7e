import { expect, test } from "vitest";
import { generationRequest } from "../../test/fixtures/generationRequest.js";
import { PagePool } from "./pagePool.js";
import { Scheduler } from "./scheduler.js";
import { Sequence, type SequenceOwner } from "./sequence.js";

/** A choice of a request of its own. */
function choice(arrival: number, index: number, prompt: number[]): Sequence {
  const owner = { request: generationRequest({ promptTokens: prompt }), arrival, jumpForward: false };
  return new Sequence(owner as SequenceOwner, index, Int32Array.from(prompt), null);
}

test("a request that takes a choice's place computes what that one was to compute", () => {
  const scheduler = new Scheduler(new PagePool(20), { maxSequences: 2, tokenBudget: 256, policy: "fcfs" });
  const prompt = Array.from({ length: 200 }, (_, i) => i);
  const [other, displaced, first] = [choice(0, 1, [1, 2, 3]), choice(1, 1, prompt), choice(3, 0, prompt)];
  for (const sequence of [other, displaced, first]) scheduler.add(sequence);
  expect(scheduler.schedule()!.sequences).toEqual([other, first]);
  expect([first.chunk, displaced.state]).toEqual([200, "waiting"]);
});
