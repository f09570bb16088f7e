import { errorObject } from "./errorBodies.js";

const encoder = new TextEncoder();
const event = (value: unknown) => encoder.encode(`data: ${JSON.stringify(value)}\n\n`);
const done = encoder.encode("data: [DONE]\n\n");

/**
 * Server-sent events of a stream of chunks, ended by `[DONE]`. A failure on the way is one event with an `error` object.
 * Nothing is asked of `chunks` before the client takes what there is. `left` is called when the client has gone away,
 * `ended` when nothing more will be sent, for whatever reason.
 */
export function eventStream(
  chunks: AsyncIterable<unknown>,
  on: { signal: AbortSignal; failed: (error: unknown) => void; left: () => void; ended: () => void },
): Response {
  const iterator = chunks[Symbol.asyncIterator]();
  let gone = false;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const next = await iterator.next();
        if (gone) return;
        if (!next.done) {
          controller.enqueue(event(next.value));
          return;
        }
      } catch (error) {
        if (gone) return;
        // As any fetch does: the body of an aborted request breaks off.
        if (on.signal.aborted) {
          on.ended();
          return controller.error(on.signal.reason);
        }
        on.failed(error);
        controller.enqueue(event({ error: errorObject(error) }));
      }
      controller.enqueue(done);
      controller.close();
      on.ended();
    },
    async cancel() {
      gone = true;
      on.left();
      on.ended();
      await iterator.return?.();
    },
  });
  return new Response(body, {
    headers: {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
    },
  });
}
