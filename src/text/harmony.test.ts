import { describe, expect, it, test } from "vitest";
import {
  begunMessage,
  HARMONY_MARKS,
  type HarmonyOptions,
  HarmonyParser,
  isHarmony,
  placeInMessage,
} from "./harmony.js";

interface Read {
  reasoning: string;
  content: string;
  calls: [name: string, given: string][];
}

const offered = new Map<string, unknown>([
  ["add", {}],
  ["get.time", {}],
]);

/** A reply in the pieces that `cuts` make of it, put together again as a client does it. */
function read(text: string, cuts: readonly number[] = [], options: Partial<HarmonyOptions> = {}): Read {
  const parser = new HarmonyParser({ asTheyCome: false, offered, ...options });
  const all: Read = { reasoning: "", content: "", calls: [] };
  const ends = [...cuts, text.length];
  const deltas = ends.map((end, i) => parser.push(text.slice(ends[i - 1] ?? 0, end)));
  for (const { reasoning, content, toolCalls } of [...deltas, parser.flush()]) {
    all.reasoning += reasoning;
    all.content += content;
    for (const { index, name, arguments: given } of toolCalls) {
      if (name !== undefined) all.calls.push([name, ""]);
      expect(index).toBe(all.calls.length - 1);
      all.calls[index]![1] += given;
    }
  }
  return all;
}

/** Every `size` characters. */
const every = (size: number, text: string) =>
  Array.from({ length: Math.max(0, Math.ceil(text.length / size) - 1) }, (_, i) => (i + 1) * size);

function expectRead(text: string, expected: Partial<Read>, options: Partial<HarmonyOptions> = {}) {
  const whole = { reasoning: "", content: "", calls: [], ...expected };
  expect(read(text, [], options), text).toEqual(whole);
  for (const size of [1, 2, 3, 5, 8]) expect(read(text, every(size, text), options), `${size}: ${text}`).toEqual(whole);
}

const final = "<|start|>assistant<|channel|>final<|message|>";
const thought = "<|channel|>analysis<|message|>Hm, 3.<|end|>";

describe("a reply", () => {
  it.each<[text: string, expected: Partial<Read>]>([
    [`${thought}${final}It is 3.`, { reasoning: "Hm, 3.", content: "It is 3." }],
    [`${thought}${final}It is 3.<|return|>`, { reasoning: "Hm, 3.", content: "It is 3." }],
    ["<|channel|>final<|message|> 3\n", { content: " 3\n" }],
    ["<|channel|>final <|constrain|>json<|message|>[3]", { content: "[3]" }],
    ["<|channel|>final<|message|>a < b <| c <|end", { content: "a < b <| c <|end" }],
    [`${thought}<|start|>assistant${thought}${final}3`, { reasoning: "Hm, 3.\n\nHm, 3.", content: "3" }],
    [
      `<|channel|>commentary<|message|>I ask.<|end|><|start|>assistant${thought}${final}3`,
      { reasoning: "Hm, 3.", content: "I ask.\n\n3" },
    ],
    ["<|channel|>analysis<|message|>cut o", { reasoning: "cut o" }],
    ["<|channel|>analysis<|message|>", {}],
    ["<|channel|>analy", {}],
    [`${thought}<|start|>assis`, { reasoning: "Hm, 3." }],
    [`${thought}<|start|>assistant<|channel|>commentary to=functions.a`, { reasoning: "Hm, 3." }],
    ["<|channel|>analysis to=python code<|message|>1 + 2<|call|>", { reasoning: "1 + 2" }],
    ["", {}],
  ])("is taken apart however it is cut: %j", (text, expected) => expectRead(text, expected));

  it.each<[text: string, expected: Partial<Read>]>([
    ["Three.", { content: "Three." }],
    [" It is 3. to=", { content: " It is 3. to=" }],
    ["to", { content: "to" }],
    ["to be", { content: "to be" }],
    ["<|message|>3", { content: "3" }],
    [`Hm.${final}3`, { content: "Hm.\n\n3" }],
    ["<|channel|>final<|message|>3<|end|>\n4", { content: "3\n\n4" }],
    ["<|channel|>final<|message|>3<|end|>\n", { content: "3" }],
    ["<|channel|>final<|message|>a<|message|>b<|constrain|>c", { content: "abc" }],
    ["<|channel|>analysis<|message|>a<|channel|>final<|message|>b", { reasoning: "a", content: "b" }],
    [`<|channel|>${"x".repeat(600)}`, { content: "x".repeat(600) }],
    ["<|start|>user<|message|>And 4?", { content: "And 4?" }],
    ["<|start|>assistant it is 3", { content: "assistant it is 3" }],
    ["<|channel|>other<|message|>3", { content: "3" }],
  ])("that keeps to no form loses nothing but marks: %j", (text, expected) => expectRead(text, expected));
});

