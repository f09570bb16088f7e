import { describe, expect, it } from "vitest";
import { turnsDuring } from "../test/fixtures/turns.js";
import { ValidationError } from "./errors.js";
import { jsonText, SpelledNumber } from "./json.js";
import { parseJsonAsync } from "./jsonAsync.js";

/** Makes the byte reader read it: an integer beyond 2^53 beside an exact field. */
const viaReader = async (text: string) => {
  const body = Buffer.from(`{"seed":9223372036854775807,"value":${text}}`);
  const { value } = (await parseJsonAsync(body, { seed: "integers" })) as { value: unknown };
  return value;
};

/** Far more than what is parsed at once. */
const LONG = 300_000;

/** Makes it be read in pieces: as a field among long ones, as an entry of a long list that is one, and deep inside. */
const inPieces = async (text: string) => {
  const pad = JSON.stringify(Array.from({ length: LONG / 4 }, (_, i) => i % 1000));
  const field = `{"pad":${pad},"value":${text},"object":{"s":"${"x".repeat(LONG)}"}}`;
  const count = Math.ceil(LONG / (text.length + 1));
  const list = `[${Array(count).fill(text).join(",")}]`;
  const deep = `[[${pad},{"a":${text},"pad":${pad}}],${list}]`;
  const bodies = [field, list, deep];
  const read = await Promise.allSettled(bodies.map((body) => parseJsonAsync(Buffer.from(body))));
  return bodies.map((body, i) => ({ body, outcome: read[i]! }));
};

