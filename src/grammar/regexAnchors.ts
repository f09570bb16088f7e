// Anchors in a regular expression, without look-behind in the automaton: what an expression matches is kept apart by
// whether it may only stand at the start or at the end of the text.

import { ANY_TEXT, alt, EMPTY, type Expr, NEVER, repeat, seq } from "./ir.js";

interface Part {
  expr: Expr;
  /** Whether it matches "". */
  nullable: boolean;
}

const NOTHING: Part = { expr: NEVER, nullable: false };
const NOTHING_BUT_EMPTY: Part = { expr: EMPTY, nullable: true };

const AT_START = 1;
const AT_END = 2;

/** Four disjoint cases of one expression, indexed by `AT_START` and `AT_END`: where it must stand. */
export class Anchored {
  private constructor(private readonly parts: readonly [Part, Part, Part, Part]) {}

  static readonly empty = Anchored.plain(EMPTY, true);
  static readonly textStart = new Anchored([NOTHING, NOTHING_BUT_EMPTY, NOTHING, NOTHING]);
  static readonly textEnd = new Anchored([NOTHING, NOTHING, NOTHING_BUT_EMPTY, NOTHING]);

  static plain(expr: Expr, nullable: boolean): Anchored {
    return new Anchored([{ expr, nullable }, NOTHING, NOTHING, NOTHING]);
  }

  get hasAnchors(): boolean {
    const [, start, end, both] = this.parts;
    return start.expr.kind !== "never" || end.expr.kind !== "never" || both.expr.kind !== "never";
  }

  static sequence(items: readonly Anchored[]): Anchored {
    if (!items.some((item) => item.hasAnchors)) {
      const expr = seq(...items.map((item) => item.parts[0].expr));
      const nullable = items.every((item) => item.parts[0].nullable);
      return Anchored.plain(expr, nullable);
    }
    return items.reduce((left, right) => left.followedBy(right), Anchored.empty);
  }

  static either(items: readonly Anchored[]): Anchored {
    if (!items.some((item) => item.hasAnchors)) {
      const expr = alt(...items.map((item) => item.parts[0].expr));
      const nullable = items.some((item) => item.parts[0].nullable);
      return Anchored.plain(expr, nullable);
    }
    return new Anchored(fourParts((i) => items.map((item) => item.parts[i]!)));
  }

  /** null: an anchor cannot be repeated exactly. */
  repeated(min: number, max: number): Anchored | null {
    if (this.hasAnchors) {
      if (max === 1) return min === 1 ? this : Anchored.either([Anchored.empty, this]);
      return null;
    }
    const { expr, nullable } = this.parts[0];
    return Anchored.plain(repeat(expr, min, max), nullable || min === 0);
  }

  /** The expression as the whole text. */
  whole(): Expr {
    return alt(...this.parts.map((part) => part.expr));
  }

  /** All texts that it is found in. */
  search(): Expr {
    const found = this.parts.map((part, i) => {
      const before = i & AT_START ? EMPTY : ANY_TEXT;
      const after = i & AT_END ? EMPTY : ANY_TEXT;
      return seq(before, part.expr, after);
    });
    return alt(...found);
  }

  /** What must stand at the start comes after nothing; after what must stand at the end comes nothing. */
  private followedBy(right: Anchored): Anchored {
    const found: Part[][] = [[], [], [], []];
    for (const [i, a] of this.parts.entries()) {
      if (a.expr.kind === "never") continue;
      for (const [j, b] of right.parts.entries()) {
        const first = j & AT_START ? onlyEmpty(a) : a;
        const second = i & AT_END ? onlyEmpty(b) : b;
        const expr = seq(first.expr, second.expr);
        if (expr.kind !== "never") found[i | j]!.push({ expr, nullable: first.nullable && second.nullable });
      }
    }
    return new Anchored(fourParts((i) => found[i]!));
  }
}

function onlyEmpty(part: Part): Part {
  return part.nullable ? NOTHING_BUT_EMPTY : NOTHING;
}

function fourParts(partsAt: (i: number) => readonly Part[]): [Part, Part, Part, Part] {
  const merged = (i: number): Part => {
    const parts = partsAt(i);
    return { expr: alt(...parts.map((part) => part.expr)), nullable: parts.some((part) => part.nullable) };
  };
  return [merged(0), merged(1), merged(2), merged(3)];
}
