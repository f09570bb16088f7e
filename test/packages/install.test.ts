// Installs what `npm run pack:all` made, from a registry on this machine, with every installer and Node. Takes minutes and
// fetches the installers once, so it runs by `npm run test:packages` only.

import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Registry, serveRegistry } from "./registry.js";
import { dependencyTarballs, nodeBinary, tool } from "./tools.js";

const packages = process.env.ANNEAL_TEST_PACKAGES;

/** From the start of the installer to the end of the process that has chatted. */
const MAX_MILLISECONDS = 15_000;

const CHAT = `
  const engine = await Engine.open({ home: "./a home" });
  const reply = await engine.chat.completions.create({
    messages: [{ role: "user", content: "What is 3 + 4?" }], temperature: 0, logprobs: true });
  const { message, logprobs } = reply.choices[0];
  console.log(JSON.stringify({ text: message.content, logprobs: logprobs.content.map(({ logprob }) => logprob) }));
  await engine.close();`;

const PROGRAMS = {
  "chat.mjs": `import { Engine } from "anneal";${CHAT}`,
  "chat.cjs": `const { Engine } = require("anneal"); (async () => {${CHAT}})();`,
  "worker.mjs": `import { Worker } from "node:worker_threads";
    new Worker(new URL("chat.mjs", import.meta.url)).on("error", (error) => { throw error; });`,
};

