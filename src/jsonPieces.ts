// Plain data as JSON text, written in pieces between which other work of the thread can have its turn.

import { shouldYield, yieldToEventLoop } from "./eventLoop.js";
import { jsonText } from "./json.js";
import { sizeLeft } from "./valueSize.js";

/** Values inside a value that is written at once, at most. */
const SMALL = 500;

/** Says a value in another way; what it gives for an object is not asked about again. */
type Encode = (value: unknown) => unknown;

/** What `JSON.stringify` gives for plain data, exact numbers as they are spelled, in turns. */
export async function stringifyAsync(value: unknown, encode?: Encode): Promise<string> {
  let text = "";
  for (const piece of pieces(value, encode)) {
    text += piece;
    while (shouldYield()) await yieldToEventLoop();
  }
  return text;
}

/** The same, piece by piece. */
export function* pieces(given: unknown, encode?: Encode): Generator<string> {
  const value = encode ? encode(given) : given;
  if (typeof value !== "object" || value === null || sizeLeft(value, SMALL) >= 0) {
    yield textOf(given, encode) ?? "null";
  } else if (Array.isArray(value)) {
    yield* piecesOfList(value, encode);
  } else {
    let before = "{";
    for (const [key, item] of Object.entries(value)) {
      if (item === undefined) continue;
      yield `${before}${JSON.stringify(key)}:`;
      yield* pieces(item, encode);
      before = ",";
    }
    yield before === "{" ? "{}" : "}";
  }
}

function textOf(value: unknown, encode: Encode | undefined): string | undefined {
  return encode ? JSON.stringify(value, (_, item: unknown) => encode(item)) : jsonText(value);
}

function* piecesOfList(list: readonly unknown[], encode: Encode | undefined): Generator<string> {
  let before = "[";
  for (let from = 0; from < list.length; before = ",") {
    let to = from;
    for (let rest = SMALL; to < list.length && rest >= 0; to++) rest = sizeLeft(list[to], rest);
    yield before;
    if (to === from + 1) yield* pieces(list[from], encode);
    else yield textOf(list.slice(from, to), encode)!.slice(1, -1);
    from = to;
  }
  yield "]";
}
