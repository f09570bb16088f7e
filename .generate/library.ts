// The reference of the library: everything that an application can import and whatever that leads to, with its members, as
// tables. It is made of the declarations that the compiler writes, and of their comments.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { parseSync } from "vite";
import { childrenOf, type Node, nameOf } from "./syntax.js";

const INTRODUCTION = `# The library's types

Made of the declarations by \`npm run generate\`. Everything here is imported from \`anneal\`, or is what something imported
from there has or takes. How it is used: [the library](../README.md); what is sent over HTTP: [the wire](../schemas/README.md).`;

/** The name that a declaration gives. */
const idOf = (node: Node): Node | undefined =>
  (node.id ?? (node.declarations as Node[] | undefined)?.[0]?.id) as Node | undefined;

/** One declaration and where it stands. */
interface Declared {
  name: string;
  node: Node;
  /** The statement, before which its comment stands. */
  statement: Node;
  module: Module;
}

/** A file of declarations. */
class Module {
  readonly declared = new Map<string, Declared>();
  /** Of names that come from other files: which, and under what name there. */
  readonly imported = new Map<string, [file: string, name: string]>();
  /** What it exports of other files; null: all of them. */
  readonly #passedOn: [file: string, names: Map<string, string> | null][] = [];
  readonly #exported: string[] = [];
  readonly #source: string;
  readonly #comments: { value: string; start: number; end: number }[];

  constructor(file: string) {
    this.#source = readFileSync(file, "utf8");
    const { program, comments, errors } = parseSync(file, this.#source);
    if (errors.length > 0) throw new Error(`${file}: ${errors[0]!.message}`);
    this.#comments = comments.filter(({ type }) => type === "Block");
    for (const statement of program.body as unknown as Node[]) this.#read(statement, file);
  }

  #read(statement: Node, file: string): void {
    const from = (statement.source as { value?: string } | undefined)?.value;
    if (from !== undefined) {
      if (!from.startsWith(".")) return;
      const other = resolve(dirname(file), from.replace(/\.js$/, ".d.ts"));
      const specifiers = (statement.specifiers ?? []) as Node[];
      if (statement.type === "ImportDeclaration") {
        for (const { local, imported } of specifiers) this.imported.set(nameOf(local), [other, nameOf(imported)]);
      } else if (statement.type === "ExportAllDeclaration") {
        this.#passedOn.push([other, null]);
      } else {
        const names = specifiers.map(({ local, exported }) => [nameOf(exported), nameOf(local)] as const);
        this.#passedOn.push([other, new Map(names)]);
      }
      return;
    }
    const node = (statement.declaration as Node | undefined) ?? statement;
    const id = idOf(node);
    if (id === undefined) return;
    const name = nameOf(id);
    // Of overloads the first one, which has the comment.
    if (!this.declared.has(name)) this.declared.set(name, { name, node, statement, module: this });
    if (statement.type === "ExportNamedDeclaration") this.#exported.push(name);
  }

  /** Everything that the module exports, in its order. */
  exports(read: (file: string) => Module): Declared[] {
    const own = this.#exported.map((name) => this.declared.get(name)!);
    const others = this.#passedOn.flatMap(([file, names]) => {
      const all = read(file).exports(read);
      return names === null ? all : [...names.values()].map((name) => all.find((one) => one.name === name)!);
    });
    return [...new Set([...own, ...others])];
  }

  /** The documentation comment before a node, as one paragraph for each part. */
  commentOf({ start }: Node): string {
    const before = this.#comments.find(({ end }) => end <= start && this.#source.slice(end, start).trim() === "");
    if (!before?.value.startsWith("*")) return "";
    const lines = before.value.split("\n").map((line) => line.replace(/^\s*\*+ ?/, "").trim());
    return lines
      .join(" ")
      .replace(/\s+/g, " ")
      .replaceAll("@throws ", "Throws ")
      .replaceAll("@returns ", "Answers ")
      .trim();
  }

  /** Source without comments, in one line. */
  text(start: number, end: number): string {
    let text = "";
    let at = start;
    for (const comment of this.#comments.filter((one) => one.start >= start && one.end <= end)) {
      text += this.#source.slice(at, comment.start);
      at = comment.end;
    }
    return (text + this.#source.slice(at, end)).replace(/\s+/g, " ").trim();
  }
}

/** Members that are not for applications: private ones, and those that are named by a symbol. */
function isHidden(member: Node): boolean {
  const key = member.key as Node | undefined;
  return member.accessibility === "private" || key === undefined || key.type === "PrivateIdentifier";
}

const MEMBER =
  /^(TSPropertySignature|TSMethodSignature|PropertyDefinition|MethodDefinition|TSAbstractMethodDefinition)$/;

/** Objects that are written within a type, at any depth but below other members. */
function literals(node: Node): Node[] {
  return childrenOf(node).flatMap((child) => (child.type === "TSTypeLiteral" ? [child] : literals(child)));
}

class Reference {
  readonly #modules = new Map<string, Module>();
  readonly #told = new Map<Declared, string>();

