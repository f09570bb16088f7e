// How a choice ends, and what of its text is shown.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { scriptedModel, start } from "./scripted.js";
import { Served, textOf } from "./served.js";

let served: Served;
let ids: Record<string, number>;
beforeAll(async () => {
  const scripted = await scriptedModel("m");
  ids = scripted.ids;
  served = await Served.open({ models: [scripted.model] });
});
afterAll(() => served?.close());

/** The first choice, in one piece and streamed: both must say the same. */
async function reply(body: Record<string, unknown>) {
  const whole = { temperature: 0, return_token_ids: true, logprobs: true, ...body };
  const { choices, usage } = await served.chat(whole);
  const { message, finish_reason, stop_reason, token_ids, logprobs } = choices[0]!;
  const chunks = await served.chunks(whole);
  const streamed = chunks.flatMap((chunk) => chunk.choices);
  expect(textOf(chunks)).toBe(message.content);
  expect(streamed.at(-1)).toMatchObject({ finish_reason, stop_reason });
  expect(streamed.flatMap((choice) => choice.token_ids ?? [])).toEqual(token_ids);
  expect(streamed.flatMap((choice) => choice.logprobs?.content ?? [])).toEqual(logprobs!.content);
  expect(usage.completion_tokens).toBe(token_ids!.length);
  expect(logprobs!.content).toHaveLength(token_ids!.length);
  return { text: message.content, finish: finish_reason, reason: stop_reason, tokens: token_ids!, chunks };
}

const words = start("[words]");
const halt = start("[halt]");
const split = start("[split]");

describe("end of sequence", () => {
  test("the tokenizer's own has no stop reason", async () => {
    expect(await reply(words)).toMatchObject({ text: "One two three four five", finish: "stop", reason: null });
  });

  test("is the last of the token ids", async () => {
    expect((await reply(words)).tokens.at(-1)).toBe(ids["<|end|>"]);
  });

  test("a further one of the folder is its own stop reason", async () => {
    expect(await reply(halt)).toMatchObject({ text: "halting", finish: "stop", reason: ids["<|stop|>"] });
  });

  test("ignore_eos goes on behind both", async () => {
    const { finish, tokens } = await reply({ ...halt, ignore_eos: true, max_tokens: 5 });
    expect(finish).toBe("length");
    expect(tokens).toHaveLength(5);
    expect(tokens.slice(0, 3)).toEqual([ids.halting, ids["<|stop|>"], ids["<|end|>"]]);
  });
});

describe("stop_token_ids", () => {
  test("end with their id, their text omitted", async () => {
    const { text, finish, reason, tokens } = await reply({ ...words, stop_token_ids: [ids[" three"]] });
    expect({ text, finish, reason }).toEqual({ text: "One two", finish: "stop", reason: ids[" three"] });
    expect(tokens).toEqual([ids.One, ids[" two"], ids[" three"]]);
  });

  test("show their text with include_stop_str_in_output", async () => {
    const body = { ...words, stop_token_ids: [ids[" three"]], include_stop_str_in_output: true };
    expect(await reply(body)).toMatchObject({ text: "One two three" });
    const special = { ...halt, include_stop_str_in_output: true };
    expect(await reply(special)).toMatchObject({ text: "halting" });
    expect(await reply({ ...special, skip_special_tokens: false })).toMatchObject({ text: "halting<|stop|>" });
  });

  test("end in spite of ignore_eos, and the primary end of sequence keeps its null", async () => {
    const body = { ...halt, ignore_eos: true, stop_token_ids: [ids["<|stop|>"]] };
    expect(await reply(body)).toMatchObject({ finish: "stop", reason: ids["<|stop|>"] });
    expect(await reply({ ...words, stop_token_ids: [ids["<|end|>"]] })).toMatchObject({ finish: "stop", reason: null });
    const ignored = { ...words, stop_token_ids: [ids["<|end|>"]], ignore_eos: true };
    expect(await reply(ignored)).toMatchObject({ finish: "stop", reason: ids["<|end|>"] });
  });

  test("win over a length reached on the same token", async () => {
    const body = { ...words, stop_token_ids: [ids[" three"]], max_tokens: 3 };
    expect(await reply(body)).toMatchObject({ finish: "stop", reason: ids[" three"] });
  });
});

