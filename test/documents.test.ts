// The guides: links lead somewhere, programs pass a strict compiler, and those of the library's guide run as they stand there.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { afterAll, describe, expect, test, vi } from "vitest";

const root = join(import.meta.dirname, "..");
const documents = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "*.md"], {
  cwd: root,
  encoding: "utf8",
})
  .trim()
  .split("\n")
  .filter((document) => existsSync(join(root, document)));
const textOf = (document: string) => readFileSync(join(root, document), "utf8");

mkdirSync(join(root, ".anneal"), { recursive: true });
const folder = mkdtempSync(join(root, ".anneal", "documents-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Headings as GitHub names their anchors. */
function anchorsOf(text: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading] of withoutCode(text).matchAll(/^#{1,6} +(.+?) *$/gm)) {
    const words = heading!.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").toLowerCase();
    const anchor = words.replace(/[^\p{L}\p{N}\s_-]/gu, "").replace(/\s/g, "-");
    let name = anchor;
    for (let again = 1; anchors.has(name); again++) name = `${anchor}-${again}`;
    anchors.add(name);
  }
  return anchors;
}

const withoutCode = (text: string) => text.replace(/^```[\s\S]*?^```/gm, "");

interface Program {
  document: string;
  /** Of its first line in the document. */
  line: number;
  text: string;
  /** Only compiled: it needs what is not here, or does not end. */
  isOnlyCompiled: boolean;
}

/** Fences marked `ts`; `ts no-run` is only compiled. */
const programs = documents.flatMap((document): Program[] => {
  const whole = textOf(document);
  return [...whole.matchAll(/^```ts( no-run)?\n([\s\S]*?)^```/gm)].map((match) => ({
    document,
    line: whole.slice(0, match.index).split("\n").length + 1,
    text: match[2]!,
    isOnlyCompiled: match[1] !== undefined,
  }));
});

/** The guides say that `engine` is an open engine and `model` a model of it; what a program does not make is made for it. */
function completed({ text }: Program): string {
  const code = text.replace(/(?<!:)\/\/.*$/gm, "");
  const uses = (name: string) => new RegExp(`(?<![.\\w])${name}\\b(?!:)`).test(code);
  const makes = (name: string) => new RegExp(`\\bconst ${name}\\b`).test(text);
  const needsModel = uses("model") && !makes("model");
  const needsEngine = (uses("engine") || needsModel) && !makes("engine");
  const before = [
    needsEngine && 'import { Engine as Opened } from "anneal";\nconst engine = await Opened.open();',
    needsModel &&
      'const model = await engine.models.create({ project: "guide", name: "m", base_model: "anneal/tiny" });',
  ];
  const after = needsEngine || (makes("engine") && !text.includes("engine.close()")) ? "await engine.close();\n" : "";
  return `${before.filter(Boolean).join("\n")}\n${text}\n${after}export {};\n`;
}

const require = createRequire(import.meta.url);

/** Packages that a program names and this repository does not install. */
function foreign(text: string): string[] {
  return [...text.matchAll(/from "([^".][^"]*)"/g)]
    .map(([, name]) => name!)
    .filter((name) => {
      const folderOf = name.split("/", name.startsWith("@") ? 2 : 1).join("/");
      return (
        name !== "anneal" &&
        name !== "anneal/ai" &&
        !name.startsWith("node:") &&
        !existsSync(join(root, "node_modules", folderOf))
      );
    });
}

describe("links", () => {
  test("there are guides in the rooms", () => {
    expect(documents).toEqual(
      expect.arrayContaining([
        "README.md",
        "src/README.md",
        "src/cli/README.md",
        "src/server/README.md",
        "src/weights/README.md",
        "native/README.md",
        "benchmarks/README.md",
        "test/README.md",
        ".github/CONTRIBUTING.md",
        ".github/SECURITY.md",
      ]),
    );
  });

  test.each(documents)("of %s lead to files and headings that are there", (document) => {
    const broken: string[] = [];
    for (const [, target] of withoutCode(textOf(document)).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target!)) continue;
      const [path, anchor] = target!.split("#") as [string, string?];
      const file = path === "" ? join(root, document) : resolve(root, dirname(document), path);
      if (relative(root, file).startsWith("..") || !existsSync(file)) broken.push(`${target}: no such file`);
      else if (anchor !== undefined && !anchorsOf(readFileSync(file, "utf8")).has(anchor))
        broken.push(`${target}: no such heading`);
    }
    expect(broken).toEqual([]);
  });
});

test("programs in the guides pass a strict compiler", () => {
  const compiled = join(folder, "compiled");
  mkdirSync(compiled);
  const places = programs.map((program, i) => {
    writeFileSync(join(compiled, `p${i}.ts`), completed(program));
    return `p${i}.ts is ${program.document}:${program.line}`;
  });
  // Of packages that are not installed here nothing is known; everything of anneal is checked all the same.
  const unknown = new Set(programs.flatMap(({ text }) => foreign(text)));
  writeFileSync(join(compiled, "foreign.d.ts"), [...unknown].map((name) => `declare module "${name}";\n`).join(""));
  writeFileSync(
    join(compiled, "tsconfig.json"),
    JSON.stringify({
      compilerOptions: {
        target: "es2022",
        lib: ["es2023", "es2024.string", "esnext.disposable"],
        module: "nodenext",
        types: ["node"],
        strict: true,
        noEmit: true,
        skipLibCheck: true,
        paths: { anneal: [join(root, "src/index.ts")], "anneal/ai": [join(root, "src/ai/index.ts")] },
      },
      include: ["*.ts"],
    }),
  );
  const tsc = join(dirname(require.resolve("typescript/package.json")), "bin", "tsc");
  let output = "";
  try {
    execFileSync(process.execPath, [tsc, "-p", compiled], { cwd: compiled, encoding: "utf8" });
  } catch (error) {
    output = `${(error as { stdout: string }).stdout}\n${places.join("\n")}`;
  }
  expect(output).toBe("");
  expect(programs.length).toBeGreaterThan(15);
});

describe("programs of the library's guide run", () => {
  const running = programs.filter(({ document, isOnlyCompiled }) => document === "src/README.md" && !isOnlyCompiled);
  test.each(running.map((program) => [program.line, program] as const))("the one at line %i", async (line, program) => {
    const home = JSON.stringify(join(folder, `home-${line}`));
    const file = join(folder, `run-${line}.ts`);
    const text = completed(program)
      .replaceAll('"anneal"', JSON.stringify(join(root, "src/index.ts")))
      .replaceAll('"./.anneal"', home)
      .replaceAll('"./', `"${folder}/${line}-`);
    writeFileSync(file, text);
    const log = vi.spyOn(console, "log").mockImplementation(() => undefined);
    try {
      await import(file);
      const printed = log.mock.calls.map((call) => call.map(String).join(" ")).join("\n");
      // What a program prints stands behind `// prints`.
      for (const [, shown] of program.text.matchAll(/\/\/ prints (.+)$/gm)) expect(printed).toContain(shown);
    } finally {
      log.mockRestore();
    }
  });
});
