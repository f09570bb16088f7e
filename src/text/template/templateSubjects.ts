// What a template speaks of, read from its syntax: names, roles, and whether it takes contents apart.

import type { CallArguments, Expression, Statement, Target } from "./syntax.js";

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
    open.push(...Object.values(next).reverse());
  }
}

/** A name counts as content when a `set` gives it content, or a macro is called with content in its place. */
function iteratesContent(nodes: Node[]): boolean {
  const aliases = new Set<string>();
  const isContent = (expression: Expression): boolean => {
    switch (expression.kind) {
      case "name":
        return aliases.has(expression.name);
      case "attribute":
        return expression.name === "content";
      case "item":
        if (expression.index.kind === "slice") return isContent(expression.object);
        return expression.index.kind === "constant" && expression.index.value === "content";
      case "filter":
        return isContent(expression.value);
      case "conditional":
        return isContent(expression.value) || (expression.otherwise !== null && isContent(expression.otherwise));
      default:
        return false;
    }
  };
  const macros = new Map<string, string[]>();
  for (const node of nodes) if (node.kind === "macro") macros.set(node.name, node.signature.parameters);
  for (let known = -1; known < aliases.size; ) {
    known = aliases.size;
    for (const node of nodes) {
      if (node.kind === "set" && isContent(node.value)) addName(aliases, node.target);
      if (node.kind === "call" && "callee" in node && node.callee.kind === "name") {
        addParameters(aliases, macros.get(node.callee.name) ?? [], node.arguments, isContent);
      }
    }
  }
  return nodes.some((node) => node.kind === "for" && isContent(node.iterable));
}

function addName(aliases: Set<string>, target: Target): void {
  if (target.kind === "name") aliases.add(target.name);
}

function addParameters(
  aliases: Set<string>,
  parameters: string[],
  given: CallArguments,
  isContent: (expression: Expression) => boolean,
): void {
  for (const [index, value] of given.positional.entries()) {
    const parameter = parameters[index];
    if (parameter !== undefined && isContent(value)) aliases.add(parameter);
  }
  for (const { name, value } of given.named) if (isContent(value)) aliases.add(name);
}
