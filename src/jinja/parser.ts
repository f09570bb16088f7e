// Jinja2's statements: what stands between `{%` and `%}`, and the bodies they enclose.

import type { FilterCall, Signature, SpecialNames, Statement, Target } from "./ast.js";
import { TemplateError } from "./errors.js";
import { ExpressionParser } from "./expressionParser.js";
import { tokenize } from "./lexer.js";

/** Longest template source, in UTF-16 code units; the largest in use have a few ten thousand. */
const MAX_SOURCE_LENGTH = 1 << 17;

/** Most branches of one `if`; they nest in what nunjucks makes of them. */
const MAX_BRANCHES = 50;

/** Throws TemplateError of kind "syntax" with the line at fault. */
export function parseTemplate(source: string): Statement[] {
  if (source.length > MAX_SOURCE_LENGTH) {
    throw new TemplateError("budget", `the template is longer than ${MAX_SOURCE_LENGTH} characters`);
  }
  return new StatementParser(tokenize(source)).template();
}

class StatementParser extends ExpressionParser {
  /** Loops around the current statement inside the innermost macro or captured block: what `break` may leave. */
  private loopDepth = 0;

  template(): Statement[] {
    const statements = this.body([]);
    if (!this.at("end")) this.fail(`unexpected ${this.describe(this.current)}`);
    return statements;
  }

  /** Statements up to one of the tags in `ends`, whose name is then the current token. */
  private body(ends: string[]): Statement[] {
    return this.nested(() => {
      const statements: Statement[] = [];
      for (;;) {
        const token = this.current;
        if (token.kind === "text") {
          statements.push({ kind: "text", text: this.next().value });
        } else if (this.skip("printStart")) {
          statements.push({ kind: "print", value: this.tupleOrExpression({ conditional: true }), line: token.line });
          this.expect("printEnd");
        } else if (token.kind === "tagStart") {
          this.next();
          if (this.at("name") && ends.includes(this.current.value)) return statements;
          statements.push(...this.statement());
          this.expect("tagEnd");
        } else {
          if (ends.length > 0) this.fail(`expected '${ends.join("' or '")}', got ${this.describe(token)}`);
          return statements;
        }
      }
    });
  }

  /** The body of a tag, from the end of the tag to before the end of the closing tag. */
  private enclosed(end: string): Statement[] {
    this.expect("tagEnd");
    const body = this.body([end]);
    this.next();
    return body;
  }

  /** A body that runs on its own, where an outer loop cannot be left. */
  private captured(end: string): Statement[] {
    const outer = this.loopDepth;
    this.loopDepth = 0;
    const body = this.enclosed(end);
    this.loopDepth = outer;
    return body;
  }

  private macroBody(end: string): { body: Statement[]; uses: SpecialNames } {
    const outer = this.namesRead;
    this.namesRead = new Set();
    const body = this.captured(end);
    const uses = {
      caller: this.namesRead.has("caller"),
      varargs: this.namesRead.has("varargs"),
      kwargs: this.namesRead.has("kwargs"),
    };
    for (const name of this.namesRead) outer.add(name);
    this.namesRead = outer;
    return { body, uses };
  }

  private statement(): Statement[] {
    const tag = this.next();
    const line = tag.line;
    if (tag.kind !== "name") this.fail(`expected a tag name, got ${this.describe(tag)}`, line);
    switch (tag.value) {
      case "if":
        return [this.ifStatement(line)];
      case "for":
        return [this.forStatement(line)];
      case "set":
        return [this.setStatement(line)];
      case "macro":
        return [this.macroStatement(line)];
      case "call":
        return [this.callStatement(line)];
      case "filter": {
        const filters = [this.filterCall(), ...this.filterChain()];
        return [{ kind: "filterBlock", filters, body: this.captured("endfilter"), line }];
      }
      case "with":
        return [this.withStatement(line)];
      case "generation":
        return [{ kind: "generation", body: this.captured("endgeneration"), line }];
      case "break":
      case "continue":
        if (this.loopDepth === 0) this.fail(`'${tag.value}' outside of a loop`, line);
        return [{ kind: tag.value, line }];
      case "print":
        return this.printStatement(line);
      default:
        return this.fail(`unknown tag '${tag.value}'`, line);
    }
  }

