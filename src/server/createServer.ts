import type { Engine } from "../engine/engine.js";

export interface ServerOptions {
  /** Bytes of a chat body at most; default 8 MiB. */
  chatBodyLimit?: number;
  /** Bytes of any other body at most; default 1 GiB. */
  bodyLimit?: number;
}

/** A web-standard handler: what Hono, Deno, Bun and Node's adapters mount. */
export type FetchHandler = (request: Request) => Promise<Response>;

/** The whole HTTP face of an engine. Every path needs a key: the owner's (`engine.apiKey`) or one of `engine.keys`. */
export function createServer(engine: Engine, options: ServerOptions = {}): FetchHandler {
  // Loaded only here: a process that answers no HTTP starts sooner without.
  const handler = import("./application.js").then(({ application }) => application(engine, options));
  return async (request) => (await handler)(request);
}
