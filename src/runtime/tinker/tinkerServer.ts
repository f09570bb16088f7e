// A server that speaks Tinker's HTTP interface: a request is answered with the id of a future, which is asked for until it has a
// result. Every attempt of a request carries the same sequence number.

import { clearInterval, setInterval } from "node:timers";
import { setTimeout as sleep } from "node:timers/promises";
import { RemoteServerError, ValidationError } from "../../errors.js";
import { packageVersion } from "../../packageFiles.js";
import { reasonOf, remoteRefused, remoteUnexpected, remoteUnreachable } from "../../remoteReplies.js";
import { serverUrl } from "../../serverUrl.js";

export interface TinkerAddress {
  url: string;
  apiKey: string | null;
  /** For so long a server that does not answer, or is overloaded, is asked again. */
  patienceMs: number;
}

/** What servers of this interface differ in. */
export interface Dialect {
  /** Names of the loss functions; null: it does not tell. */
  losses: ReadonlySet<string> | null;
  /** Whether an optimizer step takes a bound on the gradient's norm. */
  clipsGradients: boolean;
  /** Whether a request with a sequence number that was seen before is the request that was seen. */
  knowsSequenceNumbers: boolean;
  /** Whether adapters of attention or feed-forward alone can be asked for. */
  choosesModules: boolean;
  /** Whether moments can be left behind when a state is loaded. */
  leavesMoments: boolean;
  /** Whether what was saved can be deleted. */
  deletesStates: boolean;
  /** Whether rows cross the wire as protocol buffers, and results that hold many numbers. */
  speaksProtobuf: boolean;
  /** What becomes of a row's losses: their sum, or their sum over that of their weights, of which the mean over rows is taken. */
  reduction: "sum" | "weighted mean";
}

export interface Task {
  /** For people: "make an adapter". */
  what: string;
  /** Below /api/v1. */
  path: string;
  /** Of every attempt: JSON, or a protocol buffer. */
  body: () => Record<string, unknown> | Uint8Array;
  /** Makes of a protocol buffer what a server that speaks JSON would answer. @throws RangeError */
  decode?: (message: Uint8Array) => Record<string, unknown>;
  /** Whether doing it twice is as good as once, also where sequence numbers say nothing. */
  isRepeatable: boolean;
  signal?: AbortSignal | undefined;
  /** In place of the server's. */
  patienceMs?: number;
}

/** Of requests that clean up: nobody waits for them, and no program should end later for them. */
export const CLEAN_UP_PATIENCE_MS = 2000;

const MIN_RETRY_DELAY_MS = 100;
const MAX_RETRY_DELAY_MS = 5000;
/** Servers hold the question for a future's result for a while; one that holds it for longer is asked anew. */
const POLL_TIMEOUT_MS = 60_000;
/** Other requests are answered at once. */
const ANSWER_TIMEOUT_MS = 60_000;
const HEARTBEAT_MS = 10_000;

const JSON_TYPE = "application/json";
const PROTOBUF = "application/x-protobuf";

/** Errors of a connection that never came about: nothing of the request was sent. */
const NOT_SENT = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
]);
/** Answers of a server, or of what stands before it, that has not begun with the request. */
const NOT_TAKEN = new Set([408, 425, 429, 503]);

/** What a server says where it no longer has what it was told to go on with. */
const LOST = /\bnot (found|loaded)\b|does not exist|expired/i;

/** Whether the server has forgotten what was asked for, or cannot be known to have done it: what was saved there may still be had. */
export function isStateLost(error: unknown): boolean {
  return (
    error instanceof RemoteServerError && (error.code === "remote_state_lost" || error.code === "remote_uncertain")
  );
}

export class TinkerServer {
  /** Without a slash at its end. */
  readonly url: string;
  readonly dialect: Dialect;
  /** Names of its base models, and the tokens of context each takes; null: it does not tell. */
  readonly models: ReadonlyMap<string, number | null>;
  readonly #address: TinkerAddress;
  #session: Promise<string> | null = null;
  #heartbeat: NodeJS.Timeout | null = null;
  #models = 0;

