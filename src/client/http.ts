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
  const given = { ...(code ? { code } : {}), ...(param ? { param } : {}) };
  if (status === 422 && Array.isArray(detail)) return new ValidationError(detail, given);
  const message = error?.message ?? (typeof detail === "string" ? detail : `the server answered ${status}`);
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
  /** Sent as JSON; bytes and texts as they are. */
  body?: unknown;
  signal?: AbortSignal;
  /** Statuses whose body is an answer too. */
  accept?: readonly number[];
}

/**
 * JSON has no NaN and no infinity: written as null, such a setting would be the default without a word.
 * @throws ValidationError naming a field of the body, or of an object in it, that is one.
 */
function refuseNonFinite(value: unknown, path = ""): void {
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw ValidationError.at(path, `must be a finite number, not ${value}`, "finite_number");
  }
  const isNested = path.includes(".") || typeof value !== "object" || value === null || Array.isArray(value);
  if (isNested) return;
  for (const [key, item] of Object.entries(value)) refuseNonFinite(item, path === "" ? key : `${path}.${key}`);
}

/** Bigints are written as the integers they are, which `JSON.stringify` cannot. */
function toJson(value: unknown): string {
  refuseNonFinite(value);
  const exact: string[] = [];
  // A private-use character keeps the places apart from any text of the value.
  const mark = "\ue000bigint";
  const text = JSON.stringify(value, (_, item: unknown) => {
    if (typeof item !== "bigint") return item;
    exact.push(String(item));
    return `${mark}${exact.length - 1}\ue001`;
  });
  return exact.length === 0
    ? text
    : text.replace(/"\ue000bigint(\d+)\ue001"/g, (whole, at) => exact[Number(at)] ?? whole);
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
    const raw =
      typeof body === "string" || body instanceof Uint8Array ? (body as string | Uint8Array<ArrayBuffer>) : undefined;
    const headers: Record<string, string> = { authorization: `Bearer ${this.#apiKey}`, accept: "application/json" };
    if (body !== undefined)
      headers["content-type"] = raw === undefined ? "application/json" : "application/octet-stream";
    for (let attempt = 0; ; attempt++) {
      const delay = method === "GET" ? retryDelaysMs[attempt] : undefined;
      try {
        const response = await fetch(url, {
          method,
          headers,
          body: body === undefined ? undefined : (raw ?? toJson(body)),
          signal,
        });
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
