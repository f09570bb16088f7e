import { expect, test } from "vitest";
import { compiled, takes } from "../../test/grammar/nativeMatcher.js";
import { grammarOf, testSchemas } from "../../test/grammar/schemaCases.js";

testSchemas([
  [{ type: "string", pattern: "^a+b?$", minLength: 3 }, ['"aab"', '"aaa"'], ['"ab"', '"aac"', '"aabb"']],
  [{ type: "string", pattern: "b" }, ['"abc"', '"b"', '"\\n b"'], ['"ac"']],
  [
    { type: "string", minLength: 2, maxLength: 3 },
    ['"ab"', '"é😀"', '"\\n\\""', '"\\u0000\\u001f\\\\"'],
    [
      '"a"',
      '"abcd"',
      '"\\n"',
      '"\\u0061b"',
      '"\\u00e9b"',
      '"\\/b"',
      '"\\u001F\\n"',
      '"\\u000a\\n"',
      '"\\ud83d\\ude00b"',
    ],
  ],
  [
    { type: "string", format: "date" },
    ['"2024-02-29"', '"2023-12-31"', '"2000-02-29"'],
    ['"2023-02-29"', '"1900-02-29"', '"2024-13-01"', '"2024-04-31"'],
  ],
  [
    { format: "date-time", type: "string" },
    ['"1998-12-31T15:59:60.123-08:00"', '"2024-01-01T00:00:00Z"', '"1990-12-31T23:59:60Z"'],
    ['"1990-12-31T23:58:60Z"', '"2024-01-01 00:00:00Z"', '"2024-01-01T24:00:00Z"'],
  ],
  [
    { format: "ipv6", type: "string" },
    [
      '"::1"',
      '"::"',
      '"1:2:3:4:5:6:7:8"',
      '"fe80::1"',
      '"::ffff:1.2.3.4"',
      '"1::8"',
      '"1:2:3:4:5:6:7::"',
      '"::2:3:4:5:6:7:8"',
      '"1:2:3:4:5:6:1.2.3.4"',
    ],
    ['"1::2::3"', '"1:2:3:4:5:6:7:8:9"', '":1"', '"12345::"', '"1:2:3:4:5:6:7::8:9"', '"1:2:3:4::5:6:7:8:9"'],
  ],
  [
    { format: "hostname", type: "string" },
    ['"a.b-c.de"', '"localhost"'],
    ['"-a"', '"a-"', '"a..b"', '"ab--c"', '"x.ab--c"', `"${"a".repeat(64)}"`],
  ],
  [
    { format: "email", type: "string" },
    ['"joe.bloggs@example.com"', '"\\"joe bloggs\\"@example.com"', '"joe@[127.0.0.1]"'],
    ['".test@e.com"', '"te..st@e.com"', '"2962"', '"a@[127.0.0.300]"'],
  ],
  [
    { format: "uri", type: "string" },
    [
      '"http://foo.bar/?baz=qux#quux"',
      '"urn:oasis:names"',
      '"mailto:a@b.c"',
      '"ldap://[2001:db8::7]/c=GB?objectClass?one"',
    ],
    ['"//foo"', '"/abs"', '"http:// x"', '"bar,baz:foo"', '"abc"'],
  ],
  [{ type: "string", const: 'a"b\\' }, ['"a\\"b\\\\"'], ['"ab"']],
  [{ type: "string", enum: ["abc", "ab", "x"], minLength: 2, pattern: "^a" }, ['"abc"', '"ab"'], ['"x"', '"a"']],
  [
    { type: "string", format: "uuid" },
    ['"2EB8AA08-AA98-11EA-B4AA-73B441D16380"'],
    ['"2eb8aa08-aa98-11ea-b4aa-73b441d1638"', '"2eb8aa08aa9811eab4aa73b441d16380"'],
  ],
  [{ type: "string", format: "ipv4" }, ['"192.168.0.1"', '"0.0.0.0"'], ['"256.0.0.1"', '"01.2.3.4"', '"1.2.3"']],
  [
    { type: "string", format: "time" },
    ['"08:30:06Z"', '"23:59:60Z"', '"08:30:06.283185+00:20"', '"00:29:60-23:30"'],
    ['"08:30:06"', '"22:59:60Z"', '"24:00:00Z"'],
  ],
  [{ type: "string", format: "duration" }, ['"P4DT12H30M5S"', '"P4W"', '"PT1M"'], ['"P"', '"PT"', '"P1D2H"', '"P2S"']],
  [
    { type: "string", format: "color" },
    ['"fuchsia"', '"White"', '"#CC8899"', '"#C89"', '"rgb(255, 0,-3)"', '"rgb(1.5%,0%, .2% )"'],
    ['"#00332520"', '"puce"', '"light_grayish_red-violet"', '"#C8"', '"rgb(1,2)"', '"rgb(1,2,3%)"', '"rgb(1.5,2,3)"'],
  ],
  [{ type: "string", format: "url" }, ['"https://a.b/c"'], ['"a b"', '"c"']],
  [{ format: "utc-millisec" }, ["1", "1.5", '"a"', "null"], []],
  // The author's own.
  [{ type: "string", format: "topic" }, ['""', '"any"'], ["1"]],
  [{ anyOf: [{ type: "null" }, { type: "string", not: { format: "topic" } }] }, ["null"], ['""', '"any"']],
  [{ type: "string", format: "json-pointer" }, ['""', '"/a~1b/0"'], ['"a"', '"/~2"']],
  [{ type: "integer", format: "int8" }, ["-128", "127"], ["128", "-129", "1.5"]],
  [{ type: "string", format: "byte" }, ['""', '"YQ=="', '"YWJj"'], ['"YQ="', '"a"']],
  [
    { type: "string", format: "uuid4" },
    ['"2eb8aa08-aa98-41ea-b4aa-73b441d16380"'],
    ['"2eb8aa08-aa98-11ea-b4aa-73b441d16380"'],
  ],
  [{ type: "string", format: "iri" }, ['"http://ƒøø.ßår/?∂éœ=πîx#πîüx"', '"a:"'], ['"âππ"', '"http://a b"']],
  [{ type: "string", format: "uri-template" }, ['"/x/{+a,b:3}{?q*}"', '""'], ['"{"', '"{a,}"', '"a b"']],
]);