describe.runIf(packages)("a package", () => {
  let registry: Registry;
  let top: string;
  beforeAll(async () => {
    const own = readdirSync(packages!).filter((entry) => entry.endsWith(".tgz"));
    registry = await serveRegistry([...own.map((entry) => resolve(packages!, entry)), ...dependencyTarballs()]);
    top = realpathSync(mkdtempSync(join(tmpdir(), "anneal-packages-")));
    tool("npm10", "");
  }, 600_000);
  afterAll(() => {
    registry?.close();
    rmSync(top, { recursive: true, force: true });
  });

  /** An application with nothing in it, and a user without caches. */
  function emptyApplication(): { cwd: string; env: NodeJS.ProcessEnv } {
    const cwd = mkdtempSync(join(top, "application-"));
    const home = mkdtempSync(join(top, "user-"));
    writeFileSync(join(cwd, "package.json"), JSON.stringify({ name: "application", private: true }));
    for (const [file, program] of Object.entries(PROGRAMS)) writeFileSync(join(cwd, file), program);
    writeFileSync(
      join(cwd, ".yarnrc.yml"),
      `npmRegistryServer: "${registry.url.slice(0, -1)}"\nunsafeHttpWhitelist: ["127.0.0.1"]\nnodeLinker: node-modules\nenableScripts: false\nenableTelemetry: false\n`,
    );
    const path = [dirname(nodeBinary("node24")), process.env.PATH].join(delimiter);
    const env = { PATH: path, HOME: home, USERPROFILE: home, npm_config_registry: registry.url, CI: "1" };
    return { cwd, env };
  }

  type Application = ReturnType<typeof emptyApplication>;

  /** Not synchronously: this process is the registry. */
  async function start(program: string, args: string[], { cwd, env }: Application): Promise<string> {
    const { stdout } = await promisify(execFile)(program, args, { cwd, env, timeout: 100_000 }).catch((error) => {
      throw new Error(`${args.join(" ")}: ${error.message}\n${error.stdout}`);
    });
    return stdout;
  }

  function expectReply(output: string): void {
    const { text, logprobs } = JSON.parse(output) as { text: string; logprobs: number[] };
    expect(text).toContain("7");
    expect(logprobs.length).toBeGreaterThan(0);
  }

  const installers: Record<string, () => [program: string, args: string[]]> = {
    "npm 10": () => [nodeBinary("node22"), [tool("npm10", "bin/npm-cli.js"), "install", "anneal", "--ignore-scripts"]],
    "npm 11": () => [nodeBinary("node24"), [tool("npm11", "bin/npm-cli.js"), "install", "anneal", "--ignore-scripts"]],
    "npm 12": () => [nodeBinary("node26"), [tool("npm12", "bin/npm-cli.js"), "install", "anneal"]],
    "pnpm 10": () => [nodeBinary("node24"), [tool("pnpm", "bin/pnpm.cjs"), "add", "anneal"]],
    "yarn 4": () => [nodeBinary("node24"), [tool("yarn", "bin/yarn.js"), "add", "anneal"]],
    bun: () => [tool("bun", "bin/bun"), ["add", "anneal"]],
  };

  it.each(Object.keys(installers))("chats soon after %s is asked for it", async (name) => {
    const application = emptyApplication();
    const [program, args] = installers[name]!();
    const begun = performance.now();
    await start(program, args, application);
    const installed = performance.now();
    expectReply(await start(nodeBinary("node24"), ["chat.mjs"], application));
    const milliseconds = performance.now() - begun;
    console.log(
      `${name}: installed in ${Math.round(installed - begun)} ms, chatted after ${Math.round(milliseconds)} ms`,
    );
    expect(milliseconds).toBeLessThan(MAX_MILLISECONDS);
  });

  describe("installed", () => {
    let application: Application;
    beforeAll(async () => {
      application = emptyApplication();
      const [program, args] = installers["npm 11"]!();
      await start(program, args, application);
    });

    it("runs no script, and brings few packages", () => {
      const modules = join(application.cwd, "node_modules");
      const manifests = readdirSync(modules, { recursive: true, encoding: "utf8" })
        .filter((path) => /^(@[^/]+\/)?[^/]+\/package\.json$/.test(path))
        .map((path) => JSON.parse(readFileSync(join(modules, path), "utf8")));
      expect(manifests.length).toBeLessThanOrEqual(5);
      for (const { scripts = {} } of manifests) {
        expect(Object.keys(scripts)).not.toEqual(
          expect.arrayContaining([expect.stringMatching(/^(pre|post)?install$|^prepare$/)]),
        );
      }
    });

    it.each(["node22", "node24", "node26"] as const)(
      "chats, is required and works in a worker thread on %s",
      async (name) => {
        for (const file of Object.keys(PROGRAMS)) expectReply(await start(nodeBinary(name), [file], application));
      },
    );

    it("is a command", async () => {
      const command = join("node_modules", "anneal", "dist", "cli", "main.js");
      expect(await start(nodeBinary("node22"), [command, "--version"], application)).toMatch(/^\d+\.\d+\.\d+\n$/);
      expect(await start(nodeBinary("node22"), [command, "doctor", "--home", "./other"], application)).not.toContain(
        "wrong",
      );
    });

    it("has types that need no other package", async () => {
      writeFileSync(
        join(application.cwd, "types.ts"),
        `import { Engine } from "anneal";
         const engine: Engine = await Engine.open();
         const text: string | null = (await engine.chat.completions.create({ messages: [] })).choices[0]!.message.content;
         // @ts-expect-error: there is no such option
         await Engine.open({ homes: text });`,
      );
      const tsc = resolve("node_modules/typescript/bin/tsc");
      const types = ["--typeRoots", resolve("node_modules/@types"), "--types", "node"];
      const args = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", ...types, "types.ts"];
      writeFileSync(join(application.cwd, "package.json"), JSON.stringify({ private: true, type: "module" }));
      await start(process.execPath, [tsc, ...args], application);
    });

    it("says what to do where its core is missing", async () => {
      const modules = join(application.cwd, "node_modules");
      rmSync(join(modules, "@anneal"), { recursive: true });
      mkdirSync(join(modules, "@anneal"));
      const program = `import("anneal").then(({ Engine }) => Engine.open()).catch(({ code, hint }) => console.log(code, hint))`;
      const output = await start(nodeBinary("node24"), ["-e", program], application);
      expect(output).toContain("native_addon_missing");
      expect(output).toContain("npx anneal build");
    });
  });
});
