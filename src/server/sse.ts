import { errorObject } from "./errorBodies.js";
import type { Call } from "./route.js";

const encoder = new TextEncoder();

/** How a stream of chunks is written. */
export interface EventStyle {
  event(value: unknown): string;
  failure(error: unknown): string;
  end: string;
}

const data = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;

/** Chunks as data, ended by `[DONE]`; a failure on the way is one with an `error` object. */
export const chunkEvents: EventStyle = {
  event: data,
  failure: (error) => data({ error: errorObject(error) }),
  end: "data: [DONE]\n\n",
};

/** Events named by their `type`; a failure on the way is one of type "error". */
export function typedEvents(): EventStyle {
  let next = 0;
  const event = (value: unknown) => {
    const { type, sequence_number } = value as { type: string; sequence_number: number };
    next = sequence_number + 1;
    return `event: ${type}\n${data(value)}`;
  };
  return {
    event,
    failure(error) {
      const { code, message, param } = errorObject(error);
      return event({ type: "error", sequence_number: next, code, message, param });
    },
    end: "",
  };
}

/**
 * Server-sent events of a stream of chunks. Nothing is asked of `chunks` before the client takes what there is. `left` is called when the client has gone away,
 * `ended` when nothing more will be sent, for whatever reason.
 */
export function eventStream(
  chunks: AsyncIterable<unknown>,
  style: EventStyle,
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
          controller.enqueue(encoder.encode(style.event(next.value)));
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
        controller.enqueue(encoder.encode(style.failure(error)));
      }
      if (style.end !== "") controller.enqueue(encoder.encode(style.end));
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

/** The answer to a call that streams; `client` is aborted when its client has gone away. */
export function streamed(
  chunks: AsyncIterable<unknown>,
  style: EventStyle,
  { signal, report, ended }: Pick<Call, "signal" | "report" | "ended">,
  client: AbortController,
): Response {
  const left = () => client.abort(new DOMException("the client has gone away", "AbortError"));
  return eventStream(chunks, style, { signal, failed: report, ended, left });
}
