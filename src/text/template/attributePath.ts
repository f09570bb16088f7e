// The `attribute` argument of filters: "name", 0 or "a.b.0".

import { item } from "./lookup.js";
import { textOfValue } from "./printing.js";
import { Undefined, type Value } from "./values.js";

/** Looks up `path` in a value; `otherwise` stands for what is undefined on the way. None is the value itself. */
export function attributePath(path: Value, otherwise?: Value): (value: Value) => Value {
  if (path === null) return (value) => value;
  const keys: Value[] =
    typeof path === "number"
      ? [path]
      : textOfValue(path)
          .split(".")
          .map((key) => (/^\d+$/.test(key) ? Number(key) : key));
  return (start) => {
    let value = start;
    for (const key of keys) {
      value = item(value, key);
      if (value instanceof Undefined && otherwise !== undefined) value = otherwise;
    }
    return value;
  };
}
