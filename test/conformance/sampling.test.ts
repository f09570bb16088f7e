// How tokens are drawn: masks, penalties, filters, seeds. The model's probabilities are known (see `odds`), so what a
// setting does to them can be told from what is drawn.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { scriptedModel, start } from "./scripted.js";
import { Served } from "./served.js";

let served: Served;
let ids: Record<string, number>;
beforeAll(async () => {
  const scripted = await scriptedModel("m");
  ids = scripted.ids;
  const own = { eos_token_id: [256, 261], temperature: 0, top_k: 1, repetition_penalty: 1 };
  const greedy = await scriptedModel("greedy", { generation: own });
  served = await Served.open({ models: [scripted.model, greedy.model] });
});
afterAll(() => served?.close());

/** Shares of the first tokens of many replies to `start`. */
async function shares(body: Record<string, unknown>, from = "[dice]", n = 2000): Promise<Record<string, number>> {
  const { choices } = await served.chat({ ...start(from), n, max_tokens: 1, seed: 5, ...body });
  const counts: Record<string, number> = {};
  for (const { message } of choices) counts[message.content!] = (counts[message.content!] ?? 0) + 1 / n;
  return counts;
}

/** Within five standard deviations of what 2000 draws scatter. */
function expectShares(measured: Record<string, number>, expected: Record<string, number>): void {
  expect(Object.keys(measured).sort()).toEqual(Object.keys(expected).sort());
  for (const [token, probability] of Object.entries(expected)) {
    expect(Math.abs(measured[token]! - probability), `${token} in ${JSON.stringify(measured)}`).toBeLessThan(
      5 * Math.sqrt((probability * (1 - probability)) / 2000) + 1e-9,
    );
  }
}

const dice = { A: 0.5, B: 0.3, C: 0.15, D: 0.05 };
/** The dice after a change of weights, as shares of one. */
function reweighed(change: (probability: number, token: string) => number): Record<string, number> {
  const weights = Object.entries(dice).map(([token, p]): [string, number] => [token, change(p, token)]);
  const sum = weights.reduce((total, [, weight]) => total + weight, 0);
  return Object.fromEntries(weights.filter(([, weight]) => weight > 0).map(([token, weight]) => [token, weight / sum]));
}

describe("the distribution", () => {
  test("is the model's own without settings", async () => expectShares(await shares({}), dice));

  test.each([0.5, 2])("temperature %d", async (temperature) => {
    // Hot enough, all other tokens have their share as well.
    const measured = await shares({ temperature, allowed_token_ids: ["A", "B", "C", "D"].map((token) => ids[token]) });
    expectShares(
      measured,
      reweighed((p) => p ** (1 / temperature)),
    );
  });

  test("temperature 0 takes the likeliest, and a tiny one is not raised", async () => {
    expectShares(await shares({ temperature: 0 }, "[dice]", 50), { A: 1 });
    // At 0.01 the odds of A to B are 0.6^100 still; at 1e-300 they are none.
    expectShares(await shares({ temperature: 1e-300 }, "[dice]", 50), { A: 1 });
  });

  test.each([
    [1, { A: 1 }],
    [2, { A: 5 / 8, B: 3 / 8 }],
    [3, { A: 50 / 95, B: 30 / 95, C: 15 / 95 }],
    [0, dice],
    [-1, dice],
  ])("top_k %d", async (top_k, expected) => expectShares(await shares({ top_k }), expected));

  test("top_k keeps ties at its threshold", async () => {
    const measured = await shares({ top_k: 1, temperature: 1 }, "tock");
    // After "tock" comes "tick" only.
    expectShares(measured, { tick: 1 });
    const uniform = await shares({ top_k: 1, allowed_token_ids: [65, 66] }, "C");
    expectShares(uniform, { A: 0.5, B: 0.5 });
  });

  test.each([
    [0.4, { A: 1 }],
    [0.6, { A: 5 / 8, B: 3 / 8 }],
    [0.9, { A: 50 / 95, B: 30 / 95, C: 15 / 95 }],
    [1, dice],
    [1e-9, { A: 1 }],
  ])("top_p %d", async (top_p, expected) => expectShares(await shares({ top_p }), expected));

  test("top_p renormalises what top_k left", async () => {
    // Of A and B alone A has 0.625, which is enough for 0.6; of all four it has 0.5, which is not.
    expectShares(await shares({ top_k: 2, top_p: 0.6 }), { A: 1 });
  });

  test.each([
    [0.05, dice],
    [0.2, { A: 50 / 95, B: 30 / 95, C: 15 / 95 }],
    [0.5, { A: 5 / 8, B: 3 / 8 }],
    [1, { A: 1 }],
  ])("min_p %d", async (min_p, expected) => expectShares(await shares({ min_p }), expected));

  test("min_p is taken after temperature", async () => {
    // At temperature 2, D has 0.32 of A's probability rather than 0.1.
    const allowed_token_ids = ["A", "B", "C", "D"].map((token) => ids[token]);
    const measured = await shares({ min_p: 0.2, temperature: 2, allowed_token_ids });
    expectShares(
      measured,
      reweighed((p) => Math.sqrt(p)),
    );
  });
});

