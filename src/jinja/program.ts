// A parsed template as a program for nunjucks: syntax trees of fixed calls with numbers, and the tables that the
// numbers point into. No text of the template is in what nunjucks compiles.

import type { Expression, FilterCall, Signature, SpecialNames, Statement, Target } from "./ast.js";
import { block, call, forEach, type Node, output, when } from "./units.js";

/** An expression to print or to test. */
export interface ExpressionEntry {
  expression: Expression;
  line: number;
}

/** Text of the template, or an expression to print. */
export type Written = string | ExpressionEntry;

export interface LoopEntry {
  target: Target;
  iterable: Expression;
  filter: Expression | null;
  /** The unit that is this loop, when it is recursive. */
  unit: number | null;
  line: number;
}

export interface MacroEntry {
  name: string;
  signature: Signature;
  unit: number;
  uses: SpecialNames;
}

/** A statement that only changes variables, or prints what a unit or a call gives. */
export type Action = { line: number } & (
  | { kind: "set"; target: Target; value: Expression }
  | { kind: "setBlock"; target: Target; filters: FilterCall[]; unit: number }
  | { kind: "filterBlock"; filters: FilterCall[]; unit: number }
  | { kind: "macro"; macro: MacroEntry }
  | { kind: "call"; call: Expression & { kind: "call" }; caller: MacroEntry }
  | { kind: "generation"; unit: number }
  | { kind: "recursiveLoop"; loop: number }
  | { kind: "enter"; targets: Target[]; values: Expression[] }
  | { kind: "leave" }
  | { kind: "interrupt"; leavesLoop: boolean }
);

export interface Program {
  /** What is written in one go. */
  writings: Written[][];
  /** What is tested. */
  expressions: ExpressionEntry[];
  loops: LoopEntry[];
  actions: Action[];
  /** Blocks for nunjucks. Unit 0 is the template, the others are bodies that are rendered by themselves. */
  units: Node[];
}

/** The calls that units are made of. */
export interface UnitCalls {
  /** Text of the template and values of expressions as text. */
  write(index: number): string;
  /** Whether an expression is true. */
  test(index: number): boolean;
  /** Runs an action; gives what it prints. */
  act(index: number): string;
  /** Begins a loop; gives an array with one element per turn. */
  loopTurns(index: number): unknown[];
  /** Begins the next turn; false when the loop was left. */
  loopNext(): boolean;
  /** Ends a loop; true when none of its turns ran to its end, which is when Jinja2 runs the `else`. */
  loopEnd(): boolean;
  /** Whether the rest of a loop's body is still to run. */
  running(): boolean;
}

export function programOf(statements: Statement[]): Program {
  const compiler = new Compiler();
  compiler.addUnit((unit) => compiler.body(statements, unit));
  return compiler.program;
}

class Compiler {
  readonly program: Program = { writings: [], expressions: [], loops: [], actions: [], units: [] };

  /** Reserves a unit before its body is compiled, so that the template itself is unit 0. */
  addUnit(body: (unit: number) => Node): number {
    const unit = this.program.units.push(block([])) - 1;
    this.program.units[unit] = body(unit);
    return unit;
  }

  /** After a statement that may leave the turn of a loop, the rest runs only while the turn goes on. */
  body(statements: Statement[], unit: number): Node {
    let nodes: Node[] = [];
    const around: Node[][] = [];
    let writing: Written[] | null = null;
    for (const [index, statement] of statements.entries()) {
      if (statement.kind === "text" || statement.kind === "print") {
        // All that stands together is one call: nunjucks takes its time for each.
        if (writing === null) {
          writing = [];
          nodes.push(output(call("write", this.program.writings.push(writing) - 1)));
        }
        writing.push(
          statement.kind === "text" ? statement.text : { expression: statement.value, line: statement.line },
        );
        continue;
      }
      writing = null;
      nodes.push(this.statement(statement, unit));
      if (mayInterrupt(statement) && index < statements.length - 1) {
        around.push(nodes);
        nodes = [];
      }
    }
    for (const before of around.reverse()) {
      before.push(when(call("running"), block(nodes)));
      nodes = before;
    }
    return block(nodes);
  }

