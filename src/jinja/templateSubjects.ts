// What a template speaks of, read from its syntax: names, roles, and whether it takes contents apart.

import type { CallArguments, Expression, Statement } from "./syntax.js";

export interface TemplateSubjects {
  /** Every variable, attribute, key and text in the template's code. */
  words: ReadonlySet<string>;
  /** Whether it iterates over a message's content, and so wants a list of parts. */
  iteratesContent: boolean;
}

export function subjectsOf(statements: Statement[]): TemplateSubjects {
  const words = new Set<string>();
  const nodes = [...nodesIn(statements)];
  for (const node of nodes) {
    if (node.kind === "name" || node.kind === "attribute") words.add(node.name);
    if (node.kind === "constant" && typeof node.value === "string") words.add(node.value);
  }
  return { words, iteratesContent: iteratesContent(nodes) };
}

type Node = Statement | Expression;

/** All statements and expressions, outer ones first. */
function* nodesIn(value: unknown): Iterable<Node> {
  const open: unknown[] = [value];
  while (open.length > 0) {
    const next = open.pop();
    if (typeof next !== "object" || next === null) continue;
    if ("kind" in next) yield next as Node;
    for (const child of Object.values(next).reverse()) open.push(child);
  }
}

/** Stands among names for the content of a message itself. */
const CONTENT = Symbol("content");
type Source = string | typeof CONTENT;

/** A name counts as content when a `set` gives it content, or a macro is called with content in its place. */
function iteratesContent(nodes: Node[]): boolean {
  const macros = new Map<string, string[]>();
  for (const node of nodes) if (node.kind === "macro") macros.set(node.name, node.signature.parameters);
  const names = new Map<Source, string[]>();
  const flows = (from: Expression, to: string) => {
    for (const source of sourcesOf(from)) {
      const known = names.get(source);
      if (known === undefined) names.set(source, [to]);
      else known.push(to);
    }
  };
  for (const node of nodes) {
    if (node.kind === "set" && node.target.kind === "name") flows(node.value, node.target.name);
    if (node.kind === "call" && "callee" in node && node.callee.kind === "name") {
      passedTo(macros.get(node.callee.name) ?? [], node.arguments, flows);
    }
  }
  const content = new Set<Source>([CONTENT]);
  // A set that grows while it is walked: what was added is walked as well.
  for (const source of content) for (const name of names.get(source) ?? []) content.add(name);
  return nodes.some((node) => node.kind === "for" && sourcesOf(node.iterable).some((source) => content.has(source)));
}

/** The variables, or the content, that an expression is or takes its value from. */
function sourcesOf(expression: Expression): Source[] {
  switch (expression.kind) {
    case "name":
      return [expression.name];
    case "attribute":
      return expression.name === "content" ? [CONTENT] : [];
    case "item":
      if (expression.index.kind === "slice") return sourcesOf(expression.object);
      return expression.index.kind === "constant" && expression.index.value === "content" ? [CONTENT] : [];
    case "filter":
      return sourcesOf(expression.value);
    case "conditional":
      return [
        ...sourcesOf(expression.value),
        ...(expression.otherwise === null ? [] : sourcesOf(expression.otherwise)),
      ];
    default:
      return [];
  }
}

function passedTo(parameters: string[], given: CallArguments, flows: (from: Expression, to: string) => void): void {
  for (const [index, value] of given.positional.entries()) {
    const parameter = parameters[index];
    if (parameter !== undefined) flows(value, parameter);
  }
  for (const { name, value } of given.named) flows(value, name);
}
