// The functions every template can call.

import { budget } from "./budget.js";
import { bind, integerArgument, textArgument } from "./callValues.js";
import { TemplateError } from "./errors.js";
import { representation, textOfValue } from "./printing.js";
import { strftime } from "./strftime.js";
import {
  Callable,
  type CallValues,
  Dict,
  isText,
  itemsOf,
  iterate,
  Namespace,
  PythonObject,
  Range,
  raise,
  textOf,
  type Value,
} from "./values.js";

/** Longest range that the sandbox of Jinja2 allows. */
const MAX_RANGE = 100_000;

function range({ positional }: CallValues): Value {
  if (positional.length === 0 || positional.length > 3) raise("TypeError", "range expected 1 to 3 arguments");
  const numbers = positional.map((value) => integerArgument(value ?? "", 0));
  const [start, stop, step] = numbers.length === 1 ? [0, numbers[0]!, 1] : [numbers[0]!, numbers[1]!, numbers[2] ?? 1];
  if (step === 0) raise("ValueError", "range() arg 3 must not be zero");
  const result = new Range(start, stop, step);
  if (result.length > MAX_RANGE) {
    raise("OverflowError", `Range too big. The sandbox blocks ranges larger than MAX_RANGE (${MAX_RANGE}).`);
  }
  return result;
}

/** The pairs of a mapping or of a list of pairs. */
function pairsOf(value: Value): Iterable<readonly [Value, Value]> {
  if (value instanceof Dict) return value.countedEntries();
  return Array.from(iterate(value), (pair) => {
    const [key, item, ...rest] = itemsOf(pair);
    if (key === undefined || item === undefined || rest.length > 0) raise("ValueError", "expected pairs");
    budget().step();
    return [key, item] as const;
  });
}

function dict({ positional, named }: CallValues): Value {
  if (positional.length > 1) raise("TypeError", "dict expected at most 1 argument");
  const result = new Dict(positional[0] === undefined ? [] : pairsOf(positional[0]));
  for (const [key, value] of named) result.set(key, value);
  return result;
}

function namespace({ positional, named }: CallValues): Value {
  const result = new Namespace();
  for (const source of positional) {
    for (const [key, value] of pairsOf(source))
      result.fields.set(isText(key) ? textOf(key) : representation(key), value);
  }
  for (const [key, value] of named) result.fields.set(key, value);
  return result;
}

/** Gives nothing the first time and the separator afterwards. */
function joiner(values: CallValues): Value {
  const separator = textArgument(bind("joiner", ["sep"], values)[0], ", ");
  let used = false;
  return new Callable("joiner", () => {
    const text = used ? separator : "";
    used = true;
    return text;
  });
}

class Cycler extends PythonObject {
  readonly typeName = "Cycler";
  private position = 0;

  constructor(private readonly items: Value[]) {
    super();
  }

  override attribute(name: string): Value | undefined {
    if (name === "current") return this.items[this.position]!;
    if (name === "reset") return new Callable(name, () => this.reset());
    return name === "next" ? new Callable(name, () => this.next()) : undefined;
  }

  private next(): Value {
    const item = this.items[this.position]!;
    this.position = (this.position + 1) % this.items.length;
    return item;
  }

  private reset(): Value {
    this.position = 0;
    return null;
  }
}

function cycler({ positional }: CallValues): Value {
  if (positional.length === 0) raise("RuntimeError", "at least one item has to be provided");
  return new Cycler(positional);
}

function raiseException(values: CallValues): never {
  throw new TemplateError("raised", textOfValue(bind("raise_exception", ["message"], values, 1)[0]!));
}

/** `now` is what `strftime_now` shows, in local time. */
export function globalFunctions(now: Date): Map<string, Value> {
  const functions: Record<string, (values: CallValues) => Value> = {
    range,
    dict,
    namespace,
    joiner,
    cycler,
    raise_exception: raiseException,
    strftime_now: (values) => strftime(now, textArgument(bind("strftime_now", ["format"], values, 1)[0], "")),
  };
  return new Map(Object.entries(functions).map(([name, call]) => [name, new Callable(name, call)]));
}