describe("masks and biases", () => {
  test("allowed_token_ids", async () => {
    expectShares(await shares({ allowed_token_ids: [ids.B, ids.D, ids.B] }), { B: 6 / 7, D: 1 / 7 });
    expectShares(await shares({ allowed_token_ids: [ids.D], temperature: 0 }, "[dice]", 10), { D: 1 });
  });

  test("logit_bias", async () => {
    const bias = Math.log(4);
    expectShares(
      await shares({ logit_bias: { [ids.D!]: bias } }),
      reweighed((p, token) => (token === "D" ? 4 * p : p)),
    );
    expectShares(
      await shares({ logit_bias: { [ids.A!]: -100 } }),
      reweighed((p, token) => (token === "A" ? 0 : p)),
    );
    expectShares(await shares({ logit_bias: { [ids.D!]: 3 }, temperature: 0 }, "[dice]", 10), { D: 1 });
  });

  test("is clamped to 100", async () => {
    // The logits of the dice are above those of "x" by less than 60.
    expectShares(await shares({ logit_bias: { [ids.x!]: 1e30 } }, "[dice]", 20), { x: 1 });
    expectShares(await shares({ logit_bias: { [ids.x!]: 1e30, [ids.A!]: 50 } }, "[dice]", 20), { A: 1 });
  });

  test("all keys of logit_bias that are not ids are named", async () => {
    const response = await served.post({ logit_bias: { a: 1, b: 2, 5: 1 } });
    const { detail } = (await response.json()) as { detail: { loc: string[] }[] };
    expect(detail.map(({ loc }) => loc.at(-1))).toEqual(["a", "b"]);
  });

  test("ids outside the vocabulary are named with its size", async () => {
    for (const body of [{ logit_bias: { 5000: 1 } }, { allowed_token_ids: [5000] }]) {
      const { error } = await served.refusal(body, Object.keys(body)[0]!);
      expect(error.message).toMatch(/5000.*288|288.*5000/);
    }
  });

  test("where nothing is permitted the choice ends, with nothing appended", async () => {
    const body = { ...start("[dice]"), allowed_token_ids: [ids.A], bad_words: ["A"], return_token_ids: true };
    const { choices, usage } = await served.chat(body);
    expect(choices[0]).toMatchObject({ finish_reason: "stop", stop_reason: null, message: { content: "" } });
    expect(choices[0]!.token_ids ?? []).toEqual([]);
    expect(usage.completion_tokens).toBe(0);
    const chunks = await served.chunks(body);
    expect(chunks.at(-1)!.choices[0]).toMatchObject({ finish_reason: "stop", stop_reason: null });
  });
});

describe("bad_words", () => {
  test("of one token are never drawn", async () => {
    expectShares(await shares({ bad_words: ["A", "C"] }), { B: 6 / 7, D: 1 / 7 });
  });

  test("of several tokens lose their last one after the others", async () => {
    const text = (bad_words: string[]) =>
      served.text({ ...start("[words]"), temperature: 0, max_tokens: 3, bad_words });
    expect(await text(["One two three"])).toMatch(/^One two(?! three)/);
    expect(await text(["One three"])).toBe("One two three");
  });

  test("count in the output alone, not the prompt", async () => {
    // "One" stands in the prompt, so " two" after it is no bad word.
    const body = { bad_words: ["One two"], max_tokens: 1, temperature: 0 };
    expect(await served.text({ ...start("One"), ...body })).toBe(" two");
  });

  test("lose white space before them; after a space they are banned where that is as many tokens", async () => {
    const greedy = { temperature: 0, max_tokens: 2 };
    // " two" is stripped to "two", which is three bytes; with a space it is the piece " two": another number of tokens.
    expect(await served.text({ ...start("[words]"), ...greedy, bad_words: [" two"] })).toBe("One two");
    expect(await served.text({ ...start("[words]"), ...greedy, bad_words: ["  One"] })).not.toMatch(/^One/);
  });
});

