// One response on its way from request to answer: the chat completion below it, read into items and events.

import { AnnealError, ValidationError } from "../../errors.js";
import { stringifyAsync } from "../../jsonPieces.js";
import type { ResponseRequest } from "../../schemas/responseRequests.js";
import type { Store } from "../../store/store.js";
import type { ChatCompletion, ChatCompletionChunk, CompletionUsage, FinishReason } from "../../types/chat.js";
import type { ModelResponse, ResponseFunctionTool, ResponseStreamEvent, ResponseUsage } from "../../types/responses.js";
import { createChatCompletion } from "../chat/createChatCompletion.js";
import type { ChatCall, ChatHost } from "../chat/host.js";
import { OrderedStream } from "../chat/orderedStream.js";
import { asResponseFault, type Conversation, chatParams, conversationOf } from "./chatParams.js";
import { inputItems, newId } from "./inputItems.js";
import { itemsUpTo, keep, keptItem } from "./keptResponses.js";
import { ResponseWriter } from "./responseWriter.js";
import { TextLogprobs } from "./textLogprobs.js";
import { fitted } from "./truncation.js";

/** What making a response needs of the engine around it. */
export interface MakingHost {
  readonly chat: ChatHost;
  /** @throws ClosedError when the engine has been closed */
  readonly store: Store;
  /** For failures that nobody waits for. */
  report(error: unknown): void;
}

export class Making {
  readonly writer: ResponseWriter;
  private readonly logprobs = new TextLogprobs();
  private usage: CompletionUsage | null = null;
  private finish: FinishReason = "abort";

  private constructor(
    readonly host: MakingHost,
    readonly request: ResponseRequest,
    readonly call: ChatCall,
    private readonly conversation: Conversation,
    /** JSON of the items asked with. */
    private readonly input: string,
  ) {
    this.writer = new ResponseWriter(emptyResponse(request), writerOptions(request));
  }

  static async begin(host: MakingHost, request: ResponseRequest, call: ChatCall): Promise<Making> {
    const { store, chat } = host;
    const { caller } = call;
    const before =
      request.previous_response_id === undefined ? [] : await itemsUpTo(store, caller, request.previous_response_id);
    const own = await inputItems(request.input, (id) => keptItem(store, caller, id));
    const whole = conversationOf(request.instructions, [...before, ...own]);
    if (whole.messages.length === 0)
      throw ValidationError.at("input", "is required: there is nothing to answer", "missing");
    const conversation = request.truncation === "auto" ? await fitted(chat, request, whole, call) : whole;
    const input = request.store ? await stringifyAsync(own.map(({ item }) => item)) : "";
    return new Making(host, request, call, conversation, input);
  }

  get response(): ModelResponse {
    return this.writer.response;
  }

  /** In one piece. */
  async whole(): Promise<ModelResponse> {
    const completion = (await this.ask({})) as ChatCompletion;
    this.writer.begin();
    this.response.model = completion.model;
    const { message, logprobs, finish_reason } = completion.choices[0]!;
    this.logprobs.add(logprobs);
    this.think(message.reasoning ?? "");
    this.say(message.content ?? "");
    for (const [index, given] of (message.tool_calls ?? []).entries()) this.writer.callFunction({ index, ...given });
    this.usage = completion.usage;
    this.finish = finish_reason;
    await this.end();
    return this.response;
  }

  /** As events, each as it comes. */
  async stream(signal = this.call.signal): Promise<ResponseEvents> {
    return new ResponseEvents(this, await this.chunks(signal));
  }

  /** The chat completion's chunks. */
  async chunks(signal: AbortSignal | undefined): Promise<AsyncIterator<ChatCompletionChunk>> {
    const options = { stream: true, stream_options: { include_usage: true } };
    const chunks = (await this.ask(options, signal)) as AsyncIterable<ChatCompletionChunk>;
    return chunks[Symbol.asyncIterator]();
  }

  read({ model, choices: [choice], usage }: ChatCompletionChunk): void {
    this.response.model = model;
    this.usage = usage ?? this.usage;
    if (choice === undefined) return;
    const { delta, logprobs, finish_reason } = choice;
    this.logprobs.add(logprobs);
    this.think(delta.reasoning ?? "");
    this.say(delta.content ?? "");
    for (const given of delta.tool_calls ?? []) this.writer.callFunction(given);
    this.finish = finish_reason ?? this.finish;
  }

  /** The model has ended: so has the response, and it is kept. */
  async end(): Promise<void> {
    const { finish } = this;
    const reason = finish === "length" ? "max_output_tokens" : finish === "repetition" ? "repetition" : null;
    this.writer.end(reason, this.usageOf());
    await this.keep();
  }

  async fail(error: unknown): Promise<void> {
    this.writer.fail(error instanceof AnnealError ? error.message : "Internal server error");
    await this.keep();
  }

  async keep(): Promise<void> {
    const { host, call, request } = this;
    if (request.store) await keep(host.store, call.caller.entity, this.response, this.input);
  }

  private think(text: string): void {
    this.logprobs.of(text);
    this.writer.think(text);
  }

