// How much work one constraint may be while it is read, on the JavaScript thread: counted, so that the same input always
// has the same outcome. Reading is synchronous, so one count at a time is enough.

import { GrammarError } from "./grammarError.js";

/** Steps of well under a microsecond. */
const MOST_STEPS = 20_000_000;
/** Steps that a character of a regular expression or of a grammar's text comes to. */
export const READING = 10;

let left = Number.POSITIVE_INFINITY;

/** Runs `read`; past the budget `spend` throws. What is too large for the stack is past it too. */
export function withWorkBudget<T>(read: () => T): T {
  left = MOST_STEPS;
  try {
    return read();
  } catch (error) {
    // Lists of a hundred thousand entries do not fit on the stack of calls, where they are arguments.
    throw error instanceof RangeError ? new GrammarError("is too large to compile: simplify it") : error;
  } finally {
    left = Number.POSITIVE_INFINITY;
  }
}

/** @throws GrammarError when there is nothing left of the budget. */
export function spend(steps: number): void {
  left -= steps;
  if (left < 0) throw new GrammarError("is too much work to compile: simplify it");
}
