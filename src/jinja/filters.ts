// What may follow `|` and `is`, by name, and the filters over lists and mappings.

import { bind, integerArgument, textArgument } from "./arguments.js";
import { attributePath, missingAttribute, ownAttribute } from "./attributes.js";
import { budget } from "./budget.js";
import { equal, sortedBy } from "./comparison.js";
import { numberFilters, textFilters } from "./scalarFilters.js";
import { splitAt } from "./strings.js";
import { valueTests } from "./tests.js";
import {
  type CallValues,
  charactersOf,
  Dict,
  type Filter,
  Generator,
  isText,
  itemsOf,
  iterate,
  Markup,
  raise,
  Tuple,
  textOf,
  truth,
  typeName,
  Undefined,
  type Value,
} from "./values.js";

export function applyFilter(name: string, value: Value, given: CallValues): Value {
  budget().step();
  if (!Object.hasOwn(FILTERS, name)) return raise("TemplateRuntimeError", `No filter named '${name}'.`);
  return FILTERS[name]!(value, given);
}

export function applyTest(name: string, value: Value, positional: Value[]): boolean {
  if (!Object.hasOwn(TESTS, name)) return raise("TemplateRuntimeError", `No test named '${name}'.`);
  return TESTS[name]!(value, ...positional);
}

type Given = CallValues;

/** How `sort`, `unique`, `min`, ... see a value: by its attribute, texts in lower case unless told otherwise. */
function comparisonKey(attribute: Value | undefined, caseSensitive: Value | undefined): (item: Value) => Value {
  const path = attributePath(attribute ?? null);
  const keepCase = caseSensitive !== undefined && truth(caseSensitive);
  return (item) => {
    const key = path(item);
    if (keepCase || !isText(key)) return key;
    const text = textOf(key);
    budget().text(text.length);
    return text.toLowerCase();
  };
}

function isTrue(value: Value | undefined): boolean {
  return value !== undefined && truth(value);
}

function sort(value: Value, given: Given): Value {
  const [reverse, caseSensitive, attribute] = bind("sort", ["reverse", "case_sensitive", "attribute"], given);
  const items = Array.from(iterate(value));
  // Several attributes with commas sort by the first, then by the next.
  const paths =
    attribute !== undefined && isText(attribute)
      ? splitAt(textOf(attribute), ",", Number.POSITIVE_INFINITY, false)
      : [attribute ?? null];
  const keys = paths.map((path) => comparisonKey(path, caseSensitive));
  // Compared as lists, so that what has none of the attributes is equal and stays in place.
  return sortedBy(items, (item) => new Tuple(keys.map((one) => one(item))), isTrue(reverse));
}

function dictsort(value: Value, given: Given): Value {
  const [caseSensitive, by, reverse] = bind("dictsort", ["case_sensitive", "by", "reverse"], given);
  if (value instanceof Undefined) return value.fail();
  if (!(value instanceof Dict)) {
    return raise("AttributeError", `'${typeName(value)}' object has no attribute 'items'`);
  }
  const side = textArgument(by, "key");
  if (side !== "key" && side !== "value") raise("FilterArgumentError", 'You can only sort by either "key" or "value"');
  return sortedBy(value.pairs(), comparisonKey(side === "key" ? 0 : 1, caseSensitive), isTrue(reverse));
}

function unique(value: Value, given: Given): Value {
  const [caseSensitive, attribute] = bind("unique", ["case_sensitive", "attribute"], given);
  const key = comparisonKey(attribute, caseSensitive);
  const seen = new Dict();
  return lazily(value, (item) => {
    const itemKey = key(item);
    if (seen.has(itemKey)) return [];
    seen.set(itemKey, true);
    return [item];
  });
}

/** A generator of what `expand` makes of each item. */
function lazily(value: Value, expand: (item: Value) => Value[]): Generator {
  function* items(): Iterable<Value> {
    for (const item of iterate(value)) yield* expand(item);
  }
  return new Generator(items());
}

/** The same, except that a false value is empty whatever it is, and that nothing is looked at before it is read. */
function lazilyIfTrue(value: Value, prepared: () => (item: Value) => Value[]): Generator {
  function* items(): Iterable<Value> {
    if (!truth(value)) return;
    const expand = prepared();
    for (const item of iterate(value)) yield* expand(item);
  }
  return new Generator(items());
}

/** A generator of the items of a list that is made when its first item is read. */
function deferred(make: () => Iterable<Value>): Generator {
  function* items(): Iterable<Value> {
    yield* make();
  }
  return new Generator(items());
}

/** `min` and `max`: the first of the equal ones. */
function extreme(name: string, reverse: boolean): Filter {
  return (value, given) => {
    const [caseSensitive, attribute] = bind(name, ["case_sensitive", "attribute"], given);
    const items = Array.from(iterate(value));
    const sorted = sortedBy(items, comparisonKey(attribute, caseSensitive), reverse);
    return sorted[0] ?? (items.length > 0 ? null : new Undefined("No aggregated item, sequence was empty."));
  };
}

function groupby(value: Value, given: Given): Value {
  const [attribute, otherwise, caseSensitive] = bind("groupby", ["attribute", "default", "case_sensitive"], given, 1);
  const path = attributePath(attribute!, otherwise);
  const fold = comparisonKey(null, caseSensitive);
  const sorted = sortedBy(Array.from(iterate(value)), (item) => fold(path(item)));
  const groups: { key: Value; items: Value[] }[] = [];
  for (const item of sorted) {
    const last = groups.at(-1);
    const key = path(item);
    if (last !== undefined && equal(fold(last.key), fold(key))) last.items.push(item);
    else groups.push({ key, items: [item] });
  }
  return groups.map(({ key, items }) => new Group(key, items));
}

