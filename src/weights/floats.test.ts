import { expect, it } from "vitest";
import { narrow, widen } from "./floats.js";

const every16 = Uint16Array.from({ length: 2 ** 16 }, (_, i) => i);

it.each(["F16", "BF16"] as const)("brings every number of %s there and back", (dtype) => {
  const values = widen(dtype, new Uint8Array(every16.buffer));
  const back = new Uint16Array(narrow(dtype, Float64Array.from(values)).buffer);
  for (const [i, value] of values.entries()) {
    if (Number.isNaN(value))
      expect(Number.isNaN(widen(dtype, new Uint8Array(back.slice(i, i + 1).buffer))[0])).toBe(true);
    else expect(back[i], String(value)).toBe(i);
  }
});

it.each(["F16", "BF16"] as const)("rounds to the nearest of %s, ties to even", (dtype) => {
  const positive = widen(dtype, new Uint8Array(every16.slice(0, 0x7c00 + (dtype === "BF16" ? 0x37f : -1)).buffer));
  const ties = positive.slice(1).map((value, i) => (value + positive[i]!) / 2);
  const rounded = new Uint16Array(narrow(dtype, Float64Array.from(ties)).buffer);
  for (const [i, bits] of rounded.entries()) {
    // Halves of the smallest numbers are none that float32 has.
    if (ties[i] !== (positive[i]! + positive[i + 1]!) / 2) continue;
    expect(bits).toBe(i % 2 === 0 ? i : i + 1);
  }
  const nearer = Float64Array.from([...ties.slice(100, 200)], (tie) => tie * (1 + 2 ** -20));
  const above = new Uint16Array(narrow(dtype, nearer).buffer);
  for (const [i, bits] of above.entries()) expect(bits).toBe(i + 101);
});

it("takes what is too large for float16 as infinite", () => {
  const bits = new Uint16Array(narrow("F16", Float64Array.of(65519, 65520, -1e9, 1e-9)).buffer);
  expect([...bits]).toEqual([0x7bff, 0x7c00, 0xfc00, 0]);
});
