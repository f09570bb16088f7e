// The routes of the HTTP face, and what holds for all of them: keys, limits, errors, metrics.

import { randomUUID } from "node:crypto";
import { Hono } from "hono";
import { cors } from "hono/cors";
import { getPath } from "hono/utils/url";
import type { ServedEngine } from "../engine/servedEngine.js";
import { AnnealError, AuthenticationError, errorForOthers, NotFoundError, ValidationError } from "../errors.js";
import type { Release } from "../semaphore.js";
import { readBody, readJson, readJsonOrBytes } from "./bodies.js";
import { errorBody, errorResponse, publicError, styleOf } from "./errorBodies.js";
import { HttpMetrics } from "./httpMetrics.js";
import { inferenceRoutes, openRoutes, operationRoutes } from "./inferenceRoutes.js";
import { jsonResponse } from "./jsonResponse.js";
import { previewRoutes } from "./previewRoutes.js";
import { type Call, pathTemplate, type Route } from "./route.js";

const METHODS = ["GET", "POST", "PUT", "DELETE"];
/** What a page may read of an answer beyond what browsers always show. */
const EXPOSED_HEADERS = ["x-request-id", "x-error-code", "x-error-param", "retry-after"];
/** For which a browser need not ask again. */
const PREFLIGHT_SECONDS = 7200;

