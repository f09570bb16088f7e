import { describe, expect, test } from "vitest";
import { cpuMilliseconds } from "../../test/fixtures/cpuTime.js";
import { matches } from "../../test/grammar/irMatcher.js";
import { ebnfToExpr } from "./ebnf.js";

function accepts(source: string, text: string): boolean {
  const { rules, start } = ebnfToExpr(source);
  return matches(rules.finish(start), text);
}

const CASES: [name: string, source: string, good: string[], bad: string[]][] = [
  [
    "GBNF: arithmetic",
    `root ::= (expr "=" ws term "\\n")+ # lines
expr ::= term ([-+*/] term)*
term ::= num | "(" ws expr ")" ws
num ::= [0-9]+ ws
ws ::= [ \\t\\n]*`,
    ["1+2= 3\n", "(1 +2)*3=9\n1=1\n"],
    ["1+=3\n", "1", "", "(1=1\n"],
  ],
  ["GBNF: escapes and classes", 'root ::= "\\u00e9\\x41" [^a-c\\]] [é-ë] .', ["éAxê\n", "éAdé😀"], ["éAaéx", "éA]éx"]],
  ["GBNF: counts", 'root ::= "a"{2} "b"{1,} "c"{,2} ("d" | "e"){0,1}', ["aab", "aabbcce"], ["ab", "aabccc", "aabde"]],
  ["GBNF: rules over several lines", 'root ::= "a" |\n  "b"\n  "c"\nother ::= "x"', ["a", "bc"], ["b", "x"]],
  ["GBNF: an empty alternative", 'root ::= "a" x\nx ::= "b" x | ""', ["a", "abbb"], ["b"]],
  ["GBNF: names of digits and dashes", 'root ::= 1st -x_y\n1st ::= "a"\n-x_y ::= "b"', ["ab"], ["a"]],
  [
    "GBNF: left recursion of one rule",
    'root ::= root "+" n | root "-" n | n\nn ::= [0-9]',
    ["1", "1+2-3"],
    ["+1", "1+"],
  ],
  [
    "Lark: arithmetic",
    `?start: sum
?sum: product | sum "+" product -> add | sum "-" product -> sub
?product: atom | product "*" atom
?atom: NUMBER -> number | "(" sum ")"
%import common.NUMBER
%import common.WS_INLINE
%ignore WS_INLINE`,
    ["1+2", " 1 + 2 * ( 3-4.5 ) ", "7"],
    ["1+", "1 2 +", "(1"],
  ],
  [
    "Lark: terminals, ranges, optional parts and repetitions",
    `start: KEY "=" [SIGN] VALUE~2..3 // an assignment
KEY.2: LETTER (LETTER | "_")*
LETTER: "a".."f"
SIGN: "+"
    | "-"
VALUE: /[0-9\\/]/ | "x"i`,
    ["a_b=12", "f=-xX1", "a=+1/"],
    ["g=12", "a=1", "a=1234", "_=12"],
  ],
  [
    "Lark: strings are escaped",
    "start: ESCAPED_STRING\n%import common (ESCAPED_STRING, INT)",
    ['"a\\"b"'],
    ['"a', '"a"b'],
  ],
  [
    "Lark: both kinds of comments, around rules and in what they match",
    '# one\nstart: "a" C_COMMENT # two\n  | "b" SH_COMMENT // three\n%import common (C_COMMENT, SH_COMMENT) # four',
    ["a/**/", "a/* x* / */", "b# x"],
    ["a/*", "a/**/*/", "b#\n"],
  ],
];

test.each(CASES)("%s", (_, source, good, bad) => {
  for (const text of good) expect([text, accepts(source, text)]).toEqual([text, true]);
  for (const text of bad) expect([text, accepts(source, text)]).toEqual([text, false]);
});

describe("what is wrong is named", () => {
  test.each([
    ["", "empty"],
    ['x ::= "a"', 'no rule "root"'],
    ["root ::= y", 'no rule "y"'],
    ['root ::= "a', "line 1: a string is not closed"],
    ['root ::= "a"\nroot ::= "b"', 'line 2: the rule "root" is defined twice'],
    ['root ::= a\na ::= b "x"\nb ::= a "y" | "z"', "left-recursive"],
    ['root ::= (root "a" | "b") "c"', "left-recursive"],
    ['root ::= e root "a" | "b"\ne ::= "x"?', "left-recursive"],
    ['root ::= "a" )', "a rule must begin here"],
    ["root ::= [b-a]", "out of order"],
    ['root ::= "a"{3,2}', "out of order"],
    ['root ::= "\\q"', "\\q is not known"],
    ['root ::= (?="a")', "look-ahead"],
    ["start: a\na: b\nb: a", "left-recursive"],
    ["start: X", 'no rule "X"'],
    ["start: /a/i", "flags"],
    ["start: /(a/", "line 1"],
    ['start: x{"a"}', "templates"],
    ["%import foo.BAR\nstart: BAR", "common"],
    ["%declare X\nstart: X", "%declare"],
    ['start: "ab".."z"', "from one character to one"],
    ['start: "a"..""', "from one character to one"],
    ['start: X\nX: y "a"\ny: "b"', 'the rule "y" cannot stand in a terminal'],
    ['start: "a\\."', "escapes"],
    ['a: "x"', 'no rule "start"'],
    ["???", "rule must begin"],
    [`root ::= ${"(".repeat(5000)}`, "nested"],
  ])("%j: %s", (source, message) => {
    expect(() => ebnfToExpr(source)).toThrow(message);
  });
});

test("hostile grammars are read in time", () => {
  const started = cpuMilliseconds();
  ebnfToExpr(`root ::= ${'"a" '.repeat(100_000)}`);
  ebnfToExpr(
    `root ::= ${Array.from({ length: 15_000 }, (_, i) => `r${i}`).join(" | ")}\n${Array.from({ length: 15_000 }, (_, i) => `r${i} ::= "${i}"`).join("\n")}`,
  );
  expect(() => ebnfToExpr(`start: /${"[a]".repeat(20_000)}`)).toThrow("not closed");
  expect(cpuMilliseconds() - started).toBeLessThan(5000);
});
