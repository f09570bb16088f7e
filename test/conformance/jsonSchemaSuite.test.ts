// The published test cases of JSON Schema as cases of a matcher: valid values match byte by byte, invalid ones do not,
// unless the schema is refused with the name of the keyword that cannot be enforced.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { CompiledGrammar } from "../../src/runtime/runtime.js";
import { constraintGrammar, GrammarError } from "../../src/structuredOutputs/index.js";
import { compiled, takes } from "../grammar/nativeMatcher.js";

interface Group {
  drafts: string[];
  file: string;
  about: string;
  schema: unknown;
  tests: { about: string; data: string; valid: boolean }[];
}

const groups: readonly Group[] = readFileSync(join(import.meta.dirname, "../reference/json_schema/suite.jsonl"), "utf8")
  .trimEnd()
  .split("\n")
  .map((line) => JSON.parse(line) as Group);

const DIALECTS: Readonly<Record<string, string>> = {
  4: "http://json-schema.org/draft-04/schema#",
  6: "http://json-schema.org/draft-06/schema#",
  7: "http://json-schema.org/draft-07/schema#",
  "2019-09": "https://json-schema.org/draft/2019-09/schema",
  "2020-12": "https://json-schema.org/draft/2020-12/schema",
};

/** Keywords that may be refused, and in which files of the suite they are. */
const REFUSALS: Readonly<Record<string, RegExp>> = {
  // To documents that the request does not bring along.
  $ref: /^(refRemote|ref|definitions|defs|dynamicRef|optional\/cross-draft|optional\/dynamicRef|unevaluatedItems|unevaluatedProperties)\.json$/,
  $schema: /^(vocabulary|optional\/format-assertion|optional\/cross-draft)\.json$/,
  $dynamicRef: /^((optional\/)?dynamicRef|unevaluatedItems|unevaluatedProperties)\.json$/,
  // Of international host names and mail addresses.
  format: /^(format|optional\/format\/(idn-email|idn-hostname))\.json$/,
  // Of names that the schema does not know.
  minProperties: /^(dependencies|dependentSchemas|optional\/dependencies-compatibility)\.json$/,
  // Of steps that take more than a thousand states.
  multipleOf: /^(multipleOf|optional\/float-overflow)\.json$/,
  // Without an opposite that can be written as a schema.
  unevaluatedProperties: /^(not|unevaluatedProperties)\.json$/,
  $recursiveRef: /^recursiveRef\.json$/,
  contentMediaType: /^optional\/content\.json$/,
};

/** Cases that are answered otherwise than the suite has them. */
const EXCEPTIONS: readonly { file: RegExp; about: RegExp; why: string }[] = [
  {
    file: /^format\.json$/,
    about: /is only an annotation by default/,
    why: "formats are enforced, as draft 2020-12 leaves it to an implementation to do",
  },
  {
    file: /^optional\/format\/hostname\.json$/,
    about: /^validation of A-label \(punycode\) host names: /,
    why: "whether a label's Punycode stands for a permitted name is nothing that an automaton can tell: none is permitted",
  },
  {
    file: /^optional\/format\/ecmascript-regex\.json$/,
    about: /^ECMA 262 named groups and backreferences are valid: /,
    why: "whether a group's name is the only such, and one that is referred to, is nothing that an automaton can tell: none is permitted",
  },
  {
    file: /^optional\/float-overflow\.json$/,
    about: /valid if optional overflow handling is implemented/,
    why: "multiples of fractions are written without an exponent",
  },
];

/** Spellings of integers that a reply does not have: digits alone stand for them. */
const INTEGERS_WITH_FRACTION = [
  "enum with 0 does not match false: float zero is valid",
  "enum with [0] does not match [false]: [0.0] is valid",
  "enum with 1 does not match true: float one is valid",
  "enum with [1] does not match [true]: [1.0] is valid",
  "const with 0 does not match other zero-like types: float zero is valid",
  "const with 1 does not match true: float one is valid",
  "const with -2.0 matches integer and float types: float -2.0 is valid",
  "float and integers are equal up to 64-bit representation limits: float is valid",
  "integer type matches integers: a float with zero fractional part is an integer",
];

