// The HTTP face mounted in what applications serve with.

import { createServer as createHttpServer, type RequestListener } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { text } from "node:stream/consumers";
import express from "express";
import { Hono } from "hono";
import OpenAI from "openai";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { Engine } from "../../src/anneal.js";
import { ValidationError } from "../../src/errors.js";
import type { ServerOptions } from "../../src/server/application.js";
import { createServer } from "../../src/server/createServer.js";
import { listen } from "../../src/server/listen.js";
import { Harness } from "./harness.js";

let server: Harness;
beforeAll(async () => {
  server = await Harness.open();
});
afterAll(() => server?.close());

const open: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0)) await close();
});

/** @returns the address. */
async function serve(listener: RequestListener): Promise<string> {
  const http = createHttpServer(listener);
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  open.push(
    () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      }),
  );
  return `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
}

const key = () => ({ authorization: `Bearer ${server.engine.apiKey}` });

const messages = [{ role: "user" as const, content: "What is 3 + 4?" }];

/** Everything that a client does: a list, a chat, a stream, one that is left, and errors. */
async function expectsAll(baseURL: string) {
  const client = new OpenAI({ baseURL, apiKey: server.engine.apiKey, maxRetries: 0 });
  expect((await client.models.list()).data[0]!.id).toBe("anneal/tiny");
  const ask = { model: "anneal/tiny", messages, max_tokens: 8, temperature: 0 };
  const { choices } = await client.chat.completions.create(ask);
  let streamed = "";
  for await (const chunk of await client.chat.completions.create({ ...ask, stream: true })) {
    streamed += chunk.choices[0]?.delta.content ?? "";
  }
  expect(streamed).toBe(choices[0]!.message.content);
  const endless = { ...ask, max_tokens: 100, temperature: 1, ignore_eos: true, stream: true } as const;
  for await (const _ of await client.chat.completions.create(endless)) break;
  await vi.waitFor(() => {
    const running = server.engine.metrics().find(({ name }) => name.endsWith("num_requests_running"));
    expect(running!.samples).toMatchObject([{ value: 0 }]);
  });
  await expect(client.chat.completions.create({ ...ask, max_tokens: -1 })).rejects.toMatchObject({ status: 422 });
  await expect(new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0 }).models.list()).rejects.toMatchObject({
    status: 401,
  });
  await expect(client.get("/nowhere")).rejects.toMatchObject({ status: 404 });
}

describe("mounted", () => {
  it("in Node's own http", async () => {
    await expectsAll(`${await serve(createServer(server.engine))}/v1`);
  });

  it.each(["/llm", "llm", "llm/", "/llm/"])("in Node's own http below a path, given as %s", async (basePath) => {
    const address = await serve(createServer(server.engine, { basePath }));
    await expectsAll(`${address}/llm/v1`);
    expect((await fetch(`${address}/v1/models`, { headers: key() })).status).toBe(404);
    expect((await fetch(`${address}/llmother/v1/models`, { headers: key() })).status).toBe(404);
  });

  it("in Express, alone and below a path", async () => {
    const app = express();
    app.get("/hello", (_, response) => void response.send("hello"));
    app.use("/llm", createServer(server.engine));
    app.use(createServer(server.engine));
    const address = await serve(app);
    expect(await (await fetch(`${address}/hello`)).text()).toBe("hello");
    await expectsAll(`${address}/llm/v1`);
    await expectsAll(`${address}/v1`);
  });

  it("in Express behind a body parser", async () => {
    const app = express().use(express.json(), createServer(server.engine));
    await expectsAll(`${await serve(app)}/v1`);
  });

  it("says that the body was read before", async () => {
    const handler = createServer(server.engine);
    const address = await serve((incoming, outgoing) => {
      incoming.resume().on("end", () => handler(incoming, outgoing));
    });
    const body = JSON.stringify({ model: "anneal/tiny", messages });
    const init = { method: "POST", headers: { ...key(), "content-type": "application/json" }, body };
    const read = new Request(`${address}/v1/chat/completions`, init);
    await read.text();
    for (const response of [await fetch(read.url, init), await handler(read)]) {
      const { error } = (await response.json()) as { error: object };
      expect([response.status, error]).toEqual([500, expect.objectContaining({ code: "body_already_read" })]);
    }
  });

  it("in Hono below a path", async () => {
    const app = new Hono().mount("/llm", createServer(server.engine));
    const client = new OpenAI({
      baseURL: "http://any/llm/v1",
      apiKey: server.engine.apiKey,
      fetch: async (input, init) => app.request(new Request(input as string, init)),
    });
    expect((await client.models.list()).data[0]!.id).toBe("anneal/tiny");
    const ask = { model: "anneal/tiny", messages, max_tokens: 8 };
    expect((await client.chat.completions.create(ask)).choices).toHaveLength(1);
  });

  it("nowhere: the engine's own fetch is enough for a client", async () => {
    const client = new OpenAI({ apiKey: server.engine.apiKey, fetch: server.engine.fetch });
    expect((await client.models.list()).data[0]!.id).toBe("anneal/tiny");
  });
});

it("answers HTTP/1.0, which names no host, on its own port and in Node's own http", async () => {
  const handler = createServer(server.engine);
  const listening = await listen(handler, { host: "127.0.0.1", port: 0 });
  open.push(() => listening.close(0));
  const body = JSON.stringify({ messages, max_tokens: 2, stream: true });
  const ask = `POST /v1/chat/completions HTTP/1.0\r\nAuthorization: ${key().authorization}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  for (const address of [listening.address, await serve(handler)]) {
    for (const [request, end] of [
      ["GET /health HTTP/1.0\r\n\r\n", "\r\n\r\n"],
      [ask, "data: [DONE]\n\n"],
    ] as const) {
      const socket = connect(Number(new URL(address).port), "127.0.0.1");
      socket.write(request);
      const answer = await text(socket);
      expect(answer).toMatch(/^HTTP\/1\.1 200 /);
      expect(answer.endsWith(end)).toBe(true);
    }
  }
});

