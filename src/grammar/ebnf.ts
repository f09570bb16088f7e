// Grammars written as text: GBNF (`rule ::= ...`) or Lark (`rule: ...`).

import { EbnfScanner } from "./ebnfScanner.js";
import { GrammarError } from "./grammarError.js";
import { ANY_CHARACTER, alt, type Expr, seq, text } from "./ir.js";
import { readLark } from "./lark.js";
import { NamedRules } from "./namedRules.js";
import type { RuleBook } from "./ruleBook.js";

/**
 * The texts of a grammar: of its rule "root" (GBNF) or "start" (Lark).
 * @throws GrammarError with the line at fault.
 */
export function ebnfToExpr(source: string): { rules: RuleBook; start: Expr } {
  if (source.trim() === "") throw new GrammarError("is empty");
  return /^[ \t]*[\w-]+[ \t]*::=/m.test(source) ? readGbnf(source) : readLark(source);
}

// GBNF, as llama.cpp defines it: `name ::= "text" [a-z] other ( ... | ... ) item* item{2,5}`, `#` before comments.

const SPACE = /(?:[ \t\r\n]|#[^\n]*)+/y;
const NAME = /[\w-]+/y;
const HEAD = /[\w-]+[ \t]*::=/y;
const COUNT = /\{\s*\d*\s*(?:,\s*\d*\s*)?\}/y;

export function readGbnf(source: string): { rules: RuleBook; start: Expr } {
  const rules = new NamedRules();
  new GbnfReader(source, rules).read();
  if (!rules.has("root")) throw new GrammarError('has no rule "root"');
  rules.finish();
  return { rules: rules.rules, start: rules.refer("root", 1) };
}

class GbnfReader {
  private readonly scanner: EbnfScanner;

  constructor(
    source: string,
    private readonly rules: NamedRules,
  ) {
    this.scanner = new EbnfScanner(source);
  }

  read(): void {
    const { scanner } = this;
    this.skipSpace();
    while (!scanner.atEnd) {
      const { line } = scanner;
      const name = scanner.looksAt(HEAD) ? scanner.match(NAME) : null;
      if (name === null) throw scanner.error("a rule must begin here: name ::= ...");
      this.skipSpace();
      scanner.takes("::=");
      this.rules.define(name, this.alternatives(), line);
    }
  }

  private alternatives(): Expr {
    const found = [this.sequence()];
    while (this.scanner.takes("|")) found.push(this.sequence());
    return alt(...found);
  }

  private sequence(): Expr {
    const { scanner } = this;
    const items: Expr[] = [];
    this.skipSpace();
    // The next rule's head ends this one.
    while (!scanner.atEnd && !scanner.looksAt(/[|)]/y) && !scanner.looksAt(HEAD)) items.push(this.item());
    return seq(...items);
  }

  private item(): Expr {
    const { scanner } = this;
    let item = this.atom();
    for (;;) {
      const count = scanner.match(/[*+?]/y) ?? scanner.match(COUNT);
      if (count === null) break;
      item = this.counted(item, count);
    }
    this.skipSpace();
    return item;
  }

  private counted(item: Expr, count: string): Expr {
    const { scanner } = this;
    if (count === "*") return scanner.repeated(item, 0, -1);
    if (count === "+") return scanner.repeated(item, 1, -1);
    if (count === "?") return scanner.repeated(item, 0, 1);
    const [low = "", high] = count
      .slice(1, -1)
      .split(",")
      .map((one) => one.trim());
    if (low === "" && (high === undefined || high === "")) throw scanner.error("a repetition needs a number");
    const min = Number(low);
    return scanner.repeated(item, min, high === undefined ? min : high === "" ? -1 : Number(high));
  }

  private atom(): Expr {
    const { scanner } = this;
    if (scanner.takes('"')) return text(scanner.quotedText('"'));
    if (scanner.takes("[")) return scanner.characterClass();
    if (scanner.takes(".")) return ANY_CHARACTER;
    if (scanner.looksAt(/\(\?/y)) throw scanner.error("look-ahead is not supported");
    if (scanner.takes("(")) {
      const inner = scanner.nested(() => this.alternatives());
      if (!scanner.takes(")")) throw scanner.error('missing ")"');
      return inner;
    }
    const { line } = scanner;
    const name = scanner.match(NAME);
    if (name === null) throw scanner.error(`"${scanner.source[scanner.at]}" cannot stand here`);
    return this.rules.refer(name, line);
  }

  private skipSpace(): void {
    this.scanner.match(SPACE);
  }
}
