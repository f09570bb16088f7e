// How much work one constraint may be while it is read: counted, so that the same input always
// has the same outcome. Reading is synchronous, so one count at a time is enough.

import { GrammarError } from "./grammarError.js";

/** Steps of well under a microsecond. */
const MAX_STEPS = 20_000_000;
/** Steps that a character of a regular expression or of a grammar's text comes to. */
export const READ_COST = 10;

let left = Number.POSITIVE_INFINITY;

/** A budget is used up: a larger one may do. */
export class TooMuchWork extends GrammarError {
  constructor(path: readonly string[] = []) {
    super("is too much work to compile: simplify it", path);
  }

  override under(...outer: readonly string[]): TooMuchWork {
    return new TooMuchWork([...outer, ...this.path]);
  }
}

/** Runs `read`; past the budget `spend` throws. What is too large for the stack is past it too. */
export function withWorkBudget<T>(read: () => T, steps = MAX_STEPS): T {
  left = steps;
  try {
    return read();
  } catch (error) {
    // Lists of a hundred thousand entries do not fit on the stack of calls, where they are arguments.
    throw error instanceof RangeError ? new GrammarError("is too large to compile: simplify it") : error;
  } finally {
    left = Number.POSITIVE_INFINITY;
  }
}

/** @throws TooMuchWork when there is nothing left of the budget. */
export function spend(steps: number): void {
  left -= steps;
  if (left < 0) throw new TooMuchWork();
}
