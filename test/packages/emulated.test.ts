// The package of another platform in that platform's Node, which an emulator or another loader runs: `npm run test:arm64`,
// `npm run test:musl`, `npm run test:windows`.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, cpSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { compile } from "../../native/compile.mjs";
import { packAll } from "../../native/pack.mjs";
import { Engine } from "../../src/index.js";
import { emulatorEnvironment, emulatorOf, platformOf, TARGET } from "../native/target.js";
import { type Registry, serveRegistry } from "./registry.js";
import { dependencyTarballs, foreignEnvironment, foreignNode, nodeBinary, tool } from "./tools.js";

const ROOT = join(import.meta.dirname, "..", "..");

/** An emulator makes every instruction of ten. */
const TIMEOUT = 3_600_000;

const QUESTION = {
  messages: [{ role: "user" as const, content: "What is 3 + 4?" }],
  temperature: 1,
  seed: 7,
  max_tokens: 40,
  logprobs: true,
};

const CHAT = `
  const engine = await Engine.open({ home: "./a home" });
  const { choices } = await engine.chat.completions.create(${JSON.stringify(QUESTION)});
  console.log(JSON.stringify(choices[0]));
  await engine.close();`;

const PROGRAMS = {
  "chat.mjs": `import { Engine } from "anneal";${CHAT}`,
  "chat.cjs": `const { Engine } = require("anneal"); (async () => {${CHAT}})();`,
  "worker.mjs": `import { Worker } from "node:worker_threads";
    new Worker(new URL("chat.mjs", import.meta.url)).on("error", (error) => { throw error; });`,
};

describe.runIf(TARGET !== undefined)(`the package of ${TARGET}`, { timeout: TIMEOUT }, () => {
  const target = TARGET!;
  let top: string;
  let registry: Registry;
  beforeAll(async () => {
    emulatorOf(target);
    top = mkdtempSync(join(tmpdir(), "anneal-emulated-"));
    const tarballs = await packAll({ targets: [target], folder: join(top, "packages") });
    registry = await serveRegistry([...tarballs, ...dependencyTarballs()]);
  }, TIMEOUT);
  afterAll(() => {
    registry?.close();
    rmSync(top, { recursive: true, force: true });
  });

  async function start(cwd: string, program: string, args: string[], env = process.env): Promise<string> {
    const { stdout } = await promisify(execFile)(program, args, { cwd, env }).catch((error) => {
      throw new Error(`${args.join(" ")}: ${error.message}\n${error.stdout}`);
    });
    return stdout;
  }

  const [os, cpu, libc] = target?.split("-") ?? [];
  const platform = ["--os", os!, "--cpu", cpu!, ...(os === "linux" ? ["--libc", libc ?? "glibc"] : [])];
  const npm = (cwd: string, args: string[], env?: NodeJS.ProcessEnv) =>
    start(cwd, nodeBinary("node24"), [tool("npm11", "bin/npm-cli.js"), ...args, ...platform, "--ignore-scripts"], env);

  /** Its output goes to files: the emulator of Windows knows no sockets as such, which pipes of Node are. */
  async function foreign(cwd: string, ...args: string[]): Promise<string> {
    const [program, ...rest] = [...emulatorOf(target), foreignNode(target), ...args];
    const [output, errors] = ["output", "errors"].map((name) => join(top, name)) as [string, string];
    const files = [openSync(output, "w"), openSync(errors, "w")];
    const env = { ...emulatorEnvironment(), ...foreignEnvironment(target, join(cwd, "node_modules")) };
    const child = spawn(program!, rest, { cwd, env, stdio: ["ignore", ...files] });
    const [status] = await once(child, "exit");
    for (const file of files) closeSync(file);
    const text = readFileSync(output, "utf8").replaceAll("\r\n", "\n");
    if (status !== 0)
      throw new Error(`${args.join(" ")} ended with ${status}:\n${text}${readFileSync(errors, "utf8")}`);
    return text;
  }

  it("chats in its Node with the bits of this machine, is required, and works in a worker thread", async () => {
    const application = join(top, "application");
    mkdirSync(application);
    writeFileSync(join(application, "package.json"), '{ "private": true }');
    for (const [file, program] of Object.entries(PROGRAMS)) writeFileSync(join(application, file), program);
    await npm(application, ["install", "anneal"], { ...process.env, HOME: top, npm_config_registry: registry.url });

    const engine = await Engine.open();
    const expected = JSON.parse(JSON.stringify((await engine.chat.completions.create(QUESTION)).choices[0]));
    await engine.close();
    expect(await foreign(application, "-p", "process.platform + process.arch")).toBe(`${os}${cpu}\n`);
    for (const file of Object.keys(PROGRAMS)) expect(JSON.parse(await foreign(application, file))).toEqual(expected);
  });

  // Not on Windows, whose emulator does not run Vitest.
  it.runIf(platformOf(target ?? "") === "linux")("passes the tests of the core in its Node", async () => {
    const copy = join(top, "copy");
    mkdirSync(copy);
    for (const entry of [
      "package.json",
      "package-lock.json",
      "tsconfig.json",
      ".vitest.config.ts",
      "src",
      "test",
      "models/tiny",
    ]) {
      cpSync(join(ROOT, entry), join(copy, entry), { recursive: true });
    }
    await npm(copy, ["ci"]);
    const core = join(copy, "native", "build", "Release", "anneal.node");
    cpSync(await compile({ target }), core);
    const suites = ["bits", "reference", "boundary", "entropy", "grammar", "workers"];
    const output = await foreign(
      copy,
      join(copy, "node_modules", "vitest", "vitest.mjs"),
      ...[
        "run",
        "--config",
        ".vitest.config.ts",
        "--pool",
        "threads",
        "--testTimeout",
        String(TIMEOUT),
        "--hookTimeout",
        String(TIMEOUT),
      ],
      // Not those that start processes, which the emulator would have to be told of.
      ...["--testNamePattern", "^(?!.*(lets a process end|lets process.exit))"],
      ...suites.map((name) => `test/native/${name}.test.ts`),
    );
    expect(output).toMatch(/Test Files .*6 passed/);
    expect(output).not.toContain("failed");
  });
});
