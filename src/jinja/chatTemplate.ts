// A chat template: Jinja2 source in, rendered text out.

import { createHash } from "node:crypto";
import type nunjucks from "nunjucks";
import type { CallArguments, Expression, Statement } from "./ast.js";
import { DEFAULT_LIMITS, type TemplateLimits, withBudget } from "./budget.js";
import { globalFunctions } from "./globals.js";
import { fromJavaScript, type TemplateInput } from "./input.js";
import { parseTemplate } from "./parser.js";
import { type Program, programOf } from "./program.js";
import { Rendering } from "./rendering.js";
import { compiledUnit } from "./units.js";

export interface RenderOptions {
  /** What `strftime_now` shows. Default: now. */
  now?: Date;
  limits?: Partial<TemplateLimits>;
}

/** Templates kept compiled; requests may bring their own, so the least recently used go first. */
const MAX_COMPILED_TEMPLATES = 64;
const cache = new Map<string, ChatTemplate>();

/**
 * Compiles a template as transformers does: `trim_blocks` and `lstrip_blocks`, loop controls, `{% generation %}`,
 * `tojson`, `raise_exception`, `strftime_now`, and a sandbox that can change no input. Compiled templates are kept by
 * the hash of their source. Throws TemplateError of kind "syntax".
 */
export function compileChatTemplate(source: string): ChatTemplate {
  const hash = createHash("sha256").update(source).digest("base64");
  const template = cache.get(hash) ?? new ChatTemplate(source);
  cache.delete(hash);
  cache.set(hash, template);
  if (cache.size > MAX_COMPILED_TEMPLATES) cache.delete(cache.keys().next().value!);
  return template;
}

export class ChatTemplate {
  /** Whether the template iterates over a message's content, and so wants a list of typed parts. */
  readonly usesContentParts: boolean;

  private readonly program: Program;
  private readonly units: nunjucks.Template[];
  private readonly subjects: TemplateSubjects;

  constructor(readonly source: string) {
    const statements = parseTemplate(source);
    this.subjects = subjectsOf(statements);
    this.program = programOf(statements);
    this.units = this.program.units.map(compiledUnit);
    this.usesContentParts = this.subjects.iteratesContent;
  }

  /** Whether the template's code has `word` as a variable, attribute or key, or as a whole text ("developer"). */
  mentions(word: string): boolean {
    return this.subjects.words.has(word);
  }

  /** Whether the template's code has a variable of that name. */
  reads(variable: string): boolean {
    return this.subjects.variables.has(variable);
  }

  /**
   * The text for `variables`. Throws TemplateError: "raised" with the template's own words, "runtime" for what Python
   * would refuse, "budget" for a template that asks for too much.
   */
  render(variables: Record<string, TemplateInput>, options: RenderOptions = {}): string {
    return withBudget({ ...DEFAULT_LIMITS, ...options.limits }, () => {
      const values = new Map(
        Object.entries(variables)
          .filter(([, value]) => value !== undefined)
          .map(([name, value]) => [name, fromJavaScript(value, name)]),
      );
      const globals = globalFunctions(options.now ?? new Date());
      const rendering = new Rendering(this.program, (unit, calls) => this.units[unit]!.render(calls), values, globals);
      return rendering.run();
    });
  }
}

export interface TemplateSubjects {
  /** Every variable, attribute, key and text in the template's code. */
  words: ReadonlySet<string>;
  /** Of these, the variables. */
  variables: ReadonlySet<string>;
  /** Whether it iterates over a message's content, and so wants a list of parts. */
  iteratesContent: boolean;
}

export function subjectsOf(statements: Statement[]): TemplateSubjects {
  const words = new Set<string>();
  const variables = new Set<string>();
  const nodes = [...nodesIn(statements)];
  for (const node of nodes) {
    if (node.kind === "name" || node.kind === "attribute") words.add(node.name);
    if (node.kind === "name") variables.add(node.name);
    if (node.kind === "constant" && typeof node.value === "string") words.add(node.value);
  }
  return { words, variables, iteratesContent: iteratesContent(nodes) };
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
