import { describe, expect, it } from "vitest";
import { ValidationError } from "./errors.js";
import { parseJson } from "./json.js";

/** Makes the byte reader read it: an integer beyond 2^53 beside an exact field. */
const viaReader = (text: string) => {
  const { value } = parseJson(Buffer.from(`{"seed":9223372036854775807,"value":${text}}`), ["seed"]) as {
    value: unknown;
  };
  return value;
};

describe("parseJson", () => {
  it("reads integers of exact fields exactly, at any depth within them", () => {
    const text = '{"seed": 9223372036854775807, "n": 9223372036854775807, "x": {"seed": 9007199254740993}}';
    expect(parseJson(Buffer.from(text), ["seed"])).toEqual({
      seed: 9223372036854775807n,
      n: 2 ** 63,
      x: { seed: 9007199254740992 },
    });
    expect(parseJson(Buffer.from('{"x": {"y": [{"z": 9007199254740993}]}, "w": 9007199254740993}'), ["x"])).toEqual({
      x: { y: [{ z: 9007199254740993n }] },
      w: 9007199254740992,
    });
    expect(parseJson(Buffer.from('{"seed": -9223372036854775808}'), ["seed"])).toEqual({ seed: -9223372036854775808n });
    expect(parseJson(Buffer.from('{"seed": 9007199254740991, "k": 12345678901234567890}'), ["seed"])).toEqual({
      seed: 9007199254740991,
      k: Number("12345678901234567890"),
    });
    expect(parseJson(Buffer.from('{"seed": 1e20, "k": 12345678901234567890}'), ["seed"])).toMatchObject({ seed: 1e20 });
  });

  it("reads all integers exactly where it is told to", () => {
    expect(parseJson(Buffer.from("9007199254740993"), "all")).toBe(9007199254740993n);
    expect(
      parseJson(Buffer.from('{"a":[9007199254740993,{"b":-18446744073709551615}],"c":1,"d":1e300}'), "all"),
    ).toEqual({
      a: [9007199254740993n, { b: -18446744073709551615n }],
      c: 1,
      d: 1e300,
    });
  });

  const samples = [
    "0",
    "-0",
    "1.5e-3",
    "-12.25E+2",
    "1e400",
    '""',
    '"a\\u00e9\\n\\"\\\\/\\ud83d\\ude00"',
    '"é😀\u2028"',
    "[]",
    "{}",
    " [ 1 , [ ] , { } ] ",
    '{"a":{"b":[null,true,false]},"a":2}',
    '{"__proto__":{"x":1},"constructor":2}',
    '"\\ud800"',
    "\t\r\n1 ",
    "",
    "01",
    "1.",
    ".5",
    "+1",
    "-",
    "1e",
    "nul",
    "tru",
    "[1,]",
    "[,1]",
    "{,}",
    '{"a"}',
    '{"a":}',
    '{"a":1,}',
    "{a:1}",
    '"a',
    '"\n"',
    '"\\x"',
    '"\\u12"',
    "[1 2]",
    "1 2",
    "]",
    "}",
    "NaN",
    "Infinity",
    "'a'",
    "[1",
    '{"a":1',
    "\u00a01",
  ];
  it.each(samples)("reads %j as JSON.parse does", (text) => {
    let expected: unknown = ValidationError;
    try {
      expected = JSON.parse(text);
    } catch {}
    if (expected === ValidationError) {
      expect(() => parseJson(Buffer.from(text))).toThrow(ValidationError);
      expect(() => viaReader(text)).toThrow(ValidationError);
    } else {
      expect(parseJson(Buffer.from(text))).toStrictEqual(expected);
      expect(JSON.stringify(viaReader(text))).toBe(JSON.stringify(expected));
      expect(viaReader(text)).toStrictEqual(expected);
    }
  });

  it("refuses what is not UTF-8 and endless nesting", () => {
    expect(() => parseJson(Buffer.from([0x22, 0xff, 0x22]))).toThrow(/UTF-8/);
    expect(() => viaReader("[".repeat(100_000))).toThrow(/nested/);
    expect(parseJson(Buffer.from("\ufeff[1]"))).toEqual([1]);
  });

  it("does not touch prototypes", () => {
    viaReader('{"__proto__":{"polluted":1}}');
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
  });
});
