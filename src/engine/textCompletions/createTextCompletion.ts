// Completions of plain prompts: check, run, answer.

import { shouldYield, yieldToEventLoop } from "../../eventLoop.js";
import type { Generation, GenerationEvent } from "../../inference/index.js";
import { type TextCompletionRequest, textCompletionCreate } from "../../schemas/textCompletions.js";
import { validateAsync } from "../../schemas/validate.js";
import type { TextCompletion, TextCompletionChoice } from "../../types/textCompletions.js";
import { usage } from "../chat/choiceWriter.js";
import type { ChatCall, ChatHost } from "../chat/host.js";
import { promptLogprobs } from "../chat/logprobs.js";
import { OrderedStream } from "../chat/orderedStream.js";
import { startGeneration } from "../chat/startGeneration.js";
import type { ServedModel } from "../core/resolve.js";
import { append, type ChoiceOptions, emptyChoice, TextChoiceWriter } from "./choice.js";
import { type PreparedPrompt, prepare } from "./prepare.js";

interface Started extends PreparedPrompt {
  events: Generation;
}

/** A request under way. */
interface Running {
  request: TextCompletionRequest;
  prompts: Started[];
  options: ChoiceOptions;
  envelope: Omit<TextCompletion, "choices" | "usage">;
  /** Ends all that is under way. */
  stop(): void;
}

/**
 * Goes on with prompts. With `stream: true` the promise resolves, to the chunks, once all of them have been accepted. Leaving the
 * loop over the chunks aborts, as the signal does.
 * @throws ValidationError, NotFoundError for an unknown model, RateLimitError when too many requests wait.
 */
export async function createTextCompletion(
  host: ChatHost,
  params: unknown,
  call: ChatCall,
): Promise<TextCompletion | AsyncIterable<TextCompletion>> {
  while (shouldYield()) await yieldToEventLoop();
  const request = await validateAsync(textCompletionCreate, params, { strict: call.strict });
  call.signal?.throwIfAborted();
  const served = await host.resolve(request.model, call.caller);
  let prompts: PreparedPrompt[];
  try {
    prompts = await prepare(host, request, served, call);
  } catch (error) {
    served.release();
    throw error;
  }
  const running = start(host, request, served, prompts, call.signal);
  return request.stream ? new TextChunks(running) : whole(running);
}

function start(
  host: ChatHost,
  request: TextCompletionRequest,
  served: ServedModel,
  prompts: readonly PreparedPrompt[],
  signal: AbortSignal | undefined,
): Running {
  const { base, trained } = served;
  const left = new AbortController();
  const either = signal === undefined ? left.signal : AbortSignal.any([signal, left.signal]);
  let open = prompts.length;
  const ended = () => {
    if (--open === 0) served.release();
  };
  const started: Started[] = [];
  try {
    for (const prompt of prompts) {
      started.push({ ...prompt, events: startGeneration(host, served, prompt.generation, either, ended) });
    }
  } catch (error) {
    open -= prompts.length - started.length;
    left.abort(error);
    if (started.length === 0) served.release();
    throw error;
  }
  return {
    request,
    prompts: started,
    options: {
      tokenizer: base.tokenizer,
      logprobs: request.logprobs ?? null,
      tokensAsIds: request.return_tokens_as_token_ids ?? false,
      skipSpecialTokens: request.skip_special_tokens,
      returnTokenIds: request.return_token_ids ?? false,
      isEmpty: request.max_tokens === 0,
    },
    envelope: {
      id: `cmpl-${prompts[0]!.generation.requestId}`,
      object: "text_completion",
      created: Math.floor(Date.now() / 1000),
      model: trained?.servedName ?? base.id,
      system_fingerprint: `anneal-${host.version}-${base.hash.slice(0, 8)}`,
    },
    stop: () => left.abort(new DOMException("the reader has left", "AbortError")),
  };
}

async function whole(running: Running): Promise<TextCompletion> {
  const { prompts, request, envelope } = running;
  const counts = { completion: 0, cached: 0 };
  try {
    const read = await Promise.all(prompts.map((prompt) => choicesOf(running, prompt, counts)));
    const choices = read.flat().map((choice, index) => ({ ...choice, index }));
    const prompt = prompts.reduce((sum, { generation }) => sum + generation.promptTokens.length, 0);
    return {
      ...envelope,
      choices,
      usage: usage(prompt, request.max_tokens === 0 ? 0 : counts.completion, counts.cached),
    };
  } catch (error) {
    running.stop();
    throw error;
  }
}

