// One rendering of a template: what the calls in nunjucks' units do.

import type { Expression, FilterCall, Target } from "./ast.js";
import { type Budget, budget } from "./budget.js";
import { TemplateError } from "./errors.js";
import { callValue, evaluate, evaluateArguments, filtered, type Lookup } from "./evaluate.js";
import { LoopContext, Macro, setParameters } from "./globals.js";
import { textOfValue } from "./printing.js";
import type { Action, ExpressionEntry, LoopEntry, MacroEntry, Program, UnitCalls, Written } from "./program.js";
import { itemsOf, iterate, Namespace, PythonError, raise, truth, Undefined, type Value } from "./values.js";

interface RunningLoop {
  entry: LoopEntry;
  items: readonly Value[];
  context: LoopContext;
  /** The scope around the loop. */
  outer: Scope;
  /** The rest of this turn is skipped. */
  interrupted: boolean;
  /** All further turns are skipped. */
  left: boolean;
  /** A turn ran to its end: none that `continue` or `break` cut short counts. */
  finished: boolean;
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

/** A recursive loop about to begin over `iterable`. */
interface LoopCall {
  iterable: Value;
  depth: number;
}

/** Renders a unit of the program through nunjucks with these calls. */
export type UnitRenderer = (unit: number, calls: UnitCalls) => string;

export class Rendering {
  /** Nunjucks copies own fields only, so the calls are fields. */
  private readonly calls: UnitCalls = {
    write: (index) => this.write(index),
    test: (index) => this.test(index),
    act: (index) => this.act(index),
    loopTurns: (index) => this.loopTurns(index),
    loopNext: () => this.loopNext(),
    loopEnd: () => this.loopEnd(),
    running: () => !this.loops.at(-1)!.interrupted,
  };

  private scope: Scope;
  private readonly loops: RunningLoop[] = [];
  private loopCall: LoopCall | null = null;
  private line = 1;
  private readonly budget: Budget = budget();
  private readonly lookup: Lookup;
  /** Nunjucks wraps what is thrown; this is the error itself. */
  private failure: unknown = null;

