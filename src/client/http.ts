import { clearTimeout, setTimeout } from "node:timers";
import {
  AnnealError,
  AuthenticationError,
  BadRequestError,
  ConflictError,
  InternalServerError,
  NotFoundError,
  PayloadTooLargeError,
  PermissionDeniedError,
  RateLimitError,
  UnavailableError,
  ValidationError,
  type ValidationIssue,
} from "../errors.js";
import { serverUrl } from "../serverUrl.js";

const classes = {
  400: BadRequestError,
  401: AuthenticationError,
  403: PermissionDeniedError,
  404: NotFoundError,
  409: ConflictError,
  413: PayloadTooLargeError,
  429: RateLimitError,
  500: InternalServerError,
  503: UnavailableError,
} as const;

interface WireError {
  error?: { message?: string; param?: string | null; code?: string | null };
  detail?: string | ValidationIssue[];
}

/** The error that a response stands for: of the class that the engine would have thrown in process. */
export function toError(status: number, body: unknown, headers = new Headers()): AnnealError {
  const { error, detail } = (typeof body === "object" && body !== null ? body : {}) as WireError;
  const code = error?.code ?? headers.get("x-error-code");
  const param = error?.param ?? decoded(headers.get("x-error-param") ?? "");
  const hint = decoded(headers.get("x-error-hint") ?? "");
  const given = { ...(code ? { code } : {}), ...(param ? { param } : {}), ...(hint ? { hint } : {}) };
  if (status === 422 && Array.isArray(detail)) return new ValidationError(detail, given);
  const said = error?.message ?? (typeof detail === "string" ? detail : `the server answered ${status}`);
  // Where there is a hint alone, it is not in the message too.
  const message = hint && said.endsWith(` (${hint})`) ? said.slice(0, -` (${hint})`.length) : said;
  const Class = classes[status as keyof typeof classes];
  return Class ? new Class(message, given) : new AnnealError(message, status, { code: "unexpected_status", ...given });
}

/** What a proxy wrote may be no encoding: then it is taken as it is. */
function decoded(header: string): string {
  try {
    return decodeURIComponent(header);
  } catch {
    return header;
  }
}

export interface Exchange {
  method?: "GET" | "POST" | "PUT" | "DELETE";
  query?: Record<string, string | number | null | undefined>;
  /** Sent as JSON; what is put, bytes or a text, as it is. */
  body?: unknown;
  signal?: AbortSignal;
  /** Statuses whose body is an answer too. */
  accept?: readonly number[];
}

/** Kinds of objects that JSON would write as empty ones, or as their numbers by position. */
const UNWRITABLE =
  /^\[object (Map|Set|WeakMap|WeakSet|Promise|RegExp|Error|DataView|(?:Shared)?ArrayBuffer|\w+Array)\]$/;

/** The kind of a value that JSON has no form for. */
function unwritable(value: unknown): string | undefined {
  if (typeof value === "function" || typeof value === "symbol") return typeof value;
  if (typeof value !== "object" || value === null) return undefined;
  return UNWRITABLE.exec(Object.prototype.toString.call(value))?.[1];
}

function refused(path: readonly string[], msg: string, type = "value_error"): ValidationError {
  return new ValidationError([{ loc: ["body", ...path], msg, type }]);
}

const noJson = (path: readonly string[], kind: string) => refused(path, `JSON has no form for a value of kind ${kind}`);

/**
 * JSON has no NaN, no infinity and no functions: written as null or left out, such a setting would be the default without a word.
 * @throws ValidationError naming a field of the body, or of an object in it, that is one.
 */
function refuseUnwritable(value: unknown, path: readonly string[] = []): void {
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw refused(path, `must be a finite number, not ${value}`, "finite_number");
  }
  const kind = unwritable(value);
  if (kind !== undefined) throw noJson(path, kind);
  const isNested = path.length > 1 || typeof value !== "object" || value === null || Array.isArray(value);
  if (isNested) return;
  for (const [key, item] of Object.entries(value)) refuseUnwritable(item, [...path, key]);
}

/** Where in a value an object is; `seen` are those on the way so far. */
function pathTo(found: object, value: unknown, seen = new Set<unknown>()): string[] | null {
  if (value === found) return [];
  if (typeof value !== "object" || value === null || seen.has(value)) return null;
  seen.add(value);
  for (const [key, item] of Object.entries(value)) {
    const rest = pathTo(found, item, seen);
    if (rest !== null) return [key, ...rest];
  }
  return null;
}

/**
 * Bigints are written as the integers they are, which `JSON.stringify` cannot.
 * @throws ValidationError for what JSON would lose, or cannot write: a Map is refused wherever it is.
 */
