// The value of an expression.

import type { CallArguments, Expression, FilterCall } from "./ast.js";
import { attribute, item } from "./attributes.js";
import { budget } from "./budget.js";
import { compare } from "./comparison.js";
import { applyFilter, applyTest } from "./filters.js";
import { LoopContext } from "./globals.js";
import { binary, signed, slice } from "./operators.js";
import { textOfValue } from "./printing.js";
import {
  Callable,
  type CallValues,
  Dict,
  Float,
  isText,
  iterate,
  joined,
  raise,
  Tuple,
  textOf,
  truth,
  typeName,
  Undefined,
  type Value,
} from "./values.js";

/** A mapping takes more memory than other values. */
const STEPS_PER_DICT = 8;

/** Finds a variable; Undefined when there is none. */
export type Lookup = (name: string) => Value;

export function evaluate(expression: Expression, lookup: Lookup): Value {
  const value = (inner: Expression) => evaluate(inner, lookup);
  budget().step();
  switch (expression.kind) {
    case "constant":
    case "integer":
      return expression.value;
    case "float":
      return new Float(expression.value);
    case "name":
      return lookup(expression.name);
    case "attribute":
      return attribute(value(expression.object), expression.name);
    case "item":
      return evaluateItem(expression, value);
    case "call":
      return callValue(value(expression.callee), evaluateArguments(expression.arguments, lookup));
    case "filter":
      return filtered(value(expression.value), expression.filter, lookup);
    case "test": {
      const given = evaluateArguments(expression.arguments, lookup);
      return applyTest(expression.name, value(expression.value), given.positional) !== expression.negated;
    }
    case "binary":
      return binary(expression.operator, value(expression.left), value(expression.right));
    case "unary":
      if (expression.operator === "not") return !truth(value(expression.value));
      return signed(expression.operator, value(expression.value));
    case "logical": {
      const left = value(expression.left);
      return truth(left) === (expression.operator === "or") ? left : value(expression.right);
    }
    case "comparison":
      return evaluateComparison(expression, value);
    case "concatenation":
      return joined(
        expression.values.map((part) => textOfValue(value(part))),
        "",
      );
    case "conditional":
      if (truth(value(expression.test))) return value(expression.value);
      if (expression.otherwise !== null) return value(expression.otherwise);
      return new Undefined(
        `the inline if-expression on line ${expression.line} evaluated to false and no else section was defined.`,
      );
    case "list":
      return expression.items.map(value);
    case "tuple":
      return new Tuple(expression.items.map(value));
    case "dict":
      budget().step(STEPS_PER_DICT);
      return new Dict(expression.entries.map((entry) => [value(entry.key), value(entry.value)]));
  }
}

function evaluateItem(expression: Expression & { kind: "item" }, value: (inner: Expression) => Value): Value {
  const object = value(expression.object);
  const { index } = expression;
  if (index.kind !== "slice") return item(object, value(index));
  const bound = (inner: Expression | null) => (inner === null ? null : value(inner));
  return slice(object, bound(index.start), bound(index.stop), bound(index.step));
}

/** `a < b < c`: each value once, up to the first comparison that fails. */
function evaluateComparison(
  expression: Expression & { kind: "comparison" },
  value: (inner: Expression) => Value,
): boolean {
  let left = value(expression.first);
  for (const { operator, value: next } of expression.rest) {
    const right = value(next);
    if (!compare(operator, left, right)) return false;
    left = right;
  }
  return true;
}

export function evaluateArguments(given: CallArguments, lookup: Lookup): CallValues {
  const positional = given.positional.map((argument) => evaluate(argument, lookup));
  const named = new Map(given.named.map(({ name, value }) => [name, evaluate(value, lookup)]));
  if (given.spread !== null) positional.push(...iterate(evaluate(given.spread, lookup)));
  if (given.spreadNamed !== null) {
    const mapping = evaluate(given.spreadNamed, lookup);
    if (!(mapping instanceof Dict)) {
      return raise("TypeError", `argument after ** must be a mapping, not ${typeName(mapping)}`);
    }
    for (const [key, value] of mapping.countedEntries()) {
      if (!isText(key)) raise("TypeError", "keywords must be strings");
      named.set(textOf(key), value);
    }
  }
  return { positional, named };
}

export function callValue(callee: Value, given: CallValues): Value {
  budget().step();
  if (callee instanceof Callable || callee instanceof LoopContext) return callee.call(given);
  if (callee instanceof Undefined) return callee.fail();
  return raise("TypeError", `'${typeName(callee)}' object is not callable`);
}

export function filtered(value: Value, filter: FilterCall, lookup: Lookup): Value {
  return applyFilter(filter.name, value, evaluateArguments(filter.arguments, lookup));
}
