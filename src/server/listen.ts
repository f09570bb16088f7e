import type { AddressInfo } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import type { FetchHandler } from "./createServer.js";

export interface Listening {
  /** For example "http://127.0.0.1:8000". */
  address: string;
  /** Takes no further requests, and ends those under way after `graceMs`. */
  close(graceMs?: number): Promise<void>;
}

/** Large bodies take their time; requests that never end are ended. */
const bodyTimeoutMs = 3_600_000;

/** Longer than the idle time of the pools in front of servers, so that they do not reuse a closed connection. */
const idleTimeoutMs = 75_000;

/** Serves a handler on a port of this machine; port 0 takes a free one. Rejects when the port is taken. */
export async function listen(handler: FetchHandler, options: { host: string; port: number }): Promise<Listening> {
  const server = createAdaptorServer({
    fetch: handler,
    serverOptions: { requestTimeout: bodyTimeoutMs, keepAliveTimeout: idleTimeoutMs },
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, options.host, () => {
      server.off("error", reject);
      resolve();
    });
  });
  const { address, port, family } = server.address() as AddressInfo;
  return {
    address: `http://${family === "IPv6" ? `[${address}]` : address}:${port}`,
    close: (graceMs = 5000) =>
      new Promise((resolve) => {
        const closeAll = "closeAllConnections" in server ? () => server.closeAllConnections() : () => undefined;
        const timer = setTimeout(closeAll, graceMs);
        // A connection whose last reply has just ended stays open for the next request, which is not to come.
        const closeIdle = "closeIdleConnections" in server ? () => server.closeIdleConnections() : () => undefined;
        const idle = setInterval(closeIdle, 50);
        server.close(() => {
          clearTimeout(timer);
          clearInterval(idle);
          resolve();
        });
      }),
  };
}