function toJson(value: unknown): string {
  refuseUnwritable(value);
  const exact: string[] = [];
  // A private-use character keeps the places apart from any text of the value.
  const mark = "\ue000bigint";
  function written(this: unknown, key: string, item: unknown): unknown {
    if (typeof item === "object" && item !== null) {
      // What `toJSON` made of it, as of a Buffer, is not what it is.
      const own = (this as Record<string, object>)[key]!;
      const kind = unwritable(own);
      if (kind !== undefined) throw noJson(pathTo(own, value) ?? [], kind);
    }
    if (typeof item === "bigint") exact.push(String(item));
    // In digits it would look exact, as a number this large need not be: with an exponent it is refused where that matters.
    else if (this === value && Number.isInteger(item) && !Number.isSafeInteger(item)) {
      exact.push((item as number).toExponential());
    } else return item;
    return `${mark}${exact.length - 1}\ue001`;
  }
  const text = stringified(value, written);
  return exact.length === 0
    ? text
    : text.replace(/"\ue000bigint(\d+)\ue001"/g, (whole, at) => exact[Number(at)] ?? whole);
}

/** @throws ValidationError for what goes in circles, or is too deep or too long for a text */
function stringified(value: unknown, written: (this: unknown, key: string, item: unknown) => unknown): string {
  try {
    return JSON.stringify(value, written);
  } catch (error) {
    if (error instanceof AnnealError || !(error instanceof TypeError || error instanceof RangeError)) throw error;
    const [reason] = error.message.split("\n");
    throw new ValidationError([{ loc: ["body"], msg: `cannot be written as JSON: ${reason}`, type: "json_invalid" }], {
      code: "json_invalid",
      cause: error,
    });
  }
}

/** Waits before the second and third try of a request that may be repeated. */
const retryDelaysMs = [500, 1000];

/** Talks to a server: adds the key, turns failures into the engine's errors. */
export class HttpConnection {
  readonly #base: URL;
  readonly #apiKey: string;

  /**
   * @param url the server's address, with or without "/v1"
   * @throws ValidationError when it is none, or there is no key.
   */
  constructor(url: string, apiKey: string) {
    const base = serverUrl(url);
    if (base === null) {
      throw new ValidationError([
        { loc: ["url"], msg: `"${url}" is no address such as http://127.0.0.1:8000`, type: "value_error" },
      ]);
    }
    if (!apiKey) throw new ValidationError([{ loc: ["options", "apiKey"], msg: "field required", type: "missing" }]);
    this.#base = base;
    this.#apiKey = apiKey;
  }

  /** The address of a path such as "/v1/models". */
  url(path: string): URL {
    return new URL(path.slice(1), this.#base);
  }

  /** Takes what the global `fetch` takes; whatever the host of an address, this server gets the request. */
  readonly fetch: typeof fetch = (input, init) => {
    const request = new Request(input, init);
    const { pathname, search } = new URL(request.url);
    return fetch(new Request(new URL(pathname.slice(1) + search, this.#base), request));
  };

  /**
   * One exchange. GET is repeated when the connection fails or the server is overloaded; nothing else is.
   * @throws the engine's errors; UnavailableError with code "unreachable" when there is no server.
   */
  async send(path: string, exchange: Exchange = {}): Promise<Response> {
    const { method = "GET", query, body, signal, accept = [] } = exchange;
    const url = this.url(path);
    for (const [name, value] of Object.entries(query ?? {})) {
      if (value !== null && value !== undefined) url.searchParams.set(name, String(value));
    }
    // Bytes of shared memory, which fetch does not take, come from nowhere here.
    const sent = body === undefined || method === "PUT" ? (body as string | Uint8Array<ArrayBuffer>) : toJson(body);
    const headers: Record<string, string> = { authorization: `Bearer ${this.#apiKey}`, accept: "application/json" };
    if (body !== undefined)
      headers["content-type"] = method === "PUT" ? "application/octet-stream" : "application/json";
    for (let attempt = 0; ; attempt++) {
      const delay = method === "GET" ? retryDelaysMs[attempt] : undefined;
      try {
        const response = await fetch(url, { method, headers, body: sent, signal });
        if (response.ok || accept.includes(response.status)) return response;
        const error = toError(response.status, await response.json().catch(() => null), response.headers);
        if (delay === undefined || ![429, 500, 503].includes(response.status)) throw error;
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof AnnealError) throw error;
        if (delay === undefined) {
          throw new UnavailableError(`${this.#base.origin} cannot be reached`, { code: "unreachable", cause: error });
        }
      }
      await pause(delay, signal);
    }
  }

  async json<T>(path: string, exchange?: Exchange): Promise<T> {
    const response = await this.send(path, exchange);
    return (await response.json()) as T;
  }
}

/** Resolves after `ms`; rejects with the signal's reason when that is aborted before. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const aborted = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", aborted);
      resolve();
    }, ms);
    signal?.addEventListener("abort", aborted, { once: true });
  });
}