  private say(text: string): void {
    this.writer.say(text, this.logprobs.of(text));
  }

  private usageOf(): ResponseUsage {
    const {
      prompt_tokens = 0,
      completion_tokens = 0,
      prompt_tokens_details,
      completion_tokens_details,
    } = this.usage ?? {};
    return {
      input_tokens: prompt_tokens,
      input_tokens_details: { cached_tokens: prompt_tokens_details?.cached_tokens ?? 0, cache_write_tokens: 0 },
      output_tokens: completion_tokens,
      output_tokens_details: { reasoning_tokens: completion_tokens_details?.reasoning_tokens ?? 0 },
      total_tokens: prompt_tokens + completion_tokens,
    };
  }

  private async ask(options: object, signal = this.call.signal): Promise<unknown> {
    const { host, call, request, conversation } = this;
    const params = { ...chatParams(request, conversation.messages), ...options };
    try {
      return await createChatCompletion(host.chat, params, { ...call, strict: false, signal });
    } catch (error) {
      throw asResponseFault(error, request, conversation);
    }
  }
}

/** Events of a response that is under way already. Leaving the iteration, even before its first event, aborts it. */
export class ResponseEvents extends OrderedStream<ResponseStreamEvent> {
  private hasEnded = false;

  constructor(
    private readonly making: Making,
    private readonly chunks: AsyncIterator<ChatCompletionChunk>,
  ) {
    super();
    making.writer.begin();
  }

  protected async fill(): Promise<void> {
    const { making, chunks } = this;
    const told = making.writer.take();
    if (told.length > 0) {
      this.ready = told.values();
      return;
    }
    if (this.hasEnded) {
      this.done = true;
      return;
    }
    try {
      const { done, value } = await chunks.next();
      if (this.done) return;
      if (done) {
        this.hasEnded = true;
        await making.end();
      } else making.read(value);
    } catch (error) {
      if (this.done || making.call.signal?.aborted) throw error;
      this.hasEnded = true;
      await making.fail(error);
    }
    this.ready = making.writer.take().values();
  }

  protected async leave(): Promise<void> {
    await this.chunks.return?.();
  }
}

const writerOptions = ({ reasoning, include }: ResponseRequest) => ({
  summarises: (reasoning?.summary ?? reasoning?.generate_summary ?? null) !== null,
  encodes: include?.includes("reasoning.encrypted_content") ?? false,
});

function emptyResponse(request: ResponseRequest): ModelResponse {
  const { text, reasoning, tools } = request;
  return {
    id: newId("resp"),
    object: "response",
    created_at: Math.floor(Date.now() / 1000),
    completed_at: null,
    status: request.background ? "queued" : "in_progress",
    error: null,
    incomplete_details: null,
    model: request.model ?? "",
    output: [],
    usage: null,
    instructions: request.instructions ?? null,
    previous_response_id: request.previous_response_id ?? null,
    metadata: request.metadata ?? {},
    store: request.store,
    background: request.background,
    temperature: request.temperature ?? null,
    top_p: request.top_p ?? null,
    presence_penalty: request.presence_penalty ?? 0,
    frequency_penalty: request.frequency_penalty ?? 0,
    max_output_tokens: request.max_output_tokens ?? null,
    max_tool_calls: request.max_tool_calls ?? null,
    parallel_tool_calls: request.parallel_tool_calls,
    tool_choice: request.tool_choice ?? "auto",
    tools: (tools ?? []).flatMap((tool): ModelResponse["tools"] => {
      const { type, name, description, tools: within } = tool;
      if (type === "function") return [shownFunction(tool)];
      if (type !== "namespace") return [];
      return [{ type, name: name!, description: description ?? null, tools: (within ?? []).map(shownFunction) }];
    }),
    text: {
      format: plainJson(text?.format ?? { type: "text" }) as Record<string, unknown>,
      ...(text?.verbosity == null ? {} : { verbosity: text.verbosity }),
    },
    reasoning: {
      effort: reasoning?.effort ?? null,
      summary: reasoning?.summary ?? reasoning?.generate_summary ?? null,
    },
    top_logprobs: request.top_logprobs,
    truncation: request.truncation,
    ...(request.user === undefined ? {} : { user: request.user }),
    safety_identifier: request.safety_identifier ?? null,
    prompt_cache_key: request.prompt_cache_key ?? null,
    service_tier: "default",
    access_programs: null,
  };
}

type GivenFunction = Pick<
  NonNullable<ResponseRequest["tools"]>[number],
  "name" | "description" | "parameters" | "strict"
>;

function shownFunction({ name, description, parameters, strict }: GivenFunction): ResponseFunctionTool {
  return {
    type: "function",
    name: name!,
    description: description ?? null,
    parameters: parameters == null ? null : (plainJson(parameters) as Record<string, unknown>),
    strict: strict ?? null,
  };
}

/** What JSON can say of a value whose numbers were read exactly. */
function plainJson(value: unknown): unknown {
  const text = JSON.stringify(value, (_, item: unknown) => (typeof item === "bigint" ? Number(item) : item));
  return JSON.parse(text) as unknown;
}
