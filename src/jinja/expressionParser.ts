// Jinja2's expression grammar over the tokens of one template, lowest precedence first.

import type {
  BinaryOperator,
  CallArguments,
  ComparisonOperator,
  Expression,
  FilterCall,
  SliceExpression,
} from "./ast.js";
import { TemplateError } from "./errors.js";
import type { Token, TokenKind } from "./lexer.js";

/** How deep expressions and statements may nest; real templates stay below 20. */
const MAX_DEPTH = 64;

/** Longest int, as Python 3.11 and later read it. */
const MAX_DIGITS = 4_300;

const COMPARISONS: ReadonlySet<string> = new Set(["==", "!=", "<", "<=", ">", ">="]);
const CONSTANTS = new Map<string, null | boolean>([
  ["true", true],
  ["True", true],
  ["false", false],
  ["False", false],
  ["none", null],
  ["None", null],
]);

const NO_ARGUMENTS: CallArguments = { positional: [], named: [], spread: null, spreadNamed: null };

export class ExpressionParser {
  /** All names that have been read as variables. */
  protected namesRead = new Set<string>();
  private position = 0;
  private depth = 0;

  constructor(private readonly tokens: Token[]) {}

  // Reading tokens.

  protected get current(): Token {
    return this.tokens[this.position]!;
  }

  protected peek(): Token {
    return this.tokens[Math.min(this.position + 1, this.tokens.length - 1)]!;
  }

  protected next(): Token {
    const token = this.current;
    if (token.kind !== "end") this.position++;
    return token;
  }

  protected fail(reason: string, line = this.current.line): never {
    throw new TemplateError("syntax", reason, line);
  }

  protected describe(token: Token): string {
    return token.kind === "end" ? "the end of the template" : `'${token.value || token.kind}'`;
  }

  protected at(kind: TokenKind, value?: string): boolean {
    return this.current.kind === kind && (value === undefined || this.current.value === value);
  }

  protected atOperator(value: string): boolean {
    return this.at("operator", value);
  }

  protected skip(kind: TokenKind, value?: string): boolean {
    if (!this.at(kind, value)) return false;
    this.position++;
    return true;
  }

  protected expect(kind: TokenKind, value?: string): Token {
    if (!this.at(kind, value)) this.fail(`expected '${value ?? kind}', got ${this.describe(this.current)}`);
    return this.next();
  }

  protected nested<T>(parse: () => T): T {
    if (++this.depth > MAX_DEPTH) this.fail(`nested deeper than ${MAX_DEPTH}`);
    const result = parse();
    this.depth--;
    return result;
  }

  // Expressions.

  expression(): Expression {
    return this.nested(() => {
      const line = this.current.line;
      let value = this.or();
      while (this.skip("name", "if")) {
        const test = this.or();
        const otherwise = this.skip("name", "else") ? this.expression() : null;
        value = { kind: "conditional", test, value, otherwise, line };
      }
      return value;
    });
  }

  /** `a, b` without parentheses; one expression without a comma is itself. `conditional` allows `x if y`. */
  tupleOrExpression(options: { conditional: boolean; empty?: boolean; stopAt?: string }): Expression {
    const items: Expression[] = [];
    let comma = false;
    const ended = () =>
      this.at("printEnd") ||
      this.at("tagEnd") ||
      this.atOperator(")") ||
      (options.stopAt !== undefined && this.at("name", options.stopAt));
    while (!ended()) {
      items.push(options.conditional ? this.expression() : this.or());
      if (!this.skip("operator", ",")) break;
      comma = true;
    }
    if (!comma && items.length === 1) return items[0]!;
    if (items.length === 0 && !options.empty) {
      this.fail(`expected an expression, got ${this.describe(this.current)}`);
    }
    return { kind: "tuple", items };
  }

  protected or(): Expression {
    let left = this.and();
    while (this.skip("name", "or")) left = { kind: "logical", operator: "or", left, right: this.and() };
    return left;
  }

  private and(): Expression {
    let left = this.not();
    while (this.skip("name", "and")) left = { kind: "logical", operator: "and", left, right: this.not() };
    return left;
  }

