import { ValidationError } from "../../errors.js";
import { shouldYield, yieldToEventLoop } from "../../eventLoop.js";
import { chatCompletionCreate } from "../../schemas/chat.js";
import { validate, validateAsync } from "../../schemas/validate.js";
import type { Tokenizer } from "../../text/index.js";
import type { RequestOptions } from "../../types/client.js";
import type {
  Generation,
  GenerationCreateParams,
  GenerationCreateParamsNonStreaming,
  GenerationCreateParamsStreaming,
} from "../../types/generations.js";
import type {
  DetokenizeParams,
  TokenizeParams,
  TokenizeResult,
  TokenizerInfo,
  TokenizerQuery,
} from "../../types/tokens.js";
import { chatHost } from "../chat/host.js";
import { renderPrompt } from "../chat/prompt.js";
import type { View } from "../core/access.js";
import type { BaseModel } from "../core/baseModel.js";
import type { EngineCore } from "../core/core.js";
import { resolveModel } from "../core/resolve.js";

/** Texts to tokens and back, as chat completions do it. */
export class Tokens {
  readonly #core: EngineCore;
  readonly #view: View;

  /** @internal */
  constructor(core: EngineCore, view: View) {
    this.#core = core;
    this.#view = view;
  }

  /** The tokens of a text, or of the prompt that a conversation becomes. */
  async tokenize(params: TokenizeParams, { signal }: RequestOptions = {}): Promise<TokenizeResult> {
    const { tokenizeRequest } = await import("../../schemas/tokens.js");
    const { prompt, messages, add_special_tokens, return_token_strs, ...chat } = await validateAsync(
      tokenizeRequest,
      params,
    );
    if ((prompt == null) === (messages == null)) {
      throw ValidationError.at("prompt", "either prompt or messages is needed");
    }
    const base = await this.#base(chat.model);
    const request = { ...chat, messages, add_special_tokens: add_special_tokens ?? false };
    const limits = { context: base.contextLength, byDefault: undefined };
    const tokens =
      prompt == null
        ? (await renderPrompt(await validateAsync(chatCompletionCreate, request), base, limits, signal)).tokens
        : await base.tokenizer.encodeAsync(prompt, { addSpecialTokens: add_special_tokens ?? true, signal });
    const strings = return_token_strs ? await tokenTexts(base.tokenizer, tokens) : null;
    return { count: tokens.length, max_model_len: base.contextLength, tokens, token_strs: strings };
  }

  async detokenize(params: DetokenizeParams): Promise<{ prompt: string }> {
    const { detokenizeRequest } = await import("../../schemas/tokens.js");
    const { model, tokens } = await validateAsync(detokenizeRequest, params, { strict: this.#view.strict });
    const base = await this.#base(model);
    return { prompt: await textOf(base.tokenizer, tokens) };
  }

  /** Tokens drawn behind a prompt of tokens, with their logprobs; with `stream: true` as they are drawn. */
  generate(params: GenerationCreateParamsNonStreaming, options?: RequestOptions): Promise<Generation>;
  generate(params: GenerationCreateParamsStreaming, options?: RequestOptions): Promise<AsyncIterable<Generation>>;
  generate(params: GenerationCreateParams, options?: RequestOptions): Promise<Generation | AsyncIterable<Generation>>;
  async generate(
    params: GenerationCreateParams,
    options?: RequestOptions,
  ): Promise<Generation | AsyncIterable<Generation>> {
    const { createGeneration } = await import("../textCompletions/createGeneration.js");
    const { caller, strict } = this.#view;
    return createGeneration(chatHost(this.#core), params, { caller, strict, signal: options?.signal });
  }

  /** Special tokens and template of a model. */
  async tokenizer(query: TokenizerQuery = {}): Promise<TokenizerInfo> {
    const { tokenizerQuery } = await import("../../schemas/tokens.js");
    const { model } = validate(tokenizerQuery, query, { from: "query", strict: this.#view.strict });
    const { tokenizer, template, contextLength } = await this.#base(model);
    const special = (name: string) => tokenizer.specialTokens[name] ?? null;
    return {
      model_max_length: contextLength,
      bos_token: special("bos_token"),
      eos_token: special("eos_token"),
      unk_token: special("unk_token"),
      pad_token: special("pad_token"),
      chat_template: template && tokenizer.chatTemplate,
    };
  }

  async #base(name: string | null | undefined): Promise<BaseModel> {
    const { base, release } = await resolveModel(this.#core, name, this.#view.caller);
    release();
    return base;
  }
}

async function textOf(tokenizer: Tokenizer, tokens: readonly number[]): Promise<string> {
  const decoder = tokenizer.stream({ skipSpecialTokens: false });
  const pieces: string[] = [];
  for (const id of tokens) {
    pieces.push(decoder.push(id));
    while (pieces.length % 1024 === 0 && shouldYield()) await yieldToEventLoop();
  }
  return pieces.join("") + decoder.flush();
}

async function tokenTexts(tokenizer: Tokenizer, tokens: readonly number[]): Promise<string[]> {
  const texts: string[] = [];
  for (const id of tokens) {
    texts.push(tokenizer.piece(id));
    while (texts.length % 1024 === 0 && shouldYield()) await yieldToEventLoop();
  }
  return texts;
}
