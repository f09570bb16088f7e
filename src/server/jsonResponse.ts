// A value as a JSON response: a large one in pieces, between which the event loop turns, and of any length.

import { isTurnUsedUp, nextTurn } from "../turns.js";
import { sizeLeft } from "../valueSize.js";

/** Values inside a value that is written at once, at most. */
const SMALL = 500;
/** Values inside an answer that is one text, at most: a matter of a few milliseconds. */
const ONE_TEXT = 20_000;
/** Characters gathered for one chunk of the body, about. */
const CHUNK = 65_536;

export function jsonResponse(value: unknown): Response {
  if (sizeLeft(value, ONE_TEXT) >= 0) return Response.json(value);
  return new Response(chunks(value), { headers: { "content-type": "application/json" } });
}

function chunks(value: unknown): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const texts = pieces(value);
  return new ReadableStream({
    async pull(controller) {
      let text = "";
      while (text.length < CHUNK) {
        const { done, value: piece } = texts.next();
        if (done) break;
        text += piece;
        while (isTurnUsedUp()) await nextTurn();
      }
      if (text === "") controller.close();
      else controller.enqueue(encoder.encode(text));
    },
  });
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