describe("length", () => {
  test("ends without a reason", async () => {
    expect(await reply({ ...words, max_tokens: 2 })).toMatchObject({ text: "One two", finish: "length", reason: null });
  });

  test("loses against the end of sequence on the same token", async () => {
    expect(await reply({ ...words, max_tokens: 6 })).toMatchObject({ finish: "stop", reason: null });
  });
});

describe("stop strings", () => {
  test.each([
    ["one token", words, " three", "One two"],
    ["the middle of a token", words, "hre", "One two t"],
    ["parts of two tokens", words, "o th", "One tw"],
    ["parts of three tokens", split, "bcde", "a"],
    ["the very beginning", words, "One", ""],
    ["the very end", words, "five", "One two three four "],
  ])("of %s cut the text before them", async (_, from, stop, text) => {
    const { reason, finish, ...rest } = await reply({ ...from, stop });
    expect({ finish, reason, text: rest.text }).toEqual({ finish: "stop", reason: stop, text });
    const included = await reply({ ...from, stop: [stop], include_stop_str_in_output: true });
    expect(included).toMatchObject({ finish: "stop", reason: stop, text: text + stop });
  });

  test("stay in the token ids", async () => {
    const { tokens } = await reply({ ...words, stop: "wo th" });
    expect(tokens).toEqual([ids.One, ids[" two"], ids[" three"]]);
  });

  test("are not looked for in the prompt", async () => {
    const messages = [{ role: "user", content: "One" }];
    expect(await reply({ messages, ...split, stop: ["One", "[split]"] })).toMatchObject({
      text: "abcdef",
      reason: null,
    });
  });

  test("that begin in the prompt do not count", async () => {
    expect(await reply({ ...split, stop: "]ab" })).toMatchObject({ text: "abcdef" });
  });

  test("the one that completes first wins, then the first in the list", async () => {
    expect(await reply({ ...split, stop: ["bcd", "bc"] })).toMatchObject({ reason: "bc", text: "a" });
    expect(await reply({ ...split, stop: ["cd", "bcd"] })).toMatchObject({ reason: "cd", text: "ab" });
    expect(await reply({ ...split, stop: ["bcd", "cd"] })).toMatchObject({ reason: "bcd", text: "a" });
  });

  test("override a length reached on the same token", async () => {
    expect(await reply({ ...words, stop: "two", max_tokens: 2 })).toMatchObject({ finish: "stop", reason: "two" });
  });

  test("do not see special tokens that are skipped, and see them otherwise", async () => {
    const mark = start("[mark]");
    expect(await reply({ ...mark, stop: "<|mark|>" })).toMatchObject({ text: "beforeafter", reason: null });
    expect(await reply({ ...mark, stop: "foreaf" })).toMatchObject({ text: "be" });
    const shown = { ...mark, skip_special_tokens: false };
    expect(await reply({ ...shown, stop: "<|mark|>" })).toMatchObject({ text: "before", reason: "<|mark|>" });
    expect(await reply({ ...shown, stop: "foreaf" })).toMatchObject({ text: "before<|mark|>after", reason: null });
  });

  test("hold back the last characters while they may begin one", async () => {
    // Of twelve characters eleven are held back; the rest comes at the end.
    const { chunks } = await reply({ ...words, stop: "zzzzzzzzzzzz" });
    const contents = chunks.map((chunk) => chunk.choices[0]!.delta.content);
    expect(contents).toEqual(["", "", "", "On", "e two", " thre", "e four five"]);
    const { chunks: included } = await reply({ ...words, stop: "zzzzzzzzzzzz", include_stop_str_in_output: true });
    expect(included.map((chunk) => chunk.choices[0]!.delta.content)).toEqual([
      ...["", "One", " two", " three", " four", " five"],
      "",
    ]);
  });

  test("of characters beyond the first plane are found too", async () => {
    const messages = [{ role: "user", content: "x" }];
    const body = { messages, ...words, stop: ["😀", "é", " three"] };
    expect(await reply(body)).toMatchObject({ text: "One two", reason: " three" });
  });
});

