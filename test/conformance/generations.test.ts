// Token ids in, token ids out: the same draws as a plain completion's, told in ids.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Generation } from "../../src/types/generations.js";
import type { TextCompletion } from "../../src/types/textCompletions.js";
import { CONTEXT } from "./bigramModel.js";
import { scriptedModel } from "./scripted.js";
import { type Refusal, Served } from "./served.js";

let served: Served;
let ids: Record<string, number>;
beforeAll(async () => {
  const { model, ids: found } = await scriptedModel("m");
  ids = found;
  served = await Served.open({ models: [model] });
});
afterAll(() => served?.close());

const tokens = (...texts: string[]) => texts.map((text) => ids[text]!);

async function generate(body: Record<string, unknown>): Promise<Generation> {
  const response = await served.request("POST", "/inference/v1/generate", body);
  const answer = (await response.json()) as Generation;
  expect(response.status, JSON.stringify(answer)).toBe(200);
  return answer;
}

async function refused(body: Record<string, unknown>, field: string): Promise<Refusal> {
  const response = await served.request("POST", "/inference/v1/generate", body);
  const answer = (await response.json()) as Refusal;
  expect(response.status, JSON.stringify(answer)).toBe(422);
  expect(answer.detail[0]!.loc.join(".")).toBe(`body.${field}`);
  return answer;
}

test("a reply is the tokens that were drawn, the one that ended it among them", async () => {
  const answer = await generate({ token_ids: tokens("[words]"), sampling_params: { temperature: 0, logprobs: 0 } });
  const drawn = tokens("One", " two", " three", " four", " five", "<|end|>");
  expect(answer).toMatchObject({
    ...{ request_id: expect.any(String), model: "m", output_mode: "tokens" },
    ...{ prompt_token_ids: null, prompt_logprobs: null },
    choices: [{ index: 0, token_ids: drawn, finish_reason: "stop", stop_reason: null }],
    usage: { prompt_tokens: 1, completion_tokens: 6, total_tokens: 7 },
  });
  const { content } = answer.choices[0]!.logprobs!;
  expect(content.map(({ token, token_id }) => [token, token_id])).toEqual(drawn.map((id) => [`token_id:${id}`, id]));
  for (const { logprob, top_logprobs } of content) expect([logprob <= 0, top_logprobs]).toEqual([true, []]);
});

test("draws and logprobs are a plain completion's", async () => {
  const prompt = tokens("[dice]");
  const drawn = { n: 5, seed: 3, temperature: 1, logprobs: 2, prompt_logprobs: 1, max_tokens: 7 };
  const answer = await generate({
    token_ids: prompt,
    sampling_params: drawn,
    return_token_ids: true,
    request_id: "mine",
  });
  const plain = { model: "m", prompt, ...drawn, return_token_ids: true, return_tokens_as_token_ids: true };
  const response = await served.request("POST", "/v1/completions", plain);
  const { choices } = (await response.json()) as TextCompletion;
  expect(new Set(choices.map(({ token_ids }) => `${token_ids}`)).size).toBeGreaterThan(1);
  expect(answer.choices.map((choice) => [choice.token_ids, choice.finish_reason, choice.stop_reason])).toEqual(
    choices.map((choice) => [choice.token_ids, choice.finish_reason, choice.stop_reason]),
  );
  for (const [i, { logprobs }] of answer.choices.entries()) {
    expect(logprobs!.content.map(({ logprob }) => logprob)).toEqual(choices[i]!.logprobs!.token_logprobs);
    for (const { top_logprobs } of logprobs!.content) {
      const [first, second] = top_logprobs.map(({ logprob }) => logprob);
      expect([top_logprobs.length, first! >= second!]).toEqual([2, true]);
    }
  }
  expect(answer).toMatchObject({ request_id: "mine", prompt_token_ids: prompt });
  expect(answer.prompt_logprobs).toEqual(choices[0]!.prompt_logprobs);
});

test("goes on to the end of the context where no limit is named", async () => {
  const { choices } = await generate({ token_ids: tokens("[loop]"), sampling_params: { temperature: 0 } });
  expect([choices[0]!.token_ids.length, choices[0]!.finish_reason]).toEqual([CONTEXT - 1, "length"]);
  expect(choices[0]!.logprobs).toBeNull();
});