/** The choices of one prompt, the best of them. */
async function choicesOf(
  { request, options }: Running,
  { text, generation, events }: Started,
  counts: { completion: number; cached: number },
): Promise<TextCompletionChoice[]> {
  const { promptTokens, n } = generation;
  const writers = Array.from({ length: n }, () => new TextChoiceWriter(options));
  const choices = writers.map((_, index) => emptyChoice(index));
  for await (const event of events) {
    if (event.type === "prompt") {
      counts.cached += event.cachedTokens;
      const shown =
        event.promptLogprobs === null
          ? null
          : await promptLogprobs(options.tokenizer, promptTokens, event.promptLogprobs);
      for (const [index, choice] of choices.entries()) {
        if (request.echo) append(choice, writers[index]!.echo(text, promptTokens, event.promptLogprobs));
        choice.prompt_logprobs = shown;
        if (options.returnTokenIds) choice.prompt_token_ids = [...promptTokens];
      }
    } else {
      append(choices[event.index]!, writers[event.index]!.write(event));
      counts.completion += event.tokenIds.length;
    }
    while (shouldYield()) await yieldToEventLoop();
  }
  if (n === request.n) return choices;
  const mean = (index: number) => writers[index]!.likelihood / Math.max(1, writers[index]!.tokens);
  return choices.sort((a, b) => mean(b.index) - mean(a.index) || a.index - b.index).slice(0, request.n);
}

/** Chunks of all prompts, as their events come; every prompt's next event is asked for when its last one has been told. */
class TextChunks extends OrderedStream<TextCompletion> {
  private readonly iterators: AsyncIterator<GenerationEvent>[];
  private readonly writers: TextChoiceWriter[];
  private readonly arrived: { prompt: number; result: Promise<IteratorResult<GenerationEvent>> }[] = [];
  private news: (() => void) | null = null;
  private open: number;
  /** Of each prompt. */
  private readonly cached: number[];

  constructor(private readonly running: Running) {
    super();
    const { prompts, request, options } = running;
    this.iterators = prompts.map(({ events }) => events[Symbol.asyncIterator]());
    this.writers = Array.from({ length: prompts.length * request.n }, () => new TextChoiceWriter(options));
    this.open = prompts.length;
    this.cached = prompts.map(() => 0);
    for (const prompt of prompts.keys()) this.ask(prompt);
  }

  protected async fill(): Promise<void> {
    while (this.arrived.length === 0 && !this.done) {
      await new Promise<void>((resolve) => {
        this.news = resolve;
      });
    }
    const next = this.arrived.shift();
    if (next === undefined) return;
    const { done, value } = await next.result;
    if (done) {
      if (--this.open > 0) return;
      this.done = true;
      if (this.running.request.stream_options?.include_usage) this.ready = [this.usageChunk()].values();
      return;
    }
    this.ready = this.chunksOf(next.prompt, value).values();
    this.ask(next.prompt);
  }

  protected async leave(): Promise<void> {
    this.running.stop();
    this.news?.();
    await Promise.all(this.running.prompts.map(({ events }) => events.ended));
  }

  private ask(prompt: number): void {
    const result = this.iterators[prompt]!.next();
    const arrive = () => {
      this.arrived.push({ prompt, result });
      this.news?.();
    };
    result.then(arrive, arrive);
  }

  private chunksOf(prompt: number, event: GenerationEvent): TextCompletion[] {
    const { request, prompts, options } = this.running;
    const { text, generation } = prompts[prompt]!;
    const first = prompt * request.n;
    if (event.type === "tokens") {
      const index = first + event.index;
      return [this.chunk({ index, ...this.writers[index]!.write(event) })];
    }
    this.cached[prompt] = event.cachedTokens;
    if (!request.echo && !options.returnTokenIds) return [];
    const { promptTokens } = generation;
    return Array.from({ length: request.n }, (_, i) => {
      const writer = this.writers[first + i]!;
      const piece = writer.echo(request.echo ? text : "", promptTokens, request.echo ? event.promptLogprobs : null);
      const ids = options.returnTokenIds ? { prompt_token_ids: [...promptTokens] } : {};
      return this.chunk({ index: first + i, ...piece, ...ids });
    });
  }

  private chunk(choice: TextCompletionChoice): TextCompletion {
    const { request, envelope, prompts } = this.running;
    const chunk: TextCompletion = { ...envelope, choices: [choice] };
    if (request.stream_options?.include_usage && request.stream_options.continuous_usage_stats) {
      const prompt = Math.floor(choice.index / request.n);
      const { promptTokens } = prompts[prompt]!.generation;
      chunk.usage = usage(promptTokens.length, this.writers[choice.index]!.tokens, this.cached[prompt]!);
    }
    return chunk;
  }

  private usageChunk(): TextCompletion {
    const prompt = this.running.prompts.reduce((sum, { generation }) => sum + generation.promptTokens.length, 0);
    const completion = this.writers.reduce((sum, { tokens }) => sum + tokens, 0);
    const cached = this.cached.reduce((sum, tokens) => sum + tokens, 0);
    return { ...this.running.envelope, choices: [], usage: usage(prompt, completion, cached) };
  }
}
