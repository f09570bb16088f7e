// JSON without a schema: white space, free values, and what schemas build on.

import { alt, chars, EMPTY, type Expr, optional, repeat, seq, text } from "./ir.js";
import { freeString } from "./jsonStrings.js";
import type { RuleBook } from "./ruleBook.js";

/**
 * White space between two tokens when a request says nothing about it: none, one space, or a new line and its indent.
 * That takes compact, Python's and indented JSON, and keeps a model from writing white space without end.
 */
export const DEFAULT_SPACE: Expr = alt(EMPTY, text(" "), seq(text("\n"), repeat(text(" "), 0, 64)));

const DIGIT = chars([0x30, 0x39]);
const NON_ZERO = chars([0x31, 0x39]);
const NATURAL = alt(text("0"), seq(NON_ZERO, repeat(DIGIT, 0)));
const EXPONENT_MARK = chars([0x45, 0x45], [0x65, 0x65]);
const SIGN = chars([0x2b, 0x2b], [0x2d, 0x2d]);
const ZEROS = repeat(text("0"), 0);

/** An exponent up to 307 in size: any larger one leaves the range of double precision. */
const EXPONENT = seq(
  EXPONENT_MARK,
  optional(SIGN),
  ZEROS,
  alt(repeat(DIGIT, 1, 2), seq(chars([0x31, 0x32]), repeat(DIGIT, 2, 2)), seq(text("30"), chars([0x30, 0x37]))),
);

/** Any number in double precision's range of exponents, as JSON writes it. */
export const NUMBER: Expr = seq(
  optional(text("-")),
  alt(
    seq(NATURAL, optional(seq(text("."), repeat(DIGIT, 1))), optional(EXPONENT)),
    // Of the largest exponent, what is certain to fit: 1 up to 1.6...
    seq(
      text("1"),
      optional(seq(text("."), chars([0x30, 0x37 - 1]), repeat(DIGIT, 0))),
      EXPONENT_MARK,
      optional(text("+")),
      ZEROS,
      text("308"),
    ),
  ),
);

/** The rules of free JSON in one rule book. */
export class JsonRules {
  private valueRule: Expr | null = null;
  private objectRule: Expr | null = null;
  private arrayRule: Expr | null = null;
  private stringRule: Expr | null = null;
  /** White space between two tokens. */
  readonly space: Expr;
  readonly comma: Expr;
  readonly colon: Expr;

  constructor(
    readonly rules: RuleBook,
    space: Expr,
  ) {
    this.space = space.kind === "empty" ? space : rules.add("space", space);
    this.comma = seq(this.space, text(","), this.space);
    this.colon = seq(this.space, text(":"), this.space);
  }

  /** Any string, in every spelling. */
  string(): Expr {
    this.stringRule ??= this.rules.add("string", freeString());
    return this.stringRule;
  }

  value(): Expr {
    if (this.valueRule === null) {
      const rule = this.rules.reserve("value");
      this.valueRule = rule;
      const scalars = [text("null"), text("true"), text("false"), NUMBER, this.string()];
      this.rules.define(rule, alt(...scalars, this.array(), this.object()));
    }
    return this.valueRule;
  }

  array(): Expr {
    if (this.arrayRule === null) {
      const rule = this.rules.reserve("array");
      this.arrayRule = rule;
      const items = seq(this.value(), repeat(seq(this.comma, this.value()), 0));
      this.rules.define(rule, this.enclosed("[", optional(items), "]"));
    }
    return this.arrayRule;
  }

  object(): Expr {
    if (this.objectRule === null) {
      const rule = this.rules.reserve("object");
      this.objectRule = rule;
      const member = seq(this.string(), this.colon, this.value());
      this.rules.define(rule, this.enclosed("{", optional(seq(member, repeat(seq(this.comma, member), 0))), "}"));
    }
    return this.objectRule;
  }

  /** Between brackets; between two brackets with nothing inside there is white space once. */
  enclosed(open: string, inside: Expr, close: string): Expr {
    if (inside.kind === "repeat" && inside.min === 0 && inside.max === 1) {
      return seq(text(open), this.space, optional(seq(inside.item, this.space)), text(close));
    }
    if (inside.kind === "empty") return seq(text(open), this.space, text(close));
    return seq(text(open), this.space, inside, this.space, text(close));
  }
}
