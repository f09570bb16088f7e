// What the `ai` package asks of providers (its specification v4), as far as it concerns text and vectors. Written down here, so that neither the
// types nor the code of this package need that one.

import type { AnnealError } from "../errors.js";

/** Options by provider. */
export type ProviderOptions = Record<string, Record<string, unknown>>;

interface Part {
  type: string;
  text?: string;
  mediaType?: string;
  toolCallId?: string;
  toolName?: string;
  input?: unknown;
  output?: ToolOutput;
}

export type ToolOutput =
  | { type: "text" | "error-text"; value: string }
  | { type: "json" | "error-json"; value: unknown }
  | { type: "execution-denied"; reason?: string }
  | { type: "content"; value: readonly { type: string; text?: string }[] };

export type PromptPart = Part;

export type PromptMessage =
  | { role: "system"; content: string }
  | { role: "user" | "assistant" | "tool"; content: readonly Part[] };

export interface CallOptions {
  prompt: readonly PromptMessage[];
  maxOutputTokens?: number;
  temperature?: number;
  stopSequences?: readonly string[];
  topP?: number;
  topK?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  responseFormat?: { type: "text" } | { type: "json"; schema?: object; name?: string; description?: string };
  seed?: number;
  tools?: readonly (
    | { type: "function"; name: string; description?: string; inputSchema: object; strict?: boolean }
    | { type: "provider"; id: string }
  )[];
  toolChoice?: { type: "auto" | "none" | "required" } | { type: "tool"; toolName: string };
  includeRawChunks?: boolean;
  abortSignal?: AbortSignal;
  reasoning?: string;
  providerOptions?: ProviderOptions;
}

export interface Warning {
  type: "unsupported";
  feature: string;
  details?: string;
}

export interface FinishReason {
  unified: "stop" | "length" | "tool-calls" | "error" | "other";
  raw: string | undefined;
}

export interface Usage {
  inputTokens: { total: number; noCache: number; cacheRead: number; cacheWrite: undefined };
  outputTokens: { total: number; text: number; reasoning: number };
}

export type Content =
  | { type: "text"; text: string }
  | { type: "reasoning"; text: string }
  | { type: "tool-call"; toolCallId: string; toolName: string; input: string };

export interface ResponseMetadata {
  id: string;
  timestamp: Date;
  modelId: string;
}

export type StreamPart =
  | { type: "stream-start"; warnings: Warning[] }
  | ({ type: "response-metadata" } & ResponseMetadata)
  | { type: "text-start" | "text-end" | "reasoning-start" | "reasoning-end" | "tool-input-end"; id: string }
  | { type: "text-delta" | "reasoning-delta" | "tool-input-delta"; id: string; delta: string }
  | { type: "tool-input-start"; id: string; toolName: string }
  | { type: "tool-call"; toolCallId: string; toolName: string; input: string }
  | { type: "raw"; rawValue: unknown }
  | { type: "error"; error: AnnealError | unknown }
  | { type: "finish"; usage: Usage; finishReason: FinishReason };

/** A model of text, as `generateText` and the other functions of `ai` take it. */
export interface AnnealLanguageModel {
  readonly specificationVersion: "v4";
  /** Names the provider. */
  readonly provider: string;
  /** As it was asked for. */
  readonly modelId: string;
  /** Addresses that it reads itself: none. */
  readonly supportedUrls: Record<string, RegExp[]>;
  /** A reply in one piece. */
  doGenerate(options: CallOptions): Promise<{
    content: Content[];
    finishReason: FinishReason;
    usage: Usage;
    request: { body: unknown };
    response: ResponseMetadata & { body: unknown };
    warnings: Warning[];
  }>;
  /** A reply as it is written. Cancelling the stream aborts it. */
  doStream(options: CallOptions): Promise<{ stream: ReadableStream<StreamPart>; request: { body: unknown } }>;
}

/** A model of vectors, as `embed` and `embedMany` of `ai` take it. */
export interface AnnealEmbeddingModel {
  readonly specificationVersion: "v4";
  /** Names the provider. */
  readonly provider: string;
  /** As it was asked for. */
  readonly modelId: string;
  /** Texts of one call. */
  readonly maxEmbeddingsPerCall: number;
  /** Whether calls may be made at the same time. */
  readonly supportsParallelCalls: boolean;
  /** The vectors of texts. */
  doEmbed(options: {
    values: readonly string[];
    dimensions?: number;
    abortSignal?: AbortSignal;
    providerOptions?: ProviderOptions;
  }): Promise<{ embeddings: number[][]; usage: { tokens: number }; warnings: Warning[] }>;
}
