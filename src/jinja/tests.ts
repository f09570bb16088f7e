// What may follow `is`.

import type { ComparisonOperator } from "./ast.js";
import { budget } from "./budget.js";
import { compare, contains, equal, equalTexts, numberOf, order } from "./comparison.js";
import { textOfValue } from "./printing.js";
import { isAllLower, isAllUpper } from "./strings.js";
import {
  Callable,
  Dict,
  Float,
  isIterable,
  isText,
  Markup,
  Range,
  raise,
  Tuple,
  textOf,
  typeName,
  Undefined,
  type Value,
} from "./values.js";

type ValueTest = (value: Value, ...given: Value[]) => boolean;

function comparing(operator: ComparisonOperator): ValueTest {
  return (value, other) => compare(operator, value, given(other));
}

function given(value: Value | undefined): Value {
  return value === undefined ? raise("TypeError", "the test needs an argument") : value;
}

function isInteger(value: Value): boolean {
  return typeof value === "number" || typeof value === "bigint";
}

function remainder(value: Value, divisor: Value): number {
  if (value instanceof Undefined) value.fail();
  const a = numberOf(value);
  const b = numberOf(divisor);
  if (a === null || b === null) {
    return raise("TypeError", `unsupported operand type(s) for %: '${typeName(value)}' and '${typeName(divisor)}'`);
  }
  if (Number(b) === 0) raise("ZeroDivisionError", "integer modulo by zero");
  return typeof a === "bigint" || typeof b === "bigint" ? Number(BigInt(a) % BigInt(b)) : a % b;
}

function isSequence(value: Value): boolean {
  const types = [Tuple, Dict, Range, Undefined];
  return isText(value) || Array.isArray(value) || types.some((type) => value instanceof type);
}

function nameOf(value: Value): string {
  return isText(value) ? textOf(value) : "";
}

function countedText(value: Value): string {
  const text = textOfValue(value);
  budget().text(text.length);
  return text;
}

/** By name. `isFilter` tells the names of filters. */
export function valueTests(isFilter: (name: string) => boolean): Readonly<Record<string, ValueTest>> {
  const tests: Record<string, ValueTest> = {
    defined: (value) => !(value instanceof Undefined),
    undefined: (value) => value instanceof Undefined,
    none: (value) => value === null,
    boolean: (value) => typeof value === "boolean",
    true: (value) => value === true,
    false: (value) => value === false,
    string: isText,
    number: (value) => numberOf(value) !== null,
    integer: isInteger,
    float: (value) => value instanceof Float,
    mapping: (value) => value instanceof Dict,
    sequence: isSequence,
    iterable: isIterable,
    callable: (value) => value instanceof Callable || value instanceof Undefined,
    escaped: (value) => value instanceof Markup,
    odd: (value) => Math.abs(remainder(value, 2)) === 1,
    even: (value) => remainder(value, 2) === 0,
    divisibleby: (value, divisor) => remainder(value, given(divisor)) === 0,
    lower: (value) => isAllLower(countedText(value)),
    upper: (value) => isAllUpper(countedText(value)),
    sameas: (value, other) => {
      if (typeof value === "string") return typeof other === "string" && equalTexts(value, other);
      return value === other;
    },
    in: (value, container) => contains(given(container), value),
    filter: (value) => isFilter(nameOf(value)),
    test: (value) => Object.hasOwn(tests, nameOf(value)),
    eq: (value, other) => equal(value, given(other)),
    equalto: (value, other) => equal(value, given(other)),
    ne: (value, other) => !equal(value, given(other)),
    lessthan: (value, other) => order(value, given(other)) < 0,
    greaterthan: (value, other) => order(value, given(other), ">") > 0,
    lt: comparing("<"),
    le: comparing("<="),
    gt: comparing(">"),
    ge: comparing(">="),
    "==": comparing("=="),
    "!=": comparing("!="),
    "<": comparing("<"),
    "<=": comparing("<="),
    ">": comparing(">"),
    ">=": comparing(">="),
  };
  return tests;
}
