// Grammars written as text: GBNF (`rule ::= ...`) or Lark (`rule: ...`).

import { readGbnf } from "./gbnf.js";
import { GrammarError } from "./grammarError.js";
import type { Expr } from "./ir.js";
import { readLark } from "./lark.js";
import type { RuleBook } from "./ruleBook.js";

/**
 * The texts of a grammar: of its rule "root" (GBNF) or "start" (Lark).
 * @throws GrammarError with the line at fault.
 */
export function ebnfToExpr(source: string): { rules: RuleBook; start: Expr } {
  if (source.trim() === "") throw new GrammarError("is empty");
  return /^[ \t]*[\w-]+[ \t]*::=/m.test(source) ? readGbnf(source) : readLark(source);
}
