// `value[start:stop:step]`.

import { budget } from "./budget.js";
import { numberOf } from "./comparison.js";
import { Float, isText, Markup, Range, raise, Tuple, textOf, Undefined, type Value, wideCharacters } from "./values.js";

type Bound = Value | null;

/** A part of a text, list, tuple or range; Undefined for what cannot be sliced. */
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
  return new Undefined("the value cannot be sliced");
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
