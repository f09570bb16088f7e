import { describe, expect, test } from "vitest";
import { cpuMilliseconds } from "../../test/fixtures/cpuTime.js";
import { matches } from "../../test/grammar/irMatcher.js";
import { GrammarError } from "../grammar/grammarError.js";
import { parseJsonText, SpelledNumber } from "../json.js";
import { type Constraint, constraintGrammar, type PlainConstraint, type Thoughts } from "./constraint.js";
import { constraintText, readConstraint } from "./constraintText.js";

const format = {
  whitespacePattern: null,
  disableAnyWhitespace: false,
  disableAdditionalProperties: false,
  anyOrder: false,
};
const plain = { specialTokens: new Map<string, number>(), thoughts: null };
const thoughtsOf = (begin: "none" | "possible" | "open"): Thoughts | null =>
  begin === "none" ? null : { begin, opens: ["<think>"], closes: ["</think>"] };
const yes: Constraint = { kind: "choice", choices: ["yes", "no"] };

test.each([
  ["none", ["yes"], ["<think></think>yes", "maybe"]],
  [
    "possible",
    ["yes", "<think>a</think>no", "<think>\n</think>\n\nyes"],
    ["<think>yes", "<think></think>", "a</think>yes"],
  ],
  ["open", ["</think>yes", "so </ think \n</think>\n\nno"], ["yes", "a</think>b</think>yes"]],
] as const)("thoughts: %s", (thoughts, good, bad) => {
  for (const specialTokens of [new Map(), new Map([["<other>", 3]])]) {
    const grammar = constraintGrammar(yes, { specialTokens, thoughts: thoughtsOf(thoughts) });
    for (const text of good) expect([text, matches(grammar, text)]).toEqual([text, true]);
    for (const text of bad) expect([text, matches(grammar, text)]).toEqual([text, false]);
  }
});

test("thoughts whose marks are special tokens", () => {
  const specialTokens = new Map([
    ["<think>", 1],
    ["</think>", 2],
  ]);
  const grammar = constraintGrammar(
    { kind: "grammar", source: 'root ::= "a"' },
    { specialTokens, thoughts: thoughtsOf("possible") },
  );
  // Special tokens stand in a text as U+D800 + id.
  expect(matches(grammar, "\ud801hm\ud802a")).toBe(true);
  expect(matches(grammar, "a")).toBe(true);
  expect(matches(grammar, "<think>hm</think>a")).toBe(false);
});

describe("replies that are messages", () => {
  const marks = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>"];
  const heads = ["<|channel|>final<|message|>", "<|channel|>final json<|message|>"];
  const headed: Constraint = { kind: "headed", heads, of: { kind: "choice", choices: ["yes", "no"] } };
  const thoughts = (begin: "possible" | "open"): Thoughts => ({
    ...{ begin, opens: ["<|channel|>analysis<|message|>"], closes: ["<|end|>"], next: "<|start|>assistant" },
  });
  const thought = "<|channel|>analysis<|message|>a b<|end|><|start|>assistant";

  test.each([
    [
      "possible",
      ["", thought, thought + thought],
      [thought.slice(3), "<|channel|>analysis<|message|>a", `${thought} `],
    ],
    ["open", ["so<|end|><|start|>assistant", `so<|end|><|start|>assistant${thought}`], ["", "so"]],
  ] as const)("hold what is said behind their heads: %s", (begin, good, bad) => {
    for (const areTokens of [true, false]) {
      const specialTokens = new Map(areTokens ? marks.map((mark, i) => [mark, i + 1]) : []);
      // Special tokens stand in a text as U+D800 + id.
      const drawn = (text: string) =>
        [...specialTokens].reduce((all, [mark, id]) => all.replaceAll(mark, String.fromCharCode(0xd800 + id)), text);
      const grammar = constraintGrammar(headed, { specialTokens, thoughts: thoughts(begin) });
      for (const before of good) {
        for (const head of heads) {
          const texts = [`${before}${head}yes`, `${before}${head}maybe`].map(drawn);
          expect(texts.map((text) => matches(grammar, text))).toEqual([true, false]);
        }
        expect(matches(grammar, drawn(`${before}yes`))).toBe(false);
      }
      for (const before of bad)
        expect([before, matches(grammar, drawn(`${before}${heads[0]}yes`))]).toEqual([before, false]);
    }
  });

  test("whatever says it", () => {
    const kinds: PlainConstraint[] = [
      { kind: "grammar", source: 'root ::= a a\na ::= "x"' },
      { kind: "regex", pattern: "x{2}" },
    ];
    for (const of of kinds) {
      const grammar = constraintGrammar({ kind: "headed", heads: ["> "], of }, plain);
      expect(["> xx", "xx", "> x"].map((text) => matches(grammar, text))).toEqual([true, false, false]);
    }
    const wrong: Constraint = {
      kind: "headed",
      heads: ["> "],
      of: { kind: "json_schema", schema: { type: "odd" }, format },
    };
    const either: Constraint = { kind: "either", of: [{ kind: "regex", pattern: "a" }, wrong] };
    expect(() => constraintGrammar(either, plain)).toThrow(expect.objectContaining({ path: ["1", "type"] }));
  });
});

