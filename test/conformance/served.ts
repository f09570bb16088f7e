// An engine behind a port, and what clients do with it: ask, stream, read what is refused.

import { expect } from "vitest";
import { Engine } from "../../src/anneal.js";
import type { ServerOptions } from "../../src/server/application.js";
import { createServer } from "../../src/server/createServer.js";
import { type Listening, listen } from "../../src/server/listen.js";
import type { ChatCompletion, ChatCompletionChunk } from "../../src/types/chat.js";
import type { EngineOptions } from "../../src/types/options.js";
import { removeBigramModels } from "./bigramModel.js";

export interface Refusal {
  detail: { loc: string[]; msg: string; type: string }[];
  error: { message: string; type: string; param: string | null; code: string | null };
}

/** A request as JSON, or its text as it stands. */
export type Body = Record<string, unknown> | string;

export const hello = [{ role: "user", content: "Hello" }];

export class Served {
  private static running = 0;

  private constructor(
    readonly engine: Engine,
    private readonly listening: Listening,
  ) {}

  static async open(options: EngineOptions = {}, server: ServerOptions = {}): Promise<Served> {
    const engine = await Engine.open({ threads: 2, ...options });
    Served.running++;
    return new Served(engine, await listen(createServer(engine, server), { host: "127.0.0.1", port: 0 }));
  }

  get address(): string {
    return this.listening.address;
  }

  async close(): Promise<void> {
    await this.listening.close(0);
    await this.engine.close();
    if (--Served.running === 0) removeBigramModels();
  }

  request(method: string, path: string, body?: Body, init: RequestInit = {}): Promise<Response> {
    const { headers, ...rest } = init;
    return fetch(`${this.address}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.engine.apiKey}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(headers as Record<string, string>),
      },
      body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
      ...rest,
    });
  }

  post(body: Body, init?: RequestInit): Promise<Response> {
    const whole = typeof body === "string" ? body : { messages: hello, ...body };
    return this.request("POST", "/v1/chat/completions", whole, init);
  }

  /** Asks, and expects an answer. */
  async chat(body: Body, init?: RequestInit): Promise<ChatCompletion> {
    const response = await this.post(body, init);
    const answer = (await response.json()) as ChatCompletion;
    expect(response.status, JSON.stringify(answer)).toBe(200);
    return answer;
  }

  /** The text of the first choice. */
  async text(body: Body): Promise<string | null> {
    return (await this.chat(body)).choices[0]!.message.content;
  }

  /** The lines of a streamed answer without `data: `, the last of which must be `[DONE]`. */
  async events(body: Record<string, unknown>): Promise<string[]> {
    const response = await this.post({ ...body, stream: true });
    const text = await response.text();
    expect(response.status, text).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    const events = text.split("\n\n");
    expect(events.pop()).toBe("");
    for (const event of events) expect(event).toMatch(/^data: [^\n]*$/);
    const data = events.map((event) => event.slice("data: ".length));
    expect(data.at(-1)).toBe("[DONE]");
    return data;
  }

  async chunks(body: Record<string, unknown>): Promise<ChatCompletionChunk[]> {
    const events = await this.events(body);
    return events.slice(0, -1).map((event) => JSON.parse(event) as ChatCompletionChunk);
  }

  /** Expects a validation error at `field`, streamed or not, with the same said in `detail` and `error`. */
  async refusal(body: Record<string, unknown>, field: string): Promise<Refusal> {
    const response = await this.post(body);
    const refusal = (await response.json()) as Refusal;
    expect(response.status, JSON.stringify({ body, refusal }).slice(0, 2000)).toBe(422);
    expect(refusal.detail.map(({ loc }) => loc.join("."))).toContainEqual(`body.${field}`);
    for (const { loc, msg, type } of refusal.detail) {
      expect(loc.every((part) => typeof part === "string")).toBe(true);
      expect(msg).not.toBe("");
      expect(type).not.toBe("");
    }
    expect(refusal.error.type).toBe("invalid_request_error");
    expect(refusal.error.message).toContain(refusal.detail[0]!.msg);
    if (body.stream === undefined) {
      const streamed = await this.post({ stream_options: undefined, ...body, stream: true });
      expect(streamed.status, "with stream").toBe(422);
      await streamed.text();
    }
    return refusal;
  }
}

export const textOf = (chunks: ChatCompletionChunk[], index = 0): string =>
  chunks
    .flatMap(({ choices }) => choices)
    .filter((choice) => choice.index === index)
    .map(({ delta }) => delta.content ?? "")
    .join("");
