// Which argument of a call goes to which parameter.

import { budget } from "./budget.js";
import { numberOf } from "./comparison.js";
import { type CallValues, Float, isText, raise, textOf, typeName, type Value } from "./values.js";

/**
 * The arguments in the order of `names`, undefined where one was not given. Throws TypeError as Python does for too
 * many, unknown or missing ones; the first `required` must be given.
 */
export function bind(
  callee: string,
  names: readonly string[],
  values: CallValues,
  required = 0,
): (Value | undefined)[] {
  if (values.positional.length > names.length) {
    raise("TypeError", `${callee}() takes at most ${names.length} argument(s) (${values.positional.length} given)`);
  }
  budget().step(names.length + (names.length * values.named.size) / 8);
  const bound: (Value | undefined)[] = names.map((_, index) => values.positional[index]);
  for (const [name, value] of values.named) {
    const index = names.indexOf(name);
    if (index < 0) raise("TypeError", `${callee}() got an unexpected keyword argument '${name}'`);
    if (bound[index] !== undefined) raise("TypeError", `${callee}() got multiple values for argument '${name}'`);
    bound[index] = value;
  }
  const missing = bound.slice(0, required).indexOf(undefined);
  if (missing >= 0) raise("TypeError", `${callee}() missing required argument '${names[missing]}'`);
  return bound;
}

/** Python's limit of an index, 2^63, as the double nearest to it. */
const MAX_INDEX = 2 ** 63;

/** A given int, or `otherwise` when the argument is absent or None. */
export function integerArgument(value: Value | undefined, otherwise: number): number {
  if (value === undefined || value === null) return otherwise;
  const number = value instanceof Float ? null : numberOf(value);
  if (number === null) return raise("TypeError", `'${typeName(value)}' object cannot be interpreted as an integer`);
  const index = Number(number);
  if (Math.abs(index) > MAX_INDEX) raise("OverflowError", "cannot fit 'int' into an index-sized integer");
  return index;
}

/** A given text, or `otherwise` when the argument is absent. */
export function textArgument(value: Value | undefined, otherwise: string): string {
  if (value === undefined) return otherwise;
  if (!isText(value)) return raise("TypeError", `must be str, not ${typeName(value)}`);
  return textOf(value);
}
