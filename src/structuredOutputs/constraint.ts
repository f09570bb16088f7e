// A constraint on the whole text of a reply, as a grammar.

import { ebnfToExpr } from "../grammar/ebnf.js";
import { GrammarError, within } from "../grammar/grammarError.js";
import { alt, chars, EMPTY, type Expr, type Grammar, repeat, seq, text } from "../grammar/ir.js";
import { regexToExpr } from "../grammar/regex.js";
import { RuleBook } from "../grammar/ruleBook.js";
import { withWorkBudget } from "../grammar/workBudget.js";
import { parseJsonText } from "../json.js";
import { jsonSchemaToExpr } from "../jsonSchema/compile.js";
import { DEFAULT_SPACE, JsonRules } from "../jsonSchema/jsonValues.js";
import { DEPTH_MESSAGE, isDeep } from "../valueDepth.js";
import { withLiteralTokens } from "./literalTokens.js";
import { freeOfMarks, freeTextUpTo, markExpr } from "./marks.js";
import { structuralTagToExpr } from "./structuralTag.js";

export type Constraint =
  | PlainConstraint
  /** A text that follows one of them; the path of what is wrong begins with its place. */
  | { kind: "either"; of: readonly SingleConstraint[] };

export type SingleConstraint =
  | { kind: "json_schema"; schema: unknown; format: JsonFormat }
  | { kind: "json_object"; format: JsonFormat }
  | { kind: "regex"; pattern: string }
  | { kind: "choice"; choices: readonly string[] }
  | { kind: "structural_tag"; tag: unknown; format: JsonFormat }
  /** A text that follows another one, behind one of `heads`. */
  | { kind: "headed"; heads: readonly string[]; of: PlainConstraint };

export type PlainConstraint = SingleConstraint | { kind: "grammar"; source: string };

/** White space that belongs neither to the thoughts nor to the answer. */
const MAX_SPACE_AFTER_THOUGHTS = 8;

export interface JsonFormat {
  /** Between two tokens of JSON; null: nothing, one space, or a new line and up to 64 spaces. */
  whitespacePattern: string | null;
  /** Nothing between two tokens. */
  disableAnyWhitespace: boolean;
  /** Objects that declare properties have no others unless they say so. */
  disableAdditionalProperties: boolean;
  /** Properties need not come in the order in which the schema declares them. */
  anyOrder: boolean;
}

/** Thoughts that a reply may begin with, or begins inside ("open"); the constraint is on what follows them. */
export interface Thoughts {
  begin: "possible" | "open";
  opens: readonly string[];
  closes: readonly string[];
  /** Stands between a thought and what follows it, which may be another one; absent: white space does, and the answer follows. */
  next?: string;
}

export interface ConstraintSetting {
  /** Tokens, by their text, that literals of the constraint may be drawn as; each is among the special ones. */
  literalTokens?: ReadonlyMap<string, number>;
  /** Those of the vocabulary, by their text. */
  specialTokens: ReadonlyMap<string, number>;
  /** null: there are none. */
  thoughts: Thoughts | null;
}

/**
 * @param steps of work at most; by default as many as any constraint may be
 * @throws GrammarError with the path within the constraint: below the schema or tag, else empty.
 */
export function constraintGrammar(constraint: Constraint, setting: ConstraintSetting, steps?: number): Grammar {
  return withWorkBudget(
    () => withLiteralTokens(readGrammar(constraint, setting), setting.literalTokens ?? new Map()),
    steps,
  );
}

function readGrammar(constraint: Constraint, setting: ConstraintSetting): Grammar {
  if (constraint.kind === "grammar") {
    const { rules, start } = ebnfToExpr(constraint.source);
    return rules.finish(afterThoughts(rules, start, setting));
  }
  const rules = new RuleBook();
  const start = constraintExpr(rules, constraint, setting.specialTokens);
  return rules.finish(afterThoughts(rules, start, setting));
}

function afterThoughts(rules: RuleBook, start: Expr, { thoughts, specialTokens }: ConstraintSetting): Expr {
  if (thoughts === null) return start;
  const answer = rules.add(start);
  const marks = freeOfMarks(thoughts.closes);
  const closing = alt(...thoughts.closes.map((close) => freeTextUpTo(close, specialTokens, marks)));
  if (thoughts.next !== undefined) {
    const ending = seq(closing, markExpr(thoughts.next, specialTokens));
    const more = repeat(seq(alt(...thoughts.opens.map((open) => markExpr(open, specialTokens))), ending), 0);
    return thoughts.begin === "open" ? seq(ending, more, answer) : seq(more, answer);
  }
  const space = repeat(chars([9, 10], [13, 13], [32, 32]), 0, MAX_SPACE_AFTER_THOUGHTS);
  const afterOpening = seq(closing, space, answer);
  if (thoughts.begin === "open") return afterOpening;
  return alt(answer, seq(alt(...thoughts.opens.map((open) => markExpr(open, specialTokens))), afterOpening));
}

function constraintExpr(
  rules: RuleBook,
  constraint: Exclude<Constraint, { kind: "grammar" }>,
  specialTokens: ReadonlyMap<string, number>,
): Expr {
  switch (constraint.kind) {
    case "either": {
      const one = (inner: SingleConstraint, i: number) =>
        within([String(i)], () => constraintExpr(rules, inner, specialTokens));
      return alt(...constraint.of.map(one));
    }
    case "headed": {
      const head = alt(...constraint.heads.map((one) => markExpr(one, specialTokens)));
      return seq(head, rules.add(headedExpr(rules, constraint.of, specialTokens)));
    }
    case "regex":
      return regexToExpr(constraint.pattern);
    case "choice":
      return alt(...constraint.choices.map(text));
    case "json_object":
      return new JsonRules(rules, spaceOf(constraint.format)).object();
    case "json_schema": {
      const schema = parsedIfText(constraint.schema);
      const { disableAdditionalProperties: closed, anyOrder } = constraint.format;
      return jsonSchemaToExpr(new JsonRules(rules, spaceOf(constraint.format)), schema, { closed, anyOrder });
    }
    case "structural_tag": {
      const json = new JsonRules(rules, spaceOf(constraint.format));
      const { disableAdditionalProperties: closed, anyOrder } = constraint.format;
      return structuralTagToExpr(json, parsedIfText(constraint.tag), { closed, anyOrder, specialTokens });
    }
  }
}

function headedExpr(rules: RuleBook, constraint: PlainConstraint, specialTokens: ReadonlyMap<string, number>): Expr {
  if (constraint.kind !== "grammar") return constraintExpr(rules, constraint, specialTokens);
  const { rules: own, start } = ebnfToExpr(constraint.source);
  return rules.adopt(own.finish(start));
}

function spaceOf(format: JsonFormat): Expr {
  if (format.disableAnyWhitespace) return EMPTY;
  const { whitespacePattern } = format;
  if (whitespacePattern === null) return DEFAULT_SPACE;
  return within(["whitespace_pattern"], () => regexToExpr(whitespacePattern));
}

function parsedIfText(value: unknown): unknown {
  if (typeof value !== "string") return value;
  let read: unknown;
  try {
    read = parseJsonText(value, "spellings");
  } catch (error) {
    throw new GrammarError(`is not JSON: ${(error as Error).message}`);
  }
  if (isDeep(read)) throw new GrammarError(DEPTH_MESSAGE);
  return read;
}
