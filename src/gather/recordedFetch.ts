// A fetch for other libraries' clients: chat completions that go through it are pinned, seeded and recorded.

import { createParser } from "eventsource-parser";
import type {
  ChatCompletion,
  ChatCompletionChoice,
  ChatCompletionChunk,
  ChatCompletionCreateParams,
  ToolCall,
} from "../types/chat.js";

export interface RecordedFetchOptions {
  /** The engine's HTTP face. */
  fetch: typeof fetch;
  apiKey: string;
  signal: AbortSignal;
  /** Fills in what a rollout's completion needs; null: not one of this model, to be passed on as it is. */
  prepare(body: ChatCompletionCreateParams): ChatCompletionCreateParams | null;
  record(request: ChatCompletionCreateParams, completion: ChatCompletion): void;
}

export function recordedFetch(options: RecordedFetchOptions): typeof fetch {
  return async (input, init) => {
    const request = new Request(input, init);
    const headers = new Headers(request.headers);
    headers.set("authorization", `Bearer ${options.apiKey}`);
    headers.delete("content-length");
    const signal = AbortSignal.any([request.signal, options.signal]);
    const { method, url } = request;
    const body = method === "GET" || method === "HEAD" ? undefined : await request.text();
    const asked = isCompletion(method, url) ? completionParams(body) : null;
    const prepared = asked && options.prepare(asked);
    if (prepared === null) return options.fetch(url, { method, headers, body, signal });
    const response = await options.fetch(url, { method, headers, body: JSON.stringify(prepared), signal });
    if (!response.ok || response.body === null) return response;
    if (prepared.stream) {
      const recorded = response.body.pipeThrough(recordStream((done) => options.record(prepared, done)));
      return new Response(recorded, response);
    }
    const text = await response.text();
    options.record(prepared, JSON.parse(text) as ChatCompletion);
    return new Response(text, response);
  };
}

function isCompletion(method: string, url: string): boolean {
  return method === "POST" && /\/chat\/completions\/?$/.test(new URL(url).pathname);
}

/** null: no JSON object, which the engine refuses by itself. */
function completionParams(body: string | undefined): ChatCompletionCreateParams | null {
  try {
    const value: unknown = JSON.parse(body ?? "");
    return typeof value === "object" ? (value as ChatCompletionCreateParams | null) : null;
  } catch {
    return null;
  }
}

/** Passes server-sent events on unchanged and hands over the completion they make up, before the reader sees the end. */
function recordStream(onCompletion: (completion: ChatCompletion) => void): TransformStream<Uint8Array, Uint8Array> {
  const decoder = new TextDecoder();
  const assembly = new CompletionAssembly();
  const parser = createParser({
    onEvent({ data }) {
      if (data !== "[DONE]") return assembly.add(JSON.parse(data) as ChatCompletionChunk);
      const completion = assembly.completion();
      if (completion) onCompletion(completion);
    },
  });
  return new TransformStream({
    transform(bytes, controller) {
      parser.feed(decoder.decode(bytes, { stream: true }));
      controller.enqueue(bytes);
    },
  });
}

type OpenChoice = Omit<ChatCompletionChoice, "finish_reason"> & {
  calls: ToolCall[];
  finish_reason: ChatCompletionChoice["finish_reason"] | null;
};

/** Chunks put back together. */
class CompletionAssembly {
  #first: ChatCompletionChunk | null = null;
  #promptIds: number[] | null = null;
  readonly #choices: OpenChoice[] = [];

  add(chunk: ChatCompletionChunk): void {
    if (!Array.isArray(chunk.choices)) return;
    this.#first ??= chunk;
    this.#promptIds ??= chunk.prompt_token_ids ?? null;
    for (const part of chunk.choices) {
      const choice = this.#choice(part.index);
      const { delta } = part;
      if (delta.content) choice.message.content = (choice.message.content ?? "") + delta.content;
      if (delta.reasoning) choice.message.reasoning = (choice.message.reasoning ?? "") + delta.reasoning;
      for (const call of delta.tool_calls ?? []) {
        choice.calls[call.index] ??= { id: call.id ?? "", type: "function", function: { name: "", arguments: "" } };
        const open = choice.calls[call.index]!;
        open.function.name += call.function.name ?? "";
        open.function.arguments += call.function.arguments ?? "";
      }
      if (part.logprobs) {
        choice.logprobs ??= { content: [] };
        choice.logprobs.content.push(...part.logprobs.content);
      }
      if (part.token_ids) choice.token_ids = [...(choice.token_ids ?? []), ...part.token_ids];
      if (part.finish_reason) choice.finish_reason = part.finish_reason;
      if (part.stop_reason != null) choice.stop_reason = part.stop_reason;
      if (part.sampling_settings) choice.sampling_settings = part.sampling_settings;
    }
  }

  /** null: an error ended it. */
  completion(): ChatCompletion | null {
    if (this.#first === null) return null;
    const { id, created, model, system_fingerprint = "" } = this.#first;
    const choices: ChatCompletionChoice[] = [];
    // One that never began has left a hole.
    for (const open of this.#choices as (OpenChoice | undefined)[]) {
      if (!open?.finish_reason) return null;
      const { calls, finish_reason, ...choice } = open;
      if (calls.length > 0) choice.message.tool_calls = calls;
      choices.push({ ...choice, finish_reason });
    }
    return {
      id,
      object: "chat.completion",
      created,
      model,
      choices,
      service_tier: null,
      system_fingerprint,
      usage: { prompt_tokens: 0, total_tokens: 0, completion_tokens: 0, prompt_tokens_details: { cached_tokens: 0 } },
      prompt_logprobs: null,
      prompt_token_ids: this.#promptIds,
      kv_transfer_params: null,
    };
  }

  #choice(index: number): OpenChoice {
    this.#choices[index] ??= {
      index,
      message: {
        role: "assistant",
        content: null,
        refusal: null,
        annotations: null,
        audio: null,
        function_call: null,
        reasoning: null,
      },
      logprobs: null,
      finish_reason: null,
      stop_reason: null,
      token_ids: null,
      calls: [],
    };
    return this.#choices[index]!;
  }
}
