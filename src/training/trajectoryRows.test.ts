import { describe, expect, it } from "vitest";
import { ValidationError } from "../errors.js";
import type { MessageOrChoice, Trajectory, TrajectoryChoice } from "../types/trajectories.js";
import { packRows } from "./packing.js";
import { checkTrajectory, type PromptRenderer, tokenizeTrajectory } from "./trajectoryRows.js";

/** Turns that carry their ids are never rendered. */
const unused: PromptRenderer = {
  vocabSize: 1000,
  idOfBytes: (bytes) => (bytes.length === 1 ? bytes[0]! : null),
  prompt: () => {
    throw new Error("rendered");
  },
  encodeAnswer: () => {
    throw new Error("encoded");
  },
};

function choice(promptIds: number[] | null, ids: number[] | null, logprobs: number[] | null): TrajectoryChoice {
  return {
    index: 0,
    finish_reason: "stop",
    message: { role: "assistant", content: "x" },
    prompt_token_ids: promptIds,
    token_ids: ids,
    logprobs: logprobs && { content: logprobs.map((logprob, i) => ({ token: `token_id:${ids?.[i] ?? i}`, logprob })) },
  };
}

const trajectory = (items: MessageOrChoice[], ...others: MessageOrChoice[][]): Trajectory => ({
  messages_and_choices: items,
  additional_histories: others.map((messages_and_choices) => ({ messages_and_choices })),
  reward: 1,
});
const user: MessageOrChoice = { role: "user", content: "hi" };

async function tokenized(given: Trajectory, allowWithoutLogprobs = false) {
  const result = await tokenizeTrajectory(given, unused, { allowWithoutLogprobs });
  return {
    ...result,
    rows: result.rows.map((row) => ({
      tokens: [...row.tokens],
      trained: [...row.trained].join(""),
      logprobs: [...row.logprobs].map((logprob) => (Number.isNaN(logprob) ? null : logprob)),
    })),
  };
}

describe("rows of turns that carry their ids", () => {
  it("join turns whose prompt continues the row, and train every sampled token", async () => {
    const given = trajectory([
      user,
      choice([1, 2], [3, 4], [-0.5, -0.25]),
      user,
      choice([1, 2, 3, 4, 5, 6], [7], [-2]),
    ]);
    expect(await tokenized(given)).toEqual({
      rows: [
        {
          tokens: [1, 2, 3, 4, 5, 6, 7],
          trained: "0011001",
          logprobs: [null, null, -0.5, -0.25, null, null, -2],
        },
      ],
      trainedTokens: 3,
      sampledTokens: 3,
      rerenderedTokens: 0,
      offPolicyTokens: 0,
    });
  });

  it("start a row where a template rewrote what was said", async () => {
    const given = trajectory([user, choice([1, 2], [3, 4], [-1, -1]), user, choice([1, 2, 4, 5], [7], [-2])]);
    expect((await tokenized(given)).rows.map(({ tokens, trained }) => [tokens, trained])).toEqual([
      [[1, 2, 3, 4], "0011"],
      [[1, 2, 4, 5, 7], "00001"],
    ]);
  });

  it("go through additional histories in order", async () => {
    const given = trajectory(
      [user, choice([1], [2], [-1])],
      [user, choice([1, 2, 3], [4], [-1])],
      [user, choice([9], [8], [-1])],
    );
    expect((await tokenized(given)).rows.map((row) => row.tokens)).toEqual([
      [1, 2, 3, 4],
      [9, 8],
    ]);
  });

  it("take the rest as context: messages, and choices without logprobs", async () => {
    const assistant: MessageOrChoice = { role: "assistant", content: "said before" };
    const given = trajectory([user, assistant, choice([1, 2], [3], null), choice([1, 2, 3, 4], [5], [-1])]);
    expect((await tokenized(given)).rows).toEqual([
      { tokens: [1, 2, 3, 4, 5], trained: "00001", logprobs: [null, null, null, null, -1] },
    ]);
    const allowed = await tokenized(trajectory([user, choice([1, 2], [3], null)]), true);
    expect(allowed.rows).toEqual([{ tokens: [1, 2, 3], trained: "001", logprobs: [null, null, null] }]);
    expect(allowed).toMatchObject({ trainedTokens: 1, sampledTokens: 0 });
  });

  it("read ids from token_id strings, or from a token's bytes", async () => {
    const strings = choice([1], null, [-1, -2]);
    strings.logprobs!.content![1] = { token: "A", logprob: -2, bytes: [65] };
    expect((await tokenized(trajectory([user, strings]))).rows[0]!.tokens).toEqual([1, 0, 65]);
  });

  it("never train a token that nothing precedes", async () => {
    expect((await tokenized(trajectory([choice([], [3, 4], [-1, -2])]))).rows).toEqual([
      { tokens: [3, 4], trained: "01", logprobs: [null, -2] },
    ]);
  });

  it("count tokens of choices that were not sampled plainly", async () => {
    const cold = { ...choice([1], [2, 3], [-1, -1]), sampling_settings: { temperature: 0.5 } };
    const plain = { ...choice([9], [8], [-1]), sampling_settings: {} };
    expect(await tokenized(trajectory([user, cold, plain]))).toMatchObject({ trainedTokens: 3, offPolicyTokens: 2 });
  });
});

