// Whether a branch can be seen to hold no value at all. "No" only means that it was not seen.

import { spend } from "../grammar/workBudget.js";
import { compareDecimals, toDecimal } from "./decimals.js";
import type { Scalar, SchemaDocument } from "./document.js";
import type { Bound } from "./numbers.js";
import {
  arrayShape,
  type Branch,
  type BranchReader,
  type Conjunction,
  countShape,
  highestInteger,
  type JsonType,
  lowestInteger,
  numberShape,
  objectShape,
  typeOf,
  typeShape,
} from "./shape.js";

/** How far into properties and items the proof goes. */
export const MAX_DEPTH = 4;

export function isProvablyEmpty(
  document: SchemaDocument,
  branches: BranchReader,
  branch: Branch,
  closed: boolean,
  depth = 0,
): boolean {
  const noValue = (nodes: Conjunction): boolean => {
    if (nodes.some((node) => node.schema === false)) return true;
    const inner = depth < MAX_DEPTH ? branches.ofKnown(nodes) : null;
    return inner?.every((one) => isProvablyEmpty(document, branches, one, closed, depth + 1)) ?? false;
  };
  spend(10 * branch.length + 10);
  const { types, integer, literals } = typeShape(branch);
  const isEmpty: Record<JsonType, () => boolean> = {
    null: () => false,
    boolean: () => false,
    number: () => {
      const { low, high } = numberShape(branch);
      if (literals !== null) return !literals.some((value) => isWithin(value, low, high));
      if (low === null || high === null) return false;
      if (integer && lowestInteger(low) > highestInteger(high)) return true;
      const order = compareDecimals(low.value, high.value);
      return order > 0 || (order === 0 && !(low.inclusive && high.inclusive));
    },
    string: () => {
      const { min, max } = countShape(branch, "minLength", "maxLength");
      if (max !== -1 && min > max) return true;
      return literals !== null && !literals.some((value) => typeof value === "string" && hasLength(value, min, max));
    },
    array: () => {
      const { prefix, rest, min, max } = arrayShape(document, branch);
      if (max !== -1 && min > max) return true;
      return Array.from({ length: Math.min(min, prefix.length + 1) }).some((_, i) => noValue(prefix[i] ?? rest));
    },
    object: () => {
      const shape = objectShape(document, branch, closed);
      const needed = shape.named.filter((property) => property.required);
      if (shape.max !== -1 && needed.length > shape.max) return true;
      return needed.some((property) => property.value === null || noValue(property.value));
    },
  };
  return [...types].every((type) => isEmpty[type]());
}

export function hasLength(value: string, min: number, max: number): boolean {
  const length = [...value].length;
  return length >= min && (max === -1 || length <= max);
}

/** Whether a literal is a number between the bounds. */
export function isWithin(value: Scalar, low: Bound | null, high: Bound | null): boolean {
  if (typeOf(value) !== "number") return false;
  const decimal = toDecimal(value as number | bigint);
  const above = low === null ? 1 : compareDecimals(decimal, low.value);
  const below = high === null ? 1 : compareDecimals(high.value, decimal);
  return (above > 0 || (above === 0 && low!.inclusive)) && (below > 0 || (below === 0 && high!.inclusive));
}