describe("min_tokens", () => {
  test("puts off every end of sequence and stop id", async () => {
    const body = { ...halt, min_tokens: 5, max_tokens: 8, stop_token_ids: [ids.halting] };
    const { tokens } = await reply(body);
    expect(tokens.length).toBeGreaterThanOrEqual(5);
    for (const id of tokens.slice(0, 5)) expect([ids.halting, ids["<|stop|>"], ids["<|end|>"]]).not.toContain(id);
  });

  test("masks the ends with ignore_eos as well", async () => {
    const { tokens } = await reply({ ...halt, min_tokens: 4, max_tokens: 4, ignore_eos: true });
    for (const id of tokens) expect([ids["<|stop|>"], ids["<|end|>"]]).not.toContain(id);
  });

  test("stop strings count only when they end behind the first min_tokens tokens", async () => {
    expect(await reply({ ...words, min_tokens: 2, stop: "two" })).toMatchObject({ reason: null });
    expect(await reply({ ...words, min_tokens: 2, stop: "wo th" })).toMatchObject({ reason: "wo th", text: "One t" });
    expect(await reply({ ...words, min_tokens: 1, stop: "two" })).toMatchObject({ reason: "two" });
  });

  test("may equal the limit", async () => {
    expect(await reply({ ...words, min_tokens: 3, max_tokens: 3 })).toMatchObject({ finish: "length" });
  });
});

describe("repetition_detection", () => {
  const loop = { ...start("[loop]"), max_tokens: 40 };
  const detect = (max_pattern_size: number, min_count: number, min_pattern_size?: number) => ({
    ...loop,
    repetition_detection: { max_pattern_size, min_count, min_pattern_size },
  });

  test("ends at the copy that completes the count", async () => {
    // tick tock tick tock tick tock: three copies of two tokens.
    expect(await reply(detect(2, 3))).toMatchObject({
      finish: "repetition",
      reason: "repetition_detected",
      text: "ticktockticktockticktock",
    });
    expect((await reply(detect(5, 2))).tokens).toHaveLength(4);
  });

  test("does nothing for patterns outside its sizes, or when it is off", async () => {
    expect(await reply(detect(1, 2))).toMatchObject({ finish: "length" });
    expect((await reply(detect(4, 2, 3))).tokens).toHaveLength(8);
    expect(await reply(detect(0, 0))).toMatchObject({ finish: "length" });
    expect(await reply({ ...loop, repetition_detection: null })).toMatchObject({ finish: "length" });
  });

  test("does not look at the prompt", async () => {
    const messages = [{ role: "user", content: "ticktockticktock" }];
    expect((await reply({ messages, ...detect(2, 3) })).tokens).toHaveLength(6);
  });

  test("waits for min_tokens, and loses against a length on the same token", async () => {
    expect((await reply({ ...detect(2, 2), min_tokens: 7 })).tokens).toHaveLength(7);
    expect(await reply({ ...detect(2, 2), max_tokens: 4 })).toMatchObject({ finish: "length" });
  });
});

describe("special tokens", () => {
  const mark = start("[mark]");

  test("are skipped, or shown", async () => {
    expect(await reply(mark)).toMatchObject({ text: "beforeafter" });
    expect(await reply({ ...mark, skip_special_tokens: false })).toMatchObject({ text: "before<|mark|>after" });
  });

  test("spaces_between_special_tokens changes nothing while they are skipped", async () => {
    expect(await reply({ ...mark, spaces_between_special_tokens: false })).toMatchObject({ text: "beforeafter" });
  });
});
