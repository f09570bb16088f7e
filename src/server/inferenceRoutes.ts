import * as z from "zod";
import type { MetricFamily } from "../engine/core/metricFamilies.js";
import type { ServedEngine } from "../engine/servedEngine.js";
import type { ExactFields } from "../json.js";
import { packageVersion } from "../packageFiles.js";
import { chatCompletionCreate } from "../schemas/chat.js";
import { chatCompletion, chatCompletionChunk } from "../schemas/completions.js";
import * as embeddings from "../schemas/embeddings.js";
import * as generations from "../schemas/generations.js";
import * as health from "../schemas/health.js";
import * as loraAdapters from "../schemas/loraAdapters.js";
import * as models from "../schemas/models.js";
import * as textCompletions from "../schemas/textCompletions.js";
import * as tokens from "../schemas/tokens.js";
import type { ChatCompletionCreateParams } from "../types/chat.js";
import type { EmbeddingCreateParams } from "../types/embeddings.js";
import type { GenerationCreateParams } from "../types/generations.js";
import type { LoraAdapterLoadParams, LoraAdapterUnloadParams } from "../types/loraAdapters.js";
import type { TextCompletionCreateParams } from "../types/textCompletions.js";
import type { DetokenizeParams, TokenizeParams } from "../types/tokens.js";
import { docsPage } from "./docsPage.js";
import type { HttpMetrics } from "./httpMetrics.js";
import { renderMetrics } from "./metricsText.js";
import { processFamilies } from "./processMetrics.js";
import type { Call, OpenRoute, Route } from "./route.js";
import { chunkEvents, streamed } from "./sse.js";

/** Integers may lie beyond what a number holds; what a template shows is shown as it is spelled. */
const EXACT_FIELDS: ExactFields = {
  seed: "integers",
  truncate_prompt_tokens: "integers",
  priority: "integers",
  response_format: "spellings",
  structured_outputs: "spellings",
  messages: "floats",
  tools: "spellings",
  chat_template_kwargs: "floats",
};

const EXACT_GENERATION_FIELDS: ExactFields = {
  priority: "integers",
  sampling_params: { seed: "integers", structured_outputs: "spellings" },
};

/** A proxy in front names a request by its header, whatever the body says; what nobody names has the name of the answer's header. */
function named(body: unknown, { request, requestId }: Call): unknown {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return body;
  const inBody = (body as { request_id?: unknown }).request_id ?? "";
  return request.headers.get("x-request-id") || inBody === "" ? { ...body, request_id: requestId } : body;
}

async function createCompletion(call: Call): Promise<unknown> {
  const { as, json, signal } = call;
  const params = named(await json(EXACT_FIELDS), call) as ChatCompletionCreateParams;
  const client = new AbortController();
  const reply = await as.chat.completions.create(params, { signal: AbortSignal.any([signal, client.signal]) });
  return Symbol.asyncIterator in reply ? streamed(reply, chunkEvents, call, client) : reply;
}

async function generate(call: Call): Promise<unknown> {
  const { as, json, signal } = call;
  const params = named(await json(EXACT_GENERATION_FIELDS), call) as GenerationCreateParams;
  const client = new AbortController();
  const reply = await as.tokens.generate(params, { signal: AbortSignal.any([signal, client.signal]) });
  return Symbol.asyncIterator in reply ? streamed(reply, chunkEvents, call, client) : reply;
}

async function createTextCompletion(call: Call): Promise<unknown> {
  const { as, json, signal } = call;
  const params = named(await json(EXACT_FIELDS), call) as TextCompletionCreateParams;
  const client = new AbortController();
  const reply = await as.completions.create(params, { signal: AbortSignal.any([signal, client.signal]) });
  return Symbol.asyncIterator in reply ? streamed(reply, chunkEvents, call, client) : reply;
}

const completion = {
  method: "POST",
  summary: "Create a chat completion",
  body: chatCompletionCreate,
  response: chatCompletion,
  events: chatCompletionChunk,
  handle: createCompletion,
} as const satisfies Partial<Route>;

