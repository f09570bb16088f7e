import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, test } from "vitest";
import { compiled, takes, vocabularyOf } from "../../test/grammar/nativeMatcher.js";
import { random } from "../../test/grammar/random.js";
import { grammarOf } from "../../test/grammar/schemaCases.js";
import { encodeGrammar } from "../grammar/ir.js";
import { type CompiledGrammar, compileGrammar, type GrammarMatcher } from "../runtime/runtime.js";

const unique = (items: unknown, more: object = {}) => ({ type: "array", items, uniqueItems: true, ...more });

test.each<[schema: unknown, good: string[], bad: string[]]>([
  [unique(true), ["[]", "[1,2]", '["a","b",1,null,true]', "[0,false]"], ["[1,1]", '["a","b","a"]', "[null,null]"]],
  [unique({ type: "number" }), ["[1,10,1.5]", "[1e2, 10]"], ["[1,1.0]", "[100,1e2]", "[0,-0]", "[0.10,1e-1]"]],
  [unique({ type: "string" }), ['["a\\u0001","a"]'], ['["\\u0061","a"]', '["é","\\u00e9"]', '["/","\\/"]']],
  [unique({ type: "string" }), ['["😀"]'], ['["😀","\\ud83d\\ude00"]', '["\\n","\\u000a"]']],
  [unique(true), ['[{"a":1,"b":2},{"a":2,"b":1}]'], ['[{"a":1,"b":2},{"b":2.0,"a":1}]', '[[1,"a"],[1, "\\u0061"]]']],
  [unique(true), ['[{"a":1,"a":2},{"a":1}]', "[[],{}]"], ['[{"a":1,"a":2},{"a":2}]', "[[],[ ]]", "[{},{ }]"]],
  [unique(unique(true)), ["[[1,2],[2,1]]", "[[1],[1,2]]"], ["[[1,1]]", "[[1,2],[1,2]]", "[[[1]],[[1]]]"]],
  [unique(true, { contains: { type: "null" } }), ["[1,null]"], ["[null,null]", "[1,1,null]", "[1]"]],
  [{ anyOf: [unique({ type: "integer" }), { type: "array", maxItems: 2 }] }, ["[1,1]", "[1,2,3]"], ["[1,1,2]"]],
  [{ properties: { a: unique(true), b: true } }, ['{"a":[1,2],"b":[1,1]}'], ['{"a":[1,1]}', '{"a":[1,[2],[2]]}']],
  [unique({ type: "string" }, { minItems: 2 }), ['["a","b"]'], ['["a"]', '["a","a"]']],
])("%j", async (schema, good, bad) => {
  const grammar = await compiled(grammarOf(schema));
  for (const text of good) expect([text, takes(grammar, text)]).toEqual([text, true]);
  for (const text of bad) expect([text, takes(grammar, text)]).toEqual([text, false]);
});

test.each<[schema: unknown]>([
  [unique({ type: "string", pattern: "^a$" }, { minItems: 2 })],
  [unique({ enum: Array.from({ length: 40 }, (_, i) => i) }, { minItems: 41 })],
  [
    unique(true, {
      prefixItems: [{ enum: ["a", "b"] }, { type: "boolean" }, { type: "string", pattern: "^a$" }],
      minItems: 3,
    }),
  ],
])("%j may run out of values", (schema) => {
  expect(() => grammarOf(schema)).toThrow(/items must differ that are not seen to have so many values/);
});

/** Single bytes, and tokens that end items and begin others. */
const LONGER = ['","', '",', '["', "],[", "[[],[]", "1,1", ",1]", "0,", "1]", 'a","a"', '":', '{"', '"}', '"},{"a":"'];
const TOKENS = [
  ...Array.from({ length: 256 }, (_, byte) => Buffer.from([byte])),
  ...LONGER.map((one) => Buffer.from(one)),
];
const END = TOKENS.length;

