import { setImmediate as turned } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { BackgroundResponses } from "./background.js";
import type { Making } from "./making.js";

setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc") as () => void;

/** Makes a response of one event, and deletes it; the event. */
async function madeAndRemoved(responses: BackgroundResponses): Promise<WeakRef<object>> {
  const event = { type: "response.created" };
  const events = [event];
  const making = {
    response: { id: "resp_1" },
    writer: { begin: () => undefined, take: () => events.splice(0) },
    chunks: async () => [][Symbol.iterator](),
    keep: async () => undefined,
    end: async () => undefined,
  } as unknown as Making;
  await responses.start(making, false);
  expect(responses.follow("resp_1", null)).not.toBeNull();
  await responses.remove("resp_1");
  expect(responses.follow("resp_1", null)).toBeNull();
  return new WeakRef(event);
}

it("holds nothing of a response that was deleted", async () => {
  const event = await madeAndRemoved(new BackgroundResponses(new AbortController().signal));
  for (let i = 0; i < 20 && event.deref() !== undefined; i++) {
    await turned();
    gc();
  }
  expect(event.deref()).toBeUndefined();
});
