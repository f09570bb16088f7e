import { expect, test } from "vitest";
import { cpuMilliseconds } from "../../test/fixtures/cpuTime.js";
import { matches } from "../../test/grammar/irMatcher.js";
import { EMPTY, encodeGrammar } from "../grammar/ir.js";
import { RuleBook } from "../grammar/ruleBook.js";
import { JsonRules } from "../jsonSchema/jsonValues.js";
import { structuralTagToExpr } from "./structuralTag.js";

/** Special tokens stand in a text as U+D800 + id. */
const CALL = "\ud807";

function accepts(tag: unknown, text: string): boolean {
  const rules = new RuleBook();
  const options = { closed: false, specialTokens: new Map([["<|call|>", 7]]) };
  return matches(rules.finish(structuralTagToExpr(new JsonRules(rules, EMPTY), tag, options)), text);
}

const integer = { type: "json_schema", json_schema: { type: "integer" } };
const parameters = {
  type: "json_schema",
  json_schema: {
    type: "object",
    properties: { n: { type: "integer" }, s: { type: "string", maxLength: 6 } },
    required: ["n"],
  },
};
const number = { type: "tag", begin: "<n>", content: integer, end: "</n>" };

const CASES: [name: string, tag: unknown, good: string[], bad: string[]][] = [
  [
    "structures and triggers",
    {
      type: "structural_tag",
      structures: [
        { begin: "<f=a>", schema: { type: "integer" }, end: "</f>" },
        { begin: "<f=b>", schema: { type: "boolean" }, end: "</f>" },
      ],
      triggers: ["<f="],
    },
    ["", "hello < f", "x<f=a>1</f>y<f=b>true</f>", "<<f=a>1</f>"],
    ["<f=", "<f=a>true</f>", "<f=c>1</f>", "x<f=a>1</f", "<f=a>1</f><f="],
  ],
  [
    "parameters as Qwen's XML has them",
    { format: { ...parameters, style: "qwen_xml" } },
    [
      "<parameter=n>\n12\n</parameter>\n",
      "<parameter=n>\n1\n</parameter>\n<parameter=s>\na\n</b>\n</parameter>\n<parameter=other>\nx\n</parameter>\n",
    ],
    [
      "",
      "<parameter=s>\na\n</parameter>\n",
      "<parameter=n>\nx\n</parameter>\n",
      "<parameter=n>\n1\n</parameter>\n<parameter=s>\ntoo long\n</parameter>\n",
    ],
  ],
  [
    "parameters as keyword arguments",
    { format: { ...parameters, style: "python" } },
    ["n=12", 'n=1,s="a"', "n=1,other=None", "n=1,other=[True]"],
    ["", 's="a"', "n=x", "n=1,other=null", "n=1,s='a'", "n=1,"],
  ],
  [
    "parameters as Gemma 4 has them",
    { format: { ...parameters, style: "gemma4" } },
    ["{n:12}", '{n:1,s:<|"|>a<|"|>}', "{n:1,other:null}", "{n:1,$o-1.a:[true,{x:{}}]}", '{n:1,s:<|"|>"<|"|>}'],
    [
      "",
      "{}",
      '{s:<|"|>a<|"|>,n:1}',
      "{n:x}",
      '{n:1,s:"a"}',
      '{n:1,s:<|"|>too long<|"|>}',
      '{n:1,s:<|"|>a<|"|}',
      "{n: 1}",
      "{n:1,}",
      "{n:1,o o:1}",
    ],
  ],
  [
    "triggers that overlap themselves",
    { format: { type: "triggered_tags", triggers: ["aa"], tags: [{ begin: "aab", content: integer, end: "." }] } },
    ["aab1.", "xaab1.a", "a"],
    ["aaab1.", "aa", "aac"],
  ],
  [
    "any text in a tag",
    { format: { type: "tag", begin: "<", content: { type: "any_text" }, end: ">" } },
    ["<>", "<a b>"],
    ["<a>b>", "a"],
  ],
  [
    "one of several",
    { format: { type: "or", elements: [{ type: "const_string", value: "no" }, number] } },
    ["no", "<n>3</n>"],
    ["<n>a</n>", ""],
  ],
  [
    "one after another",
    {
      format: {
        type: "sequence",
        elements: [{ type: "regex", pattern: "a+" }, number, { type: "any_text", excludes: ["!"] }],
      },
    },
    ["a<n>1</n>", "aa<n>1</n> and"],
    ["<n>1</n>", "a<n>1</n>!"],
  ],
  [
    "at least one tag",
    { format: { type: "triggered_tags", triggers: ["<n"], tags: [number], at_least_one: true } },
    ["<n>1</n>", "<n>1</n>b<n>2</n>"],
    ["", "abc", "a<n>1</n>"],
  ],
  [
    "only one tag",
    {
      format: { type: "triggered_tags", triggers: ["<n"], tags: [number], at_least_one: true, stop_after_first: true },
    },
    ["<n>1</n>"],
    ["a", "a<n>1</n>", "<n>1</n>b"],
  ],
  [
    "one tag at most",
    { format: { type: "triggered_tags", triggers: ["<n"], tags: [number], stop_after_first: true } },
    ["", "a", "a<n>1</n>"],
    ["<n>1</n>b"],
  ],
  [
    "parts that may be left out or come several times",
    {
      format: {
        type: "sequence",
        elements: [
          { type: "optional", content: number },
          { type: "plus", content: { type: "const_string", value: "ab" } },
          { type: "repeat", min: new Number(1), max: 2, content: { type: "regex", pattern: "[0-9]" } },
          { type: "star", content: { type: "const_string", value: "." } },
          { type: "repeat", min: 1, max: -1, content: { type: "const_string", value: "!" } },
        ],
      },
    },
    ["ab1!", "<n>1</n>abab12...!!"],
    ["1!", "ab!", "ab123!", "ab1.", "<n>1</n><n>1</n>ab1!"],
  ],
  [
    "a tag with several ends, around text that is not long",
    { format: { type: "tag", begin: "<", content: { type: "any_text", max_chars: 2 }, end: [">", "/"] } },
    ["<>", "<a\u{1f600}/"],
    ["<abc>", "<a/>"],
  ],
  [
    "tags with a separator",
    { format: { type: "tags_with_separator", tags: [number], separator: ",", at_least_one: true } },
    ["<n>1</n>", "<n>1</n>,<n>2</n>"],
    ["", "<n>1</n><n>2</n>", "<n>1</n>,"],
  ],
  [
    "a grammar inside",
    { format: { type: "sequence", elements: [number, { type: "grammar", grammar: 'root ::= "x" root | "y"' }] } },
    ["<n>1</n>xxy"],
    ["<n>1</n>x"],
  ],
  [
    "marks that are special tokens",
    {
      format: {
        type: "triggered_tags",
        triggers: ["<|call|>"],
        tags: [{ begin: "<|call|>f:", content: integer, end: "" }],
      },
    },
    ["", `hm${CALL}f:1`, `${CALL}f:1${CALL}f:2`],
    [CALL, "<|call|>f:1", `${CALL}g:1`],
  ],
];