test("stops are tokens or texts", async () => {
  const asked = { token_ids: tokens("[words]") };
  const byToken = await generate({ ...asked, sampling_params: { temperature: 0, stop_token_ids: tokens(" three") } });
  expect(byToken.choices[0]).toMatchObject({
    ...{ token_ids: tokens("One", " two", " three"), finish_reason: "stop", stop_reason: ids[" three"] },
  });
  const byText = await generate({ ...asked, sampling_params: { temperature: 0, stop: "two" } });
  expect(byText.choices[0]).toMatchObject({ token_ids: tokens("One", " two"), stop_reason: "two" });
});

test.each([false, true])(
  "chunks add up to the reply; the prompt comes first where it is wanted: %s",
  async (wanted) => {
    const body = {
      token_ids: tokens("[dice]"),
      sampling_params: { n: 2, seed: 5, temperature: 1, logprobs: 1, max_tokens: 9 },
      return_token_ids: wanted,
    };
    const whole = await generate(body);
    const streaming = { ...body, stream: true, stream_options: { include_usage: true } };
    const response = await served.request("POST", "/inference/v1/generate", streaming);
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    const events = (await response.text()).trim().split("\n\n");
    expect(events.pop()).toBe("data: [DONE]");
    const chunks = events.map((event) => JSON.parse(event.slice("data: ".length)) as Generation);
    for (const { index, token_ids, logprobs, finish_reason } of whole.choices) {
      const own = chunks.flatMap(({ choices }) => choices).filter((choice) => choice.index === index);
      expect(own.flatMap((choice) => choice.token_ids)).toEqual(token_ids);
      expect(own.flatMap((choice) => choice.logprobs?.content ?? [])).toEqual(logprobs!.content);
      expect(own.at(-1)!.finish_reason).toBe(finish_reason);
    }
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: whole.usage!.total_tokens } });
    expect(chunks[0]!.prompt_token_ids).toEqual(wanted ? body.token_ids : null);
  },
);

describe("what cannot be", () => {
  test("is refused by the name it has here", async () => {
    const token_ids = tokens("[words]");
    await refused({}, "token_ids");
    await refused({ token_ids: [] }, "token_ids");
    await refused({ token_ids: ["One"] }, "token_ids.0");
    expect((await refused({ token_ids: [1e6] }, "token_ids")).error.message).toContain("vocabulary");
    const long = await refused({ token_ids: Array(CONTEXT).fill(token_ids[0]) }, "token_ids");
    expect(long.error.code).toBe("context_length_exceeded");
    await refused({ token_ids, output_mode: "text" }, "output_mode");
    await refused({ token_ids, sampling_params: { temperature: -1 } }, "sampling_params.temperature");
    await refused({ token_ids, sampling_params: { logprobs: 21 } }, "sampling_params.logprobs");
    await refused({ token_ids, sampling_params: { stop_token_ids: [1e6] } }, "sampling_params.stop_token_ids");
    await refused(
      { token_ids, sampling_params: { structured_outputs: { regex: "(" } } },
      "sampling_params.structured_outputs.regex",
    );
    const nobody = await served.request("POST", "/inference/v1/generate", { token_ids, model: "nobody" });
    expect(nobody.status).toBe(404);
  });

  test("and unknown fields are told in process", async () => {
    const token_ids = tokens("[words]");
    const { tokens: resource } = served.engine;
    await expect(resource.generate({ token_ids, no_such: 1 } as never)).rejects.toMatchObject({ param: "no_such" });
    await expect(resource.generate({ token_ids, sampling_params: { no_such: 1 } } as never)).rejects.toMatchObject({
      param: "sampling_params.no_such",
    });
  });
});

test("ends when its reader leaves", async () => {
  const { tokens: resource, core } = served.engine;
  const running = () => core.defaultBase.loop.stats().running;
  const asked = { token_ids: tokens("[loop]"), sampling_params: { temperature: 0 }, stream: true } as const;
  for await (const { choices } of await resource.generate(asked)) if (choices.length > 0) break;
  expect(running()).toBe(0);
  const unread = await resource.generate(asked);
  await unread[Symbol.asyncIterator]().return?.();
  expect(running()).toBe(0);
});
