// `+ - * / // % **` and the signs, on Python's numbers, texts and lists, and `value[start:stop:step]`.

import type { BinaryOperator } from "./ast.js";
import { budget } from "./budget.js";
import { numberOf } from "./comparison.js";
import { percentFormat } from "./formats.js";
import { textOfValue } from "./printing.js";
import {
  Float,
  integer,
  isText,
  Markup,
  Range,
  raise,
  STEPS_PER_BIG_INTEGER,
  Tuple,
  textOf,
  typeName,
  Undefined,
  type Value,
  wideCharacters,
} from "./values.js";

/** Longest int, in bits, that arithmetic may give. */
const MAX_INTEGER_BITS = 8_192;

export function binary(operator: BinaryOperator, left: Value, right: Value): Value {
  budget().step();
  // A text takes part in `%` with anything, also with an undefined value.
  if (operator === "%" && isText(left)) {
    const text = percentFormat(textOf(left), right);
    return left instanceof Markup ? new Markup(text) : text;
  }
  if (left instanceof Undefined) return left.fail();
  if (right instanceof Undefined) return right.fail();
  const a = numberOf(left);
  const b = numberOf(right);
  if (a !== null && b !== null) {
    const isFloat = left instanceof Float || right instanceof Float;
    return isFloat ? floatOperation(operator, Number(a), Number(b)) : integerOperation(operator, a, b);
  }
  if (operator === "+") return added(left, right);
  if (operator === "*") return repeated(left, right);
  return unsupported(operator, left, right);
}

function unsupported(operator: string, left: Value, right: Value): never {
  const types = `'${typeName(left)}' and '${typeName(right)}'`;
  return raise("TypeError", `unsupported operand type(s) for ${operator}: ${types}`);
}

function floatOperation(operator: BinaryOperator, a: number, b: number): Float {
  switch (operator) {
    case "+":
      return new Float(a + b);
    case "-":
      return new Float(a - b);
    case "*":
      return new Float(a * b);
    case "**":
      return new Float(a ** b);
    default:
  }
  if (b === 0) raise("ZeroDivisionError", operator === "/" ? "float division by zero" : "float floor division by zero");
  if (operator === "/") return new Float(a / b);
  // The remainder has the divisor's sign.
  const rest = a % b;
  const isOpposite = rest !== 0 && rest < 0 !== b < 0;
  if (operator === "//") return new Float(floorQuotient(a, b, (a - rest) / b - (isOpposite ? 1 : 0)));
  if (rest === 0) return new Float(b < 0 ? -0 : 0);
  return new Float(isOpposite ? rest + b : rest);
}

