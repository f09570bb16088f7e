// What a template finds beside its variables: functions, `loop` inside a `for`, and its macros.

import { bind, integerArgument, textArgument } from "./arguments.js";
import { budget } from "./budget.js";
import { equal } from "./comparison.js";
import { TemplateError } from "./errors.js";
import { strftime } from "./formats.js";
import { representation, textOfValue } from "./printing.js";
import type { MacroEntry } from "./program.js";
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
  Tuple,
  textOf,
  Undefined,
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
  if (value instanceof Undefined) return value.fail();
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

export class LoopContext extends PythonObject {
  readonly typeName = "LoopContext";
  /** Index of the current item; -1 before the first. */
  index = -1;
  private lastChanged: Value[] | null = null;

  /** `again` renders the loop over other items, one level deeper; null where the loop is not recursive. */
  constructor(
    private readonly items: readonly Value[],
    private readonly depth: number,
    private readonly again: ((iterable: Value, depth: number) => string) | null,
  ) {
    super();
  }

  override attribute(name: string): Value | undefined {
    const length = this.items.length;
    switch (name) {
      case "index":
        return this.index + 1;
      case "index0":
        return this.index;
      case "revindex":
        return length - this.index;
      case "revindex0":
        return length - this.index - 1;
      case "first":
        return this.index === 0;
      case "last":
        return this.index === length - 1;
      case "length":
        return length;
      case "depth":
        return this.depth + 1;
      case "depth0":
        return this.depth;
      case "previtem":
        return this.neighbour(-1);
      case "nextitem":
        return this.neighbour(1);
      case "cycle":
        return new Callable(name, (values) => this.cycle(values));
      case "changed":
        return new Callable(name, (values) => this.changed(values));
      default:
        return undefined;
    }
  }

  private neighbour(offset: number): Value {
    const item = this.items[this.index + offset];
    return item === undefined ? new Undefined(`there is no ${offset < 0 ? "previous" : "next"} item`) : item;
  }

  /** `loop(items)` in a recursive loop. */
  call(values: CallValues): Value {
    if (this.again === null) {
      return raise("TypeError", "The loop must have the 'recursive' marker to be called recursively.");
    }
    return this.again(bind("loop", ["iterable"], values, 1)[0]!, this.depth + 1);
  }

  private cycle({ positional }: CallValues): Value {
    if (positional.length === 0) return raise("TypeError", "no items for cycling given");
    return positional[this.index % positional.length]!;
  }

  private changed({ positional }: CallValues): boolean {
    const last = this.lastChanged;
    this.lastChanged = positional;
    if (last === null || last.length !== positional.length) return true;
    return !positional.every((value, index) => equal(value, last[index]!));
  }
}

export class Macro extends Callable {
  constructor(
    private readonly entry: MacroEntry,
    call: (given: CallValues) => Value,
  ) {
    super(entry.name, call);
  }

  override attribute(name: string): Value | undefined {
    if (name === "name") return this.entry.name;
    return name === "arguments" ? new Tuple(this.entry.signature.parameters) : undefined;
  }
}

/**
 * Sets every parameter by `set`, in order: what the call gives, else the default, which may use the parameters before
 * it. `caller`, `varargs` and `kwargs` are there for a body that uses them; other bodies refuse what they would take.
 */
export function setParameters(
  entry: MacroEntry,
  given: CallValues,
  defaultOf: (index: number) => Value,
  set: (name: string, value: Value) => void,
): void {
  const { parameters, defaults } = entry.signature;
  const known = new Map<string, Value>();
  const unknown: [string, Value][] = [];
  for (const [name, value] of given.named) {
    if (parameters.includes(name)) known.set(name, value);
    else if (name === "caller" && entry.uses.caller) set(name, value);
    else unknown.push([name, value]);
  }
  const more = given.positional.slice(parameters.length);
  if (more.length > 0 && !entry.uses.varargs) {
    raise("TypeError", `macro '${entry.name}' takes not more than ${parameters.length} argument(s)`);
  }
  if (unknown.length > 0 && !entry.uses.kwargs) {
    raise("TypeError", `macro '${entry.name}' takes no keyword argument '${unknown[0]![0]}'`);
  }
  const positional = given.positional.slice(0, parameters.length);
  const values = bind(entry.name, parameters, { positional, named: known });
  const firstDefault = parameters.length - defaults.length;
  for (const [index, name] of parameters.entries()) {
    const value = values[index];
    if (value !== undefined) set(name, value);
    else if (index >= firstDefault) set(name, defaultOf(index - firstDefault));
    else set(name, new Undefined(`parameter '${name}' was not provided`));
  }
  if (entry.uses.varargs) set("varargs", new Tuple(more));
  if (entry.uses.kwargs) set("kwargs", new Dict(unknown));
}
