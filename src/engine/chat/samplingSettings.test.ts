import { describe, expect, test } from "vitest";
import { CHATML_WITH_TOOLS, type ChatHostOptions, openChat, refusal } from "../../../test/fixtures/chatHost.js";

describe("sampling settings reach the device", () => {
  const settingsOf = async (params: object, options: ChatHostOptions = {}) => {
    const { ask, device } = await openChat({ draws: [7, 902], ...options });
    const slots: Parameters<typeof device.openSlot>[0][] = [];
    const open = device.openSlot.bind(device);
    device.openSlot = (slot) => {
      slots.push(slot);
      return open(slot);
    };
    await ask(params);
    return slots;
  };
  const folder = { temperature: 0.6, top_p: 0.9, top_k: 20, min_p: 0.1, repetition_penalty: 1.2 };
  const neutral = { temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1 };

  test("the request goes before the folder, the folder before neutral values", async () => {
    expect((await settingsOf({}))[0]).toMatchObject({ ...neutral, frequencyPenalty: 0, presencePenalty: 0 });
    const model = { temperature: 0.6, topP: 0.9, topK: 20, minP: 0.1, repetitionPenalty: 1.2 };
    expect((await settingsOf({}, { generationConfig: folder }))[0]).toMatchObject(model);
    const asked = { temperature: 0.5, top_p: 0.8, top_k: -1, min_p: 0, repetition_penalty: 1 };
    expect((await settingsOf(asked, { generationConfig: folder }))[0]).toMatchObject({
      ...neutral,
      temperature: 0.5,
      topP: 0.8,
    });
    expect((await settingsOf({ temperature: null }, { generationConfig: folder }))[0]!.temperature).toBe(0.6);
  });

  test("trained models, and all with neutral defaults, do not look at the folder", async () => {
    expect((await settingsOf({ model: "trained" }, { generationConfig: folder }))[0]).toMatchObject(neutral);
    const options: ChatHostOptions = { generationConfig: folder, samplingDefaults: "neutral" };
    expect((await settingsOf({}, options))[0]).toMatchObject(neutral);
  });

  test("small temperatures are not raised", async () => {
    expect((await settingsOf({ temperature: 1e-6 }))[0]!.temperature).toBe(1e-6);
  });

  test("top_k above the vocabulary is off", async () => {
    expect((await settingsOf({ top_k: 5000 }))[0]!.topK).toBe(0);
    expect((await settingsOf({ top_k: 5 }))[0]!.topK).toBe(5);
  });

  test("seeds are exact, one more for each choice, -1 and absence random", async () => {
    const slots = await settingsOf({ seed: 9007199254740993n, n: 3 });
    expect(slots.map((slot) => [slot.seed, slot.choice])).toEqual([
      [9007199254740993n, 0],
      [9007199254740994n, 0],
      [9007199254740995n, 0],
    ]);
    const last = await settingsOf({ seed: 2n ** 63n - 1n, n: 2 });
    expect(last.map((slot) => slot.seed)).toEqual([2n ** 63n - 1n, -(2n ** 63n)]);
    const random = await Promise.all([{}, {}, { seed: -1 }, { seed: -1 }].map((params) => settingsOf(params)));
    expect(new Set(random.map((one) => one[0]!.seed)).size).toBe(4);
  });

  test("logit_bias is clamped, its ids checked", async () => {
    const slot = (await settingsOf({ logit_bias: { "9": 200, "3": -1.5, "7": -1000 } }))[0]!;
    expect([...slot.biasIds]).toEqual([3, 7, 9]);
    expect([...slot.biasValues]).toEqual([-1.5, -100, 100]);
    const { ask } = await openChat();
    for (const id of ["907", "-1"]) {
      const error = await refusal(ask({ logit_bias: { [id]: 1 } }));
      expect(error.param).toBe("logit_bias");
      expect(error.message).toContain("907");
    }
  });

  test("allowed_token_ids are checked", async () => {
    expect([...(await settingsOf({ allowed_token_ids: [9, 3, 9] }))[0]!.allowedIds!]).toEqual([3, 9]);
    const { ask } = await openChat();
    expect((await refusal(ask({ allowed_token_ids: [3, 907] }))).param).toBe("allowed_token_ids");
    expect((await refusal(ask({ allowed_token_ids: [-1] }))).param).toBe("allowed_token_ids");
  });

  test("stop_token_ids are checked", async () => {
    const { ask } = await openChat();
    for (const id of [907, -1]) {
      const error = await refusal(ask({ stop_token_ids: [3, id] }));
      expect(error.param).toBe("stop_token_ids");
      expect(error.message).toContain(`${id} `);
    }
  });

  test("bad_words: the bare tokens, and those after a space when they are as many and begin otherwise", async () => {
    const { tokenizer, ask } = await openChat();
    const encoded = (word: string) => [tokenizer.encode(word), tokenizer.encode(` ${word}`)] as const;
    const isBoth = (word: string) => {
      const [bare, spaced] = encoded(word);
      return bare.length === spaced.length && bare[0] !== spaced[0];
    };
    const words = ["the", "a", "of", "one", "word", "token", "hello", "zq", "x", "I"];
    const both = words.find(isBoth)!;
    const bareOnly = words.find((word) => !isBoth(word))!;
    const slot = (await settingsOf({ bad_words: [both, `  ${both}`, bareOnly] }))[0]!;
    expect(slot.badWords.map((word) => [...word])).toEqual([...encoded(both), ...encoded(both), encoded(bareOnly)[0]]);
    expect((await refusal(ask({ bad_words: ["fine", "  "] }))).param).toBe("bad_words.1");
  });

  test("min_tokens masks every end of sequence, even with ignore_eos", async () => {
    const slot = (await settingsOf({ min_tokens: 1, ignore_eos: true, stop_token_ids: [5], max_tokens: 2 }))[0]!;
    expect(slot.minTokens).toBe(1);
    expect([...slot.endIds]).toEqual([5, 900, 902]);
  });

  test("non-zero priority needs the priority scheduler", async () => {
    const { ask } = await openChat();
    expect((await refusal(ask({ priority: 1 }))).param).toBe("priority");
    await ask({ priority: 0, max_tokens: 1 });
    const other = await openChat({ loop: { scheduler: "priority" } });
    await other.ask({ priority: -3, max_tokens: 1 });
  });

  test("a constraint that cannot be enforced is refused where it stands", async () => {
    const { ask } = await openChat();
    const schema = { properties: { a: { type: "string", format: "idn-email" } } };
    const cases: [object, string][] = [
      [{ structured_outputs: { regex: "a(?=b)" } }, "structured_outputs.regex"],
      [{ structured_outputs: { json: schema } }, "structured_outputs.json.properties.a.format"],
      [{ structured_outputs: { json: "{" } }, "structured_outputs.json"],
      [{ structured_outputs: { json: true, whitespace_pattern: "(" } }, "structured_outputs.whitespace_pattern"],
      [{ structured_outputs: { grammar: "root ::= x" } }, "structured_outputs.grammar"],
      [
        { structured_outputs: { structural_tag: { format: { type: "?" } } } },
        "structured_outputs.structural_tag.format.type",
      ],
      [{ structured_outputs: { json: { not: {} } } }, "structured_outputs.json"],
      [
        { response_format: { type: "json_schema", json_schema: { schema } } },
        "response_format.json_schema.schema.properties.a.format",
      ],
      [{ response_format: { type: "structural_tag" } }, "response_format"],
    ];
    for (const [params, param] of cases) expect((await refusal(ask(params))).param).toBe(param);
    await ask({ response_format: { type: "text" }, max_tokens: 1 });
  });

  test("forced calls are refused with structured outputs, and for parameters that cannot be enforced", async () => {
    const { ask } = await openChat({ template: CHATML_WITH_TOOLS });
    const parameters = { properties: { a: { type: "string", format: "idn-email" } } };
    const tools = [
      { type: "function", function: { name: "f" } },
      { type: "function", function: { name: "g", parameters } },
    ];
    const param = "tools.1.function.parameters.properties.a.format";
    expect((await refusal(ask({ tools, tool_choice: "required" }))).param).toBe(param);
    const named = { type: "function", function: { name: "g" } };
    expect((await refusal(ask({ tools, tool_choice: named }))).param).toBe(param);
    const forced = { tools: tools.slice(0, 1), tool_choice: "required" };
    expect((await refusal(ask({ ...forced, structured_outputs: { json_object: true } }))).param).toBe(
      "structured_outputs",
    );
  });
});