test.each([
  [0, 4097],
  [0, 6143],
  [0, 6144],
  [3, 10_000],
  [5000, 5000],
  [4097, 9000],
  [9001, -1],
])("lengths from %i to %i, counted by blocks", async (minLength, maxLength) => {
  const grammar = grammarOf({ type: "string", minLength, ...(maxLength === -1 ? {} : { maxLength }) });
  const native = await compiled(grammar);
  const end = maxLength === -1 ? 12_000 : maxLength;
  const lengths = [
    minLength - 1,
    minLength,
    minLength + 1,
    minLength + 2048,
    4096,
    4097,
    end - 2048,
    end - 1,
    end,
    end + 1,
  ];
  for (const length of lengths.filter((one) => one >= 0)) {
    const isIn = length >= minLength && (maxLength === -1 || length <= maxLength);
    expect([length, takes(native, `"${"é".repeat(length)}"`)]).toEqual([length, isIn]);
  }
});

test("a million characters take few states", async () => {
  const native = await compiled(grammarOf({ type: "string", maxLength: 1_000_000 }), { states: 20_000 });
  expect(takes(native, `"${"a".repeat(20_000)}"`)).toBe(true);
});

test("patterns that say much together are no more than what they say in turn", async () => {
  const patterns = ["^([a-z][0-9])+$", "((c1d3g3).{4,8}){6,6}", "(t|8){10,10}..$", "^z9((.){10,10}){10,10}z9$"];
  const native = await compiled(grammarOf({ allOf: patterns.map((pattern) => ({ pattern })) }), { states: 400_000 });
  expect([takes(native, "7"), takes(native, '"a1"')]).toEqual([true, false]);
});