test("literals that are tokens may be drawn as these", () => {
  const literalTokens = new Map([
    ["<think>", 1],
    ["</think>", 2],
  ]);
  const setting = { specialTokens: literalTokens, literalTokens, thoughts: null };
  const good = ["<think>é</think>yes", "\ud801é\ud802yes", "\ud801é</think>yes"];
  const constraints: Constraint[] = [
    { kind: "regex", pattern: "(<think>é</think>)+yes" },
    { kind: "choice", choices: ["<think>é</think>yes"] },
    { kind: "grammar", source: 'root ::= open "é</think>" "yes"\nopen ::= "<think>"' },
  ];
  for (const constraint of constraints) {
    const grammar = constraintGrammar(constraint, setting);
    for (const text of good) expect([constraint, text, matches(grammar, text)]).toEqual([constraint, text, true]);
    for (const text of ["é\ud802yes", "\ud802é\ud801yes"]) expect(matches(grammar, text)).toBe(false);
  }
  const any = constraintGrammar({ kind: "regex", pattern: "[^a]*|.{3}" }, setting);
  expect(matches(any, "<think>")).toBe(true);
  expect(matches(any, "\ud801")).toBe(false);
});

test("schemas and tags may be JSON text", () => {
  const grammar = constraintGrammar({ kind: "json_schema", schema: '{"const":[1]}', format }, plain);
  expect(matches(grammar, "[1]")).toBe(true);
  expect(() => constraintGrammar({ kind: "json_schema", schema: "{", format }, plain)).toThrow("is not JSON");
});

test("schemas that would take too long are refused in time", () => {
  let leaves = 0;
  const nested = (depth: number): object =>
    depth === 0 ? { const: leaves++ } : { anyOf: [nested(depth - 1), { items: nested(depth - 1) }] };
  const many = (count: number) => Array.from({ length: count }, (_, i) => i);
  const hostile: unknown[] = [
    { oneOf: many(1500).map((i) => ({ type: "object", properties: { [`p${i}`]: { const: i } }, required: ["a"] })) },
    {
      type: "object",
      patternProperties: { "(a*)*b": {}, "(a|a?)+$": {} },
      properties: Object.fromEntries(many(3000).map((i) => [`${"a".repeat(300)}${i}`, {}])),
    },
    { type: "string", pattern: "(x+x+)+y", enum: many(5000).map((i) => "x".repeat(200) + i) },
    { allOf: many(12).map(() => nested(6)) },
    { type: "number", not: { enum: many(20_000) } },
    { const: many(20_000) },
    { oneOf: many(20_000).map((i) => ({ const: i })) },
    {
      $defs: { d3000: {}, ...Object.fromEntries(many(3000).map((i) => [`d${i}`, { $ref: `#/$defs/d${i + 1}` }])) },
      properties: Object.fromEntries(many(1000).map((i) => [`p${i}`, { $ref: "#/$defs/d0" }])),
    },
    {
      $defs: Object.fromEntries(
        many(300).map((i) => [
          `d${i}`,
          { allOf: many(300).map((j) => ({ properties: { a: { $ref: `#/$defs/d${(i + j) % 300}` } } })) },
        ]),
      ),
      $ref: "#/$defs/d0",
    },
  ];
  for (const schema of hostile) {
    const started = process.cpuUsage();
    expect(() => constraintGrammar({ kind: "json_schema", schema, format }, plain)).toThrow(GrammarError);
    expect(process.cpuUsage(started).user / 1000).toBeLessThan(15_000);
  }
});

test("long lists of values are read in time", () => {
  const many = (count: number) => Array.from({ length: count }, (_, i) => i);
  const words = (count: number, from: number) => many(count).map((i) => `w${i + from}`);
  const started = cpuMilliseconds();
  for (const schema of [
    { allOf: [{ enum: words(10_000, 0) }, { enum: words(10_000, 5_000) }, { not: { enum: words(4_900, 5_000) } }] },
    { const: many(10_000) },
    { oneOf: words(1_500, 0).map((word) => ({ const: word, title: word })) },
  ]) {
    constraintGrammar({ kind: "json_schema", schema, format }, plain);
  }
  expect(cpuMilliseconds() - started).toBeLessThan(5000);
});

