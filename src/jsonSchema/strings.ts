// What the content of a string may be.

import { within } from "../grammar/grammarError.js";
import { ANY_CHARACTER, ANY_TEXT, alt, and, type Expr, not, repeat, text } from "../grammar/ir.js";
import { regexSearchToExpr } from "../grammar/regex.js";
import { isMatch } from "../grammar/regularMatch.js";
import type { Branches } from "./branches.js";
import { isObject, type SchemaNode } from "./document.js";
import { formatExpr } from "./formats.js";
import { stringOf } from "./keywords.js";
import { type Branch, type Conjunction, countShape, typeShape } from "./shape.js";

/** Content of any characters, `min` to `max` of them (-1: any number), or an expression for it. */
export type StringContent = { free: true; min: number; max: number } | { free: false; content: Expr };

/** What a string of a branch may hold. The branch allows strings. */
export function stringContent(branch: Branch): StringContent {
  const { literals } = typeShape(branch);
  const { min, max } = countShape(branch, "minLength", "maxLength");
  const conditions = branch.flatMap((node) => textConditions(node));
  if (literals === null && conditions.length === 0) return { free: true, min, max };
  const lengths = min > 0 || max !== -1 ? [repeat(ANY_CHARACTER, min, max)] : [];
  const all = [...conditions, ...lengths];
  if (literals === null) return { free: false, content: and(...all) };
  const strings = literals.filter((value) => typeof value === "string");
  const matching = strings.filter((value) => all.every((condition) => isMatch(condition, value)));
  return { free: false, content: alt(...matching.map(text)) };
}

/** The names that satisfy all schemas; null: every name. */
export function nameContent(branches: Branches, names: Conjunction): Expr | null {
  if (names.length === 0) return null;
  const contents = branches.of(names).map((branch) => {
    if (!typeShape(branch).types.has("string")) return null;
    const content = stringContent(branch);
    return content.free ? repeat(ANY_CHARACTER, content.min, content.max) : content.content;
  });
  return alt(...contents.filter((content) => content !== null));
}

function textConditions(node: SchemaNode): Expr[] {
  const found: Expr[] = [];
  const format = (name: string) => formatExpr(name, node.dialect.hostnamesArePlain);
  const excluded = (node.excluded ?? []).filter((value) => typeof value === "string");
  if (excluded.length > 0) found.push(not(alt(...excluded.map(text))));
  if (node.excludedText !== undefined) {
    const { keyword, value } = node.excludedText;
    found.push(not(keyword === "pattern" ? search(node, value) : (format(value) ?? ANY_TEXT)));
  }
  if (!isObject(node.schema)) return found;
  const pattern = stringOf(node, "pattern");
  if (pattern !== undefined) found.push(search(node, pattern));
  const name = stringOf(node, "format");
  const expr = name === undefined ? null : format(name);
  if (expr !== null) found.push(expr);
  return found;
}

function search(node: SchemaNode, pattern: string): Expr {
  return within([...node.path, "pattern"], () => regexSearchToExpr(pattern));
}