describe("a prompt that has to be rendered", () => {
  const image = { role: "user" as const, content: [{ type: "text", text: "see" }, { type: "image_url" }] };
  const renderable = { vocabSize: 1000, idOfBytes: unused.idOfBytes, hasTemplate: true };
  const settings = { allowWithoutLogprobs: false };

  it("holds text only, which is told before anything is rendered", () => {
    const sampled = choice([1], [2], [-1]);
    expect(() => checkTrajectory(trajectory([image, sampled]), renderable, settings, "g")).not.toThrow();
    delete sampled.prompt_token_ids;
    expect(() => checkTrajectory(trajectory([user, sampled]), renderable, settings, "g")).not.toThrow();
    expect(() => checkTrajectory(trajectory([user, image, sampled]), renderable, settings, "g")).toThrow(
      /body\.g\.messages_and_choices\.1\.content\.1\.type: "image_url" is not supported/,
    );
  });

  it("names its turn when the template refuses it", async () => {
    const sampled = choice([1], [2], [-1]);
    delete sampled.prompt_token_ids;
    const renderer = {
      ...unused,
      prompt: () => {
        throw new Error("roles must alternate");
      },
    };
    const additional_histories = [{ messages_and_choices: [user, sampled] }];
    const tokenizing = tokenizeTrajectory({ ...trajectory([user]), additional_histories }, renderer, settings, "g");
    await expect(tokenizing).rejects.toThrow(
      /g\.additional_histories\.0\.messages_and_choices\.1: its prompt cannot be rendered: roles must alternate/,
    );
  });
});

describe("a trajectory of many turns without their prompts", () => {
  const settings = { allowWithoutLogprobs: false };
  let read = 0;
  const items = Array.from({ length: 300 }, (_, i) => {
    const sampled = choice([1], [i], [-1]);
    delete sampled.prompt_token_ids;
    const message = {
      role: "user" as const,
      get content() {
        read += 1;
        return "hi";
      },
    };
    return [message, sampled];
  }).flat();

  it("is checked in time that grows with its length", () => {
    checkTrajectory(trajectory(items, items), { ...unused, hasTemplate: true }, settings, "g");
    expect(read).toBeGreaterThanOrEqual(600);
    expect(read).toBeLessThan(3000);
  });

  it("leaves off rendering when it is told to", async () => {
    const stop = new AbortController();
    let rendered = 0;
    const prompt = async () => {
      rendered += 1;
      setImmediate(() => stop.abort("enough"));
      return [1];
    };
    const tokenizing = tokenizeTrajectory(trajectory(items), { ...unused, prompt }, settings, "g", stop.signal);
    await expect(tokenizing).rejects.toBe("enough");
    expect(rendered).toBeLessThan(5);
  });
});

