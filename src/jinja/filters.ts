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

/** All filters; asked for late, since filters apply filters. */
export function filtersByName(): Readonly<Record<string, Filter>> {
  byName ??= filters();
  return byName;
}

export function filterExists(name: string): boolean {
  return Object.hasOwn(filtersByName(), name);
}

export function applyFilter(name: string, value: Value, given: CallValues): Value {
  budget().step();
  if (!filterExists(name)) return raise("TemplateRuntimeError", `No filter named '${name}'.`);
  return filtersByName()[name]!(value, given);
}
