import type { ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { clearInterval, clearTimeout, setInterval, setTimeout } from "node:timers";
import { createAdaptorServer } from "@hono/node-server";
import { UnavailableError } from "../errors.js";
import { HOST_OF_NONE } from "./nodeListener.js";
import { maxConnections } from "./openFiles.js";
import { closeWithConnection } from "./pipelining.js";

export interface Listening {
  /** For example "http://127.0.0.1:8000". */
  address: string;
  /** Resolves when no request is under way, or after `mostMs`. Requests are taken all the while. */
  idle(mostMs: number): Promise<void>;
  /** Takes no further requests, and ends those under way after `graceMs`. */
  close(graceMs?: number): Promise<void>;
}

export interface ListenOptions {
  host: string;
  port: number;
  /** Called with how many connections there are when one more is closed for want of files, once a minute at most. */
  onFull?: (connections: number) => void;
}

/** Large bodies take their time; requests that never end are ended. */
const bodyTimeoutMs = 3_600_000;

/** Longer than the idle time of the pools in front of servers, so that they do not reuse a closed connection. */
const idleTimeoutMs = 75_000;

const tellOfFullMs = 60_000;

/** Connections that come at once and wait to be accepted; the system may allow fewer. One that finds no room is a second late at least. */
const backlog = 4096;

/** What to do about the system's refusal to listen, by its code. */
const refusals: Readonly<Record<string, { why: string; hint: string }>> = {
  EADDRINUSE: { why: "the port is taken", hint: "name another port, or 0 for any that is free" },
  EACCES: { why: "this user may not take the port", hint: "name a port from 1024" },
  EADDRNOTAVAIL: {
    why: "the address is none of this machine's",
    hint: "127.0.0.1 is this machine alone, 0.0.0.0 all its addresses",
  },
  ENOTFOUND: { why: "there is no such host", hint: "127.0.0.1 is this machine alone, 0.0.0.0 all its addresses" },
};

function listenError({ host, port }: { host: string; port: number }, error: NodeJS.ErrnoException): Error {
  const refusal = refusals[error.code ?? ""];
  if (!refusal) return error;
  const detail = { code: "cannot_listen", hint: refusal.hint, cause: error };
  return new UnavailableError(`cannot listen on ${host}:${port}: ${refusal.why}`, detail);
}

/**
 * Serves a handler on a port of this machine; port 0 takes a free one.
 * @throws UnavailableError with code "cannot_listen" when the port is taken or the host is not this machine's.
 */
export async function listen(
  handler: (request: Request) => Promise<Response>,
  options: ListenOptions,
): Promise<Listening> {
  const server = createAdaptorServer({
    fetch: handler,
    hostname: HOST_OF_NONE,
    serverOptions: { requestTimeout: bodyTimeoutMs, keepAliveTimeout: idleTimeoutMs },
  });
  const most = maxConnections();
  if (most !== null) server.maxConnections = most;
  let toldAt = Number.NEGATIVE_INFINITY;
  server.on("drop", () => {
    if (performance.now() - toldAt < tellOfFullMs) return;
    toldAt = performance.now();
    options.onFull?.(most!);
  });
  let underWay = 0;
  let hasEnded = () => {};
  server.on("request", closeWithConnection);
  server.on("request", (_: unknown, response: ServerResponse) => {
    underWay += 1;
    response.once("close", () => {
      underWay -= 1;
      if (underWay === 0) hasEnded();
    });
  });
  await new Promise<void>((resolve, reject) => {
    const refuse = (error: NodeJS.ErrnoException) => reject(listenError(options, error));
    server.once("error", refuse);
    server.listen({ port: options.port, host: options.host, backlog }, () => {
      server.off("error", refuse);
      resolve();
    });
  });
  const { address, port, family } = server.address() as AddressInfo;
  return {
    address: `http://${family === "IPv6" ? `[${address}]` : address}:${port}`,
    idle: (mostMs) =>
      new Promise((resolve) => {
        if (underWay === 0) return resolve();
        const timer = setTimeout(resolve, mostMs);
        hasEnded = () => {
          clearTimeout(timer);
          resolve();
        };
      }),
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