describe("a malformed trajectory", () => {
  const names = { vocabSize: 1000, idOfBytes: unused.idOfBytes, hasTemplate: false };
  const place = (item: MessageOrChoice, extra: Partial<Trajectory> = {}, allowWithoutLogprobs = false) => {
    try {
      checkTrajectory({ ...trajectory([user, item]), ...extra }, names, { allowWithoutLogprobs }, "g.0");
    } catch (error) {
      if (error instanceof ValidationError) return error.issues[0]!.loc.slice(1).join(".");
      throw error;
    }
    return null;
  };

  it("is refused with the exact place", () => {
    const at = "g.0.messages_and_choices.1";
    expect(place(choice([1], [2], [-1]))).toBeNull();
    expect(place(choice([1], [2, 3], [-1]))).toBe(`${at}.token_ids`);
    expect(place(choice([1], [2, 1000], [-1, -1]))).toBe(`${at}.token_ids.1`);
    expect(place(choice([1, -1], [2], [-1]))).toBe(`${at}.prompt_token_ids.1`);
    expect(place(choice([1], [2], [0.5]))).toBe(`${at}.logprobs.content.0.logprob`);
    expect(place(choice([1], [2], [-1e39]))).toBe(`${at}.logprobs.content.0.logprob`);
    expect(place(choice(null, [2], [-1]))).toBe(`${at}.prompt_token_ids`);
    const others = { ...choice([1], [2, 3], [-1, -2]), token_ids: [2, 4] };
    expect(place(others)).toBe(`${at}.logprobs.content.1.token`);
    const unknown = choice([1], null, [-1]);
    unknown.logprobs!.content![0]!.token = "no such token";
    expect(place(unknown)).toBe(`${at}.logprobs.content.0.token`);
    expect(place(choice([1], [2], [-1]), { reward: Number.NaN })).toBe("g.0.reward");
    expect(place(choice([1], [2], [-1]), { reward: -1e308 })).toBe("g.0.reward");
    const calls = [{ id: "1", type: "function" as const, function: { name: "f", arguments: "{}" } }];
    expect(place({ role: "assistant", content: "", tool_calls: calls }, {}, true)).toBe(`${at}.tool_calls`);
    expect(place({ role: "assistant", content: "", tool_calls: calls })).toBeNull();
  });
});

describe("rows on the device", () => {
  const row = (tokens: number[], firstTrained: number) => ({
    tokens: Int32Array.from(tokens),
    trained: Uint8Array.from(tokens, (_, i) => (i >= firstTrained ? 1 : 0)),
  });
  const shared = Array.from({ length: 20 }, (_, i) => i);

  it("continue an earlier row up to the token before their first trained prediction", () => {
    const [first, second, third] = packRows([
      row([...shared, 50, 51], 20),
      row([...shared, 60, 61, 62], 20),
      row([...shared, 50, 70], 21),
    ]);
    expect(first).toEqual({ tokens: Int32Array.from([...shared, 50, 51]), trained: expect.anything() });
    expect([...first!.trained].join("")).toBe("0000000000000000000110");
    // Token 20 is trained: it is predicted from token 19, which therefore is the row's own.
    expect(second).toMatchObject({ prefix: 0, prefixLength: 19 });
    expect([...second!.tokens]).toEqual([19, 60, 61, 62]);
    expect([...second!.trained]).toEqual([1, 1, 1, 0]);
    expect(third).toMatchObject({ prefix: 0, prefixLength: 20 });
    expect([...third!.tokens]).toEqual([50, 70]);
    expect([...third!.trained]).toEqual([1, 0]);
  });

  it("stay whole when little is shared, and never continue a row that continues another", () => {
    const short = row([1, 2, 3, 9], 3);
    expect(packRows([short, short]).every((packed) => packed.prefix === undefined)).toBe(true);
    const packed = packRows([
      row([...shared, 1], 20),
      row([...shared, 2, ...shared], 20),
      row([...shared, 2, ...shared, 3], 41),
    ]);
    expect(packed.map(({ prefix }) => prefix)).toEqual([undefined, 0, 0]);
  });
});
