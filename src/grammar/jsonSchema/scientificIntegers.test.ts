import { expect, test } from "vitest";
import { isMatch } from "../regularMatch.js";
import { scientificIntegers } from "./scientificIntegers.js";

const fractions = [
  "",
  ...Array.from({ length: 10 }, (_, i) => `${i}`),
  "00",
  "05",
  "45",
  "50",
  "99",
  "000",
  "450",
  "999",
];

/** Of a mantissa with as many digits after the point as `fraction` has; null: no integer whose digits all count. */
function integerOf(digit: number, fraction: string, exponent: number): bigint | null {
  return exponent < fraction.length ? null : BigInt(`${digit}${fraction.padEnd(exponent, "0")}`);
}

test.each([
  [1n, 1n],
  [3n, 745n],
  [10n, 99n],
  [0n, 1000n],
  [45n, 45n],
  [99n, 4500n],
  [450n, 499n],
  [-7n, 52n],
  [-1045n, -9n],
  [null, 999n],
  [2500n, null],
  [null, -45n],
  [null, null],
])("integers from %s to %s in scientific notation", (low, high) => {
  const expr = scientificIntegers(low, high);
  for (const sign of ["", "-"]) {
    for (let digit = 1; digit <= 9; digit++) {
      for (const fraction of fractions) {
        for (let exponent = 0; exponent <= 4; exponent++) {
          const size = integerOf(digit, fraction, exponent);
          const value = size === null ? null : sign === "" ? size : -size;
          const within = value !== null && (low === null || low <= value) && (high === null || value <= high);
          const literal = `${sign}${digit}${fraction === "" ? "" : "."}${fraction}e${exponent}`;
          expect(isMatch(expr, literal), literal).toBe(within);
        }
      }
    }
  }
});