  readonly #read = (file: string): Module => {
    const known = this.#modules.get(file);
    if (known) return known;
    const module = new Module(file);
    this.#modules.set(file, module);
    return module;
  };

  constructor(entry: string) {
    const queue = this.#read(entry).exports(this.#read);
    for (const one of queue) {
      if (this.#told.has(one) || one.name.endsWith("_base")) continue;
      this.#told.set(one, one.name);
      queue.push(...this.#namedBy(one.node, one.module));
    }
  }

  /** What the names within a declaration stand for. */
  #namedBy(node: Node, module: Module): Declared[] {
    if (node.type === "PropertyDefinition" && isHidden(node)) return [];
    const here = node.type === "Identifier" ? this.#find(nameOf(node), module) : undefined;
    return [...(here ? [here] : []), ...childrenOf(node).flatMap((child) => this.#namedBy(child, module))];
  }

  #find(name: string, module: Module): Declared | undefined {
    const own = module.declared.get(name);
    if (own) return own;
    const [file, original] = module.imported.get(name) ?? [];
    if (file === undefined) return undefined;
    return this.#read(file)
      .exports(this.#read)
      .find((one) => one.name === original);
  }

  /** A type, names in it as links. */
  #type(text: string, module: Module): string {
    const escaped = text.replace(/^: /, "").replace(/[\\<>*_[\]|]/g, (sign) => (sign === "<" ? "&lt;" : `\\${sign}`));
    return escaped.replace(/\b[A-Z]\w*\b/g, (name) => {
      const one = this.#find(name, module);
      return one && this.#told.has(one) ? `[${name}](#${name.toLowerCase()})` : name;
    });
  }

  #rows(body: Node, module: Module, prefix: string): string[] {
    return ((body.body ?? body.members) as Node[]).flatMap((member) => {
      if (!MEMBER.test(member.type) || isHidden(member)) return [];
      const key = member.key as Node;
      if (member.kind === "constructor") return [];
      const name = prefix + (member.computed ? `[${module.text(key.start, key.end)}]` : nameOf(key));
      const comment = module.commentOf(member);
      const type = module.text(key.end, member.end).replace(/^\]/, "").replace(/;$/, "");
      const isOptional = type.startsWith("?");
      const isGetter = member.kind === "get";
      const isMethod = !isGetter && /^\??[(<]/.test(type);
      const shown = this.#type(type.replace(isGetter ? /^\(\): / : /^\?/, ""), module);
      const marks = `${member.static ? "static " : ""}${name}${isOptional ? "?" : ""}${isMethod ? "()" : ""}`;
      const row = `| \`${marks}\` | ${shown} | ${comment.replaceAll("|", "\\|")} |`;
      const inner = isMethod ? [] : literals(member).filter((literal) => (literal.members as Node[]).length > 0);
      const below = inner.length === 1 ? this.#rows(inner[0]!, module, `${name}.`) : [];
      // Members without a comment of their own are told of in that of what holds them.
      return [row, ...below.filter((line) => !line.endsWith("|  |"))];
    });
  }

  #section({ name, node, statement, module }: Declared): string {
    const parts = [`### ${name}`, module.commentOf(statement)];
    const id = idOf(node)!;
    if (node.type === "TSInterfaceDeclaration" || node.type === "ClassDeclaration") {
      const body = node.body as Node;
      // The compiler gives a name to what a class of errors extends.
      const head = module.text(id.end, body.start).replace(/\w+_base\b/, "AnnealError");
      if (head) parts.push(this.#type(head, module));
      const rows = this.#rows(body, module, "");
      if (rows.length > 0) parts.push(["| Member | Type | Meaning |", "|---|---|---|", ...rows].join("\n"));
    } else if (node.type === "TSTypeAliasDeclaration") {
      const { start, end } = node.typeAnnotation as Node;
      parts.push(`Is ${this.#type(module.text(start, end), module)}.`);
      const [literal, ...others] = literals(node);
      const rows = literal && others.length === 0 ? this.#rows(literal, module, "") : [];
      if (rows.length > 0) parts.push(["| Member | Type | Meaning |", "|---|---|---|", ...rows].join("\n"));
    } else {
      const start = ((id.typeAnnotation as Node | null) ?? { start: id.end }).start;
      parts.push(`\`${name}\` is ${this.#type(module.text(start, node.end).replace(/;$/, ""), module)}.`);
    }
    return parts.filter(Boolean).join("\n\n");
  }

  text(): string {
    const all = [...this.#told.keys()];
    const groups: [string, (node: Node) => boolean][] = [
      ["Classes", ({ type }) => type === "ClassDeclaration"],
      ["Functions", ({ type }) => /Function|Variable/.test(type)],
      ["Types", ({ type }) => /^TS(Interface|TypeAlias|Enum)/.test(type)],
    ];
    const sections = groups.flatMap(([title, isOf]) => [
      `## ${title}`,
      ...all.filter(({ node }) => isOf(node)).map((one) => this.#section(one)),
    ]);
    return `${[INTRODUCTION, ...sections].join("\n\n")}\n`;
  }
}

/** The reference of a package of sources. @param root its folder */
export function libraryReference(root: string): string {
  const declarations = mkdtempSync(join(tmpdir(), "anneal-reference-"));
  try {
    const typescript = dirname(createRequire(import.meta.url).resolve("typescript/package.json"));
    const args = [join(typescript, "bin", "tsc"), "--emitDeclarationOnly", "--outDir", declarations];
    execFileSync(process.execPath, args, { cwd: root, stdio: "inherit" });
    return new Reference(join(declarations, "index.d.ts")).text();
  } finally {
    rmSync(declarations, { recursive: true, force: true });
  }
}
