import { expect, test } from "vitest";
import { compiled, drawn, takes } from "../../test/grammar/nativeMatcher.js";
import { random } from "../../test/grammar/random.js";
import { grammarOf } from "../../test/grammar/schemaCases.js";

const native = await compiled(grammarOf({ type: "string", format: "regex" }));

function isRegex(text: string): boolean {
  try {
    return new RegExp(text, "u") !== null && new RegExp(text) !== null;
  } catch {
    return false;
  }
}

const EXPRESSIONS = [
  "",
  "^[a-zA-Z0-9_]{3,16}$",
  "^\\s*(it|describe)\\(\\s*['\"]([^'\"]+)['\"]\\s*,\\s*function\\(\\s*\\)\\s*\\{",
  "([abc])+\\s+$",
  "^(?!\\.)[\\w.-]+@(?:[a-z\\d](?:[a-z\\d-]{0,61}[a-z\\d])?\\.)+[a-z]{2,}$",
  "a*?b+?c??d{2,}?",
  "^/.+/$",
  "[]|[^]|[-a]|[a-]|[--]|[!-~]|[+-]|[ -\\u00ff]",
  "[\\x00-\\x1F\\u0080-\\uFFFF\\]\\-\\b]",
  "\\p{Lu}\\p{L}*\\u{1F600}\\u0041\\cA",
  "(((a)))",
  "(?<=\\$)\\d+(?:\\.\\d{2})?",
  "[a-é]x{12,19}|y{7,12}|z{100,200}",
];
const OTHERS = [
  "*",
  "\\",
  "[",
  "^(abc]",
  "^\\S(|(.|\\n)*\\S)\\Z",
  "(",
  ")",
  "a**",
  "a{2,1}",
  "a{19,12}",
  "[z-a]",
  "[b-B]",
  "[\\w-z]",
  "[a--]",
  "x{",
  "{1}",
  "]",
  "^*",
  "(?=a)*",
  "\\u{110000}",
  "\\c1",
  "[\\u0041-\\u0031]",
  "\\p{No_such}",
  "(?a)",
];

test.each(EXPRESSIONS)("%j is one", (text) => {
  expect(isRegex(text)).toBe(true);
  expect(takes(native, JSON.stringify(text))).toBe(true);
});

test.each(OTHERS)("%j is none", (text) => {
  expect(isRegex(text)).toBe(false);
  expect(takes(native, JSON.stringify(text))).toBe(false);
});

test("what is drawn from it is a regular expression", () => {
  const next = random(7);
  let read = 0;
  for (let i = 0; i < 3000; i++) {
    const text = drawn(native, next, 120);
    if (text === null) continue;
    read++;
    expect([text, isRegex(JSON.parse(text))]).toEqual([text, true]);
  }
  expect(read).toBeGreaterThan(500);
});

test("pieces put together are taken only where they are one", () => {
  const next = random(8);
  const pieces = [
    ..."[]()|-^$.*+?{},:=!<>\\019abzAZ ",
    "\\d",
    "\\w",
    "\\b",
    "(?:",
    "(?=",
    "[^",
    "{2,1}",
    "{3}",
    "\\u",
    "a-z",
  ];
  let taken = 0;
  for (let i = 0; i < 20_000; i++) {
    const text = Array.from(
      { length: 1 + Math.floor(next() * 7) },
      () => pieces[Math.floor(next() * pieces.length)],
    ).join("");
    if (!takes(native, JSON.stringify(text))) continue;
    taken++;
    expect([text, isRegex(text)]).toEqual([text, true]);
  }
  expect(taken).toBeGreaterThan(1000);
});
