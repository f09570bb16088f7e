import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Engine } from "../../src/anneal.js";
import type { ServerOptions } from "../../src/server/application.js";
import { createServer, type FetchHandler } from "../../src/server/createServer.js";
import type { EngineOptions } from "../../src/types/options.js";

/** Fields of the answers of all endpoints; a test says which it expects. */
export interface Body {
  id: string;
  entity: string;
  url: string;
  step: number;
  object: string;
  model: string;
  usage: { prompt_tokens_details: { cached_tokens: number } };
  data: { id: string; type: string; step: number; metrics: Record<string, number>; data: Record<string, unknown> }[];
  has_more: boolean;
  first_id: string;
  last_id: string;
  detail: { loc: string[]; msg: string; type: string }[];
  error: { message: string; type: string; param: string | null; code: string | null };
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, { required: string[]; properties: Record<string, unknown> }> };
}

interface Operation {
  summary: string;
  responses: Record<string, unknown>;
  requestBody: {
    content: { "application/json": { schema: { $ref: string } } };
  };
}

export interface Answer {
  status: number;
  headers: Headers;
  body: Body;
}

/** An engine in a home of its own, and its HTTP face without a port. */
export class Harness {
  readonly home: string;
  engine!: Engine;
  handler!: FetchHandler;

  private constructor() {
    this.home = mkdtempSync(join(tmpdir(), "anneal-test-"));
  }

  static async open(options: EngineOptions = {}, server: ServerOptions = {}): Promise<Harness> {
    const harness = new Harness();
    harness.engine = await Engine.open({ home: harness.home, threads: 2, ...options });
    harness.handler = createServer(harness.engine, server);
    return harness;
  }

  /** Sends a body as JSON; a string or bytes go as they are, with the JSON content type unless another is named. */
  request(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> {
    const raw = typeof body === "string" || body instanceof Uint8Array;
    return this.handler(
      new Request(`http://test${path}`, {
        method,
        headers: {
          authorization: `Bearer ${this.engine.apiKey}`,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...headers,
        },
        body: body === undefined ? undefined : raw ? (body as string) : JSON.stringify(body),
      }),
    );
  }

  async call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer> {
    const response = await this.request(method, path, body, headers);
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: JSON.parse(text) as Body };
  }

  async makeModel(name: string, extra: object = {}): Promise<string> {
    const body = { project: "test", name, base_model: "anneal/tiny", ...extra };
    const answer = await this.call("POST", "/v1/preview/models", body);
    if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
    return answer.body.id;
  }

  async close(): Promise<void> {
    await this.engine.close();
    rmSync(this.home, { recursive: true, force: true });
  }
}
