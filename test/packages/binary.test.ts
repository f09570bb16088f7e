// The one file that `npm run build:binary` made, alone in an empty root beside what ldd says that Node needs. Runs by
// `npm run test:packages`, and of a Node for musl by `npm run test:musl`, as root on Linux.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildBinary } from "../../native/binary/build.mjs";
import { Engine } from "../../src/index.js";
import { MUSL_LOADER, TARGET } from "../native/target.js";
import { foreignEnvironment, foreignNode } from "./tools.js";

const built = join(import.meta.dirname, "..", "..", "native", "build", "binary", "anneal");
/** `npm run test:musl` makes one of a Node for musl. */
const musl = TARGET?.endsWith("-musl") ? TARGET : undefined;
const canRun =
  (musl !== undefined || (process.env.ANNEAL_TEST_PACKAGES !== undefined && existsSync(built))) &&
  process.platform === "linux" &&
  process.getuid!() === 0;

const ADDRESS = /http:\/\/[\d.]+:\d+/;

/** Of a start that finds its files in place, in milliseconds. */
const MAX_START = 1000;

describe.runIf(canRun)("the one file", () => {
  let root: string;
  const servers: ChildProcess[] = [];
  let binary: string;
  beforeAll(async () => {
    binary = musl ? await buildBinary({ node: foreignNode(musl) }) : built;
    root = mkdtempSync(join(tmpdir(), "anneal-root-"));
    cpSync(binary, join(root, "anneal"));
    const [ldd, ...args] = musl ? [MUSL_LOADER, "--list", binary] : ["ldd", binary];
    const env = musl ? { ...process.env, ...foreignEnvironment(musl, "") } : process.env;
    const libraries = execFileSync(ldd!, args, { encoding: "utf8", env });
    for (const [, name, file] of libraries.matchAll(/(\S*?)(?: => )?(\/\S+) \(0x/g)) {
      const isAside = musl && file !== MUSL_LOADER;
      // Where a loader looks by itself, also for what SQLite asks for.
      const places = isAside
        ? [name!, name!.replace(/-\w+(\.so\.\d+).*/, "$1")].map((as) => join("/lib", as))
        : [file!];
      for (const place of places) {
        mkdirSync(join(root, dirname(place)), { recursive: true });
        cpSync(file!, join(root, place), { dereference: true });
      }
    }
  }, 600_000);
  afterAll(() => {
    for (const server of servers) server.kill("SIGKILL");
    rmSync(root, { recursive: true, force: true });
  });

  const env = { PATH: "/usr/sbin:/usr/bin" };
  const anneal = (...args: string[]) =>
    execFileSync("chroot", [root, "/anneal", ...args], { encoding: "utf8", env, timeout: 500_000 });

  /** A server of the home in the root, once it answers. */
  async function serve(): Promise<{ server: ChildProcess; address: string; key: string }> {
    const server = spawn("chroot", [root, "/anneal", "serve", "--home", "/home", "--port", "0"], { env });
    servers.push(server);
    let output = "";
    for await (const chunk of server.stdout) {
      output += chunk;
      if (ADDRESS.test(output)) break;
    }
    const address = ADDRESS.exec(output)![0];
    const key = readFileSync(join(root, "home", "owner-key"), "utf8").trim();
    return { server, address, key };
  }

  const question = {
    messages: [{ role: "user" as const, content: 'Reverse "river".' }],
    temperature: 1,
    seed: 7,
    logprobs: true,
    top_logprobs: 3,
  };

  it("starts at once where its files are in place", () => {
    expect(anneal("--version")).toMatch(/^\d+\.\d+\.\d+\n$/);
    const begun = performance.now();
    anneal("--version");
    const milliseconds = Math.round(performance.now() - begun);
    console.log(`${(statSync(binary).size / 1e6).toFixed(0)} MB, started within ${milliseconds} ms`);
    expect(milliseconds).toBeLessThan(MAX_START);
  });

  it("mends its files, and does not take a folder that others can enter", () => {
    const [ours] = readdirSync(join(root, "tmp"));
    const folder = join(root, "tmp", ours!);
    const [digest] = readdirSync(folder);
    const core = join(folder, digest!, "node_modules", "@anneal", musl ?? `linux-${process.arch}`, "anneal.node");
    writeFileSync(core, "not a core");
    expect(anneal("doctor", "--home", "/other")).not.toContain("wrong");
    expect(readdirSync(folder)).toEqual([digest]);
    chmodSync(folder, 0o755);
    expect(() => anneal("--version")).toThrow("is open to other users");
    chmodSync(folder, 0o700);
  });

  it("trains", () => {
    expect(anneal("demo")).toContain("reward");
  }, 600_000);

  it("serves the bits that the package gives, also after it was killed", async () => {
    const engine = await Engine.open();
    const [expected] = (await engine.chat.completions.create(question)).choices;
    await engine.close();
    for (let i = 0; i < 2; i++) {
      const { server, address, key } = await serve();
      const answer = await fetch(`${address}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(question),
      });
      const { choices } = (await answer.json()) as { choices: unknown[] };
      expect(choices[0]).toEqual(JSON.parse(JSON.stringify(expected)));
      server.kill("SIGKILL");
      await once(server, "exit");
    }
  });
});