describe("penalties", () => {
  // After each "x" comes "x" with 0.75 and the end with 0.25.
  const runs = async (body: Record<string, unknown>) => {
    const { choices } = await served.chat({ ...start("[count]"), n: 1000, max_tokens: 12, seed: 3, ...body });
    return choices.map(({ message }) => message.content!.length);
  };
  const share = (lengths: number[], length: number) => lengths.filter((one) => one === length).length / lengths.length;

  test("frequency_penalty takes its value once per occurrence in the output", async () => {
    // After one x: odds 3 : 1 become 3 e^-f : 1; after two, 3 e^-2f : 1. The x of the prompt does not count.
    const f = 1;
    const lengths = await runs({ frequency_penalty: f });
    const stop = (count: number) => 1 / (1 + 3 * Math.exp(-f * count));
    expect(share(lengths, 1)).toBeCloseTo(stop(1), 1);
    expect(share(lengths, 2)).toBeCloseTo((1 - stop(1)) * stop(2), 1);
    expect(share(lengths, 3)).toBeCloseTo((1 - stop(1)) * (1 - stop(2)) * stop(3), 1);
  });

  test("presence_penalty takes its value once", async () => {
    const stop = 1 / (1 + 3 * Math.exp(-2));
    const lengths = await runs({ presence_penalty: 2 });
    expect(share(lengths, 1)).toBeCloseTo(stop, 1);
    expect(share(lengths, 2)).toBeCloseTo((1 - stop) * stop, 1);
  });

  test("repetition_penalty counts the prompt too, and divides logits above zero", async () => {
    // The logit of A is near 60: divided by 1.3 it falls by 13, far below all other letters.
    expectShares(await shares({ repetition_penalty: 1.3, messages: [{ role: "user", content: "A" }] }), {
      B: 0.6,
      C: 0.3,
      D: 0.1,
    });
    expectShares(await shares({ repetition_penalty: 1.3, messages: [{ role: "user", content: "q" }] }), dice);
    // Once per token, however often it stands there.
    const twice = [{ role: "user", content: "AABBCCDD" }];
    expect(Object.keys(await shares({ repetition_penalty: 1.0001, messages: twice })).sort()).toEqual([
      "A",
      "B",
      "C",
      "D",
    ]);
  });

  test("apply to greedy requests as well", async () => {
    const greedy = { temperature: 0, max_tokens: 12, ...start("[count]") };
    expect(await served.text(greedy)).toBe("x".repeat(12));
    // ln 3 = 1.0986: the second x has lost 2, so the end is likelier.
    expect(await served.text({ ...greedy, presence_penalty: 2 })).toBe("x");
    // 0.4 a time: more than ln 3 after the third.
    expect(await served.text({ ...greedy, frequency_penalty: 0.4 })).toBe("xxx");
    expect(await served.text({ ...greedy, presence_penalty: -2 })).toBe("x".repeat(12));
  });
});

describe("randomness", () => {
  const drawn = async (body: Record<string, unknown>) =>
    (await served.chat({ ...start("[dice]"), max_tokens: 1, ...body })).choices.map(({ message }) => message.content!);

  test("a seed gives the same draws, others do not", async () => {
    const first = await drawn({ n: 20, seed: 7 });
    expect(await drawn({ n: 20, seed: 7 })).toEqual(first);
    expect(await drawn({ n: 20, seed: 8 })).not.toEqual(first);
  });

  test("choice i draws as seed + i does alone", async () => {
    const together = await drawn({ n: 6, seed: 40 });
    const alone = await Promise.all([0, 1, 2, 3, 4, 5].map((i) => drawn({ seed: 40 + i })));
    expect(together).toEqual(alone.flat());
  });

  test("without a seed, and with -1, requests differ", async () => {
    for (const more of [{}, { seed: -1 }]) {
      expect(await drawn({ n: 30, ...more })).not.toEqual(await drawn({ n: 30, ...more }));
    }
  });

  test("n choices at temperature 0 are equal", async () => {
    expect(await drawn({ n: 4, temperature: 0 })).toEqual(["A", "A", "A", "A"]);
  });

  test("n choices compute their prompt once", async () => {
    const messages = [{ role: "user", content: "z".repeat(150) }];
    const before = served.engine.core.defaultBase.loop.stats().stepTokens;
    await served.chat({ messages, n: 10, max_tokens: 1, cache_salt: "n" });
    expect(served.engine.core.defaultBase.loop.stats().stepTokens - before).toBeLessThan(300);
  });
});

describe("defaults", () => {
  test("come from the model's folder", async () => {
    expect(Object.keys(await shares({ model: "greedy" }, "[dice]", 50))).toEqual(["A"]);
  });

  test("null is as omitted, values win over them", async () => {
    expect(Object.keys(await shares({ model: "greedy", temperature: null }, "[dice]", 50))).toEqual(["A"]);
    expectShares(await shares({ model: "greedy", temperature: 1, top_k: 0 }), dice);
  });

  test("are neutral when the engine is told so, and the folder's ends still count", async () => {
    const folder = await scriptedModel("m", { generation: { eos_token_id: [256, 261], top_k: 1, max_new_tokens: 1 } });
    const neutral = await Served.open({ models: [folder.model], samplingDefaults: "neutral" });
    try {
      const { choices } = await neutral.chat({ ...start("[dice]"), n: 100, max_tokens: 1 });
      expect(new Set(choices.map(({ message }) => message.content)).size).toBeGreaterThan(2);
      const halted = await neutral.chat(start("[halt]"));
      expect(halted.choices[0]).toMatchObject({ finish_reason: "stop", stop_reason: ids["<|stop|>"] });
    } finally {
      await neutral.close();
    }
  });
});
