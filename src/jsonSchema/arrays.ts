// Arrays of a schema: their items in order, how many, and which of them differ or are contained.

import { alt, EMPTY, type Expr, NEVER, optional, repeat, seq } from "../grammar/ir.js";
import type { Branches } from "./branches.js";
import type { Scalar, SchemaDocument, SchemaNode } from "./document.js";
import type { JsonRules } from "./jsonValues.js";
import { keywordError } from "./keywords.js";
import {
  type ArrayShape,
  type Conjunction,
  type Contained,
  highestInteger,
  keyOf,
  lowestInteger,
  numberShape,
  typeShape,
} from "./shape.js";
import { leastValues } from "./valueCounts.js";

/** The array with its brackets. `value`: what satisfies the schemas; `opening`: the mark of the first bracket. */
export function arrayExpr(
  json: JsonRules,
  shape: ArrayShape,
  value: (nodes: Conjunction) => Expr,
  opening = EMPTY,
): Expr {
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
  return json.enclosed("[", min === 0 ? optional(items) : items, "]", opening);
}

// Arrays whose items are judged together: `contains` with its counts, and `uniqueItems`. A rule for every state: how many
// items have come, how many of them were found, which of a few values were used. Of more values, the items are marked, and
// compared with each other while they are written.

const MAX_STATES = 4000;
/** Integers between bounds that count as single values. */
const MAX_INTEGERS = 16n;
/** Each set of them that was used is a state. */
const MAX_VALUES = 6;

const OPENING: Expr = { kind: "mark", mark: "opening" };
const ITEM_END: Expr = { kind: "mark", mark: "itemEnd" };

/** The array with its brackets. `value`: what satisfies the schemas. */
export function countedArrayExpr(
  json: JsonRules,
  document: SchemaDocument,
  branches: Branches,
  shape: ArrayShape,
  value: (nodes: Conjunction) => Expr,
  closed: boolean,
): Expr {
  const used = shape.unique === null ? null : UsedValues.of(document, branches, shape);
  if (shape.unique === null || used !== null) {
    return json.enclosed("[", new CountedItems(json, shape, used, value).start(), "]");
  }
  if (!json.hasJsonTexts) checkTypes(branches, shape, shape.unique);
  checkValues(document, branches, shape, shape.unique, closed);
  const marked = (nodes: Conjunction) => seq(value(nodes), ITEM_END);
  if (shape.contained.length === 0) return arrayExpr(json, shape, marked, OPENING);
  return json.enclosed("[", new CountedItems(json, shape, null, marked).start(), "]", OPENING);
}

/** Items are compared as JSON, which numbers and constants are in every notation. */
function checkTypes(branches: Branches, { prefix, rest, contained }: ArrayShape, origin: SchemaNode): void {
  const all = [...prefix, rest, ...contained.map(({ schema }) => [...rest, schema])];
  const isComparable = (nodes: Conjunction) =>
    branches
      .of(nodes)
      .every((branch) => ["string", "array", "object"].every((type) => !typeShape(branch).types.has(type as never)));
  if (all.every(isComparable)) return;
  const why = "cannot be enforced of texts, arrays and objects that are not written as JSON";
  throw keywordError(origin, "uniqueItems", why);
}

/** Items that must come can differ from all before them: none is ever left without a value. */
function checkValues(
  document: SchemaDocument,
  branches: Branches,
  { prefix, rest, min, contained }: ArrayShape,
  origin: SchemaNode,
  closed: boolean,
): void {
  const check = (nodes: Conjunction, count: number) => {
    if (count < 2 || leastValues(document, branches, nodes, closed) >= count) return;
    const why = `cannot be enforced where ${count} items must differ that are not seen to have so many values`;
    throw keywordError(origin, "uniqueItems", why);
  };
  for (const [i, nodes] of prefix.slice(0, min).entries()) check(nodes, i + 1);
  if (min > prefix.length) check(rest, min);
  for (const one of contained) check([...rest, one.schema], one.min);
}

interface State {
  /** Items that have come; above a limit more make no difference. */
  items: number;
  /** Of each `contains`, how many were found. */
  found: readonly number[];
  /** Bit i: value i was used. */
  used: number;
}

class CountedItems {
  private readonly known = new Map<string, Expr>();
  private readonly waiting: { state: State; rule: ReturnType<JsonRules["rules"]["reserve"]> }[] = [];
  private readonly mostItems: number;

  constructor(
    private readonly json: JsonRules,
    private readonly shape: ArrayShape,
    private readonly values: UsedValues | null,
    private readonly value: (nodes: Conjunction) => Expr,
  ) {
    const starts = shape.contained.map((one) => one.from);
    this.mostItems = Math.max(1, shape.prefix.length, shape.min, shape.max, ...starts);
  }

  start(): Expr {
    const none: State = { items: 0, found: this.shape.contained.map(() => 0), used: 0 };
    const some = this.next(none);
    for (let one = this.waiting.pop(); one !== undefined; one = this.waiting.pop()) {
      const more = this.next(one.state);
      this.json.rules.define(one.rule, this.isComplete(one.state) ? optional(more) : more);
    }
    return this.isComplete(none) ? optional(some) : some;
  }

  private isComplete({ items, found }: State): boolean {
    return items >= this.shape.min && this.shape.contained.every((one, i) => found[i]! >= one.min);
  }

