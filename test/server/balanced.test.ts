// Two servers behind nginx, and one that drains.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createNetServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Engine } from "../../src/index.js";
import { createServer } from "../../src/server/createServer.js";
import { nodeArguments } from "../cli/command.js";

const KEY = "sk-balanced";
const headers = { authorization: `Bearer ${KEY}`, "content-type": "application/json" };
const asked = (max_tokens: number, extra = {}) =>
  JSON.stringify({ model: "anneal/tiny", messages: [{ role: "user", content: "Hello" }], max_tokens, ...extra });

describe("a server that drains", () => {
  it("says so, refuses what is new and ends what is under way", async () => {
    await using engine = await Engine.open({ apiKey: KEY });
    const drain = new AbortController();
    const handle = createServer(engine, { drain: drain.signal });
    const send = (path: string, body?: string) =>
      handle(new Request(`http://anneal.local${path}`, { method: body ? "POST" : "GET", headers, body: body ?? null }));
    expect((await send("/v1/health")).status).toBe(200);
    const streamed = await send("/v1/chat/completions", asked(40, { stream: true, ignore_eos: true }));
    drain.abort();
    for (const path of ["/v1/health", "/health", "/v1/models"]) {
      const refused = await send(path);
      expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"]);
      expect(await refused.text()).toContain("draining");
    }
    expect((await send("/v1/chat/completions", asked(1))).status).toBe(503);
    expect((await send("/metrics")).status).toBe(200);
    expect(await streamed.text()).toContain("data: [DONE]");
  });
});

describe("a server whose time to drain is over", () => {
  const folder = mkdtempSync(join(tmpdir(), "anneal-drained-"));
  let child: ChildProcess | undefined;
  afterAll(() => {
    child?.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });

  it("tells the clients of what is under way that it failed, and ends", { timeout: 120_000 }, async () => {
    const args = ["serve", "--port", "0", "--home", folder, "--api-key", KEY, "--drain", "0"];
    child = spawn(process.execPath, nodeArguments(args), { stdio: ["ignore", "pipe", "ignore"] });
    const ended = new Promise<number | null>((resolve) => child!.on("close", resolve));
    const url = await new Promise<string>((resolve) =>
      child!.stdout!.on("data", (chunk) => {
        const address = /Serving .* at (\S+)\/v1/.exec(String(chunk))?.[1];
        if (address !== undefined) resolve(address);
      }),
    );
    const ask = (extra: object) => {
      const body = JSON.stringify({
        messages: [{ role: "user", content: "Hello" }],
        ...{ n: 200, ignore_eos: true, ...extra },
      });
      return fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
    };
    const plain = ask({});
    const streamed = await ask({ stream: true });
    const load = async () =>
      ((await (await fetch(`${url}/load`, { headers })).json()) as { server_load: number }).server_load;
    while ((await load()) < 400) expect(child.exitCode).toBeNull();
    child.kill("SIGTERM");
    const events = (await streamed.text()).trimEnd().split("\n\n");
    expect(events.at(-1)).toBe("data: [DONE]");
    expect(JSON.parse(events.at(-2)!.slice("data: ".length))).toMatchObject({ error: { code: "closed" } });
    const answer = await plain;
    expect(answer.status).toBe(503);
    expect(await answer.json()).toMatchObject({ error: { code: "closed" } });
    expect(await ended).toBe(0);
  });
});

