import { describe, expect, test } from "vitest";
import { turnsDuring } from "../../test/fixtures/turns.js";
import { pieces } from "../jsonPieces.js";
import { jsonResponse } from "./jsonResponse.js";

const entry = (i: number) => ({
  token: `"${i}é\u2028`,
  logprob: -i / 7,
  bytes: [i % 256, 0],
  top: null,
  gone: undefined,
});
const large = {
  none: undefined,
  empty: {},
  list: [undefined, null, true, [], Number.NaN],
  text: "漢\n".repeat(100_000),
  entries: Array.from({ length: 30_000 }, (_, i) => entry(i)),
  ids: Array.from({ length: 5000 }, (_, i) => i),
  nested: { deeper: [[Array.from({ length: 2000 }, (_, i) => ({ [i]: i }))]] },
};

describe("a JSON response", () => {
  test.each([
    ["small", entry(3)],
    ["large", large],
    ["a long list", large.ids],
    ["null", null],
  ])("of %s is what JSON.stringify gives", async (_, value) => {
    const response = jsonResponse(value);
    expect(response.headers.get("content-type")).toBe("application/json");
    expect((await response.text()) === JSON.stringify(value)).toBe(true);
    expect([...pieces(value)].join("") === JSON.stringify(value)).toBe(true);
  });

  test("of many values is written in turns of the event loop", async () => {
    const copies = Array.from({ length: 20 }, () => large);
    const turns = await turnsDuring(async () => {
      expect((await jsonResponse(copies).arrayBuffer()).byteLength).toBeGreaterThan(20_000_000);
    });
    expect(turns).toBeGreaterThan(5);
  });
});
