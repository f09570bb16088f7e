// `value.name` and `value[key]`: fields, items and the methods of texts, lists and mappings; what the sandbox keeps away.

import { bind, integerArgument, textArgument } from "./arguments.js";
import { budget } from "./budget.js";
import { equal, numberOf } from "./comparison.js";
import { braceFormat } from "./formats.js";
import { slicedText } from "./operators.js";
import { representation, textOfValue } from "./printing.js";
import {
  capitalized,
  caseSwapped,
  countOf,
  indexOf,
  isAllLower,
  isAllUpper,
  isTitled,
  lastIndexOf,
  replaced,
  type Side,
  splitAt,
  splitAtSpaces,
  splitLines,
  stripped,
  titled,
} from "./strings.js";
import {
  Callable,
  type CallValues,
  charactersOf,
  Dict,
  DictView,
  Float,
  isText,
  itemsOf,
  iterate,
  joined,
  Markup,
  PythonObject,
  Range,
  raise,
  Tuple,
  textOf,
  truth,
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
  // None is a value like others.
  const own = ownAttribute(value, textOf(key));
  return own === undefined ? missingAttribute(value, textOf(key)) : own;
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

type Method = (text: string, values: CallValues) => Value;

function strip(side: Side): Method {
  return (text, values) => {
    const [characters] = bind("strip", ["chars"], values);
    const none = characters === undefined || characters === null;
    return stripped(text, none ? null : textArgument(characters, ""), side);
  };
}

function split(fromRight: boolean): Method {
  return (text, values) => {
    const [separator, limit] = bind("split", ["sep", "maxsplit"], values);
    const cuts = integerArgument(limit, -1);
    const maxCuts = cuts < 0 ? Number.POSITIVE_INFINITY : cuts;
    if (separator === undefined || separator === null) return splitAtSpaces(text, maxCuts, fromRight);
    const at = textArgument(separator, "");
    if (at === "") raise("ValueError", "empty separator");
    return splitAt(text, at, maxCuts, fromRight);
  };
}

/** `startswith` and `endswith`: one text or a tuple of them, perhaps within a part of the text. */
function affix(name: string, matches: (text: string, affix: string) => boolean): Method {
  return (text, values) => {
    const [given, start, end] = bind(name, [name === "startswith" ? "prefix" : "suffix", "start", "end"], values, 1);
    const part = start === undefined && end === undefined ? text : slicedText(text, start ?? null, end ?? null, null);
    const candidates = given instanceof Tuple ? given.items : [given!];
    return candidates.some((candidate) => {
      if (isText(candidate)) {
        budget().step(1 + (textOf(candidate).length >> 6));
        return matches(part, textOf(candidate));
      }
      return raise("TypeError", `${name} first arg must be str or a tuple of str, not ${typeName(candidate)}`);
    });
  };
}

/** `find`, `rfind`, `index` and `rindex`, in code points. */
function find(name: string, last: boolean, mustExist: boolean): Method {
  return (text, values) => {
    const [part, start, end] = bind(name, ["sub", "start", "end"], values, 1);
    const within = slicedText(text, start ?? null, end ?? null, null);
    const wanted = textArgument(part, "");
    const unit = last ? lastIndexOf(within, wanted) : indexOf(within, wanted);
    if (unit < 0) return mustExist ? raise("ValueError", "substring not found") : -1;
    const skipped = integerArgument(start, 0);
    const length = wideCharacters(text)?.length ?? text.length;
    const offset = skipped < 0 ? Math.max(0, length + skipped) : skipped;
    return offset + (wideCharacters(within.slice(0, unit))?.length ?? unit);
  };
}

function partition(fromRight: boolean): Method {
  return (text, values) => {
    const separator = textArgument(bind("partition", ["sep"], values, 1)[0], "");
    if (separator === "") raise("ValueError", "empty separator");
    const at = fromRight ? lastIndexOf(text, separator) : indexOf(text, separator);
    if (at < 0) return new Tuple(fromRight ? ["", "", text] : [text, "", ""]);
    return new Tuple([text.slice(0, at), separator, text.slice(at + separator.length)]);
  };
}

/** `ljust`, `rjust` and `center`. */
function justify(name: string, place: (text: string, missing: number, fill: string) => string): Method {
  return (text, values) => {
    const [width, fill] = bind(name, ["width", "fillchar"], values, 1);
    const character = textArgument(fill, " ");
    if (character.length > 2 || Array.from(character).length !== 1) {
      raise("TypeError", "The fill character must be exactly one character long");
    }
    const missing = integerArgument(width, 0) - (wideCharacters(text)?.length ?? text.length);
    if (missing <= 0) return text;
    budget().text(text.length + missing * character.length);
    return place(text, missing, character);
  };
}

export function centered(text: string, missing: number, fill: string): string {
  // Python puts the odd one on the left when the width is odd.
  const total = missing + (wideCharacters(text)?.length ?? text.length);
  const left = Math.floor(missing / 2) + (missing % 2 === 1 && total % 2 === 1 ? 1 : 0);
  return fill.repeat(left) + text + fill.repeat(missing - left);
}

/** A method without arguments. */
function plain(name: string, apply: (text: string) => Value): Method {
  return (text, values) => {
    bind(name, [], values);
    return apply(text);
  };
}

export const STRING_METHODS: Readonly<Record<string, Method>> = {
  strip: strip("both"),
  lstrip: strip("left"),
  rstrip: strip("right"),
  split: split(false),
  rsplit: split(true),
  splitlines: (text, values) => {
    const [keepEnds] = bind("splitlines", ["keepends"], values);
    return splitLines(text, keepEnds !== undefined && truth(keepEnds));
  },
  startswith: affix("startswith", (text, prefix) => text.startsWith(prefix)),
  endswith: affix("endswith", (text, suffix) => text.endsWith(suffix)),
  replace: (text, values) => {
    const [from, to, count] = bind("replace", ["old", "new", "count"], values, 2);
    return replacedWithin(text, textArgument(from, ""), textArgument(to, ""), integerArgument(count, -1));
  },
  removeprefix: (text, values) => {
    const prefix = textArgument(bind("removeprefix", ["prefix"], values, 1)[0], "");
    return text.startsWith(prefix) ? text.slice(prefix.length) : text;
  },
  removesuffix: (text, values) => {
    const suffix = textArgument(bind("removesuffix", ["suffix"], values, 1)[0], "");
    return suffix !== "" && text.endsWith(suffix) ? text.slice(0, -suffix.length) : text;
  },
  find: find("find", false, false),
  rfind: find("rfind", true, false),
  index: find("index", false, true),
  rindex: find("rindex", true, true),
  count: (text, values) => {
    const [part, start, end] = bind("count", ["sub", "start", "end"], values, 1);
    return countOf(slicedText(text, start ?? null, end ?? null, null), textArgument(part, ""));
  },
  join: (text, values) => {
    const [items] = bind("join", ["iterable"], values, 1);
    const parts = Array.from(iterate(items!), (item, index) => {
      if (isText(item)) return textOf(item);
      return raise("TypeError", `sequence item ${index}: expected str instance, ${typeName(item)} found`);
    });
    return joined(parts, text);
  },
  format: (text, values) => braceFormat(text, values, { attribute, item }),
  format_map: (text, values) => {
    const [mapping] = bind("format_map", ["mapping"], values, 1);
    const named = new Map<string, Value>();
    if (mapping instanceof Dict) {
      for (const [key, value] of mapping.countedEntries()) if (isText(key)) named.set(textOf(key), value);
    }
    return braceFormat(text, { positional: [], named }, { attribute, item });
  },
  partition: partition(false),
  rpartition: partition(true),
  ljust: justify("ljust", (text, missing, fill) => text + fill.repeat(missing)),
  rjust: justify("rjust", (text, missing, fill) => fill.repeat(missing) + text),
  center: justify("center", centered),
  zfill: (text, values) => {
    const width = integerArgument(bind("zfill", ["width"], values, 1)[0], 0);
    const sign = /^[+-]/.exec(text)?.[0] ?? "";
    const missing = width - (wideCharacters(text)?.length ?? text.length);
    if (missing <= 0) return text;
    budget().text(text.length + missing);
    return sign + "0".repeat(missing) + text.slice(sign.length);
  },
  expandtabs: (text, values) => {
    const size = integerArgument(bind("expandtabs", ["tabsize"], values)[0], 8);
    return expandTabs(text, size);
  },
  upper: plain("upper", (text) => text.toUpperCase()),
  lower: plain("lower", (text) => text.toLowerCase()),
  casefold: plain("casefold", (text) => text.replaceAll("ß", "ss").toLowerCase()),
  capitalize: plain("capitalize", capitalized),
  title: plain("title", titled),
  swapcase: plain("swapcase", caseSwapped),
  isupper: plain("isupper", isAllUpper),
  islower: plain("islower", isAllLower),
  istitle: plain("istitle", isTitled),
  isspace: plain("isspace", (text) => text !== "" && stripped(text, null, "both") === ""),
  isdigit: plain("isdigit", (text) => /^[\p{Nd}\u00b2\u00b3\u00b9\u2070-\u2079\u2080-\u2089]+$/u.test(text)),
  isdecimal: plain("isdecimal", (text) => /^\p{Nd}+$/u.test(text)),
  isnumeric: plain("isnumeric", (text) => /^\p{N}+$/u.test(text)),
  isalpha: plain("isalpha", (text) => /^\p{L}+$/u.test(text)),
  isalnum: plain("isalnum", (text) => /^[\p{L}\p{N}]+$/u.test(text)),
  isprintable: plain("isprintable", (text) => !UNPRINTABLE.test(text)),
  isascii: plain("isascii", (text) => !/[^\0-\x7f]/.test(text)),
  isidentifier: plain("isidentifier", (text) => /^[\p{L}\p{Nl}_][\p{L}\p{N}\p{M}\p{Pc}]*$/u.test(text)),
};

/** Control, format, unassigned and separator characters, except the space. */
const UNPRINTABLE = /(?! )[\p{C}\p{Z}]/u;

/** Replaces up to `count` times, everywhere when it is negative. */
export function replacedWithin(text: string, from: string, to: string, count: number): string {
  return replaced(text, from, to, count < 0 ? Number.POSITIVE_INFINITY : count);
}

function expandTabs(text: string, size: number): string {
  budget().text(text.length + countOf(text, "\t") * Math.max(0, size));
  let column = 0;
  const expand = (character: string) => {
    if (character === "\t") {
      const spaces = size > 0 ? size - (column % size) : 0;
      column += spaces;
      return " ".repeat(spaces);
    }
    column = character === "\n" || character === "\r" ? 0 : column + 1;
    return character;
  };
  return charactersOf(text).map(expand).join("");
}

/** The method `name` of a text, or undefined when `str` has none. A method of a Markup gives Markup. */
export function stringMethod(receiver: string | Markup, name: string): Value | undefined {
  const method = Object.hasOwn(STRING_METHODS, name) ? STRING_METHODS[name] : undefined;
  if (method === undefined) return undefined;
  return new Callable(name, (values) => {
    const text = textOf(receiver);
    budget().text(text.length);
    const result = method(text, values);
    if (!(receiver instanceof Markup)) return result;
    if (typeof result === "string") return new Markup(result);
    return Array.isArray(result)
      ? itemsOf(result).map((item) => (isText(item) ? new Markup(textOf(item)) : item))
      : result;
  });
}

/** `path` is the `attribute` argument of filters: "name", 0 or "a.b.0". Looks it up in a value; `otherwise` stands for what is undefined on the way. None is the value itself. */
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
