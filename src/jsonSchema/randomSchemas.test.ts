import { expect, test } from "vitest";
import { compiled, drawn, takes } from "../../test/grammar/nativeMatcher.js";
import { random } from "../../test/grammar/random.js";
import { isValid, type Json, SchemaMaker } from "../../test/grammar/randomSchemas.js";
import { grammarOf } from "../../test/grammar/schemaCases.js";
import { GrammarError } from "../grammar/grammarError.js";
import type { Grammar } from "../grammar/ir.js";

test.each([1, 2, 3, 4, 5, 6])("random schemas and values, seed %i", async (seed) => {
  const next = random(seed);
  const make = new SchemaMaker(next);
  const seen = { accepted: 0, rejected: 0, refused: 0, empty: 0, drawn: 0 };
  for (let i = 0; i < 60; i++) {
    const schema = make.schema(3);
    let grammar: Grammar;
    try {
      grammar = grammarOf(schema);
    } catch (error) {
      if (!(error instanceof GrammarError)) throw error;
      seen.refused++;
      continue;
    }
    const values = Array.from({ length: 25 }, () => make.value(3));
    const native = await compiled(grammar).catch((error: { code: string }) => {
      expect(error.code).toBe("grammar_empty");
      return null;
    });
    if (native === null) {
      seen.empty++;
      for (const value of values) expect([schema, value, isValid(schema, value)]).toEqual([schema, value, false]);
      continue;
    }
    for (const value of values) {
      const wanted = isValid(schema, value);
      const text = JSON.stringify(value);
      expect([JSON.stringify(schema), text, takes(native, text)]).toEqual([JSON.stringify(schema), text, wanted]);
      if (wanted) seen.accepted++;
      else seen.rejected++;
    }
    for (let j = 0; j < 3; j++) {
      const text = drawn(native, next, 400);
      // JavaScript reads longer numbers as others.
      if (text === null || /\d{16}/.test(text)) continue;
      seen.drawn++;
      expect([JSON.stringify(schema), text, isValid(schema, JSON.parse(text) as Json)]).toEqual([
        JSON.stringify(schema),
        text,
        true,
      ]);
    }
  }
  for (const [what, count] of Object.entries({ accepted: 100, rejected: 300, drawn: 30 })) {
    expect([what, seen[what as "drawn"]! > count, seen]).toEqual([what, true, seen]);
  }
});
