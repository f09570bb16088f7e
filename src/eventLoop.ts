// Long work on the main thread, in time slices: after each, the event loop serves others.

import { setImmediate } from "node:timers";

/** Milliseconds of one iteration of the event loop that such work may take, all of it together. */
const TIME_SLICE_MS = 8;

let began = 0;
/** Those that wait, in the order of asking: who has worked stands behind those that have not. */
const waiting: (() => void)[] = [];
let turnIsDue = false;

/** Whether long work should await `yieldToEventLoop` before its next piece, and then ask again. */
export function shouldYield(): boolean {
  return performance.now() - began > TIME_SLICE_MS;
}

/** Resolves when the event loop has turned, and those that were waiting have gone on: as many in one iteration as its time is enough for. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    turn();
  });
}

function turn(): void {
  if (turnIsDue) return;
  turnIsDue = true;
  setImmediate(() => {
    turnIsDue = false;
    began = performance.now();
    goOn(waiting.length);
  });
}

/** Lets the first `count` go on, each when the one before has worked. */
function goOn(count: number): void {
  if (count === 0) return;
  if (shouldYield()) {
    turn();
    return;
  }
  waiting.shift()!();
  void Promise.resolve().then(() => goOn(count - 1));
}

/** Work on numbers `from` to `to` of `count`, piece by piece: between two pieces the event loop may turn. */
export async function inPieces(count: number, size: number, work: (from: number, to: number) => void): Promise<void> {
  for (let from = 0; from < count; from += size) {
    while (shouldYield()) await yieldToEventLoop();
    work(from, Math.min(from + size, count));
  }
}
