import type { IncomingMessage, ServerResponse } from "node:http";
import type { ServedEngine } from "../engine/servedEngine.js";
import { ValidationError, type ValidationIssue } from "../errors.js";
import type { ServerOptions } from "./application.js";
import type { NodeListener } from "./nodeListener.js";

/** What an application mounts: where it is called decides how. */
export interface FetchHandler {
  /** Web-standard, as Hono, Deno, Bun and Next call it. */
  (request: Request): Promise<Response>;
  /** As Node's own http server, Express and Connect call it. */
  (incoming: IncomingMessage, outgoing: ServerResponse, next?: unknown): void;
}

/**
 * The whole HTTP face of an engine. Every path needs a key: the owner's (`engine.apiKey`) or one of `engine.keys`.
 * @throws ValidationError for options that do not exist or cannot be, and for what is no engine of this process.
 */
export function createServer(engine: ServedEngine, options: ServerOptions = {}): FetchHandler {
  checkEngine(engine);
  checkOptions(options);
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

function checkEngine(engine: Partial<ServedEngine> | null | undefined): void {
  if (typeof engine?.authenticate === "function") return;
  const msg = "must be an engine of this process, as Engine.open gives";
  throw new ValidationError([{ loc: ["engine"], msg, type: "value_error" }]);
}

/** What a value must be, and whether it is. */
type Rule = readonly [rule: string, holds: (value: unknown) => boolean];

const isText = (value: unknown) => typeof value === "string";
const size: Rule = ["must be a number of bytes, at least 1", (value) => typeof value === "number" && value >= 1];

const OPTIONS: { [K in keyof ServerOptions]-?: Rule } = {
  chatBodyLimit: size,
  bodyLimit: size,
  allowOrigin: [
    "must be an origin, a list of them, or *",
    (value) => isText(value) || (Array.isArray(value) && value.every(isText)),
  ],
  basePath: ["must be a path such as /llm", (value) => isText(value) && !/[?#]|:\/\//.test(value as string)],
  drain: ["must be an AbortSignal", (value) => value instanceof AbortSignal],
};

function checkOptions(options: ServerOptions): void {
  const issues = Object.entries(options).flatMap(([name, value]): ValidationIssue[] => {
    const loc = ["options", name];
    if (!Object.hasOwn(OPTIONS, name)) return [{ loc, msg: "unknown field", type: "extra_forbidden" }];
    const [msg, holds] = OPTIONS[name as keyof ServerOptions];
    return value === undefined || holds(value) ? [] : [{ loc, msg, type: "value_error" }];
  });
  if (issues.length > 0) throw new ValidationError(issues);
}