  private constructor(
    address: TinkerAddress,
    url: string,
    dialect: Dialect,
    models: ReadonlyMap<string, number | null>,
  ) {
    this.#address = address;
    this.url = url;
    this.dialect = dialect;
    this.models = models;
  }

  /**
   * Asks a server what it is.
   * @throws ValidationError at `url`; RemoteServerError when it cannot be reached or is no such server.
   */
  static async open(address: TinkerAddress): Promise<TinkerServer> {
    const base = serverUrl(address.url.replace(/\/api\/v1\/?$/, "/"));
    if (base === null) throw ValidationError.at("url", `"${address.url}" is no address such as http://127.0.0.1:8000`);
    const url = base.href.replace(/\/$/, "");
    const known = new TinkerServer(address, url, PUBLISHED_DIALECT, new Map());
    const what = "list its models";
    const answer = await known.#exchange("/get_server_capabilities", { what, isRepeatable: true });
    const { supported_models } = (answer ?? {}) as {
      supported_models?: ({ model_name?: unknown; max_context_length?: unknown } | null)[];
    };
    if (!Array.isArray(supported_models)) throw remoteUnexpected(url, what, "no list of models");
    const models = supported_models.flatMap((model) => {
      const { model_name: name, max_context_length: tokens } = model ?? {};
      const isTold = Number.isInteger(tokens) && (tokens as number) > 0;
      return typeof name === "string" ? [[name, isTold ? (tokens as number) : null] as const] : [];
    });
    return new TinkerServer(address, url, await known.#dialect(), new Map(models));
  }

  /** A request that is done when it is answered. */
  async ask(task: Task): Promise<Record<string, unknown>> {
    return this.#object(task.what, await this.#exchange(task.path, task, task.body));
  }

  /**
   * A request that a future stands for: its result.
   * @throws RemoteServerError with code "remote_refused" in the server's own words; "remote_state_lost" where it has forgotten
   * what the request goes on with; "remote_uncertain" where nobody can tell whether it was done.
   */
  async run(task: Task): Promise<Record<string, unknown>> {
    const { request_id: id } = await this.ask(task);
    if (typeof id !== "string" && typeof id !== "number") {
      throw remoteUnexpected(this.url, task.what, "no id of a request");
    }
    return this.#result(String(id), task);
  }

  /** Runs `work` within a session, in another one when the server has forgotten it. */
  async inSession<T>(work: (session: string, modelNumber: number) => Promise<T>): Promise<T> {
    const asked = this.#open();
    try {
      return await work(await asked, this.#models++);
    } catch (error) {
      if (!isStateLost(error) || this.#session !== asked) throw error;
      this.#session = null;
      return work(await this.#open(), this.#models++);
    }
  }

  /** Deletes what was saved there under `name`, where the server has a way; nothing comes of a failure. */
  discard(name: string): void {
    const path = checkpointPath(name);
    if (path === null || !this.dialect.deletesStates) return;
    const task = { what: "delete a state", isRepeatable: true, patienceMs: CLEAN_UP_PATIENCE_MS };
    this.#send(path, task, undefined, ANSWER_TIMEOUT_MS, "DELETE").then(
      (response) => response.body?.cancel(),
      () => undefined,
    );
  }

  /** The answer behind a path, which may say that it is elsewhere. */
  async download(path: string, what: string, signal?: AbortSignal): Promise<Response> {
    const task = { what, isRepeatable: true, signal };
    const response = await this.#send(path, task, undefined, null);
    const elsewhere = response.headers.get("location");
    if (response.ok || elsewhere === null) return response;
    await response.body?.cancel();
    return this.#send(new URL(elsewhere, this.url), task, undefined, null);
  }

  close(): void {
    if (this.#heartbeat) clearInterval(this.#heartbeat);
    this.#heartbeat = null;
  }

  #open(): Promise<string> {
    if (this.#session) return this.#session;
    const opening = this.ask({
      what: "open a session",
      path: "/create_session",
      body: () => ({ tags: [], user_metadata: null, sdk_version: packageVersion(), type: "create_session" }),
      isRepeatable: true,
    }).then(({ session_id: id }) => {
      if (typeof id !== "string") throw remoteUnexpected(this.url, "open a session", "no id of one");
      this.#beat(id);
      return id;
    });
    this.#session = opening;
    opening.catch(() => {
      if (this.#session === opening) this.#session = null;
    });
    return opening;
  }

  /** A session without a sign of life is ended by the server, and with it what was made in it. */
  #beat(session: string): void {
    this.close();
    const beat = { what: "keep a session", path: "/session_heartbeat", isRepeatable: true };
    const body = () => ({ session_id: session, type: "session_heartbeat" });
    // What comes of it shows in the next request.
    this.#heartbeat = setInterval(
      () => void this.#once(beat.path, body(), ANSWER_TIMEOUT_MS).catch(() => {}),
      HEARTBEAT_MS,
    );
    this.#heartbeat.unref();
  }

  async #dialect(): Promise<Dialect> {
    const headers = this.#headers();
    const response = await fetch(`${this.url}/openapi.json`, { headers }).catch(() => null);
    const document = response?.ok ? await response.json().catch(() => null) : null;
    return {
      ...(document === null ? PUBLISHED_DIALECT : readDialect(document as OpenApi)),
      speaksProtobuf: await this.#speaksProtobuf(),
    };
  }

  /** A server that says how its own client should send protocol buffers takes them. */
  async #speaksProtobuf(): Promise<boolean> {
    const body = { sdk_version: packageVersion() };
    const response = await this.#once("/client/config", body, ANSWER_TIMEOUT_MS).catch(() => null);
    const flags: unknown = response?.ok ? await response.json().catch(() => null) : null;
    return typeof flags === "object" && flags !== null && Object.keys(flags).some((name) => /fwdbwd/.test(name));
  }

  async #result(
    id: string,
    { what, decode, signal, patienceMs = this.#address.patienceMs }: Task,
  ): Promise<Record<string, unknown>> {
    const accept = decode && this.dialect.speaksProtobuf ? PROTOBUF : JSON_TYPE;
    const body = { request_id: id };
    let outage: number | null = null;
    for (let attempt = 0; ; ) {
      signal?.throwIfAborted();
      let status = 0;
      let failure: unknown;
      try {
        const response = await this.#once("/retrieve_future", body, POLL_TIMEOUT_MS, { signal, accept });
        status = response.status;
        if (response.ok && response.headers.get("content-type")?.includes(PROTOBUF)) {
          return this.#decoded(what, decode, new Uint8Array(await response.arrayBuffer()));
        }
        const text = await response.text();
        if (response.ok) {
          const result = this.#object(what, parsed(text));
          if (result.type === "try_again") {
            outage = null;
            await pause(MIN_RETRY_DELAY_MS, signal);
            continue;
          }
          if (typeof result.error === "string") throw this.#failed(what, status, text);
          return result;
        }
        // The result is not there yet.
        if (status === 408) {
          outage = null;
          continue;
        }
        if (status === 404 || status === 410) throw this.#lost(what, reasonOf(text));
        if (status < 500 && status !== 429) throw this.#failed(what, status, text);
        failure = remoteRefused(this.url, what, status, text);
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof RemoteServerError) throw error;
        if (isTimeout(error)) continue;
        failure = remoteUnreachable(this.url, what, error);
      }
      outage ??= performance.now();
      if (performance.now() - outage >= patienceMs) throw failure;
      await pause(backoff(attempt++), signal);
    }
  }

