// Schemas with texts they allow and texts they do not, by the native engine and by the slow reading of a grammar.

import { expect, test } from "vitest";
import type { Expr, Grammar } from "../../src/grammar/ir.js";
import { RuleBook } from "../../src/grammar/ruleBook.js";
import { type JsonSchemaOptions, jsonSchemaToExpr } from "../../src/jsonSchema/compile.js";
import { DEFAULT_SPACE, JsonRules } from "../../src/jsonSchema/jsonValues.js";
import { matches } from "./irMatcher.js";
import { compiled, takes } from "./nativeMatcher.js";

/** Read off the keywords' definitions in draft 2020-12. */
export type SchemaCase = [schema: unknown, good: string[], bad: string[]];

export function grammarOf(
  schema: unknown,
  space: Expr = DEFAULT_SPACE,
  { closed = false, anyOrder = false }: Partial<JsonSchemaOptions> = {},
): Grammar {
  const rules = new RuleBook();
  return rules.finish(jsonSchemaToExpr(new JsonRules(rules, space), schema, { closed, anyOrder }));
}

export function testSchemas(cases: readonly SchemaCase[], options: Partial<JsonSchemaOptions> = {}): void {
  test.each(cases)("%j", async (schema, good, bad) => {
    const grammar = grammarOf(schema, DEFAULT_SPACE, options);
    const native = await compiled(grammar);
    for (const text of good) expect([text, matches(grammar, text), takes(native, text)]).toEqual([text, true, true]);
    for (const text of bad) expect([text, matches(grammar, text), takes(native, text)]).toEqual([text, false, false]);
  });
}
