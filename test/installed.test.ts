import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const own = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url));

it("works under a path with spaces, percent signs and letters beyond ASCII", () => {
  const top = mkdtempSync(join(tmpdir(), "anneal-installed-"));
  try {
    const folder = join(top, "two words", "naïve 例 50%20");
    mkdirSync(join(folder, "native/build/Release"), { recursive: true });
    for (const path of ["package.json", "src", "models/tiny", "native/build/Release/anneal.node"]) {
      cpSync(own(path), join(folder, path), { recursive: true });
    }
    symlinkSync(own("node_modules"), join(folder, "node_modules"));
    writeFileSync(
      join(folder, "use.ts"),
      `import { Engine } from "./src/index.ts";
      const engine = await Engine.open({ home: "./a home", models: ["./models/tiny"], threads: 1 });
      const text = (content: string) => engine.chat.completions.create({ messages: [{ role: "user", content }], max_tokens: 2 });
      const short = await text("Hi");
      // Long enough to be encoded by a thread, which is a program of the package.
      const long = await text("word ".repeat(20_000)).catch((error) => error.code ?? error);
      console.log(JSON.stringify([short.choices.length, long]));
      await engine.close();`,
    );
    const run = (...args: string[]) =>
      execFileSync(process.execPath, ["--import", "tsx", ...args], { cwd: folder, encoding: "utf8" });
    const [choices, long] = JSON.parse(run("use.ts")) as [number, string];
    expect(choices).toBe(1);
    expect(long).toBe("context_length_exceeded");
    expect(run("src/cli/main.ts", "--version")).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect(run("src/cli/main.ts", "models", "list", "--home", "a home")).toContain("anneal/tiny");
  } finally {
    rmSync(top, { recursive: true, force: true });
  }
});

it("says of a core that is missing whether to compile it or to install it again", () => {
  const folder = mkdtempSync(join(tmpdir(), "anneal-missing-"));
  try {
    for (const path of ["package.json", "src", "models/tiny"])
      cpSync(own(path), join(folder, path), { recursive: true });
    symlinkSync(own("node_modules"), join(folder, "node_modules"));
    const said = () => {
      const { stderr } = spawnSync(process.execPath, ["--import", "tsx", "src/cli/main.ts", "demo"], {
        cwd: folder,
        encoding: "utf8",
      });
      return stderr;
    };
    expect(said()).toMatch(/is not compiled yet[\s\S]*run `npx anneal build`/);
    const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const core = `@anneal/${process.platform}-${process.arch}`;
    const published = { ...manifest, optionalDependencies: { [core]: manifest.version } };
    writeFileSync(join(folder, "package.json"), JSON.stringify(published));
    expect(said()).toContain(`its package ${core} is an optional dependency, which the installer left out`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
