// Serves the requests of a model that a device elsewhere computes: completions come back whole, and become what steps would have
// sampled, with the same texts, stops and logprobs.

import { BadRequestError } from "../errors.js";
import type { CompletingDevice } from "../runtime/runtime.js";
import { samplingNumbers } from "../samplingNumbers.js";
import type { Tokenizer } from "../text/index.js";
import type { InferenceLoopOptions, ModelLoop } from "./inferenceLoop.js";
import { type InferenceStats, StepCounts } from "./inferenceStats.js";
import { OpenRequests } from "./openRequests.js";
import type { Generation, GenerationRequest } from "./request.js";
import type { RequestState } from "./requestState.js";
import { SamplingRequest } from "./samplingRequest.js";

const NO_TOKENS = new Int32Array(0);
/** What the device draws by; a request that sets another number is refused. */
const SUPPORTED = new Set(["temperature", "top_p", "top_k"]);

export class CompletionLoop implements ModelLoop {
  readonly contextLength: number;
  readonly policy = "fcfs";
  readonly guesses = false;
  readonly hidden = 0;
  private readonly requests = new OpenRequests();
  private readonly counts = new StepCounts();
  private arrivals = 0;

  constructor(
    private readonly device: CompletingDevice,
    readonly tokenizer: Tokenizer,
    private readonly options: Pick<InferenceLoopOptions, "contextLength" | "maxQueue">,
  ) {
    this.contextLength = options.contextLength;
  }

  get vocab(): number {
    return this.device.config.vocab;
  }

  submit(request: GenerationRequest, signal?: AbortSignal): Generation {
    this.requests.checkRoom(this.requests.size, this.options.maxQueue, signal);
    checkSupported(request);
    const left = new AbortController();
    const onEnd = (ended: RequestState) => {
      this.requests.delete(ended);
      left.abort();
    };
    const state = new SamplingRequest(request, this.arrivals++, request.n, this.tokenizer, onEnd);
    this.requests.add(state);
    state.endOnAbort(signal);
    void this.serve(state, left.signal);
    return state;
  }

  submitScoring(): never {
    throw unsupported("use_beam_search");
  }

  submitEmbedding(): never {
    throw unsupported("model");
  }

  fork(): never {
    throw unsupported("use_beam_search");
  }

  end(): void {}

  stats(): InferenceStats {
    return {
      running: this.requests.size,
      waiting: 0,
      cacheUsage: 0,
      pages: 0,
      preemptions: 0,
      cacheQueries: 0,
      cacheHits: 0,
      ...this.counts.snapshot(),
    };
  }

  async close(): Promise<void> {
    this.requests.close();
  }

  private async serve(state: SamplingRequest, signal: AbortSignal): Promise<void> {
    const { params, promptTokens, adapter, n } = state.request;
    const sequences = [...state.sequences];
    state.record.scheduled = performance.now();
    this.counts.promptTokens += promptTokens.length;
    const ends = params.ignoreEos ? [] : [...(params.eosId === null ? [] : [params.eosId]), ...params.extraEosIds];
    try {
      const completions = await this.device.complete(
        adapter,
        promptTokens,
        n,
        {
          maxTokens: params.maxTokens,
          temperature: params.temperature,
          topP: params.topP,
          topK: params.topK,
          seed: state.seed,
          stopIds: [...new Set([...ends, ...params.stopTokenIds])],
        },
        signal,
      );
      for (const [i, sequence] of sequences.entries()) {
        const { tokens, logprobs } = completions[i]!;
        this.counts.generatedTokens += tokens.length;
        let hasEnded = false;
        for (let t = 0; t < tokens.length && !hasEnded; t++) {
          // The device gives logprobs at temperature 1 only.
          const values = { logprob: logprobs[t]!, temperatureLogprob: Number.NaN, top: null };
          hasEnded = state.sampled(sequence, { token: tokens[t]!, forced: NO_TOKENS, logprobs: values });
        }
        // The server had reasons of its own to end it.
        if (!hasEnded) {
          const none = { logprob: 0, temperatureLogprob: Number.NaN, top: null };
          state.sampled(sequence, { token: -1, forced: NO_TOKENS, logprobs: none });
        }
      }
    } catch (error) {
      state.fail(error);
    }
  }
}

/** @throws BadRequestError naming what of a request would change what is drawn and is unknown to the server. */
function checkSupported({ params, grammar }: GenerationRequest): void {
  for (const { name, key, neutral } of samplingNumbers) {
    if (!SUPPORTED.has(name) && params[key] !== neutral) throw unsupported(name);
  }
  const others: [param: string, isAsked: boolean][] = [
    ["structured_outputs", grammar !== null],
    ["use_beam_search", params.beam !== null],
    ["thinking_token_budget", params.thinking !== null],
    ["min_tokens", params.minTokens > 0],
    ["logit_bias", params.logitBias.length > 0],
    ["allowed_token_ids", params.allowedTokenIds !== null],
    ["bad_words", params.badWords.length > 0],
    ["top_logprobs", (params.logprobs ?? 0) > 0 || params.logprobTokenIds !== null],
    ["prompt_logprobs", params.promptLogprobs !== null],
  ];
  const asked = others.find(([, isAsked]) => isAsked);
  if (asked) throw unsupported(asked[0]);
}

function unsupported(param: string): BadRequestError {
  return new BadRequestError(`${param} is not supported by the server that computes this model`, {
    code: "remote_unsupported",
    param,
    hint: "it takes temperature, top_p, top_k, seed, stop and max_tokens",
  });
}
