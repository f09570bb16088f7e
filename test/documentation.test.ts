// Everything that an application can import, and every member of it, has a documentation comment. Members of an object that is
// written within a type may be told, `by name`, in the comment of what holds it.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { parseSync } from "vite";
import { afterAll, beforeAll, expect, it } from "vitest";
import { childrenOf, type Node, nameOf } from "../.generate/syntax.js";

const root = join(import.meta.dirname, "..");

let types: string;
beforeAll(() => {
  types = mkdtempSync(join(tmpdir(), "documentation-"));
  const typescript = dirname(createRequire(import.meta.url).resolve("typescript/package.json"));
  const tsc = join(typescript, "bin", "tsc");
  execFileSync(process.execPath, [tsc, "--emitDeclarationOnly", "--outDir", types], { cwd: root, stdio: "inherit" });
});
afterAll(() => rmSync(types, { recursive: true, force: true }));

interface Finding {
  where: string;
  isDocumented: boolean;
}

const MEMBER =
  /^(TSPropertySignature|TSMethodSignature|PropertyDefinition|MethodDefinition|TSAbstractMethodDefinition)$/;

/** The declarations of one file: those that are exported, and their members. */
class Declarations {
  readonly #source: string;
  readonly #program: Node;
  readonly #comments: { value: string; end: number }[];

  constructor(private readonly file: string) {
    this.#source = readFileSync(file, "utf8");
    const { program, comments, errors } = parseSync(file, this.#source);
    expect(errors).toEqual([]);
    this.#program = program as unknown as Node;
    this.#comments = comments.filter(({ type }) => type === "Block");
  }

  /** Findings about what the module exports: under `names`, or all of it. */
  findings(names: ReadonlySet<string> | null): Finding[] {
    return (this.#program.body as Node[]).flatMap((statement) => this.#ofStatement(statement, names));
  }

  #ofStatement(statement: Node, names: ReadonlySet<string> | null): Finding[] {
    const from = (statement.source as Node | null | undefined)?.value as string | undefined;
    if (from !== undefined && statement.type !== "ImportDeclaration") {
      if (!from.startsWith(".")) return [];
      const other = new Declarations(resolve(dirname(this.file), from.replace(/\.js$/, ".d.ts")));
      if (statement.type === "ExportAllDeclaration") return other.findings(names);
      const exported = (statement.specifiers as Node[]).map(({ local }) => nameOf(local as Node));
      return other.findings(new Set(exported.filter((name) => names === null || names.has(name))));
    }
    const declaration = statement.declaration as Node | null | undefined;
    if (statement.type !== "ExportNamedDeclaration" || !declaration) return [];
    const name = nameOf((declaration.id ?? (declaration.declarations as Node[])[0]!.id) as Node);
    if (names !== null && !names.has(name)) return [];
    const comment = this.#commentOf(statement);
    return [{ where: name, isDocumented: comment !== "" }, ...this.#members(declaration, name, comment)];
  }

  /** Members of a declaration, and those of objects within their types; `told`: the comments of what holds them. */
  #members(node: Node, where: string, told: string): Finding[] {
    return childrenOf(node).flatMap((child) => {
      if (!MEMBER.test(child.type)) return this.#members(child, where, told);
      const key = child.key as Node;
      if (child.accessibility === "private" || key.type === "PrivateIdentifier" || child.kind === "constructor")
        return [];
      const name = nameOf(key);
      const comment = this.#commentOf(child);
      const found = this.#members(child, `${where}.${name}`, told + comment);
      // What tells one object from another says nothing but itself; symbols are the language's.
      if (child.computed || this.#isTag(child)) return found;
      const isDocumented = comment !== "" || told.includes(`\`${name}\``);
      return [{ where: `${where}.${name}`, isDocumented }, ...found];
    });
  }

  #isTag({ typeAnnotation, key }: Node): boolean {
    const type = (typeAnnotation as Node | undefined)?.typeAnnotation as Node | undefined;
    return (
      type?.type === "TSLiteralType" && ["type", "object", "role", "loss", "kind", "name"].includes(nameOf(key as Node))
    );
  }

  /** The documentation comment before a node; "" if there is none. */
  #commentOf({ start }: Node): string {
    const before = this.#comments.find(({ end }) => end <= start && this.#source.slice(end, start).trim() === "");
    return before?.value.startsWith("*") ? before.value : "";
  }
}

it("is told of every type, function, option and method", () => {
  const found = new Declarations(join(types, "index.d.ts")).findings(null);
  // Overloads are told of once.
  const documented = new Set(found.filter(({ isDocumented }) => isDocumented).map(({ where }) => where));
  const missing = new Set(found.map(({ where }) => where).filter((where) => !documented.has(where)));
  expect(documented.size).toBeGreaterThan(500);
  expect([...missing]).toEqual([]);
});