export const inferenceRoutes: readonly Route[] = [
  { ...completion, path: "/v1/chat/completions" },
  { ...completion, path: "/v1/chat/completions/" },
  {
    method: "GET",
    path: "/v1/models",
    summary: "List the models that can be asked for completions",
    response: models.modelEntryList,
    handle: ({ as }) => as.models.list(),
  },
  {
    method: "GET",
    path: "/v1/models/:model{.+}",
    summary: "Get an entry of that list",
    response: models.modelEntry,
    handle: ({ as, params }) => as.models.entry(params.model!),
  },
  {
    method: "POST",
    path: "/v1/completions",
    summary: "Go on with plain prompts",
    body: textCompletions.textCompletionCreate,
    response: textCompletions.textCompletion,
    events: textCompletions.textCompletion,
    handle: createTextCompletion,
  },
  {
    method: "POST",
    path: "/v1/embeddings",
    summary: "The vectors of texts",
    body: embeddings.embeddingCreate,
    response: embeddings.embeddingList,
    handle: async (call) =>
      call.as.embeddings.create(named(await call.json(EXACT_FIELDS), call) as EmbeddingCreateParams, {
        signal: call.signal,
      }),
  },
  {
    method: "POST",
    path: "/v1/load_lora_adapter",
    summary: "Load an adapter under a name, or replace the one of that name",
    body: loraAdapters.loraAdapterLoad,
    mediaType: "text/plain",
    handle: async ({ as, json }) => {
      const body = (await json()) as LoraAdapterLoadParams;
      await as.loraAdapters.load(body);
      return new Response(`Success: LoRA adapter '${body.lora_name}' added successfully.`);
    },
  },
  {
    method: "POST",
    path: "/v1/unload_lora_adapter",
    summary: "Unload the adapter of a name",
    body: loraAdapters.loraAdapterUnload,
    mediaType: "text/plain",
    handle: async ({ as, json }) => {
      const body = (await json()) as LoraAdapterUnloadParams;
      await as.loraAdapters.unload(body);
      return new Response(`Success: LoRA adapter '${body.lora_name}' removed successfully.`);
    },
  },
  {
    method: "POST",
    path: "/tokenize",
    summary: "The tokens of a text, or of the prompt that a conversation becomes",
    body: tokens.tokenizeRequest,
    response: tokens.tokenizeResult,
    handle: async ({ as, json, signal }) =>
      as.tokens.tokenize((await json(EXACT_FIELDS)) as TokenizeParams, { signal }),
  },
  {
    method: "POST",
    path: "/detokenize",
    summary: "The text of tokens",
    body: tokens.detokenizeRequest,
    response: tokens.detokenizeResult,
    handle: async ({ as, json }) => as.tokens.detokenize((await json()) as DetokenizeParams),
  },
  {
    method: "POST",
    path: "/inference/v1/generate",
    summary: "Go on with token ids",
    body: generations.generationCreate,
    response: generations.generation,
    events: generations.generation,
    handle: generate,
  },
  {
    method: "GET",
    path: "/tokenizer_info",
    summary: "Special tokens and template of a model",
    query: tokens.tokenizerQuery,
    response: tokens.tokenizerInfo,
    handle: async ({ as, query }) => as.tokens.tokenizer(query),
  },
];

/** 200 while the engine takes requests. */
async function probe(engine: ServedEngine): Promise<Response> {
  await engine.health();
  return new Response(null, { status: 200 });
}

export const openRoutes: readonly OpenRoute[] = [
  { methods: ["GET"], path: "/health", summary: "Whether the engine takes requests, as a status", open: probe },
  { methods: ["GET", "POST"], path: "/ping", summary: "The same", open: probe },
  {
    methods: ["GET"],
    path: "/docs",
    summary: "What there is, for people: a page that needs nothing but itself",
    mediaType: "text/html",
    open: (_, document) =>
      new Response(docsPage(document()), {
        headers: {
          "content-type": "text/html; charset=utf-8",
          "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
        },
      }),
  },
  {
    methods: ["GET"],
    path: "/version",
    summary: "The version of the package",
    response: health.version,
    open: () => Response.json({ version: packageVersion() }),
  },
];

/** Of all models together. */
function total(families: readonly MetricFamily[], name: string): number {
  const samples = families.find((family) => family.name === name)?.samples ?? [];
  return samples.reduce((sum, sample) => sum + ("value" in sample ? sample.value : 0), 0);
}

/** The parts of the face that tell of the engine and the server; `document` is OpenAPI's. */
export function operationRoutes(document: () => object, http: HttpMetrics): readonly Route[] {
  return [
    {
      method: "GET",
      path: "/v1/health",
      summary: "Whether the engine takes requests",
      response: health.healthReport,
      handle: ({ engine }) => engine.health(),
    },
    {
      method: "GET",
      path: "/v1/system-check",
      summary: "Whether what requests need works",
      response: health.systemReport,
      others: { 503: { description: "Something does not work", schema: health.systemReport } },
      async handle({ engine }) {
        const report = await engine.systemCheck();
        const works = report.database.success && report.cpu_queue.success && report.gpu_queue.success;
        return Response.json(report, { status: works ? 200 : 503 });
      },
    },
    {
      method: "GET",
      path: "/load",
      summary: "How many sequences are being computed or wait",
      response: health.load,
      async handle({ as }) {
        const families = as.metrics();
        return { server_load: total(families, "num_requests_running") + total(families, "num_requests_waiting") };
      },
    },
    {
      method: "GET",
      path: "/metrics",
      summary: "Prometheus metrics",
      mediaType: "text/plain",
      async handle({ as }) {
        const engine = renderMetrics(as.metrics(), "vllm:") + renderMetrics(as.trainingMetrics(), "anneal:");
        return new Response(engine + renderMetrics([...http.families(), ...processFamilies()]), {
          headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" },
        });
      },
    },
    {
      method: "GET",
      path: "/openapi.json",
      summary: "This document",
      response: z.looseObject({}),
      handle: async () => document(),
    },
  ];
}
