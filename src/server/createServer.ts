import type { IncomingMessage, ServerResponse } from "node:http";
import type { ServedEngine } from "../engine/servedEngine.js";
import type { ServerOptions } from "./application.js";
import type { NodeListener } from "./nodeListener.js";

/** What an application mounts: where it is called decides how. */
export interface FetchHandler {
  /** Web-standard, as Hono, Deno, Bun and Next call it. */
  (request: Request): Promise<Response>;
  /** As Node's own http server, Express and Connect call it. */
  (incoming: IncomingMessage, outgoing: ServerResponse, next?: unknown): void;
}

/** The whole HTTP face of an engine. Every path needs a key: the owner's (`engine.apiKey`) or one of `engine.keys`. */
export function createServer(engine: ServedEngine, options: ServerOptions = {}): FetchHandler {
  // Loaded only here: a process that answers no HTTP starts sooner without.
  const handler = import("./application.js").then(({ application }) => application(engine, options));
  const answer = async (request: Request) => (await handler)(request);
  let listener: Promise<NodeListener> | undefined;
  const listen = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    listener ??= import("./nodeListener.js").then(({ nodeListener }) => nodeListener(answer));
    (await listener)(incoming, outgoing);
  };
  const mounted = (request: Request | IncomingMessage, outgoing?: ServerResponse) =>
    isMessage(request) ? void listen(request, outgoing!) : answer(request);
  return mounted as FetchHandler;
}

/** Told by what web requests lack: there are several classes of either. */
function isMessage(request: Request | IncomingMessage): request is IncomingMessage {
  return "httpVersion" in request;
}
