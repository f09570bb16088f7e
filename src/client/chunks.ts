import { createParser } from "eventsource-parser";
import { InternalServerError } from "../errors.js";
import type { ChatCompletionChunk } from "../types/chat.js";
import { toError } from "./http.js";

/**
 * The chunks of a stream of server-sent events, up to `[DONE]`. Leaving the loop ends the connection.
 * @throws the error that the server sent in place of a chunk; InternalServerError when the stream breaks off.
 */
export async function* readChunks(response: Response): AsyncGenerator<ChatCompletionChunk> {
  const decoder = new TextDecoder();
  const events: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => events.push(data) });
  for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
    parser.feed(decoder.decode(bytes, { stream: true }));
    for (const data of events.splice(0)) {
      if (data === "[DONE]") return;
      const value = JSON.parse(data) as ChatCompletionChunk | { error: object };
      if ("error" in value) throw toError(500, value);
      yield value;
    }
  }
  throw new InternalServerError("the stream broke off", { code: "stream_broken" });
}
