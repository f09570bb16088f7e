import { createParser } from "eventsource-parser";
import { InternalServerError } from "../errors.js";
import type { ChatCompletionChunk } from "../types/chat.js";
import type { ResponseStreamEvent } from "../types/responses.js";
import { toError } from "./http.js";

/**
 * The chunks of a stream of server-sent events, up to `[DONE]`. Leaving the loop ends the connection.
 * @throws the error that the server sent in place of a chunk; InternalServerError when the stream breaks off.
 */
export async function* readChunks<T extends object = ChatCompletionChunk>(response: Response): AsyncGenerator<T> {
  for await (const data of readData(response)) {
    if (data === "[DONE]") return;
    const value = JSON.parse(data) as T | { error: object };
    if ("error" in value) throw toError(500, value);
    yield value;
  }
  throw new InternalServerError("the stream broke off", { code: "stream_broken" });
}

const LAST_EVENTS = new Set(["response.completed", "response.incomplete", "response.failed"]);

/**
 * The events of a response, up to its last one. Leaving the loop ends the connection.
 * @throws the error that the server sent in place of an event; InternalServerError when the stream breaks off.
 */
export async function* readEvents(response: Response): AsyncGenerator<ResponseStreamEvent> {
  let isCancellable = false;
  for await (const data of readData(response)) {
    const event = JSON.parse(data) as ResponseStreamEvent;
    if (event.type === "error") throw toError(500, { error: event });
    if (event.type === "response.created") isCancellable = event.response.background;
    yield event;
    if (LAST_EVENTS.has(event.type)) return;
  }
  // One that was cancelled ends without an event.
  if (!isCancellable) throw new InternalServerError("the stream broke off", { code: "stream_broken" });
}

async function* readData(response: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const events: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => events.push(data) });
  for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
    parser.feed(decoder.decode(bytes, { stream: true }));
    yield* events.splice(0);
  }
}
