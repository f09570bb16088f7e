// A server that has more clients than files it may open.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { maxConnections } from "../../src/server/openFiles.js";
import { nodeArguments } from "../cli/command.js";

const KEY = "key-of-the-test";
/** The start reads sources, each of which is open for a moment: 50 to 60 at once on a quiet machine. */
const FILES = 512;

let home: string;
let child: ChildProcess | undefined;
const sockets: Socket[] = [];
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "files-test-"));
});
afterEach(() => {
  for (const socket of sockets) socket.destroy();
  agent.destroy();
  child?.kill("SIGKILL");
  rmSync(home, { recursive: true, force: true });
});

/** Starts a server; what it prints until `wanted` has come. Rejects with what it printed when it ends before. */
function served(): (wanted: RegExp) => Promise<string> {
  const args = nodeArguments(["serve", "--home", home, "--port", "0", "--api-key", KEY, "--memory-limit", "512MiB"]);
  child = spawn("sh", ["-c", `ulimit -n ${FILES}; exec "$@"`, "sh", process.execPath, ...args], { stdio: "pipe" });
  let all = "";
  const gather = (chunk: Buffer) => {
    all += chunk;
  };
  child.stdout!.on("data", gather);
  child.stderr!.on("data", gather);
  const ended = once(child, "close").then(() => {
    throw new Error(`the server ended: ${all}`);
  });
  ended.catch(() => undefined);
  return async (wanted) => {
    const more = () => Promise.race([once(child!.stdout!, "data"), once(child!.stderr!, "data"), ended]);
    while (!wanted.test(all)) await more();
    return all;
  };
}

/** By the one connection of `agent`. */
function ask(address: string, method: string, path: string, body: object | null): Promise<[number, string]> {
  const headers = { authorization: `Bearer ${KEY}`, "content-type": "application/json" };
  return new Promise((resolve, reject) => {
    const asked = request(`${address}${path}`, { method, headers, agent }, (answer) => {
      text(answer).then((body) => resolve([answer.statusCode!, body]), reject);
    });
    asked.on("error", reject).end(body === null ? undefined : JSON.stringify(body));
  });
}

describe.skipIf(process.platform !== "linux")("a server with more clients than it may open files", () => {
  it("refuses connections, says so, and does what it is asked for the first time", async () => {
    const printed = served();
    const address = /http:\S+(?=\/v1)/.exec(await printed(/Home:/))![0];
    expect((await ask(address, "GET", "/v1/health", null))[0]).toBe(200);
    const { hostname, port } = new URL(address);
    for (let i = 0; i < FILES; i++) {
      const socket = connect(Number(port), hostname);
      sockets.push(socket.on("error", () => undefined));
    }
    await printed(/warning: connections are refused.* connections=384/);
    expect((await ask(address, "POST", "/tokenize", { prompt: "a" }))[0]).toBe(200);
    const model = { project: "p", name: "m", base_model: "anneal/tiny" };
    expect((await ask(address, "POST", "/v1/preview/models", model))[0]).toBe(200);
    const [status, metrics] = await ask(address, "GET", "/metrics", null);
    expect(status).toBe(200);
    expect(metrics).toContain(`\nprocess_max_fds ${FILES}\n`);
  });
});

it("keeps a quarter of the files for everything else, and 64 at least", () => {
  expect([524_288, 1024, 128, 64, null].map(maxConnections)).toEqual([393_216, 768, 64, 1, null]);
});
