// Plain data as JSON text, written in pieces between which other work of the thread can have its turn.

import { shouldYield, yieldToEventLoop } from "./eventLoop.js";
import { sizeLeft } from "./valueSize.js";

/** Values inside a value that is written at once, at most. */
const SMALL = 500;

/** What `JSON.stringify` gives for plain data, in turns. */
export async function stringifyInTurns(value: unknown): Promise<string> {
  let text = "";
  for (const piece of pieces(value)) {
    text += piece;
    while (shouldYield()) await yieldToEventLoop();
  }
  return text;
}

/** What `JSON.stringify` gives for plain data, piece by piece. */
export function* pieces(value: unknown): Generator<string> {
  if (typeof value !== "object" || value === null || sizeLeft(value, SMALL) >= 0) {
    yield JSON.stringify(value) ?? "null";
  } else if (Array.isArray(value)) {
    yield* piecesOfList(value);
  } else {
    let before = "{";
    for (const [key, item] of Object.entries(value)) {
      if (item === undefined) continue;
      yield `${before}${JSON.stringify(key)}:`;
      yield* pieces(item);
      before = ",";
    }
    yield before === "{" ? "{}" : "}";
  }
}

function* piecesOfList(list: readonly unknown[]): Generator<string> {
  let before = "[";
  for (let from = 0; from < list.length; before = ",") {
    let to = from;
    for (let rest = SMALL; to < list.length && rest >= 0; to++) rest = sizeLeft(list[to], rest);
    yield before;
    if (to === from + 1) yield* pieces(list[from]);
    else yield JSON.stringify(list.slice(from, to)).slice(1, -1);
    from = to;
  }
  yield "]";
}
