// Long work on the thread that everything shares, in slices: after each, the event loop turns and others are served.

/** Milliseconds of one turn that such work may take, all of it together. */
const SLICE = 8;

let began = 0;
let next: Promise<void> | null = null;

/**
 * Whether long work should wait for `nextTurn` before its next piece, and then ask again: those that wait go on one after
 * another in the same turn, and the first of them may use it up.
 */
export function isTurnUsedUp(): boolean {
  return performance.now() - began > SLICE;
}

/** Resolves when the event loop has turned. */
export function nextTurn(): Promise<void> {
  next ??= new Promise((resolve) => {
    setImmediate(() => {
      next = null;
      began = performance.now();
      resolve();
    });
  });
  return next;
}