  constructor(
    private readonly program: Program,
    private readonly renderUnit: UnitRenderer,
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
      return this.unit(0);
    } catch (error) {
      throw this.asTemplateError(this.failure ?? error);
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

  private guarded<T>(run: () => T): T {
    try {
      return run();
    } catch (error) {
      this.failure ??= error;
      throw error;
    }
  }

  private unit(index: number): string {
    const text = this.renderUnit(index, this.calls);
    this.budget.text(text.length);
    return text;
  }

  private evaluate(expression: Expression): Value {
    return evaluate(expression, this.lookup);
  }

  // The calls in the units.

  private write(index: number): string {
    return this.guarded(() => this.program.writings[index]!.map((part) => this.written(part)).join(""));
  }

  private written(part: Written): string {
    const text = typeof part === "string" ? part : this.printed(part);
    this.budget.text(text.length);
    return text;
  }

  private printed({ expression, line }: ExpressionEntry): string {
    this.line = line;
    this.budget.step(STEPS_PER_PRINT);
    return textOfValue(this.evaluate(expression));
  }

  private test(index: number): boolean {
    const { expression, line } = this.program.expressions[index]!;
    return this.guarded(() => {
      this.line = line;
      return truth(this.evaluate(expression));
    });
  }

  private loopTurns(index: number): unknown[] {
    const entry = this.program.loops[index]!;
    return this.guarded(() => {
      this.line = entry.line;
      const call = this.loopCall;
      this.loopCall = null;
      const iterable = call === null ? this.evaluate(entry.iterable) : call.iterable;
      const items = Array.from(iterate(iterable)).filter((item) => this.keeps(entry, item));
      const depth = call?.depth ?? 0;
      const again = entry.unit === null ? null : this.recursion(entry.unit, this.scope);
      const context = new LoopContext(items, depth, again);
      this.loops.push({ entry, items, context, outer: this.scope, interrupted: false, left: false, finished: false });
      return items as unknown[];
    });
  }

  private loopNext(): boolean {
    const loop = this.loops.at(-1)!;
    if (loop.left) return false;
    return this.guarded(() => {
      this.budget.step(STEPS_PER_TURN);
      endTurn(loop);
      loop.interrupted = false;
      loop.context.index++;
      this.scope = new Scope(loop.outer);
      this.scope.set("loop", loop.context);
      this.scope.assign(loop.entry.target, loop.items[loop.context.index]!);
      return true;
    });
  }

  private loopEnd(): boolean {
    const loop = this.loops.pop()!;
    this.scope = loop.outer;
    endTurn(loop);
    return !loop.finished;
  }

  private act(index: number): string {
    const action = this.program.actions[index]!;
    return this.guarded(() => {
      this.line = action.line;
      return this.perform(action);
    });
  }

  // What the calls need.

  private perform(action: Action): string {
    switch (action.kind) {
      case "set":
        this.scope.assign(action.target, this.evaluate(action.value));
        return "";
      case "setBlock":
        this.scope.assign(action.target, this.captured(action.unit, action.filters));
        return "";
      case "filterBlock":
        return textOfValue(this.captured(action.unit, action.filters));
      case "generation":
        return textOfValue(this.captured(action.unit, []));
      case "macro":
        this.scope.set(action.macro.name, this.macro(action.macro));
        return "";
      case "call":
        return this.callWithBody(action.call, this.macro(action.caller));
      case "recursiveLoop": {
        const loop = this.program.loops[action.loop]!;
        return this.recursion(loop.unit!, this.scope)(this.evaluate(loop.iterable), 0);
      }
      case "enter": {
        const values = action.values.map((value) => this.evaluate(value));
        this.scope = new Scope(this.scope);
        for (const [index, target] of action.targets.entries()) this.scope.assign(target, values[index]!);
        return "";
      }
      case "leave":
        this.scope = this.scope.parent();
        return "";
      case "interrupt": {
        const loop = this.loops.at(-1)!;
        loop.interrupted = true;
        loop.left = action.leavesLoop;
        return "";
      }
    }
  }

  private keeps(entry: LoopEntry, item: Value): boolean {
    if (entry.filter === null) return true;
    const outer = this.scope;
    this.scope = new Scope(outer);
    this.scope.assign(entry.target, item);
    const kept = truth(this.evaluate(entry.filter));
    this.scope = outer;
    return kept;
  }

  /** Renders a unit in a scope of its own inside `parent`; the scope now in force comes back afterwards. */
  private inScope<T>(scope: Scope, run: () => T): T {
    return this.budget.nested(() => {
      const outer = this.scope;
      this.scope = scope;
      const result = run();
      this.scope = outer;
      return result;
    });
  }

  private captured(unit: number, filters: FilterCall[]): Value {
    const text: Value = this.inScope(new Scope(this.scope), () => this.unit(unit));
    return filters.reduce<Value>((value, filter) => filtered(value, filter, this.lookup), text);
  }

  private recursion(unit: number, scope: Scope): (iterable: Value, depth: number) => string {
    return (iterable, depth) =>
      this.inScope(scope, () => {
        this.loopCall = { iterable, depth };
        return this.unit(unit);
      });
  }

  private callWithBody(call: Expression & { kind: "call" }, caller: Macro): string {
    const callee = this.evaluate(call.callee);
    const given = evaluateArguments(call.arguments, this.lookup);
    given.named.set("caller", caller);
    return textOfValue(callValue(callee, given));
  }

  /** A macro sees the variables around its definition, not those around its call. */
  private macro(entry: MacroEntry): Macro {
    const definition = this.scope;
    return new Macro(entry, (given) => {
      const scope = new Scope(definition);
      return this.inScope(scope, () => {
        const defaultOf = (index: number) => this.evaluate(entry.signature.defaults[index]!);
        setParameters(entry, given, defaultOf, (name, value) => scope.set(name, value));
        return this.unit(entry.unit);
      });
    });
  }
}

/** Of the turn that the loop is at, if it has begun. */
function endTurn(loop: RunningLoop): void {
  if (loop.context.index >= 0 && !loop.interrupted) loop.finished = true;
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

  parent(): Scope {
    return this.outer ?? this;
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
