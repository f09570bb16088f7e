import { describe, expect, test } from "vitest";
import { contentOf, openChat, says } from "../../../test/fixtures/chatHost.js";

describe("stopping", () => {
  const text = "one two three four";

  test("at a stop string, cut before it or after it, all sampled tokens kept", async () => {
    const { ask, tokenizer } = await says(text);
    const cut = await ask({ stop: ["two th"], return_token_ids: true });
    expect(cut.choices[0]).toMatchObject({ finish_reason: "stop", stop_reason: "two th" });
    expect(cut.choices[0]!.message.content).toBe("one ");
    expect(tokenizer.decode(cut.choices[0]!.token_ids!)).toMatch(/^one two th/);
    expect(cut.usage.completion_tokens).toBe(cut.choices[0]!.token_ids!.length);
    const kept = await ask({ stop: "two th", include_stop_str_in_output: true });
    expect(kept.choices[0]!.message.content).toBe("one two th");
    expect((await ask({ stop: ["five"] })).choices[0]!.message.content).toBe(text);
  });

  test.each([
    [["two th"], false],
    [["two th"], true],
    [["zzzzzzzz", "fou"], false],
    [["never to be seen"], false],
  ])("streamed text is the same for %o, included %s", async (stop, include_stop_str_in_output) => {
    const { ask, chunks } = await says(text);
    const params = { stop, include_stop_str_in_output };
    const whole = (await ask(params)).choices[0]!;
    const all = await chunks(params);
    expect(contentOf(all)).toBe(whole.message.content);
    expect(all.at(-1)!.choices[0]).toMatchObject({
      finish_reason: whole.finish_reason,
      stop_reason: whole.stop_reason,
    });
  });

  test("a stop string overrides the length verdict of the same token", async () => {
    const { ask, tokenizer } = await says(text);
    const max_tokens = tokenizer.encode("one two").length;
    expect((await ask({ max_tokens, stop: ["two"] })).choices[0]).toMatchObject({
      finish_reason: "stop",
      stop_reason: "two",
    });
  });

  test("the prompt is not searched", async () => {
    const { ask } = await says(text);
    expect((await ask({ stop: ["Hi"] })).choices[0]!.finish_reason).toBe("stop");
    expect((await ask({ stop: ["Hi"] })).choices[0]!.stop_reason).toBeNull();
  });

  test("stop_token_ids and further ends of sequence are named, the primary one is not", async () => {
    const { ask, tokenizer } = await openChat({ draws: [7, 8, 900] });
    expect((await ask()).choices[0]).toMatchObject({ finish_reason: "stop", stop_reason: 900 });
    const at = (await ask({ stop_token_ids: [8], return_token_ids: true })).choices[0]!;
    expect(at).toMatchObject({ finish_reason: "stop", stop_reason: 8, token_ids: [7, 8] });
    expect(at.message.content).toBe(tokenizer.decode([7]));
    const kept = (await ask({ stop_token_ids: [8], include_stop_str_in_output: true })).choices[0]!;
    expect(kept.message.content).toBe(tokenizer.decode([7, 8]));
  });

  test("ignore_eos goes on", async () => {
    const { ask, tokenizer } = await openChat();
    const eos = tokenizer.eosId!;
    const chat = await openChat({ draws: [7, eos, 7, 900, 7, 7] });
    expect((await chat.ask({ max_tokens: 6 })).usage.completion_tokens).toBe(2);
    expect((await chat.ask({ max_tokens: 6, ignore_eos: true })).usage.completion_tokens).toBe(6);
    const stops = { max_tokens: 6, ignore_eos: true, stop_token_ids: [900] };
    expect((await chat.ask(stops)).choices[0]!.stop_reason).toBe(900);
    await ask({ max_tokens: 1 });
  });

  test("min_tokens: stop strings count only behind it", async () => {
    const { ask, tokenizer } = await says("one two one two");
    const min_tokens = tokenizer.encode("one two").length;
    expect((await ask({ stop: ["two"] })).choices[0]!.message.content).toBe("one ");
    expect((await ask({ stop: ["two"], min_tokens })).choices[0]!.message.content).toBe("one two one ");
  });

  test("repetition", async () => {
    const { ask } = await openChat({ draws: Array.from({ length: 50 }, (_, i) => 7 + (i % 2)) });
    const repetition_detection = { min_pattern_size: 1, max_pattern_size: 3, min_count: 4 };
    const { choices, usage } = await ask({ repetition_detection });
    expect(choices[0]).toMatchObject({ finish_reason: "repetition", stop_reason: "repetition_detected" });
    expect(usage.completion_tokens).toBe(8);
  });

  test("nothing permitted: stop, nothing appended", async () => {
    const { ask } = await openChat({ draws: [7, -1] });
    const { choices, usage } = await ask();
    expect(choices[0]).toMatchObject({ finish_reason: "stop", stop_reason: null });
    expect(usage.completion_tokens).toBe(1);
  });

  test("special tokens are shown when asked for", async () => {
    const { ask, tokenizer } = await openChat({ draws: [7, 901, 8, 902] });
    expect((await ask()).choices[0]!.message.content).toBe(tokenizer.decode([7, 8]));
    expect((await ask({ skip_special_tokens: false })).choices[0]!.message.content).toBe(
      tokenizer.decode([7, 901, 8], { skipSpecialTokens: false }),
    );
  });
});
