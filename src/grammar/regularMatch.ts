// Whether a short text, such as the name of a property, matches a regular expression of the intermediate form: in time
// polynomial in both, whatever they are.

import type { Expr } from "./ir.js";
import { spend } from "./workBudget.js";

/** `expr` holds no rules, tokens or marks. */
export function isMatch(expr: Expr, text: string): boolean {
  return new Matching(Buffer.from(text)).covers(expr);
}

class Matching {
  /** Per expression and start: where a match may end. */
  private readonly known = new Map<Expr, Map<number, ReadonlySet<number>>>();

  /** As expressions have bytes. */
  private readonly characters: string;

  constructor(private readonly bytes: Buffer) {
    this.characters = bytes.toString("latin1");
  }

  covers(expr: Expr): boolean {
    return this.ends(expr, 0).has(this.bytes.length);
  }

  private ends(expr: Expr, start: number): ReadonlySet<number> {
    const byStart = this.known.get(expr) ?? new Map<number, ReadonlySet<number>>();
    this.known.set(expr, byStart);
    let found = byStart.get(start);
    if (found === undefined) {
      found = this.find(expr, start);
      spend(1);
      byStart.set(start, found);
    }
    return found;
  }

  private find(expr: Expr, start: number): ReadonlySet<number> {
    switch (expr.kind) {
      case "empty":
        return new Set([start]);
      case "chars": {
        const [code, next] = this.characterAt(start);
        const isIn = expr.ranges.some(([low, high]) => low <= code && code <= high);
        return isIn ? new Set([next]) : new Set();
      }
      case "bytes": {
        const isHere = this.characters.startsWith(expr.bytes, start);
        return isHere ? new Set([start + expr.bytes.length]) : new Set();
      }
      case "seq":
        return expr.items.reduce<ReadonlySet<number>>((from, item) => this.fromAll(item, from), new Set([start]));
      case "alt":
        return new Set(expr.items.flatMap((item) => [...this.ends(item, start)]));
      case "repeat":
        return this.repeated(expr, start);
      case "and": {
        const [first, ...others] = expr.items.map((item) => this.ends(item, start));
        return new Set([...first!].filter((end) => others.every((one) => one.has(end))));
      }
      case "not": {
        const matched = this.ends(expr.item, start);
        const found = new Set<number>();
        for (let end = start; end <= this.bytes.length; end++) {
          const isBoundary = end === this.bytes.length || (this.bytes[end]! & 0xc0) !== 0x80;
          if (isBoundary && !matched.has(end)) found.add(end);
        }
        return found;
      }
      case "never":
      case "token":
      case "mark":
      case "rule":
        return new Set();
    }
  }

  private repeated(expr: Extract<Expr, { kind: "repeat" }>, start: number): ReadonlySet<number> {
    const found = new Set<number>(expr.min === 0 ? [start] : []);
    let here: ReadonlySet<number> = new Set([start]);
    for (let count = 1; here.size > 0 && (expr.max === -1 || count <= expr.max); count++) {
      const next = this.fromAll(expr.item, here);
      if (count >= expr.min) {
        const before = found.size;
        for (const end of next) found.add(end);
        if (found.size === before) break;
      } else if (next.size === here.size && [...next].every((end) => here.has(end))) {
        // Where the places no longer change, further repetitions up to the least count change nothing.
        count = Math.max(count, expr.min - 1);
      }
      here = next;
    }
    return found;
  }

  private fromAll(expr: Expr, starts: ReadonlySet<number>): ReadonlySet<number> {
    const found = new Set<number>();
    for (const start of starts) {
      const ends = this.ends(expr, start);
      spend(1 + ends.size);
      for (const end of ends) found.add(end);
    }
    return found;
  }

  /** [code point, where the next one begins]; -1 at the end. */
  private characterAt(at: number): [code: number, next: number] {
    const first = this.bytes[at];
    if (first === undefined) return [-1, at];
    const length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    let code = length === 1 ? first : first & (0xff >> (length + 1));
    for (let i = 1; i < length; i++) code = (code << 6) | (this.bytes[at + i]! & 0x3f);
    return [code, at + length];
  }
}
