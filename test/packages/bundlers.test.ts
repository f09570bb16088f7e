// What `npm run pack:all` made, in the bundles of applications. Runs by `npm run test:packages`; fetches webpack and Next once.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { dependencyTarballs, frameworks, nodeBinary } from "./tools.js";

const packages = process.env.ANNEAL_TEST_PACKAGES;
const node = () => nodeBinary("node24");

/** Says what a short text got, and the error of one so long that a thread encodes it. */
const USE = `
  const chat = (content) => engine.chat.completions.create({ messages: [{ role: "user", content }], temperature: 0 });
  const { choices } = await chat("What is 3 + 4?");
  const said = [choices[0].message.content, await chat("word ".repeat(20_000)).catch(({ code }) => code)];`;
const SAID = '["7","invalid_request"]';

/** Programs of the guide that begin with a line. */
function recipe(firstLine: string): string[] {
  const guide = readFileSync(join(import.meta.dirname, "../../src/README.md"), "utf8");
  const programs = [...guide.matchAll(/^```[a-z]+(?: no-run)?\n([\s\S]*?)^```/gm)].map(([, text]) => text!);
  return programs.filter((text) => text.startsWith(`${firstLine}\n`));
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

describe.runIf(packages)("in a bundle of", () => {
  let folder: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "anneal-bundles-"));
    cpSync(frameworks(), join(folder, "node_modules"), { recursive: true });
    const own = readdirSync(packages!).filter((entry) => /^anneal.*\.tgz$/.test(entry));
    for (const tarball of [...own.map((entry) => resolve(packages!, entry)), ...dependencyTarballs()]) {
      const { stdout } = await promisify(execFile)("tar", ["-xzOf", tarball, "package/package.json"]);
      const target = join(folder, "node_modules", (JSON.parse(stdout) as { name: string }).name);
      mkdirSync(target, { recursive: true });
      await promisify(execFile)("tar", ["-xzf", tarball, "-C", target, "--strip-components=1"]);
    }
    writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }');
    const program = `(async () => { const engine = await Engine.open({ home: "./home" }); ${USE}
      console.log(JSON.stringify(said)); await engine.close(); })();`;
    writeFileSync(join(folder, "app.js"), `import { Engine } from "anneal";\n${program}`);
  }, 600_000);
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  async function run(args: string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
    const { stdout } = await promisify(execFile)(node(), args, {
      cwd: folder,
      env: { PATH: `${dirname(node())}:${process.env.PATH}`, HOME: folder, NEXT_TELEMETRY_DISABLED: "1", ...env },
    });
    return stdout.trim();
  }

  const installed = (path: string) => join(folder, "node_modules", path);

  it.each([
    ["esbuild, packages left out", ["--format=esm", "--packages=external"], "mjs"],
    ["esbuild, all in one ES module", ["--format=esm"], "mjs"],
    ["esbuild, all in one CommonJS module", ["--format=cjs", "--log-override:empty-import-meta=silent"], "cjs"],
  ])("%s", async (_, options, ending) => {
    const args = ["app.js", "--bundle", "--platform=node", `--outfile=out.${ending}`, ...options];
    await promisify(execFile)(installed("esbuild/bin/esbuild"), args, { cwd: folder });
    expect(await run([`out.${ending}`])).toBe(SAID);
  });

  it("webpack", async () => {
    writeFileSync(
      join(folder, "webpack.config.js"),
      `export default { mode: "production", target: "node22", entry: "./app.js", experiments: { outputModule: true },
        output: { path: ${JSON.stringify(join(folder, "webpack"))}, filename: "app.mjs", module: true } };`,
    );
    expect(await run([installed("webpack-cli/bin/cli.js")])).toContain("compiled successfully");
    expect(await run(["webpack/app.mjs"])).toBe(SAID);
  });

  it.each(["[]", "true"])("Vite for servers, noExternal: %s", async (noExternal) => {
    writeFileSync(join(folder, "vite.config.js"), `export default { ssr: { noExternal: ${noExternal} } };`);
    await run([installed("vite/bin/vite.js"), "build", "--ssr", "app.js", "--outDir", "vite", "--logLevel", "warn"]);
    expect(await run(["vite/app.js"])).toBe(SAID);
  });

  describe("Next", () => {
    const route = "app/llm/[...path]/route.ts";

    beforeAll(() => {
      mkdirSync(dirname(join(folder, route)), { recursive: true });
      writeFileSync(
        join(folder, "app", "layout.tsx"),
        "export default ({ children }: { children: React.ReactNode }) => <html><body>{children}</body></html>;",
      );
      writeFileSync(join(folder, route), recipe(`// ${route}`)[0]!);
    });

    /** Starts a server by its command and chats with it through the route. */
    async function chats(cwd: string, args: string[]): Promise<void> {
      const port = await freePort();
      const env = { PATH: process.env.PATH, PORT: String(port), HOSTNAME: "127.0.0.1", NEXT_TELEMETRY_DISABLED: "1" };
      const server = spawn(node(), args, { cwd, env, stdio: ["ignore", "ignore", "inherit"] });
      try {
        const answer = async (path: string, init: RequestInit = {}): Promise<Response> => {
          while (server.exitCode === null) {
            const response = await fetch(`http://127.0.0.1:${port}/llm${path}`, init).catch(() => null);
            if (response) return response;
            await new Promise((later) => setTimeout(later, 200));
          }
          throw new Error(`the server ended with ${server.exitCode}`);
        };
        expect((await answer("/health")).status).toBe(200);
        const key = readFileSync(join(cwd, ".anneal", "owner-key"), "utf8").trim();
        const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
        const chat = async (content: string) => {
          const body = JSON.stringify({ messages: [{ role: "user", content }], temperature: 0 });
          return (await answer("/v1/chat/completions", { method: "POST", headers, body })).text();
        };
        expect(await chat("What is 3 + 4?")).toContain('"content":"7"');
        // So long that a thread encodes it, which is a program of its own.
        expect(await chat("word ".repeat(20_000))).toContain("context");
      } finally {
        server.kill();
        await once(server, "exit");
      }
    }

    async function build(config: string): Promise<void> {
      writeFileSync(join(folder, "next.config.mjs"), config);
      await run([installed("next/dist/bin/next"), "build"]);
    }

    it("builds and serves the guide's route", async () => {
      await build(recipe("// next.config.mjs")[0]!);
      await chats(folder, [installed("next/dist/bin/next"), "start"]);
    }, 600_000);

    it("builds standalone output that serves where it is copied to", async () => {
      await build(recipe("// next.config.mjs")[1]!);
      const away = mkdtempSync(join(tmpdir(), "anneal-standalone-"));
      try {
        cpSync(join(folder, ".next", "standalone"), away, { recursive: true });
        await chats(away, ["server.js"]);
      } finally {
        rmSync(away, { recursive: true, force: true });
      }
    }, 600_000);
  });
});
