// One rendering of a template: its statements, run in order.

import type { Expression, FilterCall, Statement, Target } from "./ast.js";
import { type Budget, budget } from "./budget.js";
import { TemplateError } from "./errors.js";
import { callValue, evaluate, evaluateArguments, filtered, type Lookup } from "./evaluate.js";
import { LoopContext, Macro, setParameters } from "./globals.js";
import { textOfValue } from "./printing.js";
import { itemsOf, iterate, Namespace, PythonError, raise, truth, Undefined, type Value } from "./values.js";

type Of<Kind extends Statement["kind"]> = Extract<Statement, { kind: Kind }>;

/** A loop around the statement that runs. */
interface RunningLoop {
  /** The rest of this turn is skipped. */
  interrupted: boolean;
  /** All further turns are skipped. */
  left: boolean;
}

/** Longest reason of an error: it may quote values and texts of the template. */
const MAX_REASON = 10_000;

function clipped(reason: string): string {
  return reason.length <= MAX_REASON ? reason : `${reason.slice(0, MAX_REASON)}...`;
}

/** What a turn of a loop costs beside its body: a scope of its own. */
const STEPS_PER_TURN = 4;
/** What printing a value costs beside making it. */
const STEPS_PER_PRINT = 2;

export class Rendering {
  private scope: Scope;
  private readonly loops: RunningLoop[] = [];
  private line = 1;
  private readonly budget: Budget = budget();
  private readonly lookup: Lookup;

  constructor(
    private readonly statements: readonly Statement[],
    variables: Map<string, Value>,
    globals: Map<string, Value>,
  ) {
    this.scope = new Scope(null);
    for (const [name, value] of variables) this.scope.set(name, value);
    this.lookup = (name) => {
      const own = this.scope.get(name);
      const value = own === undefined ? globals.get(name) : own;
      return value === undefined ? new Undefined(`'${name}' is undefined`) : value;
    };
  }

  /** The template's text. Throws TemplateError. */
  run(): string {
    try {
      return this.whole(() => this.body(this.statements));
    } catch (error) {
      throw this.asTemplateError(error);
    }
  }

  private asTemplateError(error: unknown): TemplateError {
    if (error instanceof TemplateError) {
      return new TemplateError(error.kind, clipped(error.reason), error.line ?? this.line);
    }
    if (error instanceof PythonError) {
      return new TemplateError("runtime", clipped(`${error.type}: ${error.message}`), this.line);
    }
    // The JavaScript stack ends before the budget's depth does when expressions are nested deeply as well.
    if (error instanceof RangeError) return new TemplateError("budget", "the template nests too deeply", this.line);
    throw error;
  }

  private evaluate(expression: Expression): Value {
    return evaluate(expression, this.lookup);
  }

  /** A text that is made apart from the one around it, and counted as one. */
  private whole(make: () => string): string {
    const text = make();
    this.budget.text(text.length);
    return text;
  }

  /** The text of statements, up to one that ends the turn of the loop around them. */
  private body(statements: readonly Statement[]): string {
    const loop = this.loops.at(-1);
    let text = "";
    for (const statement of statements) {
      text += this.statement(statement);
      if (loop?.interrupted) break;
    }
    return text;
  }

  private statement(statement: Statement): string {
    if ("line" in statement) this.line = statement.line;
    switch (statement.kind) {
      case "text":
        return this.counted(statement.text);
      case "print":
        this.budget.step(STEPS_PER_PRINT);
        return this.counted(textOfValue(this.evaluate(statement.value)));
      case "if":
        return this.branch(statement);
      case "for":
        return statement.recursive
          ? this.recursion(statement, this.scope)(this.evaluate(statement.iterable), 0)
          : this.loop(statement, this.evaluate(statement.iterable), 0);
      case "set":
        this.scope.assign(statement.target, this.evaluate(statement.value));
        return "";
      case "setBlock":
        this.scope.assign(statement.target, this.captured(statement.body, statement.filters));
        return "";
      case "filterBlock":
        return textOfValue(this.captured(statement.body, statement.filters));
      case "generation":
        return textOfValue(this.captured(statement.body, []));
      case "macro":
        this.scope.set(statement.name, this.macro(statement.name, statement));
        return "";
      case "call":
        return this.callWithBody(statement.call, this.macro("caller", statement));
      case "with": {
        const values = statement.values.map((value) => this.evaluate(value));
        return this.inOwnScope(() => {
          for (const [index, target] of statement.targets.entries()) this.scope.assign(target, values[index]!);
          return this.body(statement.body);
        });
      }
      case "break":
      case "continue": {
        const loop = this.loops.at(-1)!;
        loop.interrupted = true;
        loop.left = statement.kind === "break";
        return "";
      }
    }
  }

