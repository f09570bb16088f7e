// Which texts a grammar in intermediate form matches, by plain recursion over the definition of each operation: slow,
// and independent of the native engine.

import type { Expr, Grammar } from "../../src/grammar/ir.js";

/** Whether the whole text matches. Special tokens stand in the text as lone surrogates: U+D800 + id. */
export function matches(grammar: Grammar, text: string): boolean {
  return new Run(grammar, [...text]).ends({ kind: "rule", rule: grammar.start }, 0).has([...text].length);
}

const UTF8 = new TextEncoder();

class Run {
  private readonly memo = new Map<unknown, Map<number, Set<number>>>();

  constructor(
    private readonly grammar: Grammar,
    private readonly characters: string[],
  ) {}

  ends(expr: Expr, start: number): Set<number> {
    const key = expr.kind === "rule" ? expr.rule : expr;
    const byStart = this.memo.get(key) ?? new Map<number, Set<number>>();
    this.memo.set(key, byStart);
    const known = byStart.get(start);
    if (known !== undefined) return known;
    const found = this.find(expr, start);
    byStart.set(start, found);
    return found;
  }

  private find(expr: Expr, start: number): Set<number> {
    const { characters } = this;
    switch (expr.kind) {
      case "empty":
      // Whether items differ is not looked at.
      case "mark":
        return new Set([start]);
      case "never":
        return new Set();
      case "chars": {
        const code = characters[start]?.codePointAt(0) ?? -1;
        return new Set(expr.ranges.some(([low, high]) => code >= low && code <= high) ? [start + 1] : []);
      }
      case "bytes": {
        const literal = [...new TextDecoder("utf-8", { ignoreBOM: true }).decode(Buffer.from(expr.bytes, "latin1"))];
        if (UTF8.encode(literal.join("")).length !== expr.bytes.length)
          throw new Error("bytes are not whole characters");
        return new Set(literal.every((one, i) => characters[start + i] === one) ? [start + literal.length] : []);
      }
      case "token":
        return new Set(characters[start] === String.fromCharCode(0xd800 + expr.id) ? [start + 1] : []);
      case "rule":
        return this.ends(this.grammar.rules[expr.rule]!, start);
      case "seq": {
        let here = new Set([start]);
        for (const item of expr.items) here = this.fromAll(item, here);
        return here;
      }
      case "alt":
        return new Set(expr.items.flatMap((item) => [...this.ends(item, start)]));
      case "repeat": {
        const found = new Set<number>();
        let here = new Set([start]);
        for (let count = 0; here.size > 0 && (expr.max === -1 || count <= expr.max) && count <= 2000; count++) {
          if (count >= expr.min) {
            const fresh = [...here].filter((at) => !found.has(at));
            if (fresh.length === 0) break;
            for (const at of fresh) found.add(at);
          }
          here = this.fromAll(expr.item, here);
        }
        return found;
      }
      case "and": {
        const sets = expr.items.map((item) => this.ends(item, start));
        return new Set([...sets[0]!].filter((end) => sets.every((set) => set.has(end))));
      }
      case "not": {
        const matched = this.ends(expr.item, start);
        const found = new Set<number>();
        for (let end = start; end <= characters.length; end++) {
          if (!matched.has(end)) found.add(end);
          if (/\p{Surrogate}/u.test(characters[end] ?? "")) break;
        }
        return found;
      }
    }
  }

  private fromAll(expr: Expr, starts: Set<number>): Set<number> {
    return new Set([...starts].flatMap((start) => [...this.ends(expr, start)]));
  }
}
