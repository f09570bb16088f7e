// Members that an object must have by a condition on their names and values: which of the object's own names can meet it,
// and what a member of another name must be.

import { alt, type Expr, not, text } from "../grammar/ir.js";
import { isMatch } from "../grammar/regularMatch.js";
import { spend } from "../grammar/workBudget.js";
import type { Branches } from "./branches.js";
import type { MemberCondition, SchemaDocument } from "./document.js";
import { isProvablyEmpty, MAX_DEPTH } from "./emptiness.js";
import { keywordError } from "./keywords.js";
import { type Branch, objectShape, patternSearch } from "./shape.js";
import { nameContent } from "./strings.js";

/** Conditions that members of other names meet, each by one of its own or together. */
const MAX_OTHERS = 3;
const MAX_WAYS = 500;
const WAY_COST = 50;

/** A way to meet all conditions of a branch. */
export interface MemberWay {
  /** Without conditions; with what the names that meet some must be. */
  branch: Branch;
  /** Each list is met by one member whose name the branch does not know. */
  others: readonly (readonly MemberCondition[])[];
}

export function memberWays(document: SchemaDocument, branches: Branches, branch: Branch, closed: boolean): MemberWay[] {
  const conditions = branch.flatMap((node) => node.member ?? []);
  if (conditions.length === 0) return [{ branch, others: [] }];
  const own = branch.filter((node) => node.member === undefined);
  let ways: MemberWay[] = [{ branch: own, others: [] }];
  for (const condition of conditions) {
    const names = objectShape(document, own, closed).named.map((one) => one.name);
    const known = names.filter((name) => meetsName(branches, condition, name));
    ways = ways.flatMap((way): MemberWay[] => {
      spend(WAY_COST * (known.length + 1));
      const named = known.map((name) => {
        const node = document.derive(condition.origin, `member ${name} ${condition.value.id}`, {
          schema: { type: "object" },
          named: { name, value: condition.value },
        });
        return { ...way, branch: [...way.branch, node] };
      });
      const together = way.others.map((_, i) => ({
        ...way,
        others: way.others.map((list, j) => (i === j ? [...list, condition] : list)),
      }));
      return [...named, ...together, { ...way, others: [...way.others, [condition]] }];
    });
    ways = ways.filter((way) => !isProvablyEmpty(document, branches, way.branch, closed, MAX_DEPTH));
    if (ways.length > MAX_WAYS || ways.some((way) => way.others.length > MAX_OTHERS)) {
      throw keywordError(condition.origin, condition.keyword, "has too many ways not to hold to be enforced");
    }
  }
  return ways;
}

/** Whether a member of this name can be the one that the condition asks for. */
function meetsName(branches: Branches, condition: MemberCondition, name: string): boolean {
  return (
    !condition.excludedNames.includes(name) &&
    nameConditions(branches, { ...condition, excludedNames: [] }).every((one) => isMatch(one, name))
  );
}

/** What a name must match. */
export function nameConditions(branches: Branches, condition: MemberCondition): Expr[] {
  const { origin, excludedNames, excludedPatterns, pattern, name } = condition;
  const found = excludedPatterns.map((one) => not(patternSearch(origin, one)));
  if (excludedNames.length > 0) found.push(not(alt(...excludedNames.map(text))));
  if (pattern !== undefined) found.push(patternSearch(origin, pattern));
  const content = name === undefined ? null : nameContent(branches, [name]);
  return content === null ? found : [...found, content];
}