  private expression(expression: Expression, line: number): number {
    return this.program.expressions.push({ expression, line }) - 1;
  }

  private action(action: Action): Node {
    return output(call("act", this.program.actions.push(action) - 1));
  }

  private unitOf(body: Statement[]): number {
    return this.addUnit((unit) => this.body(body, unit));
  }

  private macro(name: string, statement: Statement & { kind: "macro" | "call" }): MacroEntry {
    const { signature, uses, body } = statement;
    return { name, signature, uses, unit: this.unitOf(body) };
  }

  private statement(statement: Exclude<Statement, { kind: "text" | "print" }>, unit: number): Node {
    switch (statement.kind) {
      case "if":
        return this.ifStatement(statement, unit);
      case "for":
        return this.forStatement(statement, unit);
      case "set":
        return this.action(statement);
      case "setBlock":
      case "filterBlock":
      case "generation": {
        const { body, ...rest } = statement;
        return this.action({ ...rest, unit: this.unitOf(body) });
      }
      case "macro":
        return this.action({ kind: "macro", macro: this.macro(statement.name, statement), line: statement.line });
      case "call": {
        const { call, line } = statement;
        return this.action({ kind: "call", call, caller: this.macro("caller", statement), line });
      }
      case "with": {
        const { targets, values, body, line } = statement;
        const enter = this.action({ kind: "enter", targets, values, line });
        return block([enter, this.body(body, unit), this.action({ kind: "leave", line })]);
      }
      case "break":
      case "continue":
        return this.action({ kind: "interrupt", leavesLoop: statement.kind === "break", line: statement.line });
    }
  }

  private ifStatement({ branches, otherwise }: Statement & { kind: "if" }, unit: number): Node {
    const tests = branches.map(({ test, line }) => call("test", this.expression(test, line)));
    const bodies = branches.map(({ body }) => this.body(body, unit));
    const last = otherwise.length === 0 ? null : this.body(otherwise, unit);
    return tests.reduceRight<Node | null>((rest, test, index) => when(test, bodies[index]!, rest), last)!;
  }

  private forStatement(statement: Statement & { kind: "for" }, unit: number): Node {
    const { target, iterable, filter, line } = statement;
    const entry: LoopEntry = { target, iterable, filter, unit: null, line };
    const loop = this.program.loops.push(entry) - 1;
    if (!statement.recursive) return this.loop(loop, statement, unit);
    entry.unit = this.addUnit((own) => this.loop(loop, statement, own));
    return this.action({ kind: "recursiveLoop", loop, line });
  }

  private loop(index: number, statement: Statement & { kind: "for" }, unit: number): Node {
    const turn = when(call("loopNext"), this.body(statement.body, unit));
    const enter = this.action({ kind: "enter", targets: [], values: [], line: statement.line });
    const leave = this.action({ kind: "leave", line: statement.line });
    const otherwise = statement.otherwise.length === 0 ? [] : [enter, this.body(statement.otherwise, unit), leave];
    return block([forEach("turn", call("loopTurns", index), turn), when(call("loopEnd"), block(otherwise))]);
  }
}

/** Whether a statement may leave the turn of the loop around it. */
function mayInterrupt(statement: Statement): boolean {
  switch (statement.kind) {
    case "break":
    case "continue":
      return true;
    case "if":
      return [statement.otherwise, ...statement.branches.map(({ body }) => body)].some((body) =>
        body.some(mayInterrupt),
      );
    case "with":
      return statement.body.some(mayInterrupt);
    case "for":
      return statement.otherwise.some(mayInterrupt);
    default:
      return false;
  }
}