  #decoded(what: string, decode: Task["decode"], message: Uint8Array): Record<string, unknown> {
    if (!decode) throw remoteUnexpected(this.url, what, "a protocol buffer, which is not known for this");
    try {
      return decode(message);
    } catch (error) {
      throw remoteUnexpected(this.url, what, `a damaged protocol buffer: ${(error as Error).message}`, error);
    }
  }

  /** What a future that has failed says. */
  #failed(what: string, status: number, text: string): RemoteServerError {
    const reason = reasonOf(text);
    return LOST.test(reason) ? this.#lost(what, reason) : remoteRefused(this.url, what, status, text);
  }

  #lost(what: string, reason: string): RemoteServerError {
    return new RemoteServerError(`${this.url} no longer has what it was asked to ${what} with: ${reason}`, {
      code: "remote_state_lost",
      hint: "what was saved as a checkpoint can be gone on from: open a session, or take up the run, again",
    });
  }

  #object(what: string, value: unknown): Record<string, unknown> {
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
    throw remoteUnexpected(this.url, what, "an answer that is no JSON object");
  }

  async #exchange(path: string, task: Omit<Task, "path" | "body">, body?: Task["body"]): Promise<unknown> {
    const response = await this.#send(path, task, body, ANSWER_TIMEOUT_MS);
    try {
      return await response.json();
    } catch (error) {
      task.signal?.throwIfAborted();
      throw remoteUnexpected(this.url, task.what, "an answer that is no JSON", error);
    }
  }

  /** Until it is answered with success, or patience ends. */
  async #send(
    path: string | URL,
    { what, isRepeatable, signal, patienceMs = this.#address.patienceMs }: Omit<Task, "path" | "body">,
    body: Task["body"] | undefined,
    timeout: number | null,
    method = body === undefined ? "GET" : "POST",
  ): Promise<Response> {
    const begin = performance.now();
    for (let attempt = 0; ; attempt++) {
      let failure: unknown;
      let retryAfter = 0;
      try {
        const response = await this.#once(path, body?.(), timeout, { signal, method });
        if (response.ok || isRedirection(response)) return response;
        const text = await response.text();
        const error = remoteRefused(this.url, what, response.status, text);
        if (response.status === 404 && LOST.test(reasonOf(text)) && reasonOf(text) !== "Not Found") {
          throw this.#lost(what, reasonOf(text));
        }
        const isTaken = response.status >= 500 && !NOT_TAKEN.has(response.status);
        if (!isTaken && !NOT_TAKEN.has(response.status)) throw error;
        if (isTaken && !isRepeatable) throw this.#uncertain(what, error);
        retryAfter = 1000 * Number(response.headers.get("retry-after") ?? 0);
        failure = error;
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof RemoteServerError) throw error;
        failure = remoteUnreachable(this.url, what, error);
        if (!isRepeatable && !NOT_SENT.has(codeOf(error))) throw this.#uncertain(what, failure);
      }
      const wait = retryAfter > 0 && retryAfter <= 60_000 ? retryAfter : backoff(attempt);
      if (performance.now() - begin + wait > patienceMs) throw failure;
      await pause(wait, signal);
    }
  }

  #uncertain(what: string, cause: unknown): RemoteServerError {
    const message = `${this.url} may or may not have done what it was asked to (${what}): ${(cause as Error).message}`;
    return new RemoteServerError(message, {
      code: "remote_uncertain",
      hint: "what was saved as a checkpoint can be gone on from: open a session, or take up the run, again",
      cause,
    });
  }

  #once(
    path: string | URL,
    body: unknown,
    timeoutMs: number | null,
    {
      signal,
      method = "POST",
      accept = JSON_TYPE,
    }: { signal?: AbortSignal | undefined; method?: string; accept?: string } = {},
  ): Promise<Response> {
    const signals = [signal, timeoutMs === null ? undefined : AbortSignal.timeout(timeoutMs)].filter(
      (one) => one !== undefined,
    );
    const url = typeof path === "string" ? new URL(`${this.url}/api/v1${path}`) : path;
    // The key is this server's alone.
    const own = url.origin === new URL(this.url).origin ? this.#headers(accept) : {};
    const isBinary = body instanceof Uint8Array;
    return fetch(url, {
      method,
      headers: { ...own, ...(body === undefined ? {} : { "content-type": isBinary ? PROTOBUF : JSON_TYPE }) },
      body: isBinary ? new Uint8Array(body) : body === undefined ? null : JSON.stringify(body),
      redirect: "manual",
      signal: signals.length === 0 ? null : AbortSignal.any(signals),
    });
  }

  #headers(accept = JSON_TYPE): Record<string, string> {
    const { apiKey } = this.#address;
    return { accept, ...(apiKey === null ? {} : { "x-api-key": apiKey }) };
  }
}

