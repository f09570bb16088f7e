// Requests that a client sends in one connection before those ahead of them are answered.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Of connections: responses that have not closed. */
const unclosed = new WeakMap<Socket, Set<ServerResponse>>();

/** Closes a response with its connection also while it waits behind another one, where Node does not. */
export function closeWithConnection({ socket, httpVersionMajor }: IncomingMessage, response: ServerResponse): void {
  if (httpVersionMajor > 1) return;
  const responses = unclosed.get(socket) ?? new Set();
  if (!unclosed.has(socket)) {
    unclosed.set(socket, responses);
    socket.once("close", () => {
      for (const waiting of responses) if (waiting.socket === null) waiting.destroy().emit("close");
    });
  }
  responses.add(response);
  response.once("close", () => responses.delete(response));
}
