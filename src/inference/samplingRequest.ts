// A request for `n` sampled choices: what steps sample becomes events for its reader.

import type { Tokenizer } from "../text/index.js";
import { ChoiceOutput } from "./choiceOutput.js";
import { EventQueue } from "./eventQueue.js";
import type { Finish, Generation, GenerationEvent, GenerationRequest, TokenLogprobs } from "./request.js";
import { RequestState } from "./requestState.js";
import { type SampledTokens, Sequence } from "./sequence.js";

/** Nobody reads these: where logprobs are asked for, no token is forced (RequestState.jumpForward). */
const FORCED: TokenLogprobs = { logprob: 0, temperatureLogprob: 0, top: null };

/** `n` choices under way, and the events that nobody has read yet. */
export class SamplingRequest extends RequestState implements Generation {
  private readonly first: Sequence;
  private readonly prompt: Int32Array;
  /** Choices that have, or had, a sequence. */
  private begun = 0;
  /** Of the choices under way. */
  private readonly outputs = new Map<Sequence, ChoiceOutput>();
  private readonly queue = new EventQueue(() => this.end());
  private unfinished: number;

  /** `window`: choices that have a sequence at once, at most: under way, or waiting for their place in a step. */
  constructor(
    request: GenerationRequest,
    arrival: number,
    window: number,
    private readonly tokenizer: Tokenizer,
    onEnd: (request: RequestState) => void,
  ) {
    super(request, arrival, onEnd);
    this.unfinished = request.n;
    this.prompt = Int32Array.from(request.promptTokens);
    this.first = this.begin(null);
    while (this.begun < window && this.choicesLeft > 0) this.begin(this.first);
  }

  override get choicesLeft(): number {
    return this.hasEnded ? 0 : this.request.n - this.begun;
  }

  override nextChoice(): Sequence | null {
    return this.choicesLeft === 0 ? null : this.begin(this.first);
  }

  /** `source`: the choice whose prompt pages it shares; null for the first. */
  private begin(source: Sequence | null): Sequence {
    const sequence = new Sequence(this, this.begun++, this.prompt, source);
    const { params, streaming } = this.request;
    this.sequences.add(sequence);
    this.outputs.set(sequence, new ChoiceOutput(sequence, params, this.tokenizer, streaming));
    return sequence;
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
    const output = this.outputs.get(sequence)!;
    let finish: Finish | null;
    if (token < 0) finish = output.end({ reason: "stop", stopReason: null });
    else {
      finish = this.append(sequence, output, token, logprobs);
      for (let i = 0; i < forced.length && finish === null; i++) {
        finish = this.append(sequence, output, forced[i]!, FORCED);
      }
    }
    if (finish !== null) {
      this.record.finishes[sequence.index] = finish;
      this.outputs.delete(sequence);
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

  private append(sequence: Sequence, output: ChoiceOutput, token: number, logprobs: TokenLogprobs): Finish | null {
    sequence.append(token);
    this.record.outputTokens[sequence.index]!++;
    return output.add(logprobs);
  }
}
