// `value[start:stop:step]`.

import { budget } from "./budget.js";
import { integerArgument } from "./callValues.js";
import { Float, isText, Markup, Range, raise, Tuple, textOf, Undefined, type Value, wideCharacters } from "./values.js";

type Bound = Value | null;

/** A part of a text, list, tuple or range; Undefined for what cannot be sliced. */
export function slice(value: Value, start: Bound, stop: Bound, step: Bound): Value {
  for (const bound of [start, stop, step]) {
    if (bound instanceof Float || isText(bound) || Array.isArray(bound)) {
      raise("TypeError", "slice indices must be integers or None or have an __index__ method");
    }
  }
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
  if (step === null || integerArgument(step, 1) === 1) {
    const from = clamp(integerArgument(start, 0), length, 0, length);
    const to = clamp(integerArgument(stop, length), length, 0, length);
    if (from >= to) return "";
    return characters === null ? text.slice(from, to) : characters.slice(from, to).join("");
  }
  const source = characters ?? text;
  return indices(length, start, stop, step)
    .map((index) => source[index]!)
    .join("");
}

function clamp(bound: number, length: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, bound < 0 ? bound + length : bound));
}

function indices(length: number, start: Bound, stop: Bound, step: Bound): number[] {
  const stride = integerArgument(step, 1);
  if (stride === 0) raise("ValueError", "slice step cannot be zero");
  const [low, high] = stride > 0 ? [0, length] : [-1, length - 1];
  const from = start === null ? (stride > 0 ? low : high) : clamp(integerArgument(start, 0), length, low, high);
  const to = stop === null ? (stride > 0 ? high : low) : clamp(integerArgument(stop, 0), length, low, high);
  const result: number[] = [];
  for (let index = from; stride > 0 ? index < to : index > to; index += stride) result.push(index);
  budget().step(result.length);
  return result;
}
