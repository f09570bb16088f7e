// `value.name` and `value[key]`: fields, items and methods, and what the sandbox keeps away.

import { budget } from "./budget.js";
import { bind, integerArgument } from "./callValues.js";
import { equal, numberOf } from "./comparison.js";
import { representation } from "./printing.js";
import { stringMethod } from "./stringMethods.js";
import {
  Callable,
  Dict,
  DictView,
  Float,
  isText,
  PythonObject,
  Range,
  raise,
  Tuple,
  textOf,
  typeName,
  Undefined,
  type Value,
  wideCharacters,
} from "./values.js";

/** Methods that change their object; a template may read its input, not change it. */
const CHANGES_LIST: ReadonlySet<string> = new Set(["append", "extend", "insert", "remove", "reverse", "sort"]);
const CHANGES_DICT: ReadonlySet<string> = new Set(["clear", "pop", "popitem", "setdefault", "update"]);

/** `value.name`: a method or field first, then the item of that name. */
export function attribute(value: Value, name: string): Value {
  if (value instanceof Undefined) return value.fail();
  const own = ownAttribute(value, name);
  if (own !== undefined) return own;
  if (value instanceof Dict) {
    const item = value.get(name);
    if (item !== undefined) return item;
  }
  return missingAttribute(value, name);
}

/** `value[key]`: the item first, then the method or field of that name. */
export function item(value: Value, key: Value): Value {
  if (value instanceof Undefined) return value.fail();
  const found = ownItem(value, key);
  if (found !== undefined) return found;
  if (!isText(key)) return new Undefined(`${objectName(value)} has no element ${representation(key)}`);
  return ownAttribute(value, textOf(key)) ?? missingAttribute(value, textOf(key));
}

function ownItem(value: Value, key: Value): Value | undefined {
  if (value instanceof Dict) {
    const hashable = !Array.isArray(key) && !(key instanceof Dict) && !(key instanceof Undefined);
    return hashable ? value.get(key) : undefined;
  }
  const index = key instanceof Float ? null : numberOf(key);
  if (index === null) return undefined;
  const at = (length: number) => (index < 0 ? Number(index) + length : Number(index));
  if (isText(value)) {
    const text = textOf(value);
    const characters = wideCharacters(text) ?? text;
    return characters[at(characters.length)];
  }
  if (Array.isArray(value)) return value[at(value.length)];
  if (value instanceof Tuple) return value.items[at(value.items.length)];
  if (value instanceof Range) {
    const place = at(value.length);
    return place >= 0 && place < value.length ? value.at(place) : undefined;
  }
  return undefined;
}

/** A method or field of the value itself; `attr` in templates. */
export function ownAttribute(value: Value, name: string): Value | undefined {
  if (isText(value)) return stringMethod(value, name);
  if (value instanceof Dict) return dictMethod(value, name);
  if (Array.isArray(value)) return listMethod(value, name);
  if (value instanceof Tuple && (name === "index" || name === "count")) return listMethod(value.items, name);
  if (value instanceof DictView || !(value instanceof PythonObject)) return undefined;
  return value.attribute(name);
}

function objectName(value: Value): string {
  return value === null ? "None" : `${typeName(value)} object`;
}

export function missingAttribute(value: Value, name: string): Undefined {
  if (name.startsWith("__")) return unsafe(value, name);
  return new Undefined(`'${objectName(value)}' has no attribute '${name}'`);
}

function unsafe(value: Value, name: string): Undefined {
  return new Undefined(`access to attribute '${name}' of '${typeName(value)}' object is unsafe.`, "SecurityError");
}

function dictMethod(dict: Dict, name: string): Value | undefined {
  switch (name) {
    case "get":
      return new Callable(name, (values) => {
        const [key, otherwise] = bind(name, ["key", "default"], values, 1);
        const value = dict.get(key!);
        return value === undefined ? (otherwise ?? null) : value;
      });
    case "items":
      return new Callable(name, (values) => {
        bind(name, [], values);
        return new DictView("items", dict.pairs());
      });
    case "keys":
      return new Callable(name, () => new DictView("keys", dict.keys()));
    case "values":
      return new Callable(name, () => new DictView("values", dict.values()));
    case "copy":
      return new Callable(name, () => new Dict(dict.countedEntries()));
    default:
      return CHANGES_DICT.has(name) ? unsafe(dict, name) : undefined;
  }
}

function listMethod(list: readonly Value[], name: string): Value | undefined {
  switch (name) {
    case "index":
      return new Callable(name, (values) => {
        const [wanted] = bind(name, ["value"], values, 1);
        const at = list.findIndex((candidate) => equal(candidate, wanted!));
        return at >= 0 ? at : raise("ValueError", `${representation(wanted!)} is not in list`);
      });
    case "count":
      return new Callable(name, (values) => {
        const [wanted] = bind(name, ["value"], values, 1);
        return list.filter((candidate) => equal(candidate, wanted!)).length;
      });
    case "copy":
      return new Callable(name, () => {
        budget().step(list.length);
        return [...list];
      });
    // Jinja2 3.1.6 refuses these two; older versions let them through, and the list is a copy of the input.
    case "pop":
      return new Callable(name, (values) => {
        const index = integerArgument(bind(name, ["index"], values)[0], -1);
        const at = index < 0 ? index + list.length : index;
        budget().step(list.length >> 4);
        if (at < 0 || at >= list.length)
          raise("IndexError", list.length === 0 ? "pop from empty list" : "pop index out of range");
        return (list as Value[]).splice(at, 1)[0]!;
      });
    case "clear":
      return new Callable(name, () => {
        (list as Value[]).length = 0;
        return null;
      });
    default:
      return CHANGES_LIST.has(name) ? unsafe(list as Value[], name) : undefined;
  }
}
