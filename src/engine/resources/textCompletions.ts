import type { RequestOptions, TextCompletionsResource } from "../../types/client.js";
import type {
  TextCompletion,
  TextCompletionCreateParams,
  TextCompletionCreateParamsNonStreaming,
  TextCompletionCreateParamsStreaming,
} from "../../types/textCompletions.js";
import { chatHost } from "../chat/host.js";
import type { View } from "../core/access.js";
import type { EngineCore } from "../core/core.js";

export class TextCompletions implements TextCompletionsResource {
  readonly #core: EngineCore;
  readonly #view: View;

  /** @internal */
  constructor(core: EngineCore, view: View) {
    this.#core = core;
    this.#view = view;
  }

  create(params: TextCompletionCreateParamsNonStreaming, options?: RequestOptions): Promise<TextCompletion>;
  create(params: TextCompletionCreateParamsStreaming, options?: RequestOptions): Promise<AsyncIterable<TextCompletion>>;
  create(
    params: TextCompletionCreateParams,
    options?: RequestOptions,
  ): Promise<TextCompletion | AsyncIterable<TextCompletion>>;
  async create(
    params: TextCompletionCreateParams,
    options?: RequestOptions,
  ): Promise<TextCompletion | AsyncIterable<TextCompletion>> {
    const { createTextCompletion } = await import("../textCompletions/createTextCompletion.js");
    const { caller, strict } = this.#view;
    return createTextCompletion(chatHost(this.#core), params, { caller, strict, signal: options?.signal });
  }
}