  private counted(text: string): string {
    this.budget.text(text.length);
    return text;
  }

  private branch({ branches, otherwise }: Of<"if">): string {
    for (const { test, body, line } of branches) {
      this.line = line;
      if (truth(this.evaluate(test))) return this.body(body);
    }
    return this.body(otherwise);
  }

  private loop(statement: Of<"for">, iterable: Value, depth: number): string {
    this.line = statement.line;
    const outer = this.scope;
    const items = Array.from(iterate(iterable)).filter((item) => this.keeps(statement, item));
    const again = statement.recursive ? this.recursion(statement, outer) : null;
    const context = new LoopContext(items, depth, again);
    const running: RunningLoop = { interrupted: false, left: false };
    this.loops.push(running);
    let text = "";
    for (const [index, item] of items.entries()) {
      if (running.left) break;
      this.budget.step(STEPS_PER_TURN);
      running.interrupted = false;
      context.index = index;
      this.scope = new Scope(outer);
      this.scope.set("loop", context);
      this.scope.assign(statement.target, item);
      text += this.body(statement.body);
    }
    this.loops.pop();
    this.scope = outer;
    return items.length > 0 ? text : this.inOwnScope(() => this.body(statement.otherwise));
  }

  private keeps({ target, filter }: Of<"for">, item: Value): boolean {
    if (filter === null) return true;
    return this.inOwnScope(() => {
      this.scope.assign(target, item);
      return truth(this.evaluate(filter));
    });
  }

  private inOwnScope<T>(run: () => T): T {
    const outer = this.scope;
    this.scope = new Scope(outer);
    const result = run();
    this.scope = outer;
    return result;
  }

  /** Runs in a scope of its own, one level deeper; the scope now in force comes back afterwards. */
  private inScope<T>(scope: Scope, run: () => T): T {
    return this.budget.nested(() => {
      const outer = this.scope;
      this.scope = scope;
      const result = run();
      this.scope = outer;
      return result;
    });
  }

  private captured(body: readonly Statement[], filters: FilterCall[]): Value {
    const text: Value = this.inScope(new Scope(this.scope), () => this.whole(() => this.body(body)));
    return filters.reduce<Value>((value, filter) => filtered(value, filter, this.lookup), text);
  }

  private recursion(statement: Of<"for">, scope: Scope): (iterable: Value, depth: number) => string {
    return (iterable, depth) => this.inScope(scope, () => this.whole(() => this.loop(statement, iterable, depth)));
  }

  private callWithBody(call: Expression & { kind: "call" }, caller: Macro): string {
    const callee = this.evaluate(call.callee);
    const given = evaluateArguments(call.arguments, this.lookup);
    given.named.set("caller", caller);
    return textOfValue(callValue(callee, given));
  }

  /** A macro sees the variables around its definition, not those around its call. */
  private macro(name: string, { signature, uses, body }: Of<"macro" | "call">): Macro {
    const entry = { name, signature, uses };
    const definition = this.scope;
    return new Macro(entry, (given) => {
      const scope = new Scope(definition);
      return this.inScope(scope, () => {
        const defaultOf = (index: number) => this.evaluate(signature.defaults[index]!);
        setParameters(entry, given, defaultOf, (parameter, value) => scope.set(parameter, value));
        return this.whole(() => this.body(body));
      });
    });
  }
}

/** Loops, `with` and captured blocks have scopes of their own; what they set is gone after them. */
export class Scope {
  private readonly variables = new Map<string, Value>();

  constructor(private readonly outer: Scope | null) {}

  get(name: string): Value | undefined {
    for (let scope: Scope | null = this; scope !== null; scope = scope.outer) {
      const value = scope.variables.get(name);
      if (value !== undefined) return value;
    }
    return undefined;
  }

  set(name: string, value: Value): void {
    this.variables.set(name, value);
  }

  /** Assigns to a name, to a field of a namespace, or item by item to several. */
  assign(target: Target, value: Value): void {
    if (target.kind === "name") {
      this.set(target.name, value);
      return;
    }
    if (target.kind === "namespace") {
      const namespace = this.get(target.name);
      if (!(namespace instanceof Namespace)) {
        raise("TemplateRuntimeError", "cannot assign attribute on non-namespace object");
      }
      namespace.fields.set(target.attribute, value);
      return;
    }
    const items = itemsOf(value);
    const expected = target.items.length;
    if (items.length > expected) raise("ValueError", `too many values to unpack (expected ${expected})`);
    if (items.length < expected) {
      raise("ValueError", `not enough values to unpack (expected ${expected}, got ${items.length})`);
    }
    for (const [index, inner] of target.items.entries()) this.assign(inner, items[index]!);
  }
}
