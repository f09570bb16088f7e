import { describe, expect, test } from "vitest";
import { contentOf, openChat } from "../../../test/fixtures/chatHost.js";

describe("beam search", () => {
  test("answers with the best n, and streams each in one piece", async () => {
    const { ask, chunks } = await openChat();
    const params = { use_beam_search: true, n: 3, max_tokens: 6, length_penalty: 0 };
    const answer = await ask({ ...params, include_stop_str_in_output: true, logprobs: true });
    expect(answer.choices).toHaveLength(3);
    const sums = answer.choices.map((choice) =>
      choice.logprobs!.content.reduce((sum, entry) => sum + entry.logprob, 0),
    );
    expect([...sums].sort((a, b) => b - a)).toEqual(sums);
    const all = await chunks(params);
    expect(all.map((chunk) => chunk.choices[0]!.index)).toEqual([0, 1, 2, 0, 1, 2]);
    for (const { index, message } of answer.choices) expect(contentOf(all, index)).toBe(message.content);
  });

  test("the seed has no effect, and widths above 10 work", async () => {
    const { ask } = await openChat();
    const params = { use_beam_search: true, n: 12, max_tokens: 4 };
    const texts = async (seed: number) => (await ask({ ...params, seed })).choices.map((one) => one.message.content);
    expect(await texts(1)).toEqual(await texts(2));
  });

  test("a choice that no token is permitted for is empty, and ends, in one piece and streamed", async () => {
    const { ask, chunks } = await openChat();
    const params = {
      ...{ use_beam_search: true, n: 3, max_tokens: 3, allowed_token_ids: [100] },
      ...{ return_token_ids: true, logprobs: true },
    };
    const end = { token_ids: [], logprobs: { content: [] }, finish_reason: "stop", stop_reason: null };
    const { choices, usage } = await ask(params);
    expect(choices[0]).toMatchObject({ finish_reason: "length", token_ids: [100, 100, 100] });
    for (const choice of choices.slice(1)) expect(choice).toMatchObject({ message: { content: "" }, ...end });
    const all = await chunks({ ...params, stream_options: { include_usage: true } });
    const last = all.flatMap((chunk) => chunk.choices).filter((choice) => choice.finish_reason !== null);
    expect(last.map(({ index }) => index)).toEqual([0, 1, 2]);
    for (const choice of last.slice(1)) expect(choice).toMatchObject({ delta: { content: "" }, ...end });
    expect(all.at(-1)!.usage).toMatchObject({ completion_tokens: usage.completion_tokens });
  });
});