/** What an HTTP face permits. */
export interface ServerOptions {
  /** Bytes of a chat body at most; default 8 MiB. */
  chatBodyLimit?: number;
  /**
   * Bytes of any other body at most; default 1 GiB. Trajectory groups (logged or to train on) beyond 4 MiB go to the home's disk
   * as they come and are read from there, one body at a time, which takes its size in memory and a heap of 1.5 GiB at most,
   * whatever it holds. Other bodies take about nine times their size; of those above 16 MiB one at a time is worked on.
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

/** What is known of a request on its way. */
interface Variables {
  /** Of its route. */
  path?: string;
  requestId: string;
  ended: () => void;
}

/** `routes` by their paths, in order. */
function byPath(routes: readonly Route[]): Map<string, Route[]> {
  const paths = new Map<string, Route[]>();
  for (const route of routes) paths.set(route.path, [...(paths.get(route.path) ?? []), route]);
  return paths;
}

/** The client's name for a request if it is fit to be sent back, else one of ours. */
function requestIdOf(headers: Headers): string {
  const given = headers.get("x-request-id") ?? "";
  return /^[\x20-\x7e]{1,256}$/.test(given) ? given : randomUUID();
}

/** The path below `base`; one that is not below it is nowhere. */
function pathBelow(base: string, request: Request): string {
  const path = getPath(request);
  if (base === "") return path;
  return path.startsWith(`${base}/`) ? path.slice(base.length) : "/";
}

function readQuery(url: string): Record<string, string | number> {
  const entries = [...new URL(url).searchParams].filter(([, value]) => value !== "");
  return Object.fromEntries(entries.map(([key, value]) => [key, /^-?\d{1,15}$/.test(value) ? Number(value) : value]));
}

/** The engine as the bearer of the request's key may use it. */
function authenticate(engine: ServedEngine, request: Request) {
  const token = /^Bearer +(\S+) *$/i.exec(request.headers.get("authorization") ?? "")?.[1];
  if (token === undefined) {
    throw new AuthenticationError("the request carries no API key", { hint: "send it as Authorization: Bearer KEY" });
  }
  const resources = engine.authenticate(token);
  if (!resources) throw new AuthenticationError("the API key is not valid");
  return resources;
}

export function application(engine: ServedEngine, options: ServerOptions): (request: Request) => Promise<Response> {
  const limits = { chat: options.chatBodyLimit ?? 8 * 2 ** 20, large: options.bodyLimit ?? 2 ** 30 };
  const http = new HttpMetrics();
  const routes: readonly Route[] = [...inferenceRoutes, ...previewRoutes, ...operationRoutes(() => routes, http)];
  const { logger } = engine;
  const basePath = (options.basePath ?? "").replace(/\/+$/, "");
  const app = new Hono<{ Variables: Variables }>({ strict: true, getPath: (request) => pathBelow(basePath, request) });

  const report = (error: unknown, { method, url }: Request, requestId: string) => {
    if (error instanceof AnnealError && error.status < 500) return;
    logger.error("request failed", { method, path: new URL(url).pathname, request: requestId, error });
  };

  async function answer(
    route: Route,
    request: Request,
    params: Record<string, string>,
    { ended, requestId }: Pick<Variables, "ended" | "requestId">,
  ): Promise<Response> {
    const limit = limits[route.bodyLimit ?? "large"];
    const as = authenticate(engine, request);
    const releases: Release[] = [];
    const call: Call = {
      engine,
      as,
      request,
      requestId,
      params,
      query: readQuery(request.url),
      signal: request.signal,
      json: (exact = {}) => readJson(request, limit, exact, (release) => releases.push(release)),
      jsonOrBytes: () => readJsonOrBytes(request, limit),
      bytes: () => readBody(request, limit),
      ended,
      report: (error) => report(error, request, requestId),
    };
    try {
      const result = await route.handle(call);
      return result instanceof Response ? result : jsonResponse(result);
    } catch (error) {
      const shown = as.caller.owner ? error : errorForOthers(error);
      if (shown !== error) logger.warn("request refused", { path: route.path, error });
      throw shown;
    } finally {
      for (const release of releases) release();
    }
  }

  app.use(async (context, next) => {
    const begun = performance.now();
    const { method } = context.req;
    const ended = () => {
      const seconds = (performance.now() - begun) / 1000;
      http.answered({ method, path: context.get("path") ?? null, status: context.res.status, seconds });
    };
    context.set("ended", ended);
    context.set("requestId", requestIdOf(context.req.raw.headers));
    await next();
    context.header("x-request-id", context.get("requestId"));
    if (!context.res.headers.get("content-type")?.startsWith("text/event-stream")) ended();
  });
  if (options.allowOrigin !== undefined) {
    const origin = typeof options.allowOrigin === "string" ? options.allowOrigin : [...options.allowOrigin];
    app.use(cors({ origin, allowMethods: METHODS, exposeHeaders: EXPOSED_HEADERS, maxAge: PREFLIGHT_SECONDS }));
  }
  for (const [path, methods] of byPath(routes)) {
    app.all(path, async (context) => {
      context.set("path", pathTemplate(methods[0]!));
      const { raw } = context.req;
      const route = methods.find(({ method }) => method === raw.method);
      if (route) return answer(route, raw, context.req.param() as Record<string, string>, context.var);
      authenticate(engine, raw);
      const allow = methods.map(({ method }) => method).join(", ");
      const error = new AnnealError(`${raw.method} is not possible here, only ${allow}`, 405, {
        code: "method_not_allowed",
      });
      return Response.json(errorBody(error, styleOf(context.req.path)), { status: 405, headers: { allow } });
    });
  }
  for (const { methods, path, open } of openRoutes) {
    app.on([...methods], path, (context) => {
      context.set("path", path);
      return open(engine);
    });
  }
  app.all("*", (context) => {
    authenticate(engine, context.req.raw);
    throw new NotFoundError(`there is nothing at ${context.req.path}`, { code: "unknown_path" });
  });
  app.onError((error, context) => {
    if (context.req.raw.signal.aborted && error === context.req.raw.signal.reason)
      return new Response(null, { status: 499 });
    const deep = error instanceof RangeError && /call stack/.test(error.message);
    const known = deep ? ValidationError.at("", "the body is nested too deeply", "json_invalid") : error;
    if (publicError(known).status >= 500) report(known, context.req.raw, context.get("requestId"));
    return errorResponse(known, styleOf(context.req.path));
  });
  return async (request) => app.fetch(request);
}