it("counts requests whose client went away before the answer", async () => {
  const address = await serve(createServer(server.engine));
  const gone = new AbortController();
  const answer = fetch(`${address}/v1/chat/completions`, {
    method: "POST",
    headers: { ...key(), "content-type": "application/json" },
    body: JSON.stringify({ messages, n: 8, max_tokens: 2000, ignore_eos: true }),
    signal: gone.signal,
  });
  setTimeout(() => gone.abort(), 100);
  await expect(answer).rejects.toThrow();
  await vi.waitFor(async () => {
    const metrics = await (await fetch(`${address}/metrics`, { headers: key() })).text();
    expect(metrics).toContain('http_requests_total{handler="/v1/chat/completions",method="POST",status="4xx"} 1');
  }, 10_000);
});

describe("requests that wait behind another one in their connection", () => {
  const running = () => {
    const family = server.engine.metrics().find(({ name }) => name.endsWith("num_requests_running"));
    return (family!.samples[0] as { value: number }).value;
  };

  /** Sends three, of which the first is answered first, and breaks the connection off. */
  async function leave(address: string, stream: boolean) {
    const body = JSON.stringify({ messages, n: 8, max_tokens: 2000, ignore_eos: true, stream });
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: ${key().authorization}\r\n`;
    const request = `${head}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    const socket = connect(Number(new URL(address).port), "127.0.0.1");
    socket.write(request.repeat(3));
    await vi.waitFor(() => expect(running()).toBe(24), 10_000);
    socket.destroy();
    await vi.waitFor(() => expect(running()).toBe(0), 5000);
  }

  it.each([true, false])("end when it breaks off, streamed: %s", async (stream) => {
    await leave(await serve(createServer(server.engine)), stream);
    const listening = await listen(server.handler, { host: "127.0.0.1", port: 0 });
    open.push(() => listening.close(0));
    await leave(listening.address, stream);
    const begun = performance.now();
    await listening.idle(20_000);
    expect(performance.now() - begun).toBeLessThan(10_000);
  });
});

describe("not mounted", () => {
  it.each([
    [{ basepath: "/llm", limit: 1 }, "options.basepath: unknown field; options.limit: unknown field"],
    [{ basePath: "https://a.example/llm" }, "options.basePath: must be a path"],
    [{ chatBodyLimit: 0 }, "options.chatBodyLimit: must be a number of bytes"],
    [{ bodyLimit: "1g" }, "options.bodyLimit: must be a number of bytes"],
    [{ allowOrigin: 1 }, "options.allowOrigin: must be an origin"],
    [{ drain: true }, "options.drain: must be an AbortSignal"],
  ])("are options that do not exist or cannot be: %j", (options, message) => {
    const refused = () => createServer(server.engine, options as ServerOptions);
    expect(refused).toThrow(ValidationError);
    expect(refused).toThrow(message);
  });

  it("is what is no engine of this process", async () => {
    const connected = await Engine.connect("http://127.0.0.1:1", { apiKey: "k" });
    for (const engine of [undefined, null, {}, Engine.open, connected]) {
      const refused = () => createServer(engine as Engine);
      expect(refused).toThrow(ValidationError);
      expect(refused).toThrow("engine: must be an engine of this process, as Engine.open gives");
    }
  });
});

