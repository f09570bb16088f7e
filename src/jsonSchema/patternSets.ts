// Which patterns of property names one name can match together. Most that a schema names begin with different texts.

import type { Expr } from "../grammar/ir.js";
import { spend } from "../grammar/workBudget.js";

export interface PatternSet<Pattern> {
  matched: readonly Pattern[];
  /** The others, but for those that no name matches which matches these. */
  unmatched: readonly Pattern[];
}

/** Bytes that a text begins with, or that it is. */
interface Beginning {
  bytes: string;
  isWhole: boolean;
}

/** Of one pattern, at most. */
const MAX_BEGINNINGS = 64;
const COMPARE_COST = 5;
const ANY: readonly Beginning[] = [{ bytes: "", isWhole: false }];

/** Each name belongs to one of the sets; null: they are more than `max`. */
export function patternSets<Pattern extends { search: Expr }>(
  patterns: readonly Pattern[],
  max: number,
): PatternSet<Pattern>[] | null {
  const begun = patterns.map((one) => beginnings(one.search));
  const areApart = patterns.map((_, i) => patterns.map((_, j) => i !== j && areDisjoint(begun[i]!, begun[j]!)));
  let sets: number[][] = [[]];
  for (const i of patterns.keys()) {
    sets = sets.flatMap((set) => (set.some((j) => areApart[i]![j]) ? [set] : [set, [...set, i]]));
    if (sets.length > max) return null;
  }
  return sets.map((set) => ({
    matched: set.map((i) => patterns[i]!),
    unmatched: patterns.filter((_, i) => !set.includes(i) && !set.some((j) => areApart[i]![j])),
  }));
}

function beginnings(expr: Expr): readonly Beginning[] {
  switch (expr.kind) {
    case "empty":
      return [{ bytes: "", isWhole: true }];
    case "bytes":
      return [{ bytes: expr.bytes, isWhole: true }];
    case "seq":
      return beginnings(expr.items[0]!).map(({ bytes }) => ({ bytes, isWhole: false }));
    case "alt": {
      const found = expr.items.flatMap(beginnings);
      return found.length > MAX_BEGINNINGS ? ANY : found;
    }
    default:
      return ANY;
  }
}

/** Whether no text begins in one of the first ways and in one of the others. */
function areDisjoint(a: readonly Beginning[], b: readonly Beginning[]): boolean {
  return a.every((one) => b.every((other) => areDifferent(one, other)));
}

function areDifferent(a: Beginning, b: Beginning): boolean {
  spend(COMPARE_COST);
  const [short, long] = a.bytes.length <= b.bytes.length ? [a, b] : [b, a];
  if (!long.bytes.startsWith(short.bytes)) return true;
  return short.isWhole && short.bytes.length < long.bytes.length;
}
