// The HTTP face: its routes behind their middleware.

import { type Context, Hono } from "hono";
import { cors } from "hono/cors";
import { getPath } from "hono/utils/url";
import type { ServedEngine } from "../engine/servedEngine.js";
import { NotFoundError } from "../errors.js";
import type { Release } from "../semaphore.js";
import { readBody, readJson, readJsonOrBytes } from "./bodies.js";
import { HttpMetrics } from "./httpMetrics.js";
import { inferenceRoutes, openRoutes, operationRoutes } from "./inferenceRoutes.js";
import { jsonResponse } from "./jsonResponse.js";
import { messageRoutes } from "./messageRoutes.js";
import {
  authenticated,
  counted,
  type Environment,
  failed,
  named,
  otherMethods,
  refusedWhile,
  report,
} from "./middleware.js";
import { openApiDocument } from "./openapi.js";
import { previewRoutes } from "./previewRoutes.js";
import { responseRoutes } from "./responseRoutes.js";
import type { Route } from "./route.js";

const METHODS = ["GET", "POST", "PUT", "DELETE"];
/** What a page may read of an answer beyond what browsers always show. */
const EXPOSED_HEADERS = ["x-request-id", "request-id", "x-error-code", "x-error-param", "x-error-hint", "retry-after"];
/** For which a browser need not ask again. */
const PREFLIGHT_SECONDS = 7200;

/** What an HTTP face permits. */
export interface ServerOptions {
  /**
   * Bytes of a body of chat, or of anything but training data and files, at most; default 8 MiB. It is in memory while it is
   * worked on, and takes about nine times its size.
   */
  chatBodyLimit?: number;
  /**
   * Bytes of training data, or of a file that is put, at most; default 1 GiB. Files and trajectory groups (logged or to train on)
   * go to the home's disk as they come, groups beyond 4 MiB. These are read from there, one body at a time, which takes its size
   * in memory and a heap of 1.5 GiB at most, whatever it holds. Conversations take about nine times their size; of bodies of
   * more than 16 MiB of them one at a time is worked on.
   */
  bodyLimit?: number;
  /**
   * Origins whose pages in a browser may call, such as "https://app.example"; "*": all. Default: none. Preflight requests
   * then need no key.
   */
  allowOrigin?: string | readonly string[];
  /** Where all paths begin when the caller does not take it off them, such as "/llm", with or without slashes; default "". */
  basePath?: string;
  /**
   * From when it aborts, what is under way goes on, `/v1/health` and `/health` answer 503 with code "draining", and so does every
   * other request but `/metrics`, with `retry-after`: a load balancer takes them elsewhere. Default: never.
   */
  drain?: AbortSignal;
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

export function application(engine: ServedEngine, options: ServerOptions): (request: Request) => Promise<Response> {
  const limits = { small: options.chatBodyLimit ?? 8 * 2 ** 20, large: options.bodyLimit ?? 2 ** 30 };
  const http = new HttpMetrics();
  const routes: readonly Route[] = [
    ...inferenceRoutes,
    ...responseRoutes,
    ...messageRoutes,
    ...previewRoutes,
    ...operationRoutes(() => document(), http),
  ];
  let told: ReturnType<typeof openApiDocument> | undefined;
  const document = () => {
    told ??= openApiDocument(routes, openRoutes);
    return told;
  };
  const basePath = (options.basePath ?? "").replace(/^\/*(?=[^/])/, "/").replace(/\/+$/, "");
  const app = new Hono<Environment>({ strict: true, getPath: (request) => pathBelow(basePath, request) });
  const keyed = authenticated(engine);

  const answer = (route: Route) => async (context: Context<Environment>) => {
    const { raw: request } = context.req;
    const { requestId, ended, as } = context.var;
    const releases: Release[] = [];
    try {
      const result = await route.handle({
        engine,
        as: as!,
        request,
        requestId,
        params: context.req.param(),
        query: readQuery(request.url),
        signal: request.signal,
        json: (exact = {}, limit = "small") =>
          readJson(request, limits[limit], exact, (release) => releases.push(release)),
        jsonOrBytes: (exact) => readJsonOrBytes(request, limits.large, exact),
        bytes: () => readBody(request, limits.large),
        ended,
        report: (error) => report(engine.logger, error, request, { requestId, as }),
      });
      return result instanceof Response ? result : jsonResponse(result);
    } catch (error) {
      // The reason may be a text, as in Node's server, and such a thing no handler of Hono's is told of.
      if (request.signal.aborted && error === request.signal.reason) return new Response(null, { status: 499 });
      throw error;
    } finally {
      for (const release of releases) release();
    }
  };

  app.use(counted(http), named);
  if (options.allowOrigin !== undefined) {
    const origin = typeof options.allowOrigin === "string" ? options.allowOrigin : [...options.allowOrigin];
    app.use(cors({ origin, allowMethods: METHODS, exposeHeaders: EXPOSED_HEADERS, maxAge: PREFLIGHT_SECONDS }));
  }
  if (options.drain) app.use(refusedWhile(options.drain));
  for (const path of new Set(routes.map((route) => route.path))) {
    const here = routes.filter((route) => route.path === path);
    for (const route of here) app.on(route.method, path, keyed, answer(route));
    app.all(path, keyed, otherMethods(here.map(({ method }) => method)));
  }
  for (const { methods, path, open } of openRoutes) {
    app.on([...methods], path, () => open(engine, document));
    app.all(path, keyed, otherMethods(methods));
  }
  app.all("*", keyed, ({ req }) => {
    throw new NotFoundError(`there is nothing at ${req.path}`, { code: "unknown_path" });
  });
  app.onError(failed(engine));
  return async (request) => app.fetch(request);
}
