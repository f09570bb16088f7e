import type { IncomingMessage, ServerResponse } from "node:http";
import type { ServedEngine } from "../engine/servedEngine.js";
import type { NodeListener } from "./nodeListener.js";

export interface ServerOptions {
  /** Bytes of a chat body at most; default 8 MiB. */
  chatBodyLimit?: number;
  /**
   * Bytes of any other body at most; default 1 GiB. Worked on, a body takes about nine times its size in memory; of those
   * above 16 MiB one at a time is.
   */
  bodyLimit?: number;
  /**
   * Origins whose pages in a browser may call, such as "https://app.example"; "*": all. Default: none. Preflight requests
   * then need no key.
   */
  allowOrigin?: string | readonly string[];
  /** Where all paths begin when the caller does not take it off them, such as "/llm"; default "". */
  basePath?: string;
}

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