test("a list that is too large for the stack is refused by name", () => {
  const choices = Array.from({ length: 300_000 }, () => "a");
  expect(() => constraintGrammar({ kind: "choice", choices }, plain)).toThrow(GrammarError);
  expect(() => constraintGrammar({ kind: "regex", pattern: "a|".repeat(300_000) }, plain)).toThrow(GrammarError);
});

test("numbers of a schema that are no integers are written as there", () => {
  const enumeration = '{"enum":[1.50,2.5e-1,-0.10,0.75,1.0,7],"minimum":-0.50}';
  for (const schema of [enumeration, parseJsonText(enumeration, "spellings")]) {
    const grammar = constraintGrammar({ kind: "json_schema", schema, format }, plain);
    for (const text of ["1.50", "2.5e-1", "-0.10", "0.75", "1", "7"]) {
      expect([text, matches(grammar, text)]).toEqual([text, true]);
    }
    for (const text of ["1.5", "0.25", "-0.1", "1.0", "7.0"])
      expect([text, matches(grammar, text)]).toEqual([text, false]);
  }
});

test("numbers of a schema that no double is near are refused where they stand", async () => {
  for (const number of ["1e400", "-1e400", "1.5e+400", "1e-400", "-0.1E-400"]) {
    for (const [text, place] of [
      [`{"const":${number}}`, "const"],
      [`{"enum":[1,${number}]}`, "enum.1"],
      [`{"properties":{"b":{"const":{"a":[0,${number}]}}}}`, "properties.b.const.a.1"],
      [`{"not":{"enum":[2,${number}]}}`, "not.enum.1"],
      [`{"minimum":${number}}`, "minimum"],
      [`{"multipleOf":${number}}`, "multipleOf"],
    ] as const) {
      const asText: Constraint = { kind: "json_schema", schema: text, format };
      const asValue: Constraint = { kind: "json_schema", schema: parseJsonText(text, "spellings"), format };
      for (const constraint of [asText, asValue]) {
        const sent = readConstraint(await constraintText(constraint));
        const refused = { message: expect.stringContaining("doubles"), path: place.split(".") };
        expect(() => constraintGrammar(sent, plain)).toThrow(expect.objectContaining(refused));
      }
    }
  }
  const near = '{"enum":[1.797e308,5e-324,0e-400,0.0],"default":1e400}';
  const grammar = constraintGrammar({ kind: "json_schema", schema: near, format }, plain);
  expect(["5e-324", "0"].map((text) => matches(grammar, text))).toEqual([true, true]);
});

test("a constant that nests too deep is refused where it stands", () => {
  const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
  const refused = (schema: unknown) => {
    try {
      constraintGrammar({ kind: "json_schema", schema, format }, plain);
    } catch (error) {
      return `${(error as GrammarError).path.join(".")}: ${(error as Error).message}`;
    }
    return null;
  };
  for (const read of [(text: string) => text, (text: string) => JSON.parse(text) as unknown]) {
    expect(refused(read(`{"const":${nested(200)}}`))).toBe(null);
    for (const [schema, place] of [
      [`{"const":${nested(201)}}`, "const"],
      [`{"enum":[1,${nested(300)}]}`, "enum"],
      [`{"properties":{"a":{"const":${nested(800)}}}}`, "properties.a.const"],
    ] as const) {
      expect(refused(read(schema))).toMatch(`${place}: nests too deep: each of its levels is two of the schema's 400`);
    }
  }
  const text = `{"properties":{"a":{"const":[1.5,${nested(5000)}]}}}`;
  expect(refused(text)).toBe(": is nested more than 900 deep");
});

test("a constraint is the same after it was text", async () => {
  const schema = {
    const: parseJsonText(
      '[1.50,12345678901234567890,{"number":"1.5","bigint":"2","entries":[[1]]},{"__proto__":1.25}]',
      "spellings",
    ),
    default: { entries: null },
  };
  const constraint: Constraint = { kind: "json_schema", schema, format };
  const text = await constraintText(constraint);
  expect(readConstraint(text)).toEqual(constraint);
  const other = JSON.parse(JSON.stringify({ ...constraint, schema: { const: [1.5] } })) as Constraint;
  expect(await constraintText(other)).not.toBe(
    await constraintText({ ...constraint, schema: { const: [new SpelledNumber("1.50")] } }),
  );
});

test("what JSON would leave out of a constraint is refused", async () => {
  for (const value of [() => 1, Symbol("x"), Number.NaN, Number.POSITIVE_INFINITY]) {
    const constraint: Constraint = { kind: "json_schema", schema: { enum: [1, value] }, format };
    await expect(constraintText(constraint)).rejects.toThrow(
      new GrammarError("must be plain JSON, not nested too deep"),
    );
  }
});
