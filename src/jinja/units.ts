// Units of a program as nunjucks has them: its syntax trees, made here and not parsed, and compiled.

import nunjucks from "nunjucks";
import { TemplateError } from "./errors.js";

/** A node of nunjucks' syntax tree. */
export type Node = object;

type Make<Fields extends unknown[]> = new (line: number, column: number, ...fields: Fields) => Node;

/** What nunjucks exports beside what its types tell. */
const { nodes, compiler } = nunjucks as unknown as {
  nodes: {
    Root: Make<[children: Node[]]>;
    NodeList: Make<[children: Node[]]>;
    Output: Make<[children: Node[]]>;
    If: Make<[condition: Node, body: Node, otherwise: Node | null]>;
    For: Make<[values: Node, name: Node, body: Node, otherwise: null]>;
    FunCall: Make<[name: Node, parameters: Node]>;
    Symbol: Make<[name: string]>;
    Literal: Make<[value: number]>;
  };
  compiler: { Compiler: new (name?: string) => { compile(node: Node): void; getCode(): string } };
};
const Template = nunjucks.Template as unknown as new (
  code: { type: "code"; obj: object },
  environment: nunjucks.Environment,
) => nunjucks.Template;

export const block = (children: Node[]) => new nodes.NodeList(0, 0, children);
/** Prints a value. */
export const output = (value: Node) => new nodes.Output(0, 0, [value]);
/** Calls a function that the unit is rendered with, with a number or with nothing. */
export const call = (name: string, index?: number) => {
  const parameters = index === undefined ? [] : [new nodes.Literal(0, 0, index)];
  return new nodes.FunCall(0, 0, new nodes.Symbol(0, 0, name), block(parameters));
};
export const when = (condition: Node, body: Node, otherwise: Node | null = null) =>
  new nodes.If(0, 0, condition, body, otherwise);
export const forEach = (name: string, values: Node, body: Node) =>
  new nodes.For(0, 0, values, new nodes.Symbol(0, 0, name), body, null);

const ENVIRONMENT = new nunjucks.Environment(null, { autoescape: false });

/** A unit is well-formed by construction; what can fail is nunjucks' recursion, in thousands of `break` say. */
export function compiledUnit(unit: Node): nunjucks.Template {
  try {
    const compilation = new compiler.Compiler();
    compilation.compile(new nodes.Root(0, 0, [unit]));
    const code = new Function(compilation.getCode()) as () => object;
    return new Template({ type: "code", obj: code() }, ENVIRONMENT);
  } catch {
    throw new TemplateError("budget", "the template nests too deeply");
  }
}