  private not(): Expression {
    if (!this.skip("name", "not")) return this.comparison();
    return this.nested(() => ({ kind: "unary", operator: "not", value: this.not() }));
  }

  private comparison(): Expression {
    const first = this.sum();
    const rest: { operator: ComparisonOperator; value: Expression }[] = [];
    for (;;) {
      const operator = this.comparisonOperator();
      if (operator === null) break;
      rest.push({ operator, value: this.sum() });
    }
    return rest.length === 0 ? first : { kind: "comparison", first, rest };
  }

  private comparisonOperator(): ComparisonOperator | null {
    if (this.at("operator") && COMPARISONS.has(this.current.value)) return this.next().value as ComparisonOperator;
    if (this.skip("name", "in")) return "in";
    if (this.at("name", "not") && this.peek().kind === "name" && this.peek().value === "in") {
      this.position += 2;
      return "not in";
    }
    return null;
  }

  private sum(): Expression {
    return this.leftAssociative(["+", "-"], () => this.concatenation());
  }

  private concatenation(): Expression {
    const values = [this.product()];
    while (this.skip("operator", "~")) values.push(this.product());
    return values.length === 1 ? values[0]! : { kind: "concatenation", values };
  }

  private product(): Expression {
    return this.leftAssociative(["*", "/", "//", "%"], () => this.power());
  }

  private power(): Expression {
    return this.leftAssociative(["**"], () => this.unary(true));
  }

  private leftAssociative(operators: BinaryOperator[], operand: () => Expression): Expression {
    let left = operand();
    for (;;) {
      const operator = operators.find((candidate) => this.atOperator(candidate));
      if (operator === undefined) return left;
      this.position++;
      left = { kind: "binary", operator, left, right: operand() };
    }
  }

  /** A filter binds weaker than a sign: `-1|abs` is 1. */
  private unary(withFilters: boolean): Expression {
    return this.nested(() => {
      let value: Expression;
      if (this.skip("operator", "-")) value = { kind: "unary", operator: "-", value: this.unary(false) };
      else if (this.skip("operator", "+")) value = { kind: "unary", operator: "+", value: this.unary(false) };
      else value = this.primary();
      value = this.postfix(value);
      return withFilters ? this.filtersAndTests(value) : value;
    });
  }

  private primary(): Expression {
    const token = this.next();
    switch (token.kind) {
      case "name": {
        const constant = CONSTANTS.get(token.value);
        this.namesRead.add(token.value);
        return constant === undefined ? { kind: "name", name: token.value } : { kind: "constant", value: constant };
      }
      case "string": {
        const parts = [token.value];
        while (this.at("string")) parts.push(this.next().value);
        return { kind: "constant", value: parts.join("") };
      }
      case "integer":
        return { kind: "integer", value: integerOf(token) };
      case "float":
        return { kind: "float", value: Number(token.value) };
      case "operator":
        if (token.value === "(") {
          const value = this.tupleOrExpression({ conditional: true, empty: true });
          this.expect("operator", ")");
          return value;
        }
        if (token.value === "[") return { kind: "list", items: this.separated("]", () => this.expression()) };
        if (token.value === "{") return { kind: "dict", entries: this.separated("}", () => this.dictEntry()) };
        break;
      default:
    }
    return this.fail(`unexpected ${this.describe(token)}`, token.line);
  }

  private dictEntry(): { key: Expression; value: Expression } {
    const key = this.expression();
    this.expect("operator", ":");
    return { key, value: this.expression() };
  }

  /** Items up to `closing`, with a comma between them and perhaps one after the last. */
  protected separated<T>(closing: string, item: () => T): T[] {
    const items: T[] = [];
    while (!this.atOperator(closing)) {
      items.push(item());
      if (!this.skip("operator", ",")) break;
    }
    this.expect("operator", closing);
    return items;
  }

  private postfix(start: Expression): Expression {
    let value = start;
    for (;;) {
      if (this.skip("operator", ".")) value = this.attribute(value);
      else if (this.skip("operator", "[")) value = this.subscript(value);
      else if (this.atOperator("(")) value = { kind: "call", callee: value, arguments: this.callArguments() };
      else return value;
    }
  }

