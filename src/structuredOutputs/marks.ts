// Marks in free text: where a part of another kind begins or ends. A mark may be, or hold, a special token.

import { ANY_CHARACTER, ANY_TEXT, alt, and, EMPTY, type Expr, not, seq, text } from "../grammar/ir.js";
import { spend } from "../grammar/workBudget.js";

/** A mark: text, in which the texts of special tokens are those tokens. */
export function markExpr(literal: string, specialTokens: ReadonlyMap<string, number>): Expr {
  const parts: Expr[] = [];
  let rest = literal;
  for (let next = firstToken(rest, specialTokens); next !== null; next = firstToken(rest, specialTokens)) {
    parts.push(text(rest.slice(0, next.at)), { kind: "token", id: next.id });
    rest = rest.slice(next.at + next.length);
  }
  return seq(...parts, rest === "" ? EMPTY : text(rest));
}

/** Text that ends with `mark`, and before that is free of `marks`. */
export function freeTextUpTo(
  mark: string,
  specialTokens: ReadonlyMap<string, number>,
  marks: FreeOfMarks = freeOfMarks([mark]),
): Expr {
  if (firstToken(mark, specialTokens) !== null) return seq(marks.everywhere, markExpr(mark, specialTokens));
  return and(seq(ANY_TEXT, text(mark)), marks.beforeEnd);
}

/** Text free of some marks; what several texts are free of is one expression, however many marks there are. */
export interface FreeOfMarks {
  /** None of the marks ends in it. */
  everywhere: Expr;
  /** None of them ends before its last character. */
  beforeEnd: Expr;
}

export function freeOfMarks(marks: readonly string[]): FreeOfMarks {
  const beforeEnd = not(seq(ANY_TEXT, alt(...marks.map(text)), ANY_CHARACTER, ANY_TEXT));
  return { everywhere: textWithout(marks), beforeEnd };
}

/** How a text ends: with one of some marks, and which of them it is. */
export interface Ending {
  readonly marks: readonly string[];
  /** "": what follows is not known, or is none of them. */
  readonly mark: string;
}

/** Text that holds none of `excludes`, and that before its ending holds no beginning of a mark that the ending completes. */
export function freeTextBefore(
  ending: Ending,
  excludes: readonly string[],
  specialTokens: ReadonlyMap<string, number>,
): Expr {
  const free = textWithout([...excludes, ...ending.marks]);
  const begun = begunMarks(ending, specialTokens);
  return begun.length === 0 ? free : and(free, not(seq(ANY_TEXT, alt(...begun.map(text)))));
}

/**
 * What text before the ending must not end in, lest a mark comes about there that begins in the text: of "```" the first
 * character.
 */
export function begunMarks({ marks, mark }: Ending, specialTokens: ReadonlyMap<string, number>): string[] {
  const found: string[] = [];
  if (mark === "") return found;
  for (const one of marks) {
    spend(1);
    for (let length = one.indexOf(mark[0]!, 1); length > 0; length = one.indexOf(mark[0]!, length + 1)) {
      spend(one.length);
      const begun = one.slice(0, length);
      if (!mark.startsWith(one.slice(length)) || found.some((shorter) => begun.endsWith(shorter))) continue;
      // A special token is no part of the text.
      if (firstToken(begun, specialTokens) === null) found.push(begun);
    }
  }
  return found;
}

/** Text that holds none of the marks. */
export function textWithout(marks: readonly string[]): Expr {
  return without(ANY_TEXT, marks);
}

/** What `expr` matches and holds none of the marks. */
export function without(expr: Expr, marks: readonly string[]): Expr {
  const given = marks.filter((mark) => mark !== "");
  if (given.length === 0) return expr;
  const holding = not(seq(ANY_TEXT, alt(...given.map(text)), ANY_TEXT));
  return expr === ANY_TEXT ? holding : and(expr, holding);
}

/** The special token that stands first, the longest of those. */
function firstToken(
  literal: string,
  specialTokens: ReadonlyMap<string, number>,
): { at: number; length: number; id: number } | null {
  let best: { at: number; length: number; id: number } | null = null;
  for (const [token, id] of specialTokens) {
    const at = token === "" ? -1 : literal.indexOf(token);
    if (at < 0 || (best !== null && (at > best.at || (at === best.at && token.length <= best.length)))) continue;
    best = { at, length: token.length, id };
  }
  return best;
}