describe("parseJsonAsync", () => {
  it("reads integers of exact fields exactly, at any depth within them", async () => {
    const text = '{"seed": 9223372036854775807, "n": 9223372036854775807, "x": {"seed": 9007199254740993}}';
    expect(await parseJsonAsync(Buffer.from(text), { seed: "integers" })).toEqual({
      seed: 9223372036854775807n,
      n: 2 ** 63,
      x: { seed: 9007199254740992 },
    });
    expect(
      await parseJsonAsync(Buffer.from('{"x": {"y": [{"z": 9007199254740993}]}, "w": 9007199254740993}'), {
        x: "integers",
      }),
    ).toEqual({
      x: { y: [{ z: 9007199254740993n }] },
      w: 9007199254740992,
    });
    expect(await parseJsonAsync(Buffer.from('{"seed": -9223372036854775808}'), { seed: "integers" })).toEqual({
      seed: -9223372036854775808n,
    });
    expect(
      await parseJsonAsync(Buffer.from('{"seed": 9007199254740991, "k": 12345678901234567890}'), {
        seed: "integers",
      }),
    ).toEqual({
      seed: 9007199254740991,
      k: Number("12345678901234567890"),
    });
    expect(
      await parseJsonAsync(Buffer.from('{"seed": 1e20, "k": 12345678901234567890}'), { seed: "integers" }),
    ).toMatchObject({
      seed: 1e20,
    });
  });

  it("tells whole floats from integers in fields whose spelling counts, at any depth within them", async () => {
    const text =
      '{"t": {"a": [1.0, -2.50e1, 1e3, 1, 0.5, -0.0, 12345678901234567890]}, "s": [1.0, "x 1.0, "], "i": 1e0}';
    const read = await parseJsonAsync(Buffer.from(text), { t: "floats", i: "integers" });
    expect(read).toEqual({
      t: { a: [new Number(1), new Number(-25), new Number(1000), 1, 0.5, new Number(-0), 12345678901234567890n] },
      s: [1, "x 1.0, "],
      i: 1,
    });
    for (const { body } of await inPieces('{"v":1.0}')) {
      const marked = JSON.stringify(await parseJsonAsync(Buffer.from(body), "floats"), (_, value) =>
        value instanceof Number ? "float" : value,
      );
      expect(marked).toContain('{"v":"float"}');
      expect(marked).not.toContain('{"v":1');
    }
  });

  it("keeps the spelling of numbers that would be written in another way, at any depth within its fields", async () => {
    const spelled = ["1.0", "-0.0", "1e3", "1.50", "0.12345678901234567890", "1e400", "1e-400"];
    for (const number of spelled) {
      const read = await parseJsonAsync(Buffer.from(`{"t":[{"a":${number}}],"s":${number}}`), { t: "spellings" });
      expect(read).toStrictEqual({ t: [{ a: new SpelledNumber(number) }], s: Number(number) });
    }
    const plain = { t: [1, -2, 0.5, 1.25, 9007199254740993n] };
    expect(
      await parseJsonAsync(Buffer.from('{"t":[1,-2,0.5,1.25,9007199254740993]}'), { t: "spellings" }),
    ).toStrictEqual(plain);
  });

  it("reads exactly in fields of fields, and of the objects of lists, and nowhere else", async () => {
    const exact = { groups: { items: { tools: "spellings" } } } as const;
    for (const pad of ["", "x".repeat(LONG)]) {
      const item = `{"reward":1.0,"tools":[{"a":{"tools":2.0}}],"pad":"${pad}"}`;
      const text = `{"groups":[{"items":[${item},${item}],"tools":3.0}],"items":{"tools":4.0},"tools":5.0}`;
      const read = { reward: 1, tools: [{ a: { tools: new SpelledNumber("2.0") } }], pad };
      expect(await parseJsonAsync(Buffer.from(text), exact)).toStrictEqual({
        groups: [{ items: [read, read], tools: 3 }],
        items: { tools: 4 },
        tools: 5,
      });
    }
  });

  it("is undone by writing what it gives, numbers as they were spelled", async () => {
    const text =
      '{"a":[1.0,{"b":-0.0},12345678901234567890,0.5,1e400],"__proto__":{"c":1.50},"d":"1.0","e":null,"f":[]}';
    expect(jsonText(await parseJsonAsync(Buffer.from(text), "spellings"))).toBe(text);
    const mixed = { whole: new Number(1), exact: 12345678901234567890n, none: undefined, list: [undefined, true] };
    expect(jsonText(mixed)).toBe('{"whole":1,"exact":12345678901234567890,"list":[null,true]}');
    const nested = { a: [], b: {}, c: [1, { d: undefined, e: ["x"] }], exact: 2n };
    expect(jsonText(nested, 2)).toBe(JSON.stringify({ ...nested, exact: 2 }, null, 2));
  });

  it("reads all integers exactly where it is told to", async () => {
    expect(await parseJsonAsync(Buffer.from("9007199254740993"), "integers")).toBe(9007199254740993n);
    expect(
      await parseJsonAsync(
        Buffer.from('{"a":[9007199254740993,{"b":-18446744073709551615}],"c":1,"d":1e300}'),
        "integers",
      ),
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
  it.each(samples)("reads %j as JSON.parse does", async (text) => {
    const parsed = (body: string): unknown => {
      try {
        return JSON.parse(body);
      } catch {
        return ValidationError;
      }
    };
    const expected = parsed(text);
    if (expected === ValidationError) {
      await expect(parseJsonAsync(Buffer.from(text))).rejects.toThrow(ValidationError);
      await expect(viaReader(text)).rejects.toThrow(ValidationError);
    } else {
      expect(await parseJsonAsync(Buffer.from(text))).toStrictEqual(expected);
      expect(JSON.stringify(await viaReader(text))).toBe(JSON.stringify(expected));
      expect(await viaReader(text)).toStrictEqual(expected);
    }
    for (const { body, outcome } of await inPieces(text)) {
      const expected = parsed(body);
      if (expected === ValidationError) expect(outcome).toMatchObject({ reason: expect.any(ValidationError) });
      else expect(JSON.stringify((outcome as PromiseFulfilledResult<unknown>).value)).toBe(JSON.stringify(expected));
    }
  });

  it("reads exact fields exactly in pieces too", async () => {
    const big = "9007199254740993";
    const many = Array(LONG / 10)
      .fill(big)
      .join(",");
    const body = `{"x":[[${many}]],"y":[${big},${many}],"x2":${big},"x":{"a":[${many}],"b":${big}}}`;
    const { x, y, x2 } = (await parseJsonAsync(Buffer.from(body), { x: "integers" })) as {
      x: { a: bigint[]; b: bigint };
      y: number[];
      x2: number;
    };
    expect(new Set(x.a)).toEqual(new Set([BigInt(big)]));
    expect([x.a.length, x.b]).toEqual([LONG / 10, BigInt(big)]);
    expect([new Set(y), x2]).toEqual([new Set([Number(big)]), Number(big)]);
  });

  it("gives other work its turn", async () => {
    const body = Buffer.from(JSON.stringify(Array.from({ length: 1_000_000 }, (_, i) => ({ i, text: `text ${i}` }))));
    const turns = await turnsDuring(async () => expect(await parseJsonAsync(body)).toHaveLength(1_000_000));
    expect(turns).toBeGreaterThan(5);
  });

  it("refuses more lists and objects than a body of its length has a use for, however they stand", async () => {
    const many = 600_000;
    for (const text of ["{}", "[]", '{"a":[]}', "[[]]", '{"a":{}}']) {
      const list = `[${Array(many).fill(text).join(",")}]`;
      const inField = `{"x":{"y":${list}}}`;
      const longEntries = `[${Array(30)
        .fill(
          `[${Array(many / 30)
            .fill(text)
            .join(",")}]`,
        )
        .join(",")}]`;
      for (const body of [list, inField, longEntries]) {
        await expect(parseJsonAsync(Buffer.from(body))).rejects.toThrow("lists and objects, which is too many");
      }
    }
    const shortest = [
      { role: "user", content: "a" },
      { role: "assistant", content: "b" },
    ];
    const conversations = Array.from({ length: many / 2 }, () => ({ messages: shortest }));
    expect(await parseJsonAsync(Buffer.from(JSON.stringify(conversations)))).toHaveLength(many / 2);
    const numbers = `[${Array(4 * many)
      .fill("1")
      .join(",")}]`;
    expect(await parseJsonAsync(Buffer.from(numbers))).toHaveLength(4 * many);
  });

  it("keeps numbers beside what nests very deep, which is for the caller to refuse", async () => {
    const deep = `${"[".repeat(3000)}"]",{"a":1}${"]".repeat(3000)}`;
    const body = Buffer.from(`{"value":${deep},"seed":9223372036854775807}`);
    const { value, seed } = (await parseJsonAsync(body, { seed: "integers" })) as { value: unknown; seed: bigint };
    expect(seed).toBe(9223372036854775807n);
    expect(JSON.stringify(value)).toBe(deep);
    await expect(viaReader(deep.replace('{"a"', "{a"))).rejects.toThrow(ValidationError);
  });

  it("refuses what is not UTF-8, endless nesting, endless space and fields without number", async () => {
    const refused = (body: Buffer) => expect(parseJsonAsync(body)).rejects;
    await refused(Buffer.from([0x22, 0xff, 0x22])).toThrow(/UTF-8/);
    await refused(
      Buffer.concat([Buffer.from(`["${"a".repeat(LONG)}","`), Buffer.from([0xff]), Buffer.from('"]')]),
    ).toThrow(/UTF-8/);
    await expect(viaReader("[".repeat(50_000))).rejects.toThrow(/unexpected end/);
    await refused(Buffer.from("[".repeat(100_000_000))).toThrow(/nested|end/);
    await refused(Buffer.from(`[1,${" ".repeat(10_000_000)}2]`)).toThrow(/white space/);
    const fields = Array.from({ length: LONG }, (_, i) => `"${i}":0`).join(",");
    await refused(Buffer.from(`{${fields}}`)).toThrow(/more than \d+ fields/);
    expect(await parseJsonAsync(Buffer.from("\ufeff[1]"))).toEqual([1]);
  });

  it("does not touch prototypes", async () => {
    const polluting = '{"__proto__":{"polluted":1}}';
    await viaReader(polluting);
    const [{ outcome }] = (await inPieces(polluting)) as unknown as [
      { outcome: PromiseFulfilledResult<{ value: object }> },
    ];
    expect(Object.keys(outcome.value.value)).toEqual(["__proto__"]);
    const long = `{"a":"${"x".repeat(LONG)}","__proto__":{"polluted":1}}`;
    expect(Object.keys((await parseJsonAsync(Buffer.from(long))) as object)).toEqual(["a", "__proto__"]);
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
  });
});