/** A pair that also has names for its two items. */
class Group extends Tuple {
  constructor(
    private readonly key: Value,
    private readonly members: Value[],
  ) {
    super([key, members]);
  }

  override attribute(name: string): Value | undefined {
    if (name === "grouper") return this.key;
    return name === "list" ? this.members : undefined;
  }
}

function batch(value: Value, given: Given): Value {
  const [count, fill] = bind("batch", ["linecount", "fill_with"], given, 1);
  return deferred(() => batches(value, integerArgument(count, 1), fill));
}

function batches(value: Value, size: number, fill: Value | undefined): Value[][] {
  if (size < 1) raise("ValueError", "linecount must be at least 1");
  const items = Array.from(iterate(value));
  const result: Value[][] = [];
  budget().step(items.length);
  for (let start = 0; start < items.length; start += size) result.push(items.slice(start, start + size));
  const last = result.at(-1);
  if (last !== undefined && fill !== undefined && fill !== null) {
    budget().step(size - last.length);
    while (last.length < size) last.push(fill);
  }
  return result;
}

/** Jinja2's `slice`: the items in `slices` columns, the first ones longer. */
function columns(value: Value, given: Given): Value {
  const [slices, fill] = bind("slice", ["slices", "fill_with"], given, 1);
  return deferred(() => columnsOf(value, integerArgument(slices, 1), fill));
}

function columnsOf(value: Value, count: number, fill: Value | undefined): Value[][] {
  if (count < 1) raise("ZeroDivisionError", "integer division or modulo by zero");
  const items = Array.from(iterate(value));
  const size = Math.floor(items.length / count);
  const longer = items.length % count;
  const result: Value[][] = [];
  let start = 0;
  budget().step(2 * count + items.length);
  for (let column = 0; column < count; column++) {
    const end = start + size + (column < longer ? 1 : 0);
    const part = items.slice(start, end);
    if (fill !== undefined && fill !== null && column >= longer) part.push(fill);
    result.push(part);
    start = end;
  }
  return result;
}

function map(value: Value, given: Given): Value {
  return lazilyIfTrue(value, () => {
    if (given.positional.length === 0 && given.named.has("attribute")) {
      const path = attributePath(given.named.get("attribute")!, given.named.get("default"));
      return (item) => [path(item)];
    }
    const [name, ...positional] = given.positional;
    if (name === undefined || !isText(name)) return raise("FilterArgumentError", "map requires a filter argument");
    return (item) => [applyFilter(textOf(name), item, { positional, named: given.named })];
  });
}

/** `select`, `reject`, `selectattr` and `rejectattr`: the items for which a test, or their truth, is `wanted`. */
function selecting(byAttribute: boolean, wanted: boolean): Filter {
  return (value, given) =>
    lazilyIfTrue(value, () => {
      const path = byAttribute ? attributePath(given.positional[0] ?? missingAttributeName()) : attributePath(null);
      const [name, ...positional] = given.positional.slice(byAttribute ? 1 : 0);
      return (item) => {
        const seen = path(item);
        const passes = name === undefined ? truth(seen) : applyTest(textArgument(name, ""), seen, positional);
        return passes === wanted ? [item] : [];
      };
    });
}

function missingAttributeName(): never {
  return raise("FilterArgumentError", "Missing parameter for attribute name");
}

const collectionFilters: Record<string, Filter> = {
  sort,
  dictsort,
  unique,
  groupby,
  batch,
  slice: columns,
  map,
  min: extreme("min", false),
  max: extreme("max", true),
  select: selecting(false, true),
  reject: selecting(false, false),
  selectattr: selecting(true, true),
  rejectattr: selecting(true, false),
  list: (value) => Array.from(iterate(value)),
  first: (value) => {
    for (const item of iterate(value)) return item;
    return new Undefined("No first item, sequence was empty.");
  },
  last: (value) => {
    if (value instanceof Generator) return raise("TypeError", `'${value.typeName}' object is not reversible`);
    return (
      itemsOf(value).at(-1) ?? (itemsOf(value).length > 0 ? null : new Undefined("No last item, sequence was empty."))
    );
  },
  reverse: (value) => {
    if (!isText(value)) return new Generator(Array.from(iterate(value)).reverse(), "list_reverseiterator");
    budget().text(textOf(value).length);
    const text = charactersOf(textOf(value)).reverse().join("");
    return value instanceof Markup ? new Markup(text) : text;
  },
  items: (value) => {
    return deferred(() => {
      if (value instanceof Undefined) return [];
      if (!(value instanceof Dict)) return raise("TypeError", "Can only get item pairs from a mapping.");
      return value.pairs();
    });
  },
  attr: (value, given) => {
    const [name] = bind("attr", ["name"], given, 1);
    if (value instanceof Undefined) return value.fail();
    const attribute = textArgument(name, "");
    return ownAttribute(value, attribute) ?? missingAttribute(value, attribute);
  },
};

export const FILTERS: Readonly<Record<string, Filter>> = { ...textFilters, ...numberFilters, ...collectionFilters };

export const TESTS = valueTests((name) => Object.hasOwn(FILTERS, name));
