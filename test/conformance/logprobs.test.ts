// Logprobs of replies and prompts, and beam search. The model's raw distribution is known.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cpuMilliseconds } from "../fixtures/cpuTime.js";
import { scriptedModel, start } from "./scripted.js";
import { Served } from "./served.js";

let served: Served;
let ids: Record<string, number>;
beforeAll(async () => {
  const scripted = await scriptedModel("m", {
    odds: {
      "[dice]": { A: 0.5, B: 0.3, C: 0.15, D: 0.05 },
      // For beams: greedy begins with A, but B's best end is likelier than A's.
      A: { "<|end|>": 0.4, C: 0.35, D: 0.25 },
      B: { "<|end|>": 0.9, D: 0.1 },
      C: { "<|end|>": 1 },
      D: { D: 1 },
      "[count]": { x: 1 },
      x: { x: 0.9, "<|end|>": 0.1 },
      "<|assistant|>": { One: 1 },
    },
  });
  ids = scripted.ids;
  served = await Served.open({ models: [scripted.model] });
});
afterAll(() => served?.close());

const dice = { ...start("[dice]"), max_tokens: 1, logprobs: true };
const LN = { A: Math.log(0.5), B: Math.log(0.3), C: Math.log(0.15), D: Math.log(0.05) };

async function entries(body: Record<string, unknown>) {
  const { choices } = await served.chat({ ...dice, ...body });
  return choices.map((choice) => choice.logprobs!.content);
}