/** Of what is left without the remainder: an int but for rounding, which `a / b` may round up to the next one. */
function floorQuotient(a: number, b: number, quotient: number): number {
  if (quotient === 0) return a / b < 0 ? -0 : 0;
  const floor = Math.floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

function integerOperation(operator: BinaryOperator, a: number | bigint, b: number | bigint): Value {
  if (typeof a === "number" && typeof b === "number") {
    const quick = smallOperation(operator, a, b);
    if (quick !== null) return quick;
  }
  budget().step(STEPS_PER_BIG_INTEGER);
  const x = BigInt(a);
  const y = BigInt(b);
  switch (operator) {
    case "+":
      return checkedSize(x + y);
    case "-":
      return checkedSize(x - y);
    case "*":
      return checkedSize(x * y);
    case "**":
      return power(x, y);
    default:
  }
  if (y === 0n)
    raise("ZeroDivisionError", operator === "/" ? "division by zero" : "integer division or modulo by zero");
  if (operator === "/") return new Float(quotientOf(x, y));
  const quotient = x / y;
  const remainder = x % y;
  const roundsUp = remainder !== 0n && remainder < 0n !== y < 0n;
  if (operator === "//") return integer(roundsUp ? quotient - 1n : quotient);
  return integer(roundsUp ? remainder + y : remainder);
}

/** The result where number arithmetic gives it exactly, else null. */
function smallOperation(operator: BinaryOperator, a: number, b: number): Value | null {
  const result = operator === "+" ? a + b : operator === "-" ? a - b : operator === "*" ? a * b : Number.NaN;
  return Number.isSafeInteger(result) ? result + 0 : null;
}

/** `x / y` correctly rounded, also where x or y is no exact double. */
function quotientOf(x: bigint, y: bigint): number {
  const direct = Number(x) / Number(y);
  if (typeof integer(x) === "number" && typeof integer(y) === "number") return direct;
  // A quotient of more than 64 bits, its last bit set when something is left over, rounds as the exact one does.
  const shift = BigInt(Math.max(0, 66 + y.toString(2).length - x.toString(2).length));
  const quotient = (x << shift) / y;
  const leftOver = (x << shift) % y !== 0n;
  return (
    Number(leftOver && quotient % 2n === 0n ? quotient + (quotient < 0n ? -1n : 1n) : quotient) / 2 ** Number(shift)
  );
}

function checkedSize(value: bigint): number | bigint {
  const small = integer(value);
  if (typeof small === "bigint" && small.toString(16).length * 4 > MAX_INTEGER_BITS) {
    tooLarge();
  }
  return small;
}

function power(base: bigint, exponent: bigint): Value {
  if (exponent < 0n) {
    if (base === 0n) raise("ZeroDivisionError", "0.0 cannot be raised to a negative power");
    return new Float(Number(base) ** Number(exponent));
  }
  if (base === 0n || base === 1n) return exponent === 0n ? 1 : Number(base);
  if (base === -1n) return exponent % 2n === 0n ? 1 : -1;
  // An int of n bits to the power e has at least (n - 1) e bits.
  const bits = base.toString(2).length - (base < 0n ? 2 : 1);
  if (BigInt(bits) * exponent > BigInt(MAX_INTEGER_BITS)) tooLarge();
  return checkedSize(base ** exponent);
}

function tooLarge(): never {
  return raise("OverflowError", `an int of more than ${MAX_INTEGER_BITS} bits`);
}

function added(left: Value, right: Value): Value {
  if (isText(left) && isText(right)) {
    budget().text(textOf(left).length + textOf(right).length);
    if (typeof left === "string" && typeof right === "string") return left + right;
    return new Markup(escapedUnlessSafe(left) + escapedUnlessSafe(right));
  }
  if (Array.isArray(left) && Array.isArray(right)) {
    budget().step(left.length + right.length);
    return [...left, ...right];
  }
  if (left instanceof Tuple && right instanceof Tuple) {
    budget().step(left.items.length + right.items.length);
    return new Tuple([...left.items, ...right.items]);
  }
  const joined = isText(left) ? "str" : Array.isArray(left) || left instanceof Tuple ? typeName(left) : null;
  if (joined === null) return unsupported("+", left, right);
  return raise("TypeError", `can only concatenate ${joined} (not "${typeName(right)}") to ${joined}`);
}

function repeated(left: Value, right: Value): Value {
  const [sequence, times] = numberOf(left) === null ? [left, right] : [right, left];
  const number = times instanceof Float ? null : numberOf(times);
  if (number === null) return unsupported("*", left, right);
  const count = Math.max(0, Number(number));
  if (isText(sequence)) {
    const text = textOf(sequence);
    if (text === "" || count === 0) return sequence instanceof Markup ? new Markup("") : "";
    budget().text(text.length * count);
    const result = text.repeat(count);
    return sequence instanceof Markup ? new Markup(result) : result;
  }
  const items = Array.isArray(sequence) ? sequence : sequence instanceof Tuple ? sequence.items : null;
  if (items === null) return unsupported("*", left, right);
  const result: Value[] = [];
  if (items.length > 0) budget().step(items.length * count);
  if (items.length > 0) for (let turn = 0; turn < count; turn++) for (const item of items) result.push(item);
  return Array.isArray(sequence) ? result : new Tuple(result);
}

/** `-value` or `+value`. */
export function signed(operator: "+" | "-", value: Value): Value {
  if (value instanceof Undefined) return value.fail();
  if (value instanceof Float) return operator === "-" ? new Float(-value.value) : value;
  const number = numberOf(value);
  if (number === null) return raise("TypeError", `bad operand type for unary ${operator}: '${typeName(value)}'`);
  if (operator === "+") return number;
  return typeof number === "bigint" ? integer(-number) : 0 - number;
}

const HTML_ESCAPES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;" };

/** Longest that a character becomes. */
const MAX_HTML_GROWTH = 5;

export function escapeHtml(text: string): string {
  budget().text(text.length * MAX_HTML_GROWTH);
  return text.replace(/[&<>"']/g, (character) => HTML_ESCAPES[character]!);
}

export function escapedUnlessSafe(value: Value): string {
  return value instanceof Markup ? value.text : escapeHtml(textOfValue(value));
}

type Bound = Value | null;

/** A part of a text, list, tuple or range. */
export function slice(value: Value, start: Bound, stop: Bound, step: Bound): Value {
  for (const bound of [start, stop, step]) indexOr(bound, 0);
  if (isText(value)) {
    const text = slicedText(textOf(value), start, stop, step);
    return value instanceof Markup ? new Markup(text) : text;
  }
  if (Array.isArray(value)) return indices(value.length, start, stop, step).map((index) => value[index]!);
  if (value instanceof Tuple) {
    return new Tuple(indices(value.items.length, start, stop, step).map((index) => value.items[index]!));
  }
  if (value instanceof Range) return indices(value.length, start, stop, step).map((index) => value.at(index));
  if (value instanceof Undefined) return value.fail();
  return raise("TypeError", `'${typeName(value)}' object is not subscriptable`);
}

export function slicedText(text: string, start: Bound, stop: Bound, step: Bound): string {
  if (start === null && stop === null && step === null) return text;
  const characters = wideCharacters(text);
  const length = characters?.length ?? text.length;
  if (indexOr(step, 1) === 1) {
    const from = clamp(indexOr(start, 0), length, 0, length);
    const to = clamp(indexOr(stop, length), length, 0, length);
    if (from >= to) return "";
    return characters === null ? text.slice(from, to) : characters.slice(from, to).join("");
  }
  const source = characters ?? text;
  return indices(length, start, stop, step)
    .map((index) => source[index]!)
    .join("");
}

/** A bound as a number, however large; `otherwise` for None. */
function indexOr(bound: Bound, otherwise: number): number {
  if (bound === null) return otherwise;
  const index = bound instanceof Float ? null : numberOf(bound);
  if (index === null) raise("TypeError", "slice indices must be integers or None or have an __index__ method");
  return Number(index);
}

function clamp(bound: number, length: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, bound < 0 ? bound + length : bound));
}

function indices(length: number, start: Bound, stop: Bound, step: Bound): number[] {
  const stride = indexOr(step, 1);
  if (stride === 0) raise("ValueError", "slice step cannot be zero");
  const [low, high] = stride > 0 ? [0, length] : [-1, length - 1];
  const from = start === null ? (stride > 0 ? low : high) : clamp(indexOr(start, 0), length, low, high);
  const to = stop === null ? (stride > 0 ? high : low) : clamp(indexOr(stop, 0), length, low, high);
  budget().step(Math.max(0, Math.ceil((to - from) / stride)));
  const result: number[] = [];
  for (let index = from; stride > 0 ? index < to : index > to; index += stride) result.push(index);
  return result;
}
