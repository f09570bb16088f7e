import { describe, expect, it, vi } from "vitest";
import { deriveSeed, endlessShuffle, requestSeed } from "../seeds.js";
import type { ChatCompletion } from "../types/chat.js";
import type { TrajectoryChoice } from "../types/trajectories.js";
import { recordedFetch } from "./recordedFetch.js";
import { RolloutRecorder } from "./recorder.js";

function completion(...contents: string[]): ChatCompletion {
  return {
    id: "c",
    object: "chat.completion",
    created: 0,
    model: "m",
    choices: contents.map((content, index) => ({
      index,
      message: {
        role: "assistant",
        content,
        refusal: null,
        annotations: null,
        audio: null,
        function_call: null,
        reasoning: null,
      },
      logprobs: {
        content: [{ token: "token_id:7", logprob: -0.5, bytes: [65], top_logprobs: [] }],
      },
      finish_reason: "stop",
      stop_reason: null,
      token_ids: [7],
    })),
    service_tier: null,
    system_fingerprint: "",
    usage: { prompt_tokens: 2, total_tokens: 3, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 0 } },
    prompt_logprobs: null,
    prompt_token_ids: [1, 2],
    kv_transfer_params: null,
  };
}

const user = (content: string) => ({ role: "user", content });

describe("the recorder", () => {
  it("continues a conversation, however the reply is spelled when it comes back", () => {
    const recorder = new RolloutRecorder();
    const first = completion("hello");
    recorder.record({ messages: [user("hi")] }, first);
    recorder.record({ messages: [user("hi"), first.choices[0]!.message, user("more")] }, completion("again"));
    recorder.record(
      {
        messages: [
          { role: "user", content: [{ type: "text", text: "hi" }] },
          { role: "assistant", content: "hello" },
          user("more"),
          { role: "assistant", content: "again" },
          user("last"),
        ],
      },
      completion("end"),
    );
    const { messages_and_choices: items, additional_histories } = recorder.histories();
    expect(additional_histories).toEqual([]);
    expect(items.map((item) => ("message" in item ? "choice" : item.role))).toEqual([
      "user",
      "choice",
      "user",
      "choice",
      "user",
      "choice",
    ]);
    expect(recorder.completionTokens).toBe(3);
  });

  it("opens a history for another prompt, other tools and every further choice", () => {
    const recorder = new RolloutRecorder();
    recorder.record({ messages: [user("hi")] }, completion("hello", "good day"));
    recorder.record({ messages: [user("judge this")] }, completion("fine"));
    const tools = [{ type: "function", function: { name: "look" } }];
    recorder.record(
      { messages: [user("hi"), { role: "assistant", content: "hello" }, user("x")], tools },
      completion("y"),
    );
    const { additional_histories: others } = recorder.histories();
    expect(others.map((history) => history.messages_and_choices.length)).toEqual([2, 2, 4]);
    expect(others[2]!.tools).toEqual(tools);
  });

  it("keeps ids and logprobs of every choice", () => {
    const recorder = new RolloutRecorder();
    recorder.record({ messages: [user("hi")] }, completion("hello"));
    expect(recorder.histories().messages_and_choices[1]).toEqual({
      index: 0,
      finish_reason: "stop",
      message: { role: "assistant", content: "hello" },
      logprobs: { content: [{ token: "token_id:7", logprob: -0.5 }] },
      token_ids: [7],
      prompt_token_ids: [1, 2],
    });
  });
});