test.each(CASES)("%s", (_, tag, good, bad) => {
  for (const text of good) expect([text, accepts(tag, text)]).toEqual([text, true]);
  for (const text of bad) expect([text, accepts(tag, text)]).toEqual([text, false]);
});

const anyText = { type: "any_text" };
const fenced = (content: unknown) => ({ format: { type: "tag", begin: "", content, end: "```" } });

test.each<[name: string, tag: unknown, good: string[], bad: string[]]>([
  ["any text", fenced(anyText), ["```", "a``b```", " ```"], ["````", "`````", "a````", "a```b```"]],
  [
    "text of its own length",
    fenced({ type: "any_text", max_chars: 2 }),
    ["```", "ab```", "`b```"],
    ["````", "a````", "abc```"],
  ],
  [
    "any text before several marks, some of two lines",
    { format: { type: "tag", begin: "", content: anyText, end: ["x", "yz", "a\nbx", "ay", "by"] } },
    ["x", "cyz", "a\nbx", "ay"],
    ["ayz", "byz", "xx"],
  ],
  [
    "text that the mark does not follow",
    fenced({ type: "sequence", elements: [anyText, { type: "const_string", value: "." }, anyText] }),
    ["``.```", ".```", "a.b```"],
    [".````", "a.`````"],
  ],
  [
    "text several times",
    fenced({ type: "plus", content: { type: "sequence", elements: [{ type: "const_string", value: "." }, anyText] } }),
    [".`.```", ".```", ".a.b``c```"],
    [".````", ".a.`````", "```"],
  ],
  [
    "text that may be left out",
    fenced({ type: "optional", content: { type: "or", elements: [anyText, integer] } }),
    ["```", "1```", "a```"],
    ["````", "1````"],
  ],
  [
    "text around tags",
    fenced({ type: "triggered_tags", triggers: ["<n"], tags: [number] }),
    ["```", "``<n>1</n>```", "<n>1</n>`<n>2</n>a```"],
    ["````", "<n>1</n>````"],
  ],
  [
    "tags that end where the outer one does",
    fenced({
      type: "tags_with_separator",
      tags: [{ begin: "-", content: anyText, end: "" }],
      separator: ",",
      at_least_one: true,
    }),
    ["-a```", "-`,-b```"],
    ["-````", "-a,-````"],
  ],
])("text ends where the mark of its tag first comes up: %s", (_, tag, good, bad) => {
  for (const text of good) expect([text, accepts(tag, text)]).toEqual([text, true]);
  for (const text of bad) expect([text, accepts(tag, text)]).toEqual([text, false]);
});