  /** At least one more item, and all that follow. */
  private next(state: State): Expr {
    const { prefix, rest, contained, max } = this.shape;
    const { items } = state;
    if (max !== -1 && items >= max) return NEVER;
    const parts: Expr[] = [];
    let choices: { nodes: Conjunction; found: number[] }[] = [{ nodes: prefix[items] ?? rest, found: [] }];
    for (const [i, one] of contained.entries()) {
      choices = choices.flatMap(({ nodes, found }) =>
        waysToCount(one, items, state.found[i]!).map((way) => ({
          nodes: way.node === null ? nodes : [...nodes, way.node],
          found: [...found, way.count],
        })),
      );
    }
    const separator = items === 0 ? EMPTY : this.json.comma;
    for (const { nodes, found } of choices) {
      for (const { node, used } of this.values?.choices(items, state.used) ?? [{ node: null, used: state.used }]) {
        const item = this.value(node === null ? nodes : [...nodes, node]);
        if (item.kind === "never") continue;
        parts.push(seq(separator, item, this.after({ items: Math.min(items + 1, this.mostItems), found, used })));
      }
    }
    return alt(...parts);
  }

  private after(state: State): Expr {
    const key = JSON.stringify(state);
    let expr = this.known.get(key);
    if (expr === undefined) {
      if (this.known.size === MAX_STATES) this.refuse();
      const reference = this.json.rules.reserve();
      this.known.set(key, reference);
      this.waiting.push({ state, rule: reference });
      expr = reference;
    }
    return expr;
  }

  private refuse(): never {
    const { unique, contained } = this.shape;
    const why = "comes to too many combinations to be enforced";
    if (unique !== null) throw keywordError(unique, "uniqueItems", why);
    throw keywordError(contained[0]!.origin, "contains", why);
  }
}

/** What an item may be, and the count after it. Only where an item makes a difference is it told apart. */
function waysToCount(
  { schema, other, from, min, max }: Contained,
  items: number,
  count: number,
): { node: SchemaNode | null; count: number }[] {
  if (items < from) return [{ node: null, count }];
  if (max === -1) {
    const passed = { node: null, count };
    return count < min ? [passed, { node: schema, count: count + 1 }] : [passed];
  }
  const isOther = { node: other, count };
  return count < max ? [isOther, { node: min === 0 ? null : schema, count: count + 1 }] : [isOther];
}

/** Equal items are ruled out where all that can be equal are of a few known values. */
class UsedValues {
  /** The bit of each value. */
  private readonly bits = new Map<string, number>();

  private constructor(
    private readonly document: SchemaDocument,
    private readonly origin: SchemaNode,
    /** By position, the last one for all that follow: null where no other item can be equal. */
    private readonly tracked: readonly (readonly Scalar[] | null)[],
  ) {
    for (const key of tracked.flatMap((values) => (values ?? []).map(keyOf))) {
      if (!this.bits.has(key)) this.bits.set(key, this.bits.size);
    }
  }

  /** null: items are of more values. */
  static of(
    document: SchemaDocument,
    branches: Branches,
    { prefix, rest, max, unique }: ArrayShape,
  ): UsedValues | null {
    const positions = max === -1 ? [...prefix, rest] : [...prefix, rest].slice(0, max);
    const sets = positions.map((nodes) => fewValues(branches, nodes));
    const isKnown = positions.every((nodes, i) => {
      const repeats = i === prefix.length && (max === -1 || max > prefix.length + 1);
      if (repeats && sets[i] === null) return false;
      const others = positions.filter((_, j) => j !== i && !(sets[i] && sets[j]));
      return others.every((other) => branches.excludeEachOther([...nodes, ...other]));
    });
    if (!isKnown) return null;
    const values = new UsedValues(document, unique!, sets);
    return values.bits.size <= MAX_VALUES ? values : null;
  }

  choices(position: number, used: number): { node: SchemaNode | null; used: number }[] {
    const values = this.tracked[Math.min(position, this.tracked.length - 1)];
    if (values === null || values === undefined) return [{ node: null, used }];
    return values.flatMap((value) => {
      const bit = 1 << this.bits.get(keyOf(value))!;
      if (used & bit) return [];
      const what = `the value ${typeof value} ${String(value)}`;
      return [{ node: this.document.derive(this.origin, what, { schema: { const: value } }), used: used | bit }];
    });
  }
}

/** null: more than a few. */
function fewValues(branches: Branches, nodes: Conjunction): Scalar[] | null {
  const found: Scalar[] = [];
  for (const branch of branches.of(nodes)) {
    const { literals, types, integer } = typeShape(branch);
    const { low, high } = numberShape(branch);
    if (literals !== null) {
      found.push(...literals);
      continue;
    }
    for (const type of types) {
      if (type === "null") found.push(null);
      else if (type === "boolean") found.push(true, false);
      else if (type !== "number" || !integer || low === null || high === null) return null;
      else {
        const min = lowestInteger(low);
        const max = highestInteger(high);
        if (max - min >= MAX_INTEGERS) return null;
        for (let one = min; one <= max; one++) found.push(one);
      }
    }
  }
  return [...new Map(found.map((value) => [keyOf(value), value])).values()];
}