describe("pages in a browser", () => {
  const preflight = (origin: string): RequestInit => ({
    method: "OPTIONS",
    headers: {
      origin,
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization, content-type",
    },
  });

  it("may call when their origin is allowed, and ask so without a key", async () => {
    const handler = createServer(server.engine, { allowOrigin: ["https://app.example", "http://localhost:5173"] });
    const call = (init: RequestInit) => handler(new Request("http://test/v1/models", init));
    const asked = await call(preflight("https://app.example"));
    expect(asked.status).toBe(204);
    expect(asked.headers.get("access-control-allow-origin")).toBe("https://app.example");
    expect(asked.headers.get("access-control-allow-headers")).toMatch(/authorization/);
    expect(asked.headers.get("access-control-allow-methods")).toMatch(/DELETE/);
    const origin = "http://localhost:5173";
    const answer = await call({ headers: { ...key(), origin } });
    expect([answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([200, origin]);
    expect(answer.headers.get("vary")).toMatch(/origin/i);
    // A page sees what went wrong, too.
    const refused = await call({ headers: { origin } });
    expect([refused.status, refused.headers.get("access-control-allow-origin")]).toEqual([401, origin]);
    for (const init of [preflight("https://evil.example"), { headers: { origin: "https://evil.example" } }]) {
      expect((await call(init)).headers.get("access-control-allow-origin")).toBeNull();
    }
  });

  it("see, too, that the server drains", async () => {
    const origin = "https://app.example";
    const handler = createServer(server.engine, { allowOrigin: origin, drain: AbortSignal.abort() });
    const asked = await handler(new Request("http://test/v1/models", preflight(origin)));
    expect([asked.status, asked.headers.get("access-control-allow-origin")]).toEqual([204, origin]);
    const refused = await handler(new Request("http://test/v1/models", { headers: { ...key(), origin } }));
    expect([refused.status, refused.headers.get("access-control-allow-origin")]).toEqual([503, origin]);
    expect(refused.headers.get("access-control-expose-headers")).toMatch(/retry-after/);
    expect(refused.headers.get("retry-after")).toBe("1");
  });

  it("of all origins may call where all are allowed, and none where nothing is said", async () => {
    const all = await createServer(server.engine, { allowOrigin: "*" })(
      new Request("http://test/v1/chat/completions", preflight("https://any.example")),
    );
    expect([all.status, all.headers.get("access-control-allow-origin")]).toEqual([204, "*"]);
    const none = await server.handler(new Request("http://test/v1/models", preflight("https://any.example")));
    expect([none.status, none.headers.get("access-control-allow-origin")]).toEqual([401, null]);
  });
});

describe("x-request-id", () => {
  const id = async (path: string, init: RequestInit = {}) => {
    const response = await server.handler(new Request(`http://test${path}`, init));
    return response.headers.get("x-request-id");
  };

  it("comes back as it was sent, whatever the answer is", async () => {
    const headers = { "x-request-id": "mine 1" };
    expect(await id("/v1/models", { headers: { ...key(), ...headers } })).toBe("mine 1");
    expect(await id("/v1/models", { headers })).toBe("mine 1");
    expect(await id("/nowhere", { headers: { ...key(), ...headers } })).toBe("mine 1");
  });

  it("is made where none was sent, or one too long, and names the completion", async () => {
    expect(await id("/v1/models")).toMatch(/^[0-9a-f-]{36}$/);
    expect(await id("/v1/models", { headers: { "x-request-id": "x".repeat(300) } })).toMatch(/^[0-9a-f-]{36}$/);
    const response = await server.request("POST", "/v1/chat/completions", { messages, max_tokens: 1 });
    const completion = (await response.json()) as { id: string };
    expect(completion.id).toBe(`chatcmpl-${response.headers.get("x-request-id")}`);
  });

  it("is in the log of what failed", async () => {
    const logged = vi.spyOn(server.engine.logger, "error").mockImplementation(() => undefined);
    const failing = vi.spyOn(server.engine, "health").mockRejectedValue(new Error("no"));
    await id("/v1/health", { headers: { ...key(), "x-request-id": "failed" } });
    expect(logged).toHaveBeenCalledWith("request failed", expect.objectContaining({ request: "failed" }));
    failing.mockRestore();
    logged.mockRestore();
  });
});
