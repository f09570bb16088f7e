// JSON without a schema: white space, free values, and what schemas build on.

import { ANY_CHARACTER, alt, chars, EMPTY, type Expr, optional, repeat, seq, text } from "../grammar/ir.js";
import type { RuleBook } from "../grammar/ruleBook.js";
import { freeString, quoted, spelled, spelledText } from "./jsonStrings.js";

/**
 * White space between two tokens when a request says nothing about it: none, one space, or a new line and its indent.
 * That takes compact, Python's and indented JSON, and keeps a model from writing white space without end.
 */
export const DEFAULT_SPACE: Expr = alt(EMPTY, text(" "), seq(text("\n"), repeat(text(" "), 0, 64)));

const DIGIT = chars([0x30, 0x39]);
const NON_ZERO = chars([0x31, 0x39]);
const FRACTION = optional(seq(text("."), repeat(DIGIT, 1)));
const EXPONENT_MARK = chars([0x45, 0x45], [0x65, 0x65]);
const ZEROS = repeat(text("0"), 0);

/** What the exponent 308 may follow: up to the largest double, 1.7976931348623157e308. */
export const LARGEST_MANTISSA: Expr = seq(text("1"), optional(seq(text("."), largestFraction("7976931348623157"))));

function largestFraction(digits: string): Expr {
  if (digits === "") return ZEROS;
  const digit = digits.charCodeAt(0);
  const below = seq(chars([0x30, digit - 1]), repeat(DIGIT, 0));
  return alt(below, seq(text(digits[0]!), alt(EMPTY, largestFraction(digits.slice(1)))));
}

const decimal = (whole: Expr): Expr => seq(alt(text("0"), whole), FRACTION);

function raised(digits: Expr): Expr {
  return seq(EXPONENT_MARK, optional(text("+")), ZEROS, digits);
}

/**
 * Any number as JSON writes it, but for exponents with which double precision reads it as infinite: up to 308 after one digit,
 * and two digits after more. A number of more than 308 digits is still one, although few programs read it exactly.
 */
export const NUMBER: Expr = seq(
  optional(text("-")),
  alt(
    seq(
      decimal(seq(NON_ZERO, repeat(DIGIT, 0))),
      optional(alt(raised(repeat(DIGIT, 1, 2)), seq(EXPONENT_MARK, text("-"), repeat(DIGIT, 1)))),
    ),
    seq(
      decimal(NON_ZERO),
      raised(alt(seq(chars([0x31, 0x32]), repeat(DIGIT, 2, 2)), seq(text("30"), chars([0x30, 0x37])))),
    ),
    seq(LARGEST_MANTISSA, raised(text("308"))),
  ),
);

/** How constants are written. */
export interface ConstantTexts {
  null: string;
  true: string;
  false: string;
}

const JSON_CONSTANTS: ConstantTexts = { null: "null", true: "true", false: "false" };
export const PYTHON_CONSTANTS: ConstantTexts = { null: "None", true: "True", false: "False" };

/** How texts are written: as values, and as names of members. */
export interface TextNotation {
  /** A text of this content. */
  text(content: Expr): Expr;
  name(name: string): Expr;
  /** A name of this content; null: any. */
  nameOf(content: Expr | null): Expr;
}

/** How values are written where that is not JSON's way. */
export interface ValueNotation {
  constants?: ConstantTexts;
  texts?: TextNotation;
  /** There is no white space between two tokens. */
  isCompact?: boolean;
  /** Members come in the order of their names, whatever a schema declares. */
  sortsMembers?: boolean;
}

/** The rules of free JSON in one rule book. */
export class JsonRules {
  private readonly known = new Map<"value" | "array" | "object", Expr>();
  private stringRule: Expr | null = null;
  /** White space between two tokens. */
  readonly space: Expr;
  readonly comma: Expr;
  readonly colon: Expr;

  constructor(
    readonly rules: RuleBook,
    space: Expr,
    private readonly notation: ValueNotation = {},
  ) {
    this.space = space.kind === "empty" || space.kind === "rule" ? space : rules.add(space);
    this.comma = seq(this.space, text(","), this.space);
    this.colon = seq(this.space, text(":"), this.space);
  }

  constant(value: boolean | null): Expr {
    return text((this.notation.constants ?? JSON_CONSTANTS)[`${value}`]);
  }

  /** The same in another notation. */
  with(notation: ValueNotation): JsonRules {
    return new JsonRules(this.rules, notation.isCompact ? EMPTY : this.space, notation);
  }

  /** Whether texts are written as in JSON. */
  get hasJsonTexts(): boolean {
    return this.notation.texts === undefined;
  }

  get sortsMembers(): boolean {
    return this.notation.sortsMembers ?? false;
  }

  /** Any string, in every spelling. */
  string(): Expr {
    this.stringRule ??= this.rules.add(this.stringOfLength(0, -1));
    return this.stringRule;
  }

  /** Of `min` to `max` code points (-1: any number). */
  stringOfLength(min: number, max: number): Expr {
    const { texts } = this.notation;
    return texts === undefined ? freeString(min, max) : texts.text(repeat(ANY_CHARACTER, min, max));
  }

  stringOf(content: Expr): Expr {
    return this.notation.texts?.text(content) ?? quoted(spelled(content));
  }

  name(name: string): Expr {
    return this.notation.texts?.name(name) ?? spelledText(name);
  }

  /** A name that `content` matches; null: any. */
  nameOf(content: Expr | null): Expr {
    const { texts } = this.notation;
    if (texts !== undefined) return texts.nameOf(content);
    return content === null ? this.string() : quoted(spelled(content));
  }

  value(): Expr {
    return this.rules.once(this.known, "value", () => {
      const scalars = [...[null, true, false].map((value) => this.constant(value)), NUMBER, this.string()];
      return alt(...scalars, this.array(), this.object());
    });
  }

  array(): Expr {
    return this.rules.once(this.known, "array", () => {
      const items = seq(this.value(), repeat(seq(this.comma, this.value()), 0));
      return this.enclosed("[", optional(items), "]");
    });
  }

  object(): Expr {
    return this.rules.once(this.known, "object", () => {
      const member = seq(this.nameOf(null), this.colon, this.value());
      return this.enclosed("{", optional(seq(member, repeat(seq(this.comma, member), 0))), "}");
    });
  }

  /** Between brackets, the first one marked; between two brackets with nothing inside there is white space once. */
  enclosed(open: string, inside: Expr, close: string, mark: Expr = EMPTY): Expr {
    const opening = seq(text(open), mark, this.space);
    if (inside.kind === "repeat" && inside.min === 0 && inside.max === 1) {
      return seq(opening, optional(seq(inside.item, this.space)), text(close));
    }
    if (inside.kind === "empty") return seq(opening, text(close));
    return seq(opening, inside, this.space, text(close));
  }
}
