// The HTTP face where Node's own http, or Express, calls it: with a message that came in and a response to write to.

import type { IncomingMessage, ServerResponse } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { closeWithConnection } from "./pipelining.js";

/** A body parser that came before has read the body, and leaves what it made of it. */
type ParsedMessage = IncomingMessage & { body?: unknown; rawBody?: unknown };

/** In the address of a request that names no host, as those of HTTP/1.0 need not: health checks, for one. */
export const HOST_OF_NONE = "localhost";

export type NodeListener = (incoming: IncomingMessage, outgoing: ServerResponse) => void;

export function nodeListener(handler: (request: Request) => Promise<Response>): NodeListener {
  const listener = getRequestListener((request) => handler(request), {
    overrideGlobalObjects: false,
    hostname: HOST_OF_NONE,
  });
  return (incoming, outgoing) => {
    restoreBody(incoming);
    closeWithConnection(incoming, outgoing);
    void listener(incoming, outgoing);
  };
}

function restoreBody(incoming: ParsedMessage): void {
  const { body } = incoming;
  if (body === undefined || incoming.rawBody instanceof Buffer || !incoming.readableEnded) return;
  incoming.rawBody = Buffer.isBuffer(body) ? body : Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
}
