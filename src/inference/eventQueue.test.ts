import { describe, expect, test } from "vitest";
import { EventQueue } from "./eventQueue.js";
import type { TokensEvent } from "./request.js";

const event = (index: number, id: number, over: Partial<TokensEvent> = {}): TokensEvent => ({
  type: "tokens",
  index,
  text: `<${id}>`,
  tokenIds: [id],
  logprobs: [-id],
  temperatureLogprobs: [-id / 2],
  top: [{ ids: Int32Array.of(id), logprobs: Float32Array.of(-id) }],
  finish: null,
  ...over,
});

describe("events that nobody has read yet", () => {
  test("become one event per choice, in which every list goes on", async () => {
    const queue = new EventQueue(() => undefined);
    queue.push(event(0, 1));
    queue.push(event(1, 9));
    queue.push(event(0, 2));
    queue.push(event(0, 3, { finish: { reason: "length", stopReason: null } }));
    expect((await queue.next()).value).toEqual({
      type: "tokens",
      index: 0,
      text: "<1><2><3>",
      tokenIds: [1, 2, 3],
      logprobs: [-1, -2, -3],
      temperatureLogprobs: [-0.5, -1, -1.5],
      top: [1, 2, 3].map((id) => ({ ids: Int32Array.of(id), logprobs: Float32Array.of(-id) })),
      finish: { reason: "length", stopReason: null },
    });
    expect((await queue.next()).value).toEqual(event(1, 9));
  });

  test("do not grow once they have been read", async () => {
    const queue = new EventQueue(() => undefined);
    queue.push(event(0, 1));
    const first = (await queue.next()).value as TokensEvent;
    queue.push(event(0, 2));
    expect(first.tokenIds).toEqual([1]);
    expect((await queue.next()).value).toEqual(event(0, 2));
  });
});