const SCHEMAS = [
  "additionalProperties",
  "items",
  "additionalItems",
  "unevaluatedItems",
  "unevaluatedProperties",
].concat(["contains", "propertyNames", "not", "if", "then", "else"]);
const LISTS = ["allOf", "anyOf", "oneOf", "prefixItems", "items"];
const MAPS = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The suite's objects have their properties in any order. */
function inAnyOrder(schema: unknown, isDeep: boolean): unknown {
  if (!isObject(schema)) return schema;
  const out: Record<string, unknown> = { ...schema, "x-property-order": "any" };
  if (!isDeep) return out;
  for (const key of SCHEMAS) if (isObject(out[key])) out[key] = inAnyOrder(out[key], true);
  for (const key of LISTS) if (Array.isArray(out[key])) out[key] = out[key].map((one) => inAnyOrder(one, true));
  for (const key of MAPS) {
    const map = out[key];
    if (!isObject(map)) continue;
    out[key] = Object.fromEntries(Object.entries(map).map(([name, one]) => [name, inAnyOrder(one, true)]));
  }
  return out;
}

/** null: no value matches. */
async function grammarOf(schema: unknown): Promise<CompiledGrammar | null> {
  const format = {
    whitespacePattern: null,
    disableAnyWhitespace: false,
    disableAdditionalProperties: false,
    anyOrder: false,
  };
  const setting = { specialTokens: new Map<string, number>(), thoughts: null } as const;
  try {
    return await compiled(constraintGrammar({ kind: "json_schema", schema, format }, setting));
  } catch (error) {
    if ((error as { code?: unknown }).code === "grammar_empty") return null;
    throw error;
  }
}

/** As the suite spells it, and, where that keeps its numbers as they are, as JavaScript does, also with line breaks. */
function spellings(data: string): string[] {
  const hasOtherNumbers = /\d{16}|\d\.0/.test(data);
  const value: unknown = JSON.parse(data);
  return hasOtherNumbers ? [data] : [...new Set([data, JSON.stringify(value), JSON.stringify(value, null, 2)])];
}

interface Found {
  wrong: string[];
  refused: string[];
  matched: number;
}

async function check(group: Group, schema: unknown, found: Found): Promise<void> {
  let grammar: CompiledGrammar | null;
  try {
    grammar = await grammarOf(schema);
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    const keyword = error.path.at(-1) ?? "";
    if (REFUSALS[keyword]?.test(group.file) !== true) {
      found.refused.push(`${group.file}: ${group.about}: ${error.path.join("/")}: ${error.message}`);
    }
    return;
  }
  for (const { about, data, valid } of group.tests) {
    const title = `${group.about}: ${about}`;
    if (EXCEPTIONS.some((one) => one.file.test(group.file) && one.about.test(title))) continue;
    const hasRefusedSpelling = INTEGERS_WITH_FRACTION.includes(title);
    const texts = hasRefusedSpelling ? [data, data.replace(".0", "")] : spellings(data);
    for (const text of texts) {
      found.matched++;
      const isTaken = valid && !(hasRefusedSpelling && text === data);
      if ((grammar !== null && takes(grammar, text)) !== isTaken) {
        found.wrong.push(`${group.file}: ${title}: ${isTaken ? "rejects" : "accepts"} ${text}`);
      }
    }
  }
}

describe.each(Object.keys(DIALECTS))("draft %s", (draft) => {
  const own = groups.filter(({ drafts }) => drafts.includes(draft));
  const inDialect = (schema: unknown, isNamed: boolean) =>
    isObject(schema) && isNamed ? { $schema: DIALECTS[draft], ...schema } : schema;

  test.each([
    ["everywhere", true, 1],
    ["at the root", false, 3],
  ] as const)("accepts what is valid and nothing else; order lifted %s", async (_, isDeep, every) => {
    const found: Found = { wrong: [], refused: [], matched: 0 };
    for (const [i, group] of own.entries()) {
      // The latest draft is what a schema that names none is read by.
      const isNamed = draft !== "2020-12" || i % 2 === 0;
      if (i % every === 0) await check(group, inAnyOrder(inDialect(group.schema, isNamed), isDeep), found);
    }
    expect({ wrong: found.wrong, refused: found.refused }).toEqual({ wrong: [], refused: [] });
    expect(found.matched).toBeGreaterThan(own.length / every);
  });
});
