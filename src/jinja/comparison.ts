// `==`, `<`, `in` and sorting, as Python compares.

import type { ComparisonOperator } from "./ast.js";
import { budget } from "./budget.js";
import { indexOf } from "./strings.js";
import {
  Dict,
  Float,
  isIterable,
  isText,
  itemsOf,
  iterate,
  raise,
  Tuple,
  textOf,
  typeName,
  Undefined,
  type Value,
} from "./values.js";

/** The number a value counts as (True is 1), or null. */
export function numberOf(value: Value): number | bigint | null {
  if (typeof value === "number" || typeof value === "bigint") return value;
  if (typeof value === "boolean") return value ? 1 : 0;
  return value instanceof Float ? value.value : null;
}

export function equal(left: Value, right: Value): boolean {
  budget().step();
  // Before anything else compares them: long texts cost more than a step.
  if (isText(left) || isText(right)) return isText(left) && isText(right) && equalTexts(textOf(left), textOf(right));
  if (left === right) return !(left instanceof Float && Number.isNaN(left.value));
  const a = numberOf(left);
  const b = numberOf(right);
  if (a !== null || b !== null) return a !== null && b !== null && a <= b && a >= b;
  if (left instanceof Undefined) return right instanceof Undefined;
  if (left instanceof Dict && right instanceof Dict) return equalDicts(left, right);
  const sameSequence =
    (Array.isArray(left) && Array.isArray(right)) || (left instanceof Tuple && right instanceof Tuple);
  if (!sameSequence) return false;
  const x = itemsOf(left);
  const y = itemsOf(right);
  return x.length === y.length && x.every((item, index) => equal(item, y[index]!));
}

export function equalTexts(left: string, right: string): boolean {
  if (left.length !== right.length) return false;
  budget().step(left.length >> 6);
  return left === right;
}

function equalDicts(left: Dict, right: Dict): boolean {
  if (left.size !== right.size) return false;
  for (const [key, value] of left.countedEntries()) {
    const other = right.get(key);
    if (other === undefined || !equal(value, other)) return false;
  }
  return true;
}

/** Negative, zero or positive; throws what Python raises for values without an order. */
export function order(left: Value, right: Value, operator = "<"): number {
  budget().step();
  const a = numberOf(left);
  const b = numberOf(right);
  if (a !== null && b !== null) return a < b ? -1 : a > b ? 1 : a <= b ? 0 : Number.NaN;
  if (isText(left) && isText(right)) return orderTexts(textOf(left), textOf(right));
  if (Array.isArray(left) && Array.isArray(right)) return orderSequences(left, right, operator);
  if (left instanceof Tuple && right instanceof Tuple) return orderSequences(left.items, right.items, operator);
  if (left instanceof Undefined) return left.fail();
  if (right instanceof Undefined) return right.fail();
  const types = `'${typeName(left)}' and '${typeName(right)}'`;
  return raise("TypeError", `'${operator}' not supported between instances of ${types}`);
}

/** By code point; JavaScript's own order is by code unit. */
function orderTexts(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  budget().step(length >> 4);
  let index = 0;
  while (index < length && left.charCodeAt(index) === right.charCodeAt(index)) index++;
  if (index === length) return left.length - right.length;
  const a = left.charCodeAt(index);
  const b = right.charCodeAt(index);
  const aboveSurrogates = (unit: number) => (unit >= 0xe000 ? unit - 0x800 : unit >= 0xd800 ? unit + 0x2000 : unit);
  return aboveSurrogates(a) - aboveSurrogates(b);
}

function orderSequences(left: readonly Value[], right: readonly Value[], operator: string): number {
  for (let index = 0; index < Math.min(left.length, right.length); index++) {
    if (!equal(left[index]!, right[index]!)) return order(left[index]!, right[index]!, operator);
  }
  return left.length - right.length;
}

/** `item in container`. */
export function contains(container: Value, item: Value): boolean {
  if (isText(container)) {
    if (!isText(item)) {
      return raise("TypeError", `'in <string>' requires string as left operand, not ${typeName(item)}`);
    }
    return indexOf(textOf(container), textOf(item)) >= 0;
  }
  if (container instanceof Dict) return container.has(item);
  if (!isIterable(container)) raise("TypeError", `argument of type '${typeName(container)}' is not iterable`);
  for (const candidate of iterate(container)) if (equal(candidate, item)) return true;
  return false;
}

export function compare(operator: ComparisonOperator, left: Value, right: Value): boolean {
  switch (operator) {
    case "==":
      return equal(left, right);
    case "!=":
      return !equal(left, right);
    case "in":
      return contains(right, left);
    case "not in":
      return !contains(right, left);
    case "<":
      return order(left, right, operator) < 0;
    case "<=":
      return order(left, right, operator) <= 0;
    case ">":
      return order(left, right, operator) > 0;
    case ">=":
      return order(left, right, operator) >= 0;
  }
}

/** Sorted by `key`, equal ones in their old order, also when reversed. */
export function sortedBy(items: readonly Value[], key: (item: Value) => Value, reverse = false): Value[] {
  const sign = reverse ? -1 : 1;
  budget().step(2 * items.length);
  const keyed = items.map((item) => ({ item, key: key(item) }));
  return keyed.sort((a, b) => sign * order(a.key, b.key)).map(({ item }) => item);
}
