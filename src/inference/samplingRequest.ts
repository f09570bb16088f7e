// A request for `n` sampled choices: what steps sample becomes events for its reader.

import type { Tokenizer } from "../text/index.js";
import { ChoiceOutput } from "./choiceOutput.js";
import { EventQueue } from "./eventQueue.js";
import type { Finish, Generation, GenerationEvent, GenerationRequest, TokenLogprobs } from "./request.js";
import { RequestState } from "./requestState.js";
import { type SampledTokens, Sequence } from "./sequence.js";

const FORCED: TokenLogprobs = { logprob: 0, temperatureLogprob: 0, top: null };

/** `n` choices under way, and the events that nobody has read yet. */
export class SamplingRequest extends RequestState implements Generation {
  private readonly first: Sequence;
  private readonly outputs: ChoiceOutput[] = [];
  private readonly queue = new EventQueue(() => this.end());
  private unfinished: number;

  constructor(
    request: GenerationRequest,
    arrival: number,
    tokenizer: Tokenizer,
    onEnd: (request: RequestState) => void,
  ) {
    super(request, arrival, onEnd);
    const prompt = Int32Array.from(request.promptTokens);
    this.first = new Sequence(this, 0, prompt, null);
    for (let i = 0; i < request.n; i++) {
      const sequence = i === 0 ? this.first : new Sequence(this, i, prompt, this.first);
      this.sequences.add(sequence);
      this.outputs.push(new ChoiceOutput(sequence, request.params, tokenizer, request.streaming));
    }
    this.unfinished = request.n;
  }

  [Symbol.asyncIterator](): AsyncIterator<GenerationEvent> {
    return this.queue;
  }

  /** True when the choice has ended. */
  sampled(sequence: Sequence, { token, forced, logprobs }: SampledTokens): boolean {
    if (this.endPrefill(this.first)) {
      const { cachedTokens } = this.record;
      this.queue.push({ type: "prompt", cachedTokens, promptLogprobs: this.promptLogprobs });
    }
    const output = this.outputs[sequence.index]!;
    let finish: Finish | null;
    if (token < 0) finish = output.end({ reason: "stop", stopReason: null });
    else {
      finish = this.append(sequence, token, logprobs);
      for (let i = 0; i < forced.length && finish === null; i++) finish = this.append(sequence, forced[i]!, FORCED);
    }
    if (finish !== null) {
      this.record.finishes[sequence.index] = finish;
      this.unfinished--;
    }
    const { streaming, streamInterval = 1 } = this.request;
    if (finish !== null || (streaming && output.isDue(streamInterval))) this.queue.push(output.take(finish));
    if (this.unfinished === 0) {
      this.queue.end();
      this.end();
    }
    return finish !== null;
  }

  fail(error: unknown): void {
    this.queue.fail(error);
    this.end();
  }

  private append(sequence: Sequence, token: number, logprobs: TokenLogprobs): Finish | null {
    sequence.append(token);
    this.record.outputTokens[sequence.index]!++;
    return this.outputs[sequence.index]!.add(logprobs);
  }
}
