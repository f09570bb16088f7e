import type * as z from "zod";
import type { Resources } from "../engine/resources/resources.js";
import type { ServedEngine } from "../engine/servedEngine.js";
import type { ExactFields } from "../json.js";

/** What a handler has to work with. */
export interface Call {
  engine: ServedEngine;
  /** The engine as the caller may use it. */
  as: Resources;
  request: Request;
  /** The client's name for the request, or one made for it. */
  requestId: string;
  /** Of the path, decoded. */
  params: Record<string, string>;
  /** Of the address; whole numbers as numbers, empty values left out. */
  query: Record<string, string | number>;
  /** Aborted when the client goes away. */
  signal: AbortSignal;
  /** The JSON body; "large" where it holds training data. */
  json(exact?: ExactFields, limit?: "small" | "large"): Promise<unknown>;
  /** The same of a large one, which the engine may take as its bytes. */
  jsonOrBytes(exact: ExactFields): Promise<{ json: unknown } | { bytes: AsyncIterable<Uint8Array> }>;
  /** A large body's bytes as they come. */
  bytes(): AsyncIterable<Uint8Array>;
  /** To be called when an answer that is an event stream has ended; others end when they are given. */
  ended(): void;
  /** For failures that can no longer become a status. */
  report(error: unknown): void;
}

/** One endpoint: how it is reached, what it says of itself, what it does. */
export interface Route {
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** Parameters are written `:name`; a last one written `:name{.+}` takes the rest of the path. */
  path: string;
  summary: string;
  body?: z.ZodType;
  /** The body is no JSON, but the content of a file. */
  isUpload?: boolean;
  query?: z.ZodObject;
  /** Absent: the response is not JSON. */
  response?: z.ZodType;
  /** Data of the events of a response that is a stream of them. */
  events?: z.ZodType;
  /** The events have their types as names, and the last one is told by it. */
  eventsAreNamed?: boolean;
  /** Of a response that is neither. */
  mediaType?: string;
  /** Further responses, by status. */
  others?: Readonly<Record<number, { description: string; schema: z.ZodType }>>;
  handle(call: Call): Promise<unknown>;
}

/** An endpoint that answers without a key: probes of load balancers carry none. */
export interface OpenRoute
  extends Pick<Route, "path" | "summary" | "response" | "events" | "eventsAreNamed" | "mediaType"> {
  methods: readonly ("GET" | "POST")[];
  /** `document`: the OpenAPI document of all routes. */
  open(engine: ServedEngine, document: () => Record<string, unknown>): Promise<Response> | Response;
}

/** The route's path as OpenAPI writes it. */
export const pathTemplate = ({ path }: Pick<Route, "path">): string => path.replace(/:(\w+)(\{[^}]*\})?/g, "{$1}");