describe("the recorded fetch", () => {
  const chunks = [
    {
      prompt_token_ids: [1, 2],
      choices: [{ index: 0, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null }],
    },
    {
      choices: [
        {
          index: 0,
          delta: { content: "he" },
          logprobs: { content: [{ token: "he", logprob: -1, bytes: [104, 101], top_logprobs: [] }] },
          finish_reason: null,
          token_ids: [5],
        },
      ],
    },
    {
      choices: [
        {
          index: 0,
          delta: { content: "y" },
          logprobs: { content: [{ token: "y", logprob: -2, bytes: [121], top_logprobs: [] }] },
          finish_reason: "length",
          token_ids: [6],
        },
      ],
    },
  ].map((chunk) => ({ id: "c", object: "chat.completion.chunk", created: 0, model: "m", ...chunk }));

  const events = (all: readonly object[]) =>
    `${all.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("")}data: [DONE]\n\n`;

  it("puts a stream together before its reader sees the end, cut anywhere", async () => {
    const text = events(chunks);
    const bytes = new TextEncoder().encode(text);
    for (const size of [1, 7, 64, bytes.length]) {
      const recorder = new RolloutRecorder();
      const sent: { url: string; body: unknown; key: string | null }[] = [];
      const fetch = recordedFetch({
        fetch: async (url, init) => {
          const { headers, body } = init!;
          sent.push({
            url: String(url),
            body: JSON.parse(String(body)),
            key: new Headers(headers).get("authorization"),
          });
          const parts = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
            bytes.slice(i * size, (i + 1) * size),
          );
          return new Response(ReadableStream.from(parts) as ReadableStream<Uint8Array>);
        },
        apiKey: "key",
        signal: new AbortController().signal,
        prepare: (body) => ({ ...body, model: "pinned", logprobs: true }),
        record: (request, done) => recorder.record(request, done),
      });
      const body = JSON.stringify({ messages: [user("hi")], stream: true });
      const response = await fetch("http://engine/v1/chat/completions", { method: "POST", body });
      expect(await response.text()).toBe(text);
      const choice = recorder.histories().messages_and_choices[1] as TrajectoryChoice;
      expect(choice).toMatchObject({ token_ids: [5, 6], prompt_token_ids: [1, 2], finish_reason: "length" });
      expect(choice.message.content).toBe("hey");
      expect(choice.logprobs!.content!.map((entry) => entry.logprob)).toEqual([-1, -2]);
      expect(sent[0]).toMatchObject({ key: "Bearer key", body: { model: "pinned", logprobs: true } });
    }
  });

  it("records nothing of a stream that an error ended", async () => {
    const failure = { error: { message: "no memory", type: "InternalServerError", param: null, code: 500 } };
    const record = vi.fn();
    const fetch = recordedFetch({
      fetch: async () => new Response(events([...chunks.slice(0, -1), failure])),
      apiKey: "key",
      signal: new AbortController().signal,
      prepare: (body) => body,
      record,
    });
    const body = JSON.stringify({ messages: [user("hi")], stream: true });
    const response = await fetch("http://engine/v1/chat/completions", { method: "POST", body });
    expect(await response.text()).toContain("no memory");
    expect(record).not.toHaveBeenCalled();
  });

  it("passes other requests on unchanged", async () => {
    const seen: string[] = [];
    const fetch = recordedFetch({
      fetch: async (url, init) => {
        seen.push(`${init!.method} ${String(url)}`);
        return new Response("{}");
      },
      apiKey: "key",
      signal: new AbortController().signal,
      prepare: () => {
        throw new Error("not a completion");
      },
      record: () => undefined,
    });
    await fetch("http://engine/v1/models");
    await fetch("http://engine/v1/preview/models", { method: "POST", body: "{}" });
    expect(seen).toEqual(["GET http://engine/v1/models", "POST http://engine/v1/preview/models"]);
  });
});

describe("seeds", () => {
  it("differ with everything they are made from", () => {
    const seeds = new Set<bigint>();
    for (const run of [0, 1]) {
      for (const step of [0, 1])
        for (const group of [0, 1])
          for (const member of [0, 1]) seeds.add(deriveSeed(run, "train", step, group, member));
    }
    expect(seeds.size).toBe(16);
    expect(deriveSeed(3, "a")).toBe(deriveSeed(3n, "a"));
    expect(Number.isSafeInteger(requestSeed(deriveSeed(0), 0))).toBe(true);
  });

  it("order scenarios so that each comes once before any comes again", () => {
    const at = endlessShuffle(5, 7);
    const order = Array.from({ length: 21 }, (_, i) => at(i));
    expect(order.map((_, i) => endlessShuffle(5, 7)(i))).toEqual(order);
    for (let round = 0; round < 3; round++) {
      expect(new Set(order.slice(7 * round, 7 * round + 7)).size).toBe(7);
    }
    expect(order.slice(0, 7)).not.toEqual(order.slice(7, 14));
  });
});