describe("logprobs", () => {
  test("are null unless asked for", async () => {
    for (const logprobs of [undefined, null, false]) {
      expect((await served.chat({ ...dice, logprobs })).choices[0]!.logprobs).toBeNull();
    }
  });

  test("have no top entries without top_logprobs, and with 0", async () => {
    for (const top_logprobs of [undefined, null, 0]) {
      const [[entry]] = (await entries({ top_logprobs, temperature: 0 })) as [[unknown]];
      expect(entry).toEqual({ token: "A", logprob: expect.closeTo(LN.A, 3), bytes: [65], top_logprobs: [] });
    }
  });

  test("list the tokens of logprob_token_ids instead, behind the drawn one", async () => {
    const drawn = await entries({ logprob_token_ids: [ids.B, ids.C, ids.A], top_logprobs: 2, n: 20, seed: 1 });
    for (const [entry] of drawn) {
      const others = ["B", "C", "A"].filter((token) => token !== entry!.token);
      expect(entry!.top_logprobs.map(({ token }) => token)).toEqual([entry!.token, ...others]);
      for (const { token, logprob } of entry!.top_logprobs) expect(logprob).toBeCloseTo(LN[token as "A"], 3);
    }
    await served.refusal({ ...dice, logprobs: true, logprob_token_ids: [100_000] }, "logprob_token_ids");
  });

  test("list exactly the k likeliest, falling, whatever was drawn", async () => {
    for (const [entry] of await entries({ top_logprobs: 2, n: 60, seed: 1 })) {
      expect(entry!.top_logprobs.map(({ token }) => token)).toEqual(["A", "B"]);
      expect(entry!.logprob).toBeCloseTo(LN[entry!.token as "A"], 3);
    }
  });

  test("ties go to the lower id", async () => {
    const [entry] = (await entries({ top_logprobs: 8, temperature: 0 }))[0]!;
    const tail = entry!.top_logprobs.slice(4);
    expect(tail.map(({ bytes }) => bytes)).toEqual([[0], [1], [2], [3]]);
  });

  test("are raw: no setting changes them", async () => {
    const settings = [
      { temperature: 0.1 },
      { temperature: 3, allowed_token_ids: [ids.B!] },
      { top_k: 1, top_p: 0.1, min_p: 0.9 },
      { logit_bias: { [ids.B!]: 50 } },
      { bad_words: ["A"] },
      { repetition_penalty: 1.5, frequency_penalty: 1, presence_penalty: 1 },
    ];
    for (const setting of settings) {
      const [entry] = (await entries({ top_logprobs: 4, ...setting }))[0]!;
      expect(entry!.top_logprobs.map(({ token }) => token)).toEqual(["A", "B", "C", "D"]);
      for (const { token, logprob } of entry!.top_logprobs) expect(logprob).toBeCloseTo(LN[token as "A"], 3);
      expect(entry!.logprob).toBeCloseTo(LN[entry!.token as "A"], 3);
    }
  });

  test("have one entry per token, the end of sequence included", async () => {
    const { choices } = await served.chat({ ...start("[words]"), logprobs: true, top_logprobs: 1 });
    const tokens = choices[0]!.logprobs!.content.map(({ token }) => token);
    expect(tokens).toEqual(["One", " two", " three", " four", " five", "<|end|>"]);
  });

  test("are written token_id:N when asked, with the bytes of the token's own text", async () => {
    const body = { ...start("[words]"), logprobs: true, top_logprobs: 1, return_tokens_as_token_ids: true };
    const [first] = (await served.chat(body)).choices[0]!.logprobs!.content;
    const entry = { token: `token_id:${ids.One}`, bytes: [79, 110, 101] };
    expect(first).toMatchObject({ ...entry, top_logprobs: [entry] });
  });

  test("of tokens inside a character: the one that completes it carries it", async () => {
    // "é" is two bytes; both are drawn for certain.
    const body = { max_tokens: 2, logprobs: true, ...start("[dice]"), temperature: 0 };
    const first = await served.chat({ ...body, allowed_token_ids: [0xc3], max_tokens: 1 });
    expect(first.choices[0]!.logprobs!.content[0]).toMatchObject({ token: "", bytes: [0xc3] });
    expect(first.choices[0]!.message.content).toBe("\ufffd");
    const bias = { 195: 100, 169: 99, 65: -100, 66: -100 };
    const both = await served.chat({ ...body, logit_bias: bias, frequency_penalty: 2, allowed_token_ids: [195, 169] });
    const content = both.choices[0]!.logprobs!.content;
    expect(content.map(({ bytes }) => bytes)).toEqual([[0xc3], [0xa9]]);
    expect(content.map(({ token }) => token)).toEqual(["", "é"]);
    expect(both.choices[0]!.message.content).toBe("é");
  });

  test("never fall below -9999", async () => {
    const all = await entries({ top_logprobs: 20, allowed_token_ids: [7] });
    for (const { logprob } of all[0]![0]!.top_logprobs) expect(logprob).toBeGreaterThanOrEqual(-9999);
  });

  test("20 may be asked for", async () => {
    expect((await entries({ top_logprobs: 20 }))[0]![0]!.top_logprobs).toHaveLength(20);
  });
});

describe("prompt_logprobs", () => {
  const ask = async (prompt_logprobs: number, more: object = {}) =>
    served.chat({
      messages: [{ role: "user", content: "[dice]B" }],
      max_tokens: 1,
      prompt_logprobs,
      return_token_ids: true,
      ...more,
    });

  test("have one item per prompt token, the first null", async () => {
    const { prompt_logprobs, prompt_token_ids } = await ask(0);
    expect(prompt_logprobs).toHaveLength(prompt_token_ids!.length);
    expect(prompt_logprobs![0]).toBeNull();
    for (const [i, id] of prompt_token_ids!.entries()) {
      if (i > 0) expect(Object.keys(prompt_logprobs![i]!)).toEqual([String(id)]);
    }
  });

  test("give the token itself first and the k likeliest, with ranks and texts", async () => {
    const { prompt_logprobs } = await ask(1);
    // <|user|> [dice] B <|end|> ...
    expect(prompt_logprobs![2]).toEqual({
      [ids.B!]: { logprob: expect.closeTo(LN.B, 3), rank: 2, decoded_token: "B" },
      [ids.A!]: { logprob: expect.closeTo(LN.A, 3), rank: 1, decoded_token: "A" },
    });
    // The end after B is the likeliest itself.
    expect(prompt_logprobs![3]).toEqual({
      [ids["<|end|>"]!]: { logprob: expect.closeTo(Math.log(0.9), 3), rank: 1, decoded_token: "<|end|>" },
    });
  });

  test("do not read the prefix cache, but fill it", async () => {
    const messages = [{ role: "user", content: "q".repeat(150) }];
    const cached = async (more: object) =>
      (await served.chat({ messages, max_tokens: 1, ...more })).usage.prompt_tokens_details.cached_tokens;
    expect(await cached({ prompt_logprobs: 0 })).toBe(0);
    expect(await cached({ prompt_logprobs: 0 })).toBe(0);
    expect(await cached({})).toBeGreaterThan(0);
  });

  test("are those of the truncated prompt, and are none in a stream", async () => {
    expect((await ask(0, { truncate_prompt_tokens: 3 })).prompt_logprobs).toHaveLength(3);
    for (const chunk of await served.chunks({ prompt_logprobs: 0 }))
      expect(chunk).not.toHaveProperty("prompt_logprobs");
  });

  test("come with n choices and beams", async () => {
    expect((await ask(1, { n: 3 })).prompt_logprobs![2]).toHaveProperty(String(ids.A));
    expect((await ask(1, { n: 2, use_beam_search: true })).prompt_logprobs![2]).toHaveProperty(String(ids.A));
  });
});

