// A model of an engine as the `ai` package takes it.

import { isJson } from "../json.js";
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionCreateParamsNonStreaming,
  ChatCompletionCreateParamsStreaming,
  CompletionUsage,
  FinishReason as Finish,
  ToolCallDelta,
} from "../types/chat.js";
import type { AnnealClient } from "../types/client.js";
import { chatParams } from "./chatParams.js";
import type { AnnealLanguageModel, Content, FinishReason, StreamPart, Usage, Warning } from "./specification.js";

/** `resolve` gives the engine, and the name that it knows the model by. */
export function languageModel(
  modelId: string,
  resolve: () => Promise<{ engine: Pick<AnnealClient, "chat">; model: string }>,
): AnnealLanguageModel {
  return {
    specificationVersion: "v4",
    provider: "anneal",
    modelId,
    supportedUrls: {},
    async doGenerate(options) {
      const { engine, model } = await resolve();
      const { params, warnings } = chatParams(model, options);
      const completion = await engine.chat.completions.create(params as ChatCompletionCreateParamsNonStreaming, {
        signal: options.abortSignal,
      });
      const { finish_reason } = completion.choices[0]!;
      return {
        content: contentOf(completion),
        finishReason: finishOf(finish_reason),
        usage: usageOf(completion.usage),
        request: { body: params },
        response: { ...metadata(completion), body: completion },
        warnings,
      };
    },
    async doStream(options) {
      const { engine, model } = await resolve();
      const { params, warnings } = chatParams(model, options);
      const streaming = { ...params, stream: true, stream_options: { include_usage: true } } as const;
      const chunks = await engine.chat.completions.create(streaming as ChatCompletionCreateParamsStreaming, {
        signal: options.abortSignal,
      });
      return { stream: streamOf(chunks, warnings, options.includeRawChunks ?? false), request: { body: params } };
    },
  };
}

const metadata = ({ id, created, model }: ChatCompletion | ChatCompletionChunk) => ({
  id,
  timestamp: new Date(created * 1000),
  modelId: model,
});

function contentOf({ choices: [choice] }: ChatCompletion): Content[] {
  const { reasoning, content, tool_calls = [] } = choice!.message;
  return [
    ...(reasoning ? [{ type: "reasoning", text: reasoning } as const] : []),
    ...(content ? [{ type: "text", text: content } as const] : []),
    ...tool_calls.map(
      ({ id, function: { name, arguments: input } }) =>
        ({ type: "tool-call", toolCallId: id, toolName: name, input }) as const,
    ),
  ];
}

function finishOf(raw: Finish): FinishReason {
  if (raw === "stop" || raw === "length") return { unified: raw, raw };
  return { unified: raw === "tool_calls" ? "tool-calls" : "other", raw };
}

function usageOf({
  prompt_tokens,
  completion_tokens,
  prompt_tokens_details: { cached_tokens },
  completion_tokens_details: { reasoning_tokens: reasoning = 0 } = {},
}: CompletionUsage): Usage {
  return {
    inputTokens: {
      total: prompt_tokens,
      noCache: prompt_tokens - cached_tokens,
      cacheRead: cached_tokens,
      cacheWrite: undefined,
    },
    outputTokens: { total: completion_tokens, text: completion_tokens - reasoning, reasoning },
  };
}

function streamOf(
  chunks: AsyncIterable<ChatCompletionChunk>,
  warnings: Warning[],
  tellsChunks: boolean,
): ReadableStream<StreamPart> {
  const iterator = chunks[Symbol.asyncIterator]();
  const parts = new StreamParts();
  let isFirst = true;
  const before = (chunk: ChatCompletionChunk): StreamPart[] => {
    const first: StreamPart[] = isFirst ? [{ type: "response-metadata", ...metadata(chunk) }] : [];
    isFirst = false;
    return tellsChunks ? [{ type: "raw", rawValue: chunk }, ...first] : first;
  };
  return new ReadableStream<StreamPart>({
    start: (controller) => controller.enqueue({ type: "stream-start", warnings }),
    async pull(controller) {
      try {
        // A chunk may say nothing new, and who has been told nothing does not ask again.
        for (let told = 0; told === 0; ) {
          const { done, value } = await iterator.next();
          const next = done ? [...parts.end()] : [...before(value), ...parts.of(value)];
          for (const part of next) controller.enqueue(part);
          told = next.length;
          if (done) return controller.close();
        }
      } catch (error) {
        controller.error(error);
      }
    },
    async cancel() {
      await iterator.return?.();
    },
  });
}

/** Chunks as parts: what belongs together begins and ends. */
class StreamParts {
  private open: { kind: "text" | "reasoning"; id: string } | null = null;
  private blocks = 0;
  private call: { index: number; id: string; name: string; input: string } | null = null;
  private finish: Finish = "abort";
  private usage: CompletionUsage | null = null;

  *of({ choices: [choice], usage }: ChatCompletionChunk): Generator<StreamPart> {
    this.usage = usage ?? this.usage;
    // Of several choices the first is told, as of a reply in one piece.
    if (choice === undefined || choice.index > 0) return;
    const { delta, finish_reason } = choice;
    if (delta.reasoning) yield* this.text("reasoning", delta.reasoning);
    if (delta.content) yield* this.text("text", delta.content);
    for (const call of delta.tool_calls ?? []) yield* this.calls(call);
    this.finish = finish_reason ?? this.finish;
  }

  *end(): Generator<StreamPart> {
    yield* this.close();
    const usage = this.usage ?? {
      ...{ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
      prompt_tokens_details: { cached_tokens: 0 },
    };
    yield { type: "finish", usage: usageOf(usage), finishReason: finishOf(this.finish) };
  }

  private *text(kind: "text" | "reasoning", delta: string): Generator<StreamPart> {
    // Space between calls is nothing that is said.
    if (this.call !== null && delta.trim() === "") return;
    if (this.open?.kind !== kind) {
      yield* this.close();
      this.open = { kind, id: String(this.blocks++) };
      yield { type: `${kind}-start`, id: this.open.id };
    }
    yield { type: `${kind}-delta`, id: this.open.id, delta };
  }

  private *calls({ index, id, function: { name, arguments: delta } }: ToolCallDelta): Generator<StreamPart> {
    if (this.call?.index !== index) {
      yield* this.close();
      this.call = { index, id: id!, name: name!, input: "" };
      yield { type: "tool-input-start", id: id!, toolName: name! };
    }
    if (!delta) return;
    this.call.input += delta;
    yield { type: "tool-input-delta", id: this.call.id, delta };
  }

  private *close(): Generator<StreamPart> {
    const { open, call } = this;
    this.open = null;
    this.call = null;
    if (open !== null) yield { type: `${open.kind}-end`, id: open.id };
    if (call === null) return;
    yield { type: "tool-input-end", id: call.id };
    // A reply in one piece has no call that a stop has cut.
    if (isJson(call.input)) yield { type: "tool-call", toolCallId: call.id, toolName: call.name, input: call.input };
  }
}