  private filtersAndTests(start: Expression): Expression {
    let value = start;
    for (;;) {
      if (this.skip("operator", "|")) value = { kind: "filter", value, filter: this.filterCall() };
      else if (this.skip("name", "is")) value = this.test(value);
      else if (this.atOperator("(")) value = { kind: "call", callee: value, arguments: this.callArguments() };
      else return value;
    }
  }

  private attribute(object: Expression): Expression {
    const token = this.next();
    if (token.kind === "name") return { kind: "attribute", object, name: token.value };
    if (token.kind === "integer") {
      return { kind: "item", object, index: { kind: "integer", value: integerOf(token) } };
    }
    return this.fail("expected a name or a number after '.'", token.line);
  }

  private subscript(object: Expression): Expression {
    const first = this.subscriptPart();
    if (!this.atOperator(",")) {
      this.expect("operator", "]");
      return { kind: "item", object, index: first };
    }
    const items = [first];
    while (this.skip("operator", ",")) items.push(this.subscriptPart());
    this.expect("operator", "]");
    const keys = items.filter((item) => item.kind !== "slice");
    if (keys.length < items.length) this.fail("a slice cannot be part of a key");
    return { kind: "item", object, index: { kind: "tuple", items: keys } };
  }

  private subscriptPart(): Expression | SliceExpression {
    const part = () =>
      this.atOperator(":") || this.atOperator("]") || this.atOperator(",") ? null : this.expression();
    const start = part();
    if (!this.skip("operator", ":")) return start ?? this.fail("expected an index");
    const stop = part();
    const step = this.skip("operator", ":") ? part() : null;
    return { kind: "slice", start, stop, step };
  }

  protected callArguments(): CallArguments {
    this.expect("operator", "(");
    const result: CallArguments = { positional: [], named: [], spread: null, spreadNamed: null };
    this.separated(")", () => {
      if (this.skip("operator", "**")) result.spreadNamed = this.expression();
      else if (this.skip("operator", "*")) result.spread = this.expression();
      else if (this.at("name") && this.peek().kind === "operator" && this.peek().value === "=") {
        const name = this.next().value;
        this.next();
        result.named.push({ name, value: this.expression() });
      } else if (result.named.length > 0) this.fail("a positional argument follows a named one");
      else result.positional.push(this.expression());
    });
    return result;
  }

  protected filterCall(): FilterCall {
    const line = this.current.line;
    const name = this.dottedName();
    return { name, arguments: this.atOperator("(") ? this.callArguments() : NO_ARGUMENTS, line };
  }

  private dottedName(): string {
    let name = this.expect("name").value;
    while (this.skip("operator", ".")) name += `.${this.expect("name").value}`;
    return name;
  }

  /** `is [not] name`, with arguments in parentheses or one bare argument (`is divisibleby 3`). */
  private test(value: Expression): Expression {
    const negated = this.skip("name", "not");
    const name = this.dottedName();
    let given = NO_ARGUMENTS;
    if (this.atOperator("(")) {
      given = this.callArguments();
    } else if (this.startsTestArgument()) {
      if (this.at("name", "is")) this.fail("tests cannot be chained with 'is'");
      given = { ...NO_ARGUMENTS, positional: [this.postfix(this.primary())] };
    }
    return { kind: "test", value, name, negated, arguments: given };
  }

  private startsTestArgument(): boolean {
    const { kind, value } = this.current;
    if (kind === "name") return value !== "else" && value !== "or" && value !== "and";
    if (kind === "operator") return value === "[" || value === "{";
    return kind === "string" || kind === "integer" || kind === "float";
  }
}

/** An int within 2^53 is a number, beyond it a bigint. */
function integerOf({ value: digits, line }: Token): number | bigint {
  if (digits.length > MAX_DIGITS) throw new TemplateError("syntax", `an int of more than ${MAX_DIGITS} digits`, line);
  const value = Number(digits);
  return Number.isSafeInteger(value) ? value : BigInt(digits);
}
