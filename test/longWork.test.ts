// However much one request asks for, other work of the thread has its turn in between.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Engine } from "../src/index.js";
import { canMeasureTurns, longestTurn } from "./fixtures/longestTurn.js";

/** Milliseconds of processor time: about twice of what is measured. */
const MAX_TURN = 60;

const messages = [{ role: "user" as const, content: "What is 3 + 4?" }];

let engine: Engine;
beforeAll(async () => {
  engine = await Engine.open({ maxSequences: 512, tokenBudget: 1024 });
  await engine.chat.completions.create({ messages, max_tokens: 1 });
});
afterAll(() => engine?.close());

describe.skipIf(!canMeasureTurns)("the event loop turns", { timeout: 240_000 }, () => {
  const n = 16_384;

  it("while thousands of choices are made", async () => {
    const turn = await longestTurn(async () => {
      const many = 3000;
      const { choices, usage } = await engine.chat.completions.create({ messages, n: many, max_tokens: 1, seed: 1 });
      expect(choices.map(({ index }) => index)).toEqual(Array.from({ length: many }, (_, i) => i));
      expect(choices.every(({ finish_reason }) => finish_reason !== "abort")).toBe(true);
      expect(usage.completion_tokens).toBe(many);
    });
    expect(turn).toBeLessThan(MAX_TURN);
  });

  it("while thousands of choices begin to be streamed, and when they are left", async () => {
    const turn = await longestTurn(async () => {
      const begun = new Set<number>();
      let left = n + 10;
      const chunks = await engine.chat.completions.create({ messages, n, max_tokens: 2, stream: true });
      for await (const { choices } of chunks) {
        if (choices[0]!.delta.role === "assistant") begun.add(choices[0]!.index);
        if (--left === 0) break;
      }
      expect(begun.size).toBe(n);
    });
    expect(turn).toBeLessThan(MAX_TURN);
  });

  it("while several large schemas that come together are read", async () => {
    const turn = await longestTurn(async () => {
      const ask = (k: number) => {
        const field = (i: number) => [
          `field_${k}_${i}`,
          { type: "string", pattern: `^[a-z]{${i % 7},12}-[0-9]{1,${(i % 9) + 1}}$` },
        ];
        const properties = Object.fromEntries(Array.from({ length: 400 }, (_, i) => field(i)));
        const schema = { type: "object", additionalProperties: false, properties };
        return engine.chat.completions.create({
          messages,
          max_tokens: 2,
          response_format: { type: "json_schema", json_schema: { name: "wide", schema } },
        });
      };
      const replies = await Promise.all(Array.from({ length: 10 }, (_, k) => ask(k)));
      expect(replies.map(({ choices }) => choices[0]!.message.content![0])).toEqual(new Array(10).fill("{"));
    });
    expect(turn).toBeLessThan(MAX_TURN);
  });
});