describe("calls", () => {
  const given = '{"a": "<|x|> } \\" 😀", "b": [1, {}]}';

  it.each<[header: string]>([
    ["<|channel|>commentary to=functions.add <|constrain|>json<|message|>"],
    ["<|channel|>commentary to=functions.add<|constrain|>json<|message|>"],
    ["<|channel|>commentary to=functions.add code<|message|>"],
    ["<|channel|>commentary to=functions.add<|message|>"],
    [" to=functions.add<|channel|>commentary json<|message|>"],
    [" to=functions.add<|channel|>commentary <|constrain|>json<|message|>"],
    ["<|channel|>analysis to=functions.add json<|message|>"],
    ["<|channel|>commentary to=add <|constrain|>json<|message|>"],
  ])("are told by whom they are for: %j", (header) => {
    for (const asTheyCome of [true, false]) {
      expectRead(header + given, { calls: [["add", given]] }, { asTheyCome });
      const later = `${thought}<|start|>assistant${header} ${given}\n<|call|>`;
      expectRead(later, { reasoning: "Hm, 3.", calls: [["add", given]] }, { asTheyCome });
    }
  });

  test("of functions with dots, and of several functions", () => {
    const two =
      '<|channel|>commentary to=functions.get.time<|message|>{}<|call|><|start|>assistant to=functions.add<|channel|>commentary<|message|>{"a":1}';
    for (const asTheyCome of [true, false]) {
      expectRead(
        two,
        {
          calls: [
            ["get.time", "{}"],
            ["add", '{"a":1}'],
          ],
        },
        { asTheyCome },
      );
    }
  });

  test("of functions that are not offered are what is said", () => {
    const call = '<|channel|>commentary to=functions.sub <|constrain|>json<|message|>{"a": 1}<|call|>';
    expectRead(call, { content: '{"a": 1}' });
    expectRead(call, { content: '{"a": 1}' }, { offered: "none" });
    expectRead(call, { calls: [["sub", '{"a": 1}']] }, { offered: null });
    expectRead('<|channel|>commentary to=python<|message|>{"a": 1}', { content: '{"a": 1}' }, { offered: null });
  });

  test("that are cut off or no JSON are what is said, unless they were handed out", () => {
    const header = "<|channel|>commentary to=functions.add<|message|>";
    expectRead(`${header}{"a": 1`, { content: '{"a": 1' });
    expectRead(`${header}{"a": 1`, { calls: [["add", '{"a": 1']] }, { asTheyCome: true });
    expectRead(`${header}{a: 1}<|call|>${final}3`, { content: "{a: 1}\n\n3" });
    expectRead(`${header}none`, { content: "none" });
    expectRead(`${header}none`, { content: "none" }, { asTheyCome: true });
    expectRead(`${header}`, {});
    expectRead(`${header} <|call|>${final}3`, { content: "3" });
  });

  test("may be followed by stray brackets, and by text that is said", () => {
    const header = "<|channel|>commentary to=functions.add<|message|>";
    expectRead(`${header}{}}\n]<|call|>`, { calls: [["add", "{}"]] });
    expectRead(`${header}{}\nDone`, { content: "Done", calls: [["add", "{}"]] });
  });

  test("stream their names first, then their arguments as they come", () => {
    const parser = new HarmonyParser({ asTheyCome: true, offered });
    expect(parser.push("<|channel|>commentary to=functions.add <|constrain|>json<|mess").toolCalls).toEqual([]);
    expect(parser.push('age|>{"a').toolCalls).toEqual([
      { index: 0, name: "add", arguments: "" },
      { index: 0, arguments: '{"a' },
    ]);
    expect(parser.firstWhole).toBe(Number.POSITIVE_INFINITY);
    expect(parser.push('": 1}').toolCalls).toEqual([{ index: 0, arguments: '": 1}' }]);
    expect(parser.firstWhole).toBe(0);
  });
});

test("what is said in a form may hold marks", () => {
  const text = '{"note": "<|end|><|start|>assistant<|channel|>commentary to=functions.add<|message|>{}<|call|>"}';
  expectRead(`${thought}${final}${text}`, { reasoning: "Hm, 3.", content: text }, { isFormed: true });
  expectRead(text, { content: text }, { isFormed: true });
  const call = '<|channel|>commentary to=functions.add<|message|>{"a": 1}<|call|>';
  expectRead(
    `${thought}<|start|>assistant${call}`,
    { reasoning: "Hm, 3.", calls: [["add", '{"a": 1}']] },
    { isFormed: true },
  );
});

