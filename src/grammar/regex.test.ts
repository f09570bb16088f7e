import { describe, expect, test } from "vitest";
import { cpuMilliseconds } from "../../test/fixtures/cpuTime.js";
import { matches } from "../../test/grammar/irMatcher.js";
import { random } from "../../test/grammar/random.js";
import { GrammarError } from "./grammarError.js";
import type { Expr } from "./ir.js";
import { regexSearchToExpr, regexToExpr } from "./regex.js";

const isMatch = (expr: Expr, text: string) => matches({ rules: [expr], start: 0 }, text);

const ATOMS = [
  "a",
  "b",
  "é",
  "😀",
  ".",
  "\\d",
  "\\w",
  "\\s",
  "\\W",
  "[ab]",
  "[^a]",
  "[a-c😀]",
  "\\u0061",
  "\\x62",
  "\\.",
];

function randomPattern(next: () => number, depth: number): string {
  const pick = <T>(list: readonly T[]) => list[Math.floor(next() * list.length)]!;
  if (depth === 0 || next() < 0.3) return pick(ATOMS);
  const inner = () => randomPattern(next, depth - 1);
  const kind = next();
  if (kind < 0.35) return inner() + inner();
  if (kind < 0.55) return `(?:${inner()}|${inner()})`;
  if (kind < 0.65) return `(${inner()}|)`;
  return `(?:${inner()})${pick(["*", "+", "?", "{2}", "{1,3}", "{0,2}?", "{2,}", "*?"])}`;
}

describe("against JavaScript's own regular expressions", () => {
  const alphabet = ["a", "b", "c", "é", "😀", " ", "1", "\n", ".", "_"];

  test.each([1, 2, 3, 4])("random patterns on random texts, seed %i", (seed) => {
    const next = random(seed);
    let matched = 0;
    for (let i = 0; i < 150; i++) {
      const pattern = randomPattern(next, 3);
      const whole = new RegExp(`^(?:${pattern})$`, "u");
      const anywhere = new RegExp(pattern, "u");
      const expr = regexToExpr(pattern);
      const search = regexSearchToExpr(pattern);
      for (let j = 0; j < 12; j++) {
        const length = Math.floor(next() * 5);
        const text = Array.from({ length }, () => alphabet[Math.floor(next() * alphabet.length)]).join("");
        expect([pattern, text, isMatch(expr, text)]).toEqual([pattern, text, whole.test(text)]);
        expect([pattern, text, isMatch(search, text)]).toEqual([pattern, text, anywhere.test(text)]);
        if (whole.test(text)) matched++;
      }
    }
    expect(matched).toBeGreaterThan(50);
  });

  test.each([
    "^a",
    "a$",
    "^a$",
    "^$",
    "^",
    "a|^b",
    "(^a|b$)c?",
    "(?:^|-)a(?:-|$)",
    "a^b",
    "a$b",
    "(?:a?^)?b",
    "^^a$$",
    "b(?:$|c)",
  ])("anchors: %s", (pattern) => {
    for (const text of ["", "a", "b", "c", "ab", "ba", "aa", "bc", "cb", "a-a", "xa", "-a-", "xbc", "ac", "abc"]) {
      expect([text, isMatch(regexSearchToExpr(pattern), text)]).toEqual([text, new RegExp(pattern, "u").test(text)]);
      const whole = new RegExp(`^(?:${pattern})$`, "u");
      expect([text, isMatch(regexToExpr(pattern), text)]).toEqual([text, whole.test(text)]);
    }
  });

  test.each([
    "^(?!a)",
    "^(?!a$).*$",
    "^(?!a|b)[a-c]+$",
    "^(?=..$)(?!ab)b?[abc]+",
    "^(?!.*b)a(?:c|$)",
    "^(?!^b|a$)",
    "^(?=)(?!b)(?:a^)?x?",
  ])("look-ahead at the start: %s", (pattern) => {
    for (const text of [
      "",
      "a",
      "b",
      "c",
      "ab",
      "ba",
      "aa",
      "bc",
      "cb",
      "ac",
      "abc",
      "xab",
      "aab",
      "a\nb",
      "cab",
      "x",
    ]) {
      expect([text, isMatch(regexSearchToExpr(pattern), text)]).toEqual([text, new RegExp(pattern, "u").test(text)]);
    }
  });

  test.each(["^(?!a)b|c", "(^(?!a)b)", "^((?!a).)*$", "^a(?=b)", "^(?!(?!a)b)"])(
    "look-ahead elsewhere: %s",
    (pattern) => {
      expect(() => regexSearchToExpr(pattern)).toThrow("look-ahead");
    },
  );

  test.each([
    "\\p{L}",
    "\\P{L}",
    "\\p{Lu}",
    "\\p{Script=Greek}",
    "\\p{Emoji}",
    "[\\p{Nd}_]",
    "\\s",
    "\\S",
    "\\w",
    "\\D",
    ".",
  ])("every character: %s", (pattern) => {
    const own = new RegExp(`^${pattern}$`, "u");
    const expr = regexToExpr(pattern);
    if (expr.kind !== "chars") throw new Error("one set of characters");
    const member = new Uint8Array(0x110000);
    for (const [low, high] of expr.ranges) member.fill(1, low, high + 1);
    for (let code = 0; code < 0x110000; code += code < 0x3000 ? 1 : 7) {
      if (code >= 0xd800 && code <= 0xdfff) continue;
      if ((member[code] === 1) !== own.test(String.fromCodePoint(code))) expect(code.toString(16)).toBe("agrees");
    }
  });
});