/** Below /api/v1, of what was saved under a name such as "tinker://run/weights/name"; null: it is no such name. */
export function checkpointPath(name: string): string | null {
  const [, run, checkpoint] = /^tinker:\/\/([^/]+)\/(.+)$/.exec(name) ?? [];
  return run === undefined ? null : `/training_runs/${run}/checkpoints/${checkpoint}`;
}

const backoff = (attempt: number): number =>
  Math.min(MIN_RETRY_DELAY_MS * 2 ** Math.min(attempt, 10), MAX_RETRY_DELAY_MS);

/** Rejects with the signal's reason. */
async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await sleep(ms, undefined, signal ? { signal } : {}).catch((error) => {
    throw signal?.reason ?? error;
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const isRedirection = ({ status }: Response): boolean => status >= 300 && status < 400;

const isTimeout = (error: unknown): boolean => error instanceof DOMException && error.name === "TimeoutError";

function codeOf(error: unknown): string {
  const { code, cause } = error as { code?: unknown; cause?: { code?: unknown } };
  return String(cause?.code ?? code ?? "");
}

/** The interface as its own service has it. */
const PUBLISHED_DIALECT: Dialect = {
  losses: null,
  clipsGradients: true,
  knowsSequenceNumbers: true,
  choosesModules: true,
  leavesMoments: true,
  deletesStates: true,
  speaksProtobuf: false,
  reduction: "sum",
};

interface OpenApi {
  info?: { title?: string } | null;
  paths?: Record<string, object | null> | null;
  components?: { schemas?: Record<string, { properties?: Record<string, { enum?: unknown[] } | null> | null }> } | null;
}

/** A document may say anything. Fields that a server does not describe are dropped by it without a word. */
function readDialect({ info, paths, components }: OpenApi): Omit<Dialect, "speaksProtobuf"> {
  const fields = (schema: string) => components?.schemas?.[schema]?.properties ?? undefined;
  const has = (schema: string, field: string) => fields(schema) === undefined || Object.hasOwn(fields(schema)!, field);
  const losses = fields("ForwardBackwardInput")?.loss_fn?.enum;
  return {
    losses: Array.isArray(losses) ? new Set(losses.map(String)) : null,
    clipsGradients: has("AdamParams", "grad_clip_norm"),
    knowsSequenceNumbers: has("ForwardBackwardRequest", "seq_id"),
    choosesModules: has("LoRAConfig", "train_mlp") && has("LoraConfig", "train_mlp"),
    leavesMoments: has("LoadWeightsRequest", "optimizer"),
    deletesStates: Object.entries(paths ?? {}).some(([path, methods]) => {
      return (
        Object.hasOwn(methods ?? {}, "delete") && /\/training_runs\/\{\w+\}\/checkpoints\/\{\w+(:path)?\}$/.test(path)
      );
    }),
    // SkyRL tx calls itself so.
    reduction: info?.title === "Tinker API Mock" ? "weighted mean" : "sum",
  };
}
