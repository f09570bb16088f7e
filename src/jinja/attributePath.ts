// The `attribute` argument of filters: "name", 0 or "a.b.0".

import { budget } from "./budget.js";
import { item } from "./lookup.js";
import { textOfValue } from "./printing.js";
import { Undefined, type Value } from "./values.js";
import { splitAt } from "./whitespace.js";

/** Looks up `path` in a value; `otherwise` stands for what is undefined on the way. None is the value itself. */
export function attributePath(path: Value, otherwise?: Value): (value: Value) => Value {
  if (path === null) return (value) => value;
  const keys: Value[] =
    typeof path === "number"
      ? [path]
      : splitAt(textOfValue(path), ".", Number.POSITIVE_INFINITY, false).map((key) => {
          return /^\d+$/.test(key) ? Number(key) : key;
        });
  return (start) => {
    let value = start;
    for (const key of keys) {
      budget().step();
      value = item(value, key);
      if (value instanceof Undefined && otherwise !== undefined) value = otherwise;
    }
    return value;
  };
}
