// How many different values schemas are seen to allow, at least.

import type { Expr } from "../grammar/ir.js";
import { spend } from "../grammar/workBudget.js";
import { compareDecimals } from "./decimals.js";
import type { SchemaDocument } from "./document.js";
import { isWithin, MAX_DEPTH } from "./emptiness.js";
import {
  arrayShape,
  type Branch,
  type BranchReader,
  type Conjunction,
  highestInteger,
  type JsonType,
  keyOf,
  lowestInteger,
  numberShape,
  objectShape,
  typeShape,
} from "./shape.js";
import { stringContent } from "./strings.js";

const MAX_CODE_POINT = 0x10ffff;

/** Infinity where there is no end of them. 1 may also mean none: whether there is a value is another question. */
export function leastValues(
  document: SchemaDocument,
  branches: BranchReader,
  nodes: Conjunction,
  closed: boolean,
  depth = 0,
): number {
  const values = (inner: Conjunction) => leastValues(document, branches, inner, closed, depth + 1);
  const found = depth < MAX_DEPTH ? branches.ofKnown(nodes) : null;
  return Math.max(1, ...(found ?? []).map((branch) => ofBranch(document, branch, closed, values)));
}

function ofBranch(
  document: SchemaDocument,
  branch: Branch,
  closed: boolean,
  values: (nodes: Conjunction) => number,
): number {
  spend(10 * branch.length + 10);
  const { types, literals, integer } = typeShape(branch);
  const { low, high, steps, excludedSteps } = numberShape(branch);
  const ofType: Record<JsonType, () => number> = {
    null: () => 1,
    boolean: () => 2,
    number: () => {
      if (low === null || high === null) return Number.POSITIVE_INFINITY;
      if (steps.length + excludedSteps.length > 0) return 1;
      if (!integer) return compareDecimals(low.value, high.value) < 0 ? Number.POSITIVE_INFINITY : 1;
      return Number(highestInteger(high) - lowestInteger(low)) + 1;
    },
    string: () => {
      const content = stringContent(branch);
      if (!content.free) return leastTexts(content.content);
      return content.max === 0 ? 1 : Math.max(lengths(content.min, content.max), MAX_CODE_POINT);
    },
    array: () => {
      const { prefix, rest, min, max, contained, unique } = arrayShape(document, branch);
      if (contained.length > 0 || unique !== null) return 1;
      const items = Array.from({ length: Math.min(min, prefix.length + 1) }, (_, i) => values(prefix[i] ?? rest));
      return rest.some((node) => node.schema === false) ? 1 : Math.max(lengths(min, max), ...items);
    },
    object: () => {
      const { named, max, patterns, names, additional } = objectShape(document, branch, closed);
      const needed = named.filter((property) => property.required);
      const isOpen = max === -1 && patterns.length === 0 && names.length === 0;
      const others = isOpen ? additional(new Set()) : null;
      if (others?.every((node) => node.schema !== false)) return Number.POSITIVE_INFINITY;
      return Math.max(1, ...needed.map((property) => (property.value === null ? 1 : values(property.value))));
    },
  };
  if (literals !== null) {
    const kept = literals.filter((value) => !isNumber(value) || isWithin(value, low, high));
    return steps.length + excludedSteps.length > 0 ? 1 : new Set(kept.map(keyOf)).size;
  }
  return Math.max(0, ...[...types].map((type) => ofType[type]()));
}

function isNumber(value: unknown): boolean {
  return typeof value === "number" || typeof value === "bigint";
}

function lengths(min: number, max: number): number {
  return max === -1 ? Number.POSITIVE_INFINITY : max - min + 1;
}

/** Texts that a regular expression matches, if it matches any. */
function leastTexts(expr: Expr): number {
  switch (expr.kind) {
    case "chars":
      return expr.ranges.reduce((sum, [low, high]) => sum + high - low + 1, 0);
    case "seq":
    case "alt":
      return Math.max(1, ...expr.items.map(leastTexts));
    case "repeat":
      if (expr.item.kind === "empty" || expr.max === 0) return 1;
      return Math.max(lengths(expr.min, expr.max), leastTexts(expr.item));
    default:
      return 1;
  }
}
