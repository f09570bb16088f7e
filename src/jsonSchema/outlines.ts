// What is seen at a glance of the values that a schema allows: enough to tell most alternatives from each other, without
// taking each pair of them apart together.

import { GrammarError } from "../grammar/grammarError.js";
import { spend } from "../grammar/workBudget.js";
import type { SchemaDocument } from "./document.js";
import {
  ALL_TYPES,
  type Branch,
  type BranchReader,
  type Conjunction,
  type JsonType,
  keyOf,
  objectShape,
  typeShape,
} from "./shape.js";

/** One for each branch. */
export type Outline = readonly BranchOutline[];

interface BranchOutline {
  values: Values;
  /** Of an object: what is under a name. */
  member(name: string): Values;
  /** Of an object: the names that it must have. */
  required: readonly string[];
}

/** Their types, and where they are single values, which. */
interface Values {
  types: ReadonlySet<JsonType>;
  /** Keys by `keyOf`; null: not known. */
  literals: ReadonlySet<string> | null;
}

const ANY: Values = { types: new Set(ALL_TYPES), literals: null };

/** The outline of what satisfies all of `nodes`. `closed`: objects that declare properties have no others. */
export function outlineOf(
  document: SchemaDocument,
  branches: BranchReader,
  nodes: Conjunction,
  closed: boolean,
): Outline {
  return branches.of(nodes).map((branch): BranchOutline => {
    const values = valuesOf([branch]);
    if (!values.types.has("object")) return { values, member: () => ANY, required: [] };
    const { named, patterns, additional } = objectShape(document, branch, closed);
    const conjunctions = new Map(named.map(({ name, value }) => [name, value]));
    // Another schema's properties may open what is closed without saying so.
    const others = closed || patterns.length > 0 ? null : additional(new Set());
    const known = new Map<Conjunction, Values>();
    const member = (name: string): Values => {
      const conjunction = conjunctions.get(name) ?? others;
      if (conjunction === null) return ANY;
      let found = known.get(conjunction);
      if (found === undefined) {
        found = glance(branches, conjunction);
        known.set(conjunction, found);
      }
      return found;
    };
    return { values, member, required: named.filter((one) => one.required).map((one) => one.name) };
  });
}

/** Any value where more than a glance is needed. */
function glance(branches: BranchReader, nodes: Conjunction): Values {
  try {
    return valuesOf(branches.of(nodes));
  } catch (error) {
    if (error instanceof GrammarError) return ANY;
    throw error;
  }
}

function valuesOf(branches: readonly Branch[]): Values {
  const shapes = branches.map(typeShape);
  const types = new Set(shapes.flatMap((shape) => [...shape.types]));
  if (shapes.some((shape) => shape.literals === null)) return { types, literals: null };
  return { types, literals: new Set(shapes.flatMap((shape) => shape.literals!.map(keyOf))) };
}

/** Whether no value has both outlines; false when that is not seen. */
export function areSeenApart(a: Outline, b: Outline): boolean {
  return a.every((one) => b.every((other) => areBranchesApart(one, other)));
}

function areBranchesApart(a: BranchOutline, b: BranchOutline): boolean {
  spend(1);
  if (areApart(a.values, b.values)) return true;
  for (const type of a.values.types) if (type !== "object" && b.values.types.has(type)) return false;
  return differsInRequired(a, b) || differsInRequired(b, a);
}

/** Whether what `a` has under a name that `b` requires is nothing that `b` has there. */
function differsInRequired(a: BranchOutline, b: BranchOutline): boolean {
  return b.required.some((name) => {
    spend(1);
    return areApart(a.member(name), b.member(name));
  });
}

function areApart(a: Values, b: Values): boolean {
  if (a.literals !== null && b.literals !== null) return areDisjoint(a.literals, b.literals);
  return areDisjoint(a.types, b.types);
}

function areDisjoint<T>(a: ReadonlySet<T>, b: ReadonlySet<T>): boolean {
  for (const one of a) if (b.has(one)) return false;
  return true;
}
