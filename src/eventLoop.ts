// Long work on the main thread, in time slices: after each, the event loop serves others.

import { setImmediate } from "node:timers";

/** Milliseconds of one iteration of the event loop that such work may take, all of it together. */
const TIME_SLICE_MS = 8;

let began = 0;
let next: Promise<void> | null = null;

/**
 * Whether long work should await `yieldToEventLoop` before its next piece, and then ask again: those that wait go on one
 * after another in the same iteration, and the first of them may use up its time.
 */
export function shouldYield(): boolean {
  return performance.now() - began > TIME_SLICE_MS;
}

/** Resolves when the event loop has turned. */
export function yieldToEventLoop(): Promise<void> {
  next ??= new Promise((resolve) => {
    setImmediate(() => {
      next = null;
      began = performance.now();
      resolve();
    });
  });
  return next;
}

/** Work on numbers `from` to `to` of `count`, piece by piece: between two pieces the event loop may turn. */
export async function inPieces(count: number, size: number, work: (from: number, to: number) => void): Promise<void> {
  for (let from = 0; from < count; from += size) {
    while (shouldYield()) await yieldToEventLoop();
    work(from, Math.min(from + size, count));
  }
}
