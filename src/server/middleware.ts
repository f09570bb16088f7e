// What holds for requests of all routes, as middleware: keys, names, metrics, methods, failures.

import { randomUUID } from "node:crypto";
import type { ErrorHandler, MiddlewareHandler } from "hono";
import { createMiddleware } from "hono/factory";
import { routePath } from "hono/route";
import type { Resources } from "../engine/resources/resources.js";
import type { ServedEngine } from "../engine/servedEngine.js";
import { AnnealError, AuthenticationError, errorForOthers, UnavailableError, ValidationError } from "../errors.js";
import type { Logger } from "../types/logger.js";
import { errorResponse, publicError, styleOf } from "./errorBodies.js";
import type { HttpMetrics } from "./httpMetrics.js";
import { pathTemplate, type Route } from "./route.js";

/** What is known of a request on its way. */
export interface Environment {
  Variables: {
    requestId: string;
    /** To be called when an answer that is an event stream has ended; others end when they are given. */
    ended: () => void;
    /** The engine as the bearer of the key may use it; absent until `authenticated`. */
    as?: Resources;
  };
}

/** The client's name for a request if it is fit to be sent back, else one of ours. */
function requestIdOf(headers: Headers): string {
  const given = headers.get("x-request-id") ?? "";
  return /^[\x20-\x7e]{1,256}$/.test(given) ? given : randomUUID();
}

/**
 * Names requests, in `x-request-id`, and for Anthropic's clients in `request-id`. Hono's own takes fewer characters than clients and
 * proxies send.
 */
export const named = createMiddleware<Environment>(async (context, next) => {
  context.set("requestId", requestIdOf(context.req.raw.headers));
  await next();
  context.header("x-request-id", context.var.requestId);
  if (styleOf(context.req.path) === "message") context.header("request-id", context.var.requestId);
});

/** Counts requests when their answers have ended. */
export const counted = (http: HttpMetrics): MiddlewareHandler<Environment> =>
  createMiddleware<Environment>(async (context, next) => {
    const begun = performance.now();
    const { method } = context.req;
    let path: string | null = null;
    const ended = () => {
      const seconds = (performance.now() - begun) / 1000;
      http.answered({ method, path, status: context.res.status, seconds });
    };
    context.set("ended", ended);
    await next();
    // Of the handler that came last.
    const matched = routePath(context);
    path = matched.endsWith("*") ? null : pathTemplate({ path: matched });
    if (!context.res.headers.get("content-type")?.startsWith("text/event-stream")) ended();
  });

/** @throws AuthenticationError unless the request carries a key of the engine's. */
export const authenticated = (engine: ServedEngine): MiddlewareHandler<Environment> =>
  createMiddleware<Environment>(async (context, next) => {
    // The latter is how Anthropic's clients send it.
    const token =
      /^Bearer +(\S+) *$/i.exec(context.req.header("authorization") ?? "")?.[1] ?? context.req.header("x-api-key");
    if (token === undefined) {
      throw new AuthenticationError("the request carries no API key", { hint: "send it as Authorization: Bearer KEY" });
    }
    const resources = engine.authenticate(token);
    if (!resources) throw new AuthenticationError("the API key is not valid");
    context.set("as", resources);
    await next();
  });

/** What a balancer asks while it looks on. */
const WATCHED = "/metrics";

/** Refuses everything that comes once the server drains. */
export const refusedWhile = (drain: AbortSignal): MiddlewareHandler<Environment> =>
  createMiddleware<Environment>(async (context, next) => {
    if (!drain.aborted || context.req.path.endsWith(WATCHED)) return next();
    const error = new UnavailableError("the server is draining: it ends what is under way and takes nothing new", {
      code: "draining",
      hint: "send it to another server, or here again when it has been started anew",
    });
    // Given rather than thrown: it is no failure, and nothing for the log.
    const response = errorResponse(error, styleOf(context.req.path));
    response.headers.set("retry-after", "1");
    response.headers.set("connection", "close");
    return response;
  });

/** For a path that has these methods only. */
export const otherMethods = (methods: readonly Route["method"][]): MiddlewareHandler<Environment> =>
  createMiddleware<Environment>(async ({ req }) => {
    const allow = methods.flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method])).join(", ");
    const error = new AnnealError(`${req.method} is not possible here, only ${allow}`, 405, {
      code: "method_not_allowed",
    });
    const response = errorResponse(error, styleOf(req.path));
    response.headers.set("allow", allow);
    return response;
  });

type Known = Pick<Environment["Variables"], "requestId" | "as">;

/** What the log says of a request, so that its client's own words of it lead there. */
const told = ({ method, url }: Request, { requestId, as }: Known) => ({
  method,
  path: new URL(url).pathname,
  request: requestId,
  ...(as && { entity: as.caller.entity }),
});

/** Logs a failure that is the engine's. */
export function report(logger: Logger, error: unknown, request: Request, known: Known): void {
  if (error instanceof AnnealError && error.status < 500) return;
  logger.error("request failed", { ...told(request, known), error });
}

/** What became of a request that failed, in the words of its path, and to others than the owner without what concerns them. */
export const failed = ({ logger }: ServedEngine): ErrorHandler<Environment> => {
  return (error, { req, var: known }) => {
    const shown = known.as && !known.as.caller.owner ? errorForOthers(error) : error;
    if (shown !== error) logger.warn("request refused", { ...told(req.raw, known), error });
    const isDeep = shown instanceof RangeError && /call stack/.test(shown.message);
    const answered = isDeep ? ValidationError.at("", "the body is nested too deeply", "json_invalid") : shown;
    if (publicError(answered).status >= 500) report(logger, answered, req.raw, known);
    return errorResponse(answered, styleOf(req.path));
  };
};
