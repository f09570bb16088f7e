// A value as a JSON response: a large one in pieces, between which the event loop turns, and of any length.

import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import { jsonText } from "../json.js";
import { pieces } from "../jsonPieces.js";
import { sizeLeft } from "../valueSize.js";

/** Values inside an answer that is one text, at most: a matter of a few milliseconds. */
const ONE_TEXT = 20_000;
/** Characters gathered for one chunk of the body, about. */
const CHUNK = 65_536;

export function jsonResponse(value: unknown): Response {
  return jsonTextResponse(sizeLeft(value, ONE_TEXT) >= 0 ? jsonText(value) : pieces(value));
}

/** A response of JSON text, which may come in pieces. */
export function jsonTextResponse(text: string | Iterator<string>): Response {
  const body = typeof text === "string" ? text : chunks(text);
  return new Response(body, { headers: { "content-type": "application/json" } });
}

function chunks(texts: Iterator<string>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    async pull(controller) {
      let text = "";
      while (text.length < CHUNK) {
        const { done, value: piece } = texts.next();
        if (done) break;
        text += piece;
        while (shouldYield()) await yieldToEventLoop();
      }
      if (text === "") controller.close();
      else controller.enqueue(encoder.encode(text));
    },
  });
}
