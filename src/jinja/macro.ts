// A macro as a value, and which of its parameters a call gives.

import { bind } from "./callValues.js";
import type { MacroEntry } from "./program.js";
import { Callable, type CallValues, Dict, raise, Tuple, Undefined, type Value } from "./values.js";

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
