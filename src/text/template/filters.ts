// Jinja2's filters by name: what may follow `|`.

import { budget } from "./budget.js";
import { collectionFilters } from "./collectionFilters.js";
import { numberFilters } from "./numberFilters.js";
import { textFilters } from "./textFilters.js";
import { type CallValues, raise, type Value } from "./values.js";

export type Filter = (value: Value, given: CallValues) => Value;

function filters(): Record<string, Filter> {
  return { ...textFilters, ...numberFilters, ...collectionFilters };
}

let byName: Record<string, Filter> | null = null;

export function filterExists(name: string): boolean {
  byName ??= filters();
  return Object.hasOwn(byName, name);
}

export function applyFilter(name: string, value: Value, given: CallValues): Value {
  budget().step();
  if (!filterExists(name)) return raise("TemplateRuntimeError", `No filter named '${name}'.`);
  return byName![name]!(value, given);
}
