// Arrays of which each item is judged by its place alone.

import { EMPTY, type Expr, optional, repeat, seq } from "../grammar/ir.js";
import type { JsonRules } from "./jsonValues.js";
import type { ArrayShape, Conjunction } from "./shape.js";

/** The array with its brackets. `value`: what satisfies the schemas. */
export function arrayExpr(json: JsonRules, shape: ArrayShape, value: (nodes: Conjunction) => Expr): Expr {
  const { prefix, rest, min, max } = shape;
  const left = (taken: number) => (max === -1 ? -1 : Math.max(0, max - taken));
  const others = (taken: number) => repeat(seq(json.comma, value(rest)), Math.max(0, min - taken), left(taken));
  let items: Expr;
  if (left(0) === 0) items = EMPTY;
  else if (prefix.length === 0) items = seq(value(rest), others(1));
  else {
    // What follows the first item, from its end. It is put together once: at each item it would be copied again.
    let tail = [others(prefix.length)];
    for (let i = prefix.length - 1; i > 0; i--) {
      if (left(i) === 0) tail = [];
      else tail.push(value(prefix[i]!), json.comma);
      if (left(i) !== 0 && i >= min) tail = [optional(seq(...tail.reverse()))];
    }
    items = seq(value(prefix[0]!), ...tail.reverse());
  }
  return json.enclosed("[", min === 0 ? optional(items) : items, "]");
}