async function freePort(): Promise<number> {
  const server = createNetServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

interface Balancer {
  name: string;
  /** Asked for its version: that it is there. */
  probe: string;
  /** Its configuration, as in src/server/README.md. */
  configure(folder: string, port: number, servers: readonly number[]): string;
  args(folder: string, file: string): string[];
}

const balancers: Balancer[] = [
  {
    name: "nginx",
    probe: "-v",
    configure: (folder, port, servers) => `
      daemon off; master_process off; worker_processes 1; pid ${folder}/pid; error_log ${folder}/error.log;
      events { worker_connections 256; }
      http {
        access_log off;
        client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/fastcgi;
        uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
        upstream anneal {
          least_conn;
          ${servers.map((one) => `server 127.0.0.1:${one} max_fails=1 fail_timeout=2s;`).join("\n")}
        }
        server {
          listen 127.0.0.1:${port};
          location / {
            proxy_pass http://anneal;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 1h;
            proxy_next_upstream error timeout http_503 non_idempotent;
          }
        }
      }`,
    args: (folder, file) => ["-p", folder, "-e", join(folder, "error.log"), "-c", file],
  },
  {
    name: "haproxy",
    probe: "-v",
    configure: (_, port, servers) => `
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
frontend all
  bind 127.0.0.1:${port}
  default_backend anneal
backend anneal
  balance leastconn
  option httpchk
  http-check send meth GET uri /health ver HTTP/1.1 hdr Host anneal
  option redispatch 1
  retries 3
  retry-on conn-failure empty-response 503
  timeout check 10s
${servers.map((one, i) => `  server s${i} 127.0.0.1:${one} check inter 1s fall 2`).join("\n")}
`,
    args: (_, file) => ["-db", "-f", file],
  },
];

const programOf = ({ name, probe }: Balancer): string | undefined =>
  [`/usr/sbin/${name}`, name].find((path) => spawnSync(path, [probe]).status === 0);
const found = balancers.filter((balancer) => programOf(balancer) !== undefined);

describe.skipIf(found.length === 0).each(found)("two servers behind $name", (balancer) => {
  const folder = mkdtempSync(join(tmpdir(), "anneal-balanced-"));
  const started: ChildProcess[] = [];
  let url: string;

  async function serve(port: number): Promise<ChildProcess> {
    const args = [
      "serve",
      "--port",
      String(port),
      "--home",
      join(folder, `home-${port}`),
      "--api-key",
      KEY,
      "--drain",
      "60",
    ];
    const child = spawn(process.execPath, nodeArguments(args), { stdio: ["ignore", "pipe", "inherit"] });
    started.push(child);
    await new Promise<void>((resolve) =>
      child.stdout!.on("data", (chunk) => {
        if (String(chunk).includes("Serving")) resolve();
      }),
    );
    return child;
  }

  beforeAll(async () => {
    const ports = [await freePort(), await freePort()];
    await Promise.all(ports.map(serve));
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    const file = join(folder, "balancer.conf");
    writeFileSync(file, balancer.configure(folder, port, ports));
    const child = spawn(programOf(balancer)!, balancer.args(folder, file), { stdio: "inherit" });
    started.push(child);
    while (
      !(await fetch(`${url}/health`).then(
        (response) => response.ok,
        () => false,
      ))
    ) {
      expect(child.exitCode).toBeNull();
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }, 120_000);
  afterAll(async () => {
    for (const child of started) child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });

  it("lose no request when one of them is told to end", { timeout: 120_000 }, async () => {
    const complete = async (tokens: number) => {
      const body = asked(tokens, { ignore_eos: true });
      const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
      const text = await response.text();
      if (!text.startsWith("{")) return `${response.status} ${text}`;
      const { usage } = JSON.parse(text) as { usage?: { completion_tokens: number } };
      return `${response.status} ${usage?.completion_tokens ?? text}`;
    };
    const long = Array.from({ length: 8 }, () => complete(400));
    await new Promise((resolve) => setTimeout(resolve, 200));
    const [first] = started;
    const ended = new Promise<number | null>((resolve) => first!.on("close", resolve));
    first!.kill("SIGTERM");
    const short = [];
    for (let i = 0; i < 30; i++) short.push(await complete(4));
    expect(new Set(short)).toEqual(new Set(["200 4"]));
    expect(new Set(await Promise.all(long))).toEqual(new Set(["200 400"]));
    expect(await ended).toBe(0);
  });
});
