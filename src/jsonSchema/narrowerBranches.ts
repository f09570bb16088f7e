// Branches whose values another branch has too, because it asks for less.

import { spend } from "../grammar/workBudget.js";
import { isObject, type JsonObject, type SchemaNode } from "./document.js";
import { keysOf } from "./keywords.js";
import type { Branch } from "./shape.js";

/** All texts of `branches`, by fewer of them, in their order. */
export function withoutNarrower(branches: Branch[]): Branch[] {
  /** Those that ask for least come first, each found by its last schema. */
  const kept = new Map<SchemaNode | undefined, Branch[]>();
  const narrower = new Set<Branch>();
  const different = [...new Set(branches)];
  for (const branch of different.toSorted((a, b) => a.length - b.length)) {
    const isNarrowerThan = (wider: Branch) => {
      spend(1);
      return wider.every((one) => branch.includes(one)) && hasTextsOf(wider, branch);
    };
    const isNarrower = branch.some((node) => kept.get(node)?.some(isNarrowerThan)) || kept.has(undefined);
    if (isNarrower) {
      narrower.add(branch);
      continue;
    }
    const last = branch.at(-1);
    const known = kept.get(last);
    if (known === undefined) kept.set(last, [branch]);
    else known.push(branch);
  }
  return different.filter((branch) => !narrower.has(branch));
}

/** Whether a branch with some of the schemas of another one takes its values in each order of members in which it does. */
function hasTextsOf(wider: Branch, branch: Branch): boolean {
  const isOrdered = (node: SchemaNode) => isObject(node.schema) && node.schema["x-property-order"] !== undefined;
  if (branch.some(isOrdered)) return false;
  // What is not declared may come in any order after what is, and before it where nothing required is still to come.
  const names = declaredNames(branch);
  for (const name of declaredNames(wider)) if (names.next().value !== name) return false;
  return true;
}

/** Each once, in order. */
function* declaredNames(branch: Branch): Generator<string, undefined> {
  const seen = new Set<string>();
  for (const node of branch) {
    if (!isObject(node.schema) || (node.schema as JsonObject).properties === undefined) continue;
    for (const name of keysOf(node, "properties")) {
      if (seen.has(name)) continue;
      seen.add(name);
      yield name;
    }
  }
  return undefined;
}
