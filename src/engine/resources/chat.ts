import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionCreateParams,
  ChatCompletionCreateParamsNonStreaming,
  ChatCompletionCreateParamsStreaming,
} from "../../types/chat.js";
import type { ChatCompletionsResource, RequestOptions } from "../../types/client.js";
import { createChatCompletion } from "../chat/createChatCompletion.js";
import { chatHost } from "../chat/host.js";
import type { View } from "../core/access.js";
import type { EngineCore } from "../core/core.js";

class Completions implements ChatCompletionsResource {
  readonly #core: EngineCore;
  readonly #view: View;

  /** @internal */
  constructor(core: EngineCore, view: View) {
    this.#core = core;
    this.#view = view;
  }

  create(params: ChatCompletionCreateParamsNonStreaming, options?: RequestOptions): Promise<ChatCompletion>;
  create(
    params: ChatCompletionCreateParamsStreaming,
    options?: RequestOptions,
  ): Promise<AsyncIterable<ChatCompletionChunk>>;
  create(
    params: ChatCompletionCreateParams,
    options?: RequestOptions,
  ): Promise<ChatCompletion | AsyncIterable<ChatCompletionChunk>>;
  async create(
    params: ChatCompletionCreateParams,
    options?: RequestOptions,
  ): Promise<ChatCompletion | AsyncIterable<ChatCompletionChunk>> {
    return createChatCompletion(chatHost(this.#core), params, { ...this.#view, signal: options?.signal });
  }

  /**
   * The same for requests that must say how many tokens a reply may have: more than the context has are as many as it has.
   * @internal
   */
  createWithinContext(
    params: ChatCompletionCreateParams,
    options?: RequestOptions,
  ): Promise<ChatCompletion | AsyncIterable<ChatCompletionChunk>> {
    const call = { ...this.#view, lowersMaxTokens: true, signal: options?.signal };
    return createChatCompletion(chatHost(this.#core), params, call);
  }
}

export class Chat {
  readonly completions: Completions;

  /** @internal */
  constructor(core: EngineCore, view: View) {
    this.completions = new Completions(core, view);
  }
}