describe("beam search", () => {
  const beams = async (body: Record<string, unknown>) => {
    const { choices } = await served.chat({
      ...start("[dice]"),
      use_beam_search: true,
      max_tokens: 3,
      length_penalty: 0,
      ...body,
    });
    return choices.map(({ message, finish_reason, stop_reason }) => [message.content, finish_reason, stop_reason]);
  };
  const end = () => ids["<|end|>"]!;

  test("finds what greedy misses, best first", async () => {
    // B: 0.3 * 0.9 = 0.27. A: 0.5 * 0.4 = 0.2. AC: 0.175. C: 0.15.
    expect(await beams({ n: 4 })).toEqual([
      ["B", "stop", end()],
      ["A", "stop", end()],
      ["AC", "stop", end()],
      ["C", "stop", end()],
    ]);
  });

  test("width 1 is greedy", async () => {
    expect(await beams({ n: 1 })).toEqual([["A", "stop", end()]]);
  });

  test("ends at the limit with length", async () => {
    expect((await beams({ n: 3, max_tokens: 1 })).map((beam) => beam.slice(0, 2))).toEqual([
      ["A", "length"],
      ["B", "length"],
      ["C", "length"],
    ]);
  });

  test("length_penalty divides by the length, prompt included, the end left out", async () => {
    // Prompt: <|user|>Hello<|end|><|assistant|>[dice], 9 tokens. Scores of B and of ADD, by length^8.
    const score = (p: number, length: number) => Math.log(p) / length ** 8;
    expect(score(0.125, 12)).toBeGreaterThan(score(0.27, 10));
    expect((await beams({ n: 3, length_penalty: 8 }))[0]![0]).toBe("ADD");
    expect((await beams({ n: 3, length_penalty: 0 }))[0]![0]).toBe("B");
    expect((await beams({ n: 3, length_penalty: -3 }))[0]![0]).toBe("B");
  });

  test("temperature and seed do not matter", async () => {
    expect(await beams({ n: 4, temperature: 2, seed: 5 })).toEqual(await beams({ n: 4, temperature: 0 }));
  });

  test("obeys stop strings, stop ids, min_tokens, allowed_token_ids, bad_words and ignore_eos", async () => {
    expect((await beams({ n: 2, stop: "C" })).map((beam) => beam[2])).toContain(end());
    expect(await beams({ n: 1, allowed_token_ids: [ids.C, end()] })).toEqual([["C", "stop", end()]]);
    expect(await beams({ n: 1, bad_words: ["A"] })).toEqual([["B", "stop", end()]]);
    expect((await beams({ n: 1, stop_token_ids: [ids.A] }))[0]).toEqual(["", "stop", ids.A]);
    expect((await beams({ n: 1, stop: "A" }))[0]).toEqual(["", "stop", "A"]);
    expect((await beams({ n: 1, stop: "A", include_stop_str_in_output: true }))[0]).toEqual(["A", "stop", "A"]);
    for (const [text] of await beams({ n: 2, min_tokens: 2 }))
      expect((text as string).length).toBeGreaterThanOrEqual(2);
    for (const [, finish] of await beams({ n: 2, ignore_eos: true })) expect(finish).toBe("length");
  });

  test("is wider than the cap of logprobs", async () => {
    const all = await beams({ n: 30, max_tokens: 2 });
    expect(all).toHaveLength(30);
    expect(new Set(all.map(([text]) => text)).size).toBeGreaterThan(3);
  });

  test("carries logprobs and ids", async () => {
    const body = {
      ...start("[dice]"),
      use_beam_search: true,
      n: 2,
      length_penalty: 0,
      max_tokens: 3,
      logprobs: true,
      top_logprobs: 2,
      return_token_ids: true,
    };
    const { choices, usage } = await served.chat(body);
    // As in vLLM, the end is told only where stops are.
    expect(choices[0]!.token_ids).toEqual([ids.B]);
    expect(choices[0]!.logprobs!.content).toHaveLength(1);
    const shown = (await served.chat({ ...body, include_stop_str_in_output: true })).choices[0]!;
    expect(shown.token_ids).toEqual([ids.B, end()]);
    expect(shown.logprobs!.content).toHaveLength(2);
    const [b] = choices[0]!.logprobs!.content;
    expect(b).toMatchObject({ token: "B", logprob: expect.closeTo(LN.B, 3) });
    expect(b!.top_logprobs.map(({ token }) => token)).toEqual(["A", "B"]);
    expect(usage.completion_tokens).toBe(choices[0]!.token_ids!.length + choices[1]!.token_ids!.length);
  });

  test("names the stop string that ends its text, also within an end that is shown", async () => {
    const beams = { use_beam_search: true, n: 2, length_penalty: 0, max_tokens: 3, skip_special_tokens: false };
    const first = async (body: object) => {
      const { message, stop_reason } = (await served.chat({ ...start("[dice]"), ...beams, ...body })).choices[0]!;
      return [message.content, stop_reason];
    };
    expect(await first({ stop: ["end"], include_stop_str_in_output: true })).toEqual(["B<|end", "end"]);
    expect(await first({ include_stop_str_in_output: true })).toEqual(["B<|end|>", end()]);
    expect(await first({ stop: ["end"] })).toEqual(["B", end()]);
  });

  test("streams each choice in one piece", async () => {
    const chunks = await served.chunks({
      ...start("[dice]"),
      use_beam_search: true,
      n: 2,
      max_tokens: 3,
      length_penalty: 0,
    });
    const content = chunks.flatMap(({ choices }) => choices).filter(({ finish_reason }) => finish_reason !== null);
    expect(content.map(({ index, delta }) => [index, delta.content])).toEqual([
      [0, "B"],
      [1, "A"],
    ]);
  });

  test.each([
    ["frequency_penalty", { frequency_penalty: 1 }],
    ["presence_penalty", { presence_penalty: 1 }],
    ["repetition_penalty", { repetition_penalty: 1.1 }],
    ["logit_bias", { logit_bias: { 5: 1 } }],
    ["repetition_detection", { repetition_detection: { max_pattern_size: 1, min_count: 2 } }],
    ["priority", { priority: 1 }],
  ])("%s is refused", async (field, body) => {
    await served.refusal({ use_beam_search: true, ...body }, field);
  });

  test("a width of thousands neither fails nor blocks others for long", async () => {
    const wide = served.chat({ ...start("[dice]"), use_beam_search: true, n: 3000, max_tokens: 2 });
    const before = cpuMilliseconds();
    await served.chat({ max_tokens: 1 });
    expect(cpuMilliseconds() - before).toBeLessThan(20_000);
    expect((await wide).choices).toHaveLength(3000);
  });
});