test.each([
  ["python", ["x=y", 'q"r', "size (cm)", "a,b", " a", ""]],
  ["qwen_xml", ["a>b", "a<b", "a\nb", ""]],
])("names that end %s's are refused", (style, names) => {
  const of = (name: string) => ({
    format: { type: "json_schema", json_schema: { type: "object", properties: { [name]: {} } }, style },
  });
  for (const name of names) {
    const place = { path: ["format", "json_schema", "properties", name] };
    expect(() => accepts(of(name), ""), name).toThrow(expect.objectContaining(place));
  }
  for (const name of ["a b", "user-id", "größe"]) expect(accepts(of(name), "none")).toBe(false);
});

test("text ends at the first of the marks of its tag, whatever they are", () => {
  const words = (longest: number): string[] =>
    Array.from({ length: longest + 1 }, (_, length) =>
      Array.from({ length: 2 ** length }, (_, i) =>
        Array.from({ length }, (_, bit) => ((i >> bit) & 1 ? "b" : "a")).join(""),
      ),
    ).flat();
  const marks = words(4).slice(1);
  const short = words(3).slice(1);
  const wrong: [ends: string[], text: string, isAccepted: boolean][] = [];
  const pairs = short.flatMap((one, i) => short.slice(i + 1).map((other) => [one, other]));
  for (const end of [...marks.map((mark) => [mark]), ...pairs]) {
    const rules = new RuleBook();
    const tag = { format: { type: "tag", begin: "", content: anyText, end } };
    const options = { closed: false, specialTokens: new Map() };
    const grammar = rules.finish(structuralTagToExpr(new JsonRules(rules, EMPTY), tag, options));
    for (const text of words(end.length === 1 ? 8 : 6)) {
      const first = Math.min(...end.map((mark) => text.indexOf(mark)).filter((at) => at >= 0));
      const isWhole = Number.isFinite(first) && end.includes(text.slice(first));
      if (matches(grammar, text) !== isWhole) wrong.push([end, text, !isWhole]);
    }
  }
  expect(wrong).toEqual([]);
});

test.each<[unknown, string[], string]>([
  [{}, [], "format"],
  [{ format: { type: "qwen_xml_parameter" } }, ["format", "type"], "not supported"],
  [{ format: { ...integer, style: "minimax_xml" } }, ["format", "style"], "not supported"],
  [
    { format: { type: "sequence", elements: [{ type: "const_string" }] } },
    ["format", "elements", "0", "value"],
    "string",
  ],
  [
    { structures: [{ begin: "a", schema: { type: "x" }, end: "" }], triggers: ["a"] },
    ["structures", "0", "schema", "type"],
    "one of",
  ],
  [{ structures: [{ begin: "a", schema: {}, end: "" }], triggers: ["b"] }, ["triggers"], "beginning"],
  [{ format: { type: "any_text", max_tokens: 3 } }, ["format", "max_tokens"], "not supported"],
  [{ format: { ...integer, any_order: true } }, ["format", "any_order"], "not supported"],
  [
    { format: { type: "tags_with_separator", tags: [number], separator: "", at_least_one: "yes" } },
    ["format", "at_least_one"],
    "true or false",
  ],
  [{ format: { type: "repeat", min: 2, max: 1, content: integer } }, ["format", "max"], "at least min"],
  [{ format: integer, structures: [] }, [], "both"],
  [
    { format: { type: "tag", begin: "", end: "", content: { type: "regex", pattern: "(" } } },
    ["format", "content", "pattern"],
    "missing",
  ],
])("%j is refused at %j", (tag, path, message) => {
  expect(() => accepts(tag, "")).toThrow(expect.objectContaining({ path, message: expect.stringContaining(message) }));
});

test("thousands of triggers are read in time", () => {
  const triggers = Array.from({ length: 2000 }, (_, i) => `<call ${i}>`);
  const tags = triggers.map((begin) => ({ begin, content: { type: "const_string", value: "" }, end: "." }));
  const started = cpuMilliseconds();
  const rules = new RuleBook();
  const options = { closed: false, specialTokens: new Map() };
  const tag = { format: { type: "triggered_tags", triggers, tags } };
  const grammar = rules.finish(structuralTagToExpr(new JsonRules(rules, EMPTY), tag, options));
  expect(encodeGrammar(grammar).length).toBeLessThan(1_000_000);
  expect(cpuMilliseconds() - started).toBeLessThan(2000);
});