test.each([
  ["(?P<year>\\d{4})", "2024", "24"],
  ["(?<y>a)+", "aa", "b"],
  ["\\Aab\\Z", "ab", "abc"],
  ["a{,2}", "aa", "aaa"],
  ["a{b", "a{b", "ab"],
  ["[\\w-.]+", "a-.", "a b"],
  ["\\U0001F600", "😀", "U"],
  ["\\ud83d\\ude00", "😀", "x"],
  ["\\cJ", "\n", "J"],
  ["[\\b]", "\b", "b"],
])("%s takes %j and not %j", (pattern, good, bad) => {
  expect(isMatch(regexToExpr(pattern), good)).toBe(true);
  expect(isMatch(regexToExpr(pattern), bad)).toBe(false);
});

test.each([
  ["a(?=b)", "look-ahead"],
  ["(?!a)", "look-ahead"],
  ["(?<=a)b", "look-behind"],
  ["(?<!a)b", "look-behind"],
  ["(a)\\1", "back-references"],
  ["(?P<x>a)(?P=x)", "back-references"],
  ["(?<x>a)\\k<x>", "back-references"],
  ["\\ba", "word boundaries"],
  ["(?i)a", "inline flags"],
  ["(?>a)", "atomic groups"],
  ["a++", "possessive"],
  ["a**", "nothing to repeat"],
  ["*a", "nothing to repeat"],
  ["(a", 'missing ")"'],
  ["a)", 'unmatched ")"'],
  ["[a", "ends too early"],
  ["[b-a]", "out of order"],
  ["a{3,2}", "out of order"],
  ["[[:alpha:]]", "POSIX"],
  ["[]a]", "class"],
  ["\\p{Nope}", "no Unicode property"],
  ["\\q", "\\q is not supported"],
  ["(?:^a)*", "anchor inside a repetition"],
  ["^*", "anchor"],
  ["\\", "backslash"],
  ["\\u{110000}", "Unicode escape"],
  ["(".repeat(2000), "nested"],
])("%s is refused: %s", (pattern, message) => {
  expect(() => regexToExpr(pattern)).toThrow(GrammarError);
  expect(() => regexToExpr(pattern)).toThrow(message);
});

test("hostile patterns are read in time", () => {
  const started = cpuMilliseconds();
  regexToExpr("{".repeat(30_000));
  regexToExpr("(a|b)?".repeat(5_000));
  regexToExpr(`[${"a-z".repeat(10_000)}]`);
  expect(cpuMilliseconds() - started).toBeLessThan(3000);
});