test("marks may be told from the same texts by a sign", () => {
  const sign = "\ud800";
  const signed = (text: string) => text.replaceAll("<|", `${sign}<|`);
  const spelled = "<|end|> <|start|> <|";
  expectRead(
    `${signed(thought + final)}It is ${spelled}${signed("<|return|>")}`,
    { reasoning: "Hm, 3.", content: `It is ${spelled}` },
    { sign },
  );
  expectRead(`${signed(final)}a${sign}<|other|>b${sign}`, { content: "a<|other|>b" }, { sign });
  expectRead(`${signed(final)}${sign}\udc00${sign}<|x|>`, { content: `${sign}\udc00<|x|>` }, { sign });
  const call = signed(" to=functions.add<|channel|>commentary json<|message|>");
  expectRead(`${call}{"a": "<|call|>"}${signed("<|call|>")}`, { calls: [["add", '{"a": "<|call|>"}']] }, { sign });
  const formed = { sign, isFormed: true };
  expectRead(`${signed(final)}{"a": 1}${signed("<|return|>")}`, { content: '{"a": 1}' }, formed);
  expectRead(`${signed(final)}<|call|>${signed("<|call|>")}`, { content: "<|call|>" }, formed);
  expectRead(`${signed(final)}a${signed("<|call|><|end|>")}b`, { content: "a<|call|><|end|>b" }, formed);
  expectRead("so.", { content: "so." }, { sign, begun: "assistant<|channel|>final<|message|>It is " });
});

test("a reply goes on with the message that the prompt has begun", () => {
  const going = (begun: string, text: string, expected: Partial<Read>) => expectRead(text, expected, { begun });
  going("assistant<|channel|>final<|message|>It is <", "3.<|return|>", { content: "3." });
  going("assistant<|channel|>final<|message|>", "3.", { content: "3." });
  going("assistant<|channel|>analysis<|message|>H", `m.<|end|>${final}3`, { reasoning: "m.", content: "3" });
  going("assistant<|channel|>", "final<|message|>3", { content: "3" });
  going("assistant<|channel|>ana", "lysis<|message|>3", { reasoning: "3" });
  going("assistant to=functions.add<|channel|>commentary json<|message|>", '{"a": 1}', {
    calls: [["add", '{"a": 1}']],
  });
  going("user<|message|>Hi<|end|>", `${final}3`, { content: "3" });
});

test("where a prompt ends", () => {
  const place = (prompt: string) => placeInMessage(begunMessage(prompt));
  expect(place("<|start|>user<|message|>Hi<|end|><|start|>assistant")).toBe("role");
  expect(place("<|start|>assistant<|channel|>")).toBe("header");
  expect(place("<|start|>assistant<|channel|>final<|message|>")).toBe("text");
  expect(place("<|start|>assistant<|channel|>analysis<|message|>Hm")).toBe("text");
  expect(place("<|start|>user<|message|>Hi<|end|>")).toBe("end");
  expect(isHarmony("<|start|>{{ role }}<|channel|>{{ channel }}<|message|>")).toBe(true);
  expect(isHarmony("<|im_start|>{{ role }}<|im_end|>")).toBe(false);
});

test("random replies are the same in random pieces", () => {
  let state = 7;
  const below = (limit: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
  const sign = "\ud800";
  const parts = [
    ...HARMONY_MARKS.map((mark) => sign + mark),
    `${sign}\udc00`,
    ...["<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>", "<|", "|>"],
    ...["assistant", "analysis", "final", "commentary", " to=functions.add", " to=python", " json", " ", "\n", "to"],
    ...[
      "Hm.",
      '{"a": 1}',
      '{"a": ',
      "}",
      "{}",
      "😀",
      "<|channel|>commentary to=functions.add<|message|>",
      thought,
      final,
    ],
  ];
  for (let round = 0; round < 4000; round++) {
    const text = Array.from({ length: below(12) }, () => parts[below(parts.length)]).join("");
    const cuts = Array.from({ length: below(8) }, () => below(text.length + 1)).sort((a, b) => a - b);
    for (const options of [
      { asTheyCome: false },
      { asTheyCome: true },
      { isFormed: true },
      { offered: "none" as const },
      { sign },
    ]) {
      const whole = read(text, [], options);
      expect(read(text, cuts, options), `${JSON.stringify(text)} ${cuts}`).toEqual(whole);
      if (!("isFormed" in options || "sign" in options))
        expect(whole.content + whole.reasoning).not.toMatch(/<\|(start|message|end|call|return)\|>/);
    }
  }
});
