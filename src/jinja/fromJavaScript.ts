// JavaScript values as the values of a template.

import { TemplateError } from "./errors.js";
import { Dict, Float, integer, PythonObject, type Value } from "./values.js";

const MAX_NESTING = 200;

/**
 * What a template variable may be made of: JSON, bigint for large ints, Number objects for floats that are whole
 * (`new Number(1)` is 1.0), undefined for what is not there, and what parseJson gives.
 */
export type TemplateInput =
  | undefined
  | null
  | boolean
  | number
  // biome-ignore lint/complexity/noBannedTypes: a Number object is a float even where it is whole.
  | Number
  | bigint
  | string
  | PythonObject
  | readonly TemplateInput[]
  | { readonly [key: string]: TemplateInput };

/** Copies a value: nothing that a template does reaches the original. Fields that are undefined are left out. */
export function fromJavaScript(input: unknown, name: string, depth = 0): Value {
  if (depth > MAX_NESTING) throw new TemplateError("runtime", `'${name}' is nested deeper than ${MAX_NESTING}`);
  if (input === null || typeof input === "boolean" || typeof input === "string") return input;
  if (typeof input === "number") return numberValue(input);
  if (typeof input === "bigint") return integer(input);
  if (input instanceof Number) return new Float(input.valueOf());
  if (input instanceof PythonObject) return input;
  if (Array.isArray(input)) return input.map((item) => fromJavaScript(item ?? null, name, depth + 1));
  if (typeof input === "object") {
    const dict = new Dict();
    for (const [key, value] of Object.entries(input)) {
      if (value !== undefined) dict.set(key, fromJavaScript(value, name, depth + 1));
    }
    return dict;
  }
  throw new TemplateError("runtime", `'${name}' holds a ${typeof input}, which is no JSON value`);
}

/** A JavaScript number does not tell 1 from 1.0: whole ones are ints, as far as digits are exact to the eye. */
function numberValue(value: number): Value {
  return Number.isInteger(value) && Math.abs(value) < 1e21 ? integer(value) : new Float(value);
}