const SCHEMAS: unknown[] = [
  unique({ type: "integer", minimum: 0, maximum: 12 }),
  unique({ type: "number" }, { maxItems: 5 }),
  unique({ type: "string", maxLength: 1, pattern: "^[ab\\n]*$" }),
  unique({ type: "string", pattern: "^a*b?$" }),
  unique({ enum: ["a", "ab", "abc", "b", 1, 10, 100, true, null] }),
  unique({ type: "object", properties: { a: { enum: ["x", "y"] }, b: { type: "boolean" } }, required: ["a"] }),
  unique({ type: "object", properties: { a: { type: "string" } }, additionalProperties: { type: "integer" } }),
  unique(unique({ type: "integer", minimum: 0, maximum: 9 })),
  unique({ type: "array", items: { type: "boolean" }, maxItems: 2 }),
  unique({ anyOf: [{ type: "boolean" }, { type: "string", maxLength: 1 }, { type: "object" }] }),
  { type: "object", properties: { a: unique({ type: "string", maxLength: 2 }), b: unique(true) } },
  { anyOf: [unique({ type: "integer" }), { type: "array", items: { type: "integer" }, maxItems: 3 }] },
  unique(true, { contains: { type: "null" }, minItems: 1 }),
];

/** What texts are drawn from, so that items are often like earlier ones. */
const LIKELY = [...',,,""[]{}:aabxtrueynl10.'].map((one) => one.charCodeAt(0));

function permittedBy(matcher: GrammarMatcher): number[] {
  const mask = matcher.mask();
  return Array.from({ length: END + 1 }, (_, id) => id).filter((id) => (mask[id >> 5]! >>> (id & 31)) & 1);
}

describe("at random", () => {
  test.each(SCHEMAS)("%j", async (schema) => {
    const isValid = new Ajv2020({ strict: false }).compile(schema as object);
    const vocabulary = await vocabularyOf(TOKENS);
    const grammar = await compileGrammar(vocabulary, encodeGrammar(grammarOf(schema)));
    const next = random(7);
    const counts = { drawn: 0, texts: 0, same: 0 };
    for (let i = 0; i < 30; i++) {
      const text = drawn(grammar, next);
      if (text === null || /\d{16}/.test(text)) continue;
      counts.drawn++;
      expect([text, isValid(JSON.parse(text))]).toEqual([text, true]);
      // The same with an item twice, which only some grammars take.
      for (const other of [`${text.slice(0, -1)},${text.slice(1)}`, respelled(text)]) {
        if (!isJson(other)) continue;
        counts.texts++;
        if (!isValid(JSON.parse(other))) expect([other, takesTokens(grammar, other)]).toEqual([other, false]);
        else counts.same++;
      }
    }
    expect(counts.drawn).toBeGreaterThan(2);
    expect(counts.texts).toBeGreaterThan(2);
  });
});

/** As the masks permit; null: a long one. Every token's bit says what accepting it, and its bytes one by one, says. */
function drawn(grammar: CompiledGrammar, next: () => number): string | null {
  const matcher = grammar.matcher();
  const drawn: number[] = [];
  for (;;) {
    const permitted = permittedBy(matcher);
    if (permitted.length === 0) throw new Error(`nothing may follow ${textOf(drawn)}`);
    const looked = next() < 0.1 ? [...permitted.slice(0, 8), ...LONGER.map((_, i) => 256 + i)] : [];
    for (const id of looked) {
      if (id === END) continue;
      const other = matcher.clone();
      const isPermitted = permitted.includes(id);
      if (other.accept(id) !== isPermitted)
        throw new Error(`${textOf(drawn)}: token ${id}, ${isPermitted} in the mask`);
      // Taken back, nothing of it is left.
      if (isPermitted) other.rewind(1);
      if (permittedBy(other).join() !== permitted.join()) throw new Error(`${textOf(drawn)}: token ${id} taken back`);
    }
    if (permitted.includes(END) && next() < 0.3) return textOf(drawn);
    const likely = LIKELY.filter((byte) => permitted.includes(byte));
    const from = likely.length > 0 && next() < 0.9 ? likely : permitted;
    const id = from[Math.floor(next() * from.length)]!;
    if (id === END) return textOf(drawn);
    if (!matcher.accept(id)) throw new Error(`${textOf(drawn)}: token ${id} is in the mask and not accepted`);
    drawn.push(id);
    if (drawn.length > 150) return null;
  }
}

function textOf(ids: number[]): string {
  return Buffer.concat(ids.map((id) => TOKENS[id]!)).toString();
}

function takesTokens(grammar: CompiledGrammar, text: string): boolean {
  const matcher = grammar.matcher();
  return [...Buffer.from(text)].every((byte) => matcher.accept(byte)) && matcher.complete;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Every item once more, with other spellings. */
function respelled(text: string): string {
  const again = text.slice(1).replaceAll("a", "\\u0061").replaceAll(/\b1\b/g, "1.0").replaceAll(",", ", ");
  return `${text.slice(0, -1)},${again}`;
}
