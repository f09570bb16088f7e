import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const root = join(import.meta.dirname, "..");

const typescript = dirname(createRequire(import.meta.url).resolve("typescript/package.json"));

/** @returns what it says of mistakes */
function tsc(cwd: string, ...args: string[]): string {
  try {
    execFileSync(process.execPath, [join(typescript, "bin", "tsc"), ...args], { cwd, encoding: "utf8" });
    return "";
  } catch (error) {
    return (error as { stdout: string }).stdout;
  }
}

let types: string;
beforeAll(() => {
  types = mkdtempSync(join(tmpdir(), "public-types-"));
  expect(tsc(root, "--emitDeclarationOnly", "--outDir", types)).toBe("");
});
afterAll(() => rmSync(types, { recursive: true, force: true }));

/** An application that passes what the global functions of its system give. */
const USE = `
import { type ChatCompletionChunk, createServer, Engine, train } from "anneal";
const engine: Engine = await Engine.open({ home: "./home" });
const { choices } = await engine.chat.completions.create({ messages: [{ role: "user", content: "Hello." }] });
const text: string | null = choices[0]!.message.content;
const asked = { messages: [], stream: true as const };
for await (const chunk of await engine.chat.completions.create(asked, { signal: AbortSignal.timeout(1) })) {
  const { delta } = (chunk satisfies ChatCompletionChunk).choices[0]!;
  console.log(delta.content, text);
}
const model = await engine.models.create({ project: "demo", name: "m", base_model: "anneal/tiny" });
const answer: Response = await createServer(engine)(new Request("http://anneal/health"));
const own: typeof fetch = engine.fetch;
for await (const step of train(engine, { model, scenarios: [1], groupSize: 2, steps: 1, rollout: async () => answer.status })) {
  console.log(step.train.reward, own);
}
// @ts-expect-error: there is no such option
await Engine.open({ homes: text });
`;

/** The modules outside of the package that the declarations of an entry lead to. */
function packagesBehind(entry: string): Set<string> {
  const packages = new Set<string>();
  const seen = new Set<string>();
  const visit = (file: string) => {
    if (seen.has(file)) return;
    seen.add(file);
    for (const [, name] of readFileSync(file, "utf8").matchAll(/(?:\bfrom|\bimport\()\s*"([^"]+)"/g)) {
      if (name!.startsWith(".")) visit(resolve(dirname(file), name!.replace(/\.js$/, ".d.ts")));
      else packages.add(name!);
    }
  };
  visit(entry);
  return packages;
}

it("what an application sees in types needs the types of no other package but Node's", () => {
  const packages = packagesBehind(join(types, "index.d.ts"));
  expect([...packages].filter((name) => !name.startsWith("node:"))).toEqual([]);
});

describe("an application's strict compiler", () => {
  let application: string;
  beforeAll(() => {
    application = join(types, "application");
    const modules = join(application, "node_modules");
    mkdirSync(join(modules, "anneal"), { recursive: true });
    cpSync(join(root, "package.json"), join(modules, "anneal", "package.json"));
    symlinkSync(types, join(modules, "anneal", "dist"));
    for (const name of ["@types", "undici-types"]) symlinkSync(join(root, "node_modules", name), join(modules, name));
    writeFileSync(join(application, "package.json"), '{ "type": "module" }');
    writeFileSync(join(application, "use.ts"), USE);
  });

  const cases = [
    ["es2022", "node16", "node16"],
    ["es2022", "esnext", "bundler"],
    ["es2022,dom,dom.iterable", "nodenext", "nodenext"],
    ["esnext,dom", "esnext", "bundler"],
  ] as const;

  it.each(cases)("takes the declarations with %s, module %s, resolution %s", (library, module, resolution) => {
    const said = tsc(
      application,
      ...["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--preserveSymlinks", "--target", "es2022"],
      ...["--lib", library, "--module", module, "--moduleResolution", resolution],
      ...["--skipLibCheck", "false", "--types", "node", "use.ts"],
    );
    expect(said).toBe("");
  });

  it("takes the sources where the types of browsers are there, too", () => {
    const { lib } = JSON.parse(readFileSync(join(root, "tsconfig.json"), "utf8")).compilerOptions;
    expect(tsc(root, "--outDir", join(types, "dom"), "--lib", [...lib, "dom", "dom.iterable"].join())).toBe("");
  });
});