  private ifStatement(line: number): Statement {
    const branches: (Statement & { kind: "if" })["branches"] = [];
    let branchLine = line;
    for (;;) {
      const test = this.tupleOrExpression({ conditional: false });
      this.expect("tagEnd");
      if (branches.length === MAX_BRANCHES) this.fail(`more than ${MAX_BRANCHES} branches`);
      branches.push({ test, body: this.body(["elif", "else", "endif"]), line: branchLine });
      const tag = this.next();
      branchLine = tag.line;
      if (tag.value === "endif") return { kind: "if", branches, otherwise: [] };
      if (tag.value === "else") return { kind: "if", branches, otherwise: this.enclosed("endif") };
    }
  }

  private forStatement(line: number): Statement {
    const target = this.target();
    this.expect("name", "in");
    const iterable = this.tupleOrExpression({ conditional: false, stopAt: "recursive" });
    const filter = this.skip("name", "if") ? this.expression() : null;
    const recursive = this.skip("name", "recursive");
    this.expect("tagEnd");
    // The body of a recursive loop runs on its own for every call of `loop`; its own `break` still ends it.
    this.loopDepth++;
    const body = this.body(["endfor", "else"]);
    this.loopDepth--;
    const otherwise = this.next().value === "else" ? this.enclosed("endfor") : [];
    return { kind: "for", target, iterable, filter, recursive, body, otherwise, line };
  }

  private setStatement(line: number): Statement {
    const target = this.target(true);
    if (this.skip("operator", "=")) {
      return { kind: "set", target, value: this.tupleOrExpression({ conditional: true }), line };
    }
    const filters = this.filterChain();
    return { kind: "setBlock", target, filters, body: this.captured("endset"), line };
  }

  private filterChain(): FilterCall[] {
    const filters: FilterCall[] = [];
    while (this.skip("operator", "|")) filters.push(this.filterCall());
    return filters;
  }

  private macroStatement(line: number): Statement {
    const name = this.identifier();
    const signature = this.signature();
    return { kind: "macro", name, signature, ...this.macroBody("endmacro"), line };
  }

  private callStatement(line: number): Statement {
    const signature = this.atOperator("(") ? this.signature() : { parameters: [], defaults: [] };
    const call = this.expression();
    if (call.kind !== "call") return this.fail("expected the call of a macro", line);
    return { kind: "call", signature, call, ...this.macroBody("endcall"), line };
  }

  private withStatement(line: number): Statement {
    const targets: Target[] = [];
    const values = [];
    while (!this.at("tagEnd")) {
      if (targets.length > 0) this.expect("operator", ",");
      targets.push(this.target());
      this.expect("operator", "=");
      values.push(this.expression());
    }
    return { kind: "with", targets, values, body: this.enclosed("endwith"), line };
  }

  private printStatement(line: number): Statement[] {
    const prints: Statement[] = [];
    while (!this.at("tagEnd")) {
      if (prints.length > 0) this.expect("operator", ",");
      prints.push({ kind: "print", value: this.expression(), line });
    }
    return prints;
  }

  private identifier(): string {
    const token = this.expect("name");
    if (/^([Tt]rue|[Ff]alse|[Nn]one)$/.test(token.value)) this.fail(`'${token.value}' is no variable`, token.line);
    return token.value;
  }

  /** One name, or several with commas; `allowNamespace` admits `ns.x`. */
  private target(allowNamespace = false): Target {
    const first = this.singleTarget(allowNamespace);
    if (!this.atOperator(",")) return first;
    const items = [first];
    while (this.skip("operator", ",")) items.push(this.singleTarget(allowNamespace));
    return { kind: "tuple", items };
  }

  private singleTarget(allowNamespace: boolean): Target {
    if (this.skip("operator", "(")) {
      const inner = this.nested(() => this.target(allowNamespace));
      this.expect("operator", ")");
      return inner;
    }
    const name = this.identifier();
    if (allowNamespace && this.skip("operator", ".")) {
      return { kind: "namespace", name, attribute: this.expect("name").value };
    }
    return { kind: "name", name };
  }

  private signature(): Signature {
    this.expect("operator", "(");
    const signature: Signature = { parameters: [], defaults: [] };
    this.separated(")", () => {
      signature.parameters.push(this.identifier());
      if (this.skip("operator", "=")) signature.defaults.push(this.expression());
      else if (signature.defaults.length > 0) this.fail("a parameter without a default follows one with");
    });
    return signature;
  }
}
