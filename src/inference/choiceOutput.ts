// From the tokens of one choice to what its reader sees: text, ids, logprobs, and when it ends.

import type { IncrementalDecoder, Tokenizer } from "../text/index.js";
import type { Finish, SamplingSettings, TokenLogprobs, TokensEvent, TopLogprobs } from "./request.js";
import type { Sequence } from "./sequence.js";
import { Stopping } from "./stopping.js";
import { type StopMatch, StopStrings } from "./stopStrings.js";

/** Detokenizes a choice, finds where it ends, and gathers what its next event tells. */
export class ChoiceOutput {
  private readonly decoder: IncrementalDecoder;
  private readonly stopStrings: StopStrings | null;
  private readonly stopping: Stopping;
  /** When nobody reads the text before the end, it is detokenized at the end. */
  private readonly decodesAtEnd: boolean;
  private text = "";
  private tokenIds: number[] = [];
  private logprobs: number[] = [];
  private temperatureLogprobs: number[] = [];
  private top: TopLogprobs[] = [];
  private readonly hasTemperatureLogprobs: boolean;

  constructor(
    private readonly sequence: Sequence,
    private readonly params: SamplingSettings,
    tokenizer: Tokenizer,
    streaming: boolean,
  ) {
    this.decoder = tokenizer.stream({
      skipSpecialTokens: params.skipSpecialTokens,
      spacesBetweenSpecialTokens: params.spacesBetweenSpecialTokens,
      specialTokenSign: params.specialTokenSign ?? "",
    });
    this.stopStrings = params.stop.length === 0 ? null : new StopStrings(params.stop, params.includeStop);
    this.stopping = new Stopping(params);
    this.decodesAtEnd = !streaming && this.stopStrings === null;
    const { temperature } = params;
    this.hasTemperatureLogprobs =
      params.logprobs !== null && params.beam === null && temperature !== 0 && temperature !== 1;
  }

  /** Takes the token just appended to the sequence; how the choice ends, when it does. */
  add({ logprob, temperatureLogprob, top }: TokenLogprobs): Finish | null {
    const { sequence, params } = this;
    const token = sequence.tokens[sequence.length - 1]!;
    this.tokenIds.push(token);
    if (params.logprobs !== null) {
      this.logprobs.push(logprob);
      if (this.hasTemperatureLogprobs) this.temperatureLogprobs.push(temperatureLogprob);
      if (top !== null) this.top.push(top);
    }
    let finish = this.stopping.check(sequence.tokens, sequence.promptLength, sequence.length);
    const isHidden = finish?.reason === "stop" && !params.includeStop;
    if (!isHidden && !this.decodesAtEnd) finish = this.show(this.decoder.push(token), finish);
    return finish === null ? null : this.end(finish, isHidden);
  }

  /** Ends the choice without a further token. */
  end(finish: Finish, isLastHidden = false): Finish {
    if (this.decodesAtEnd) {
      const shown = isLastHidden ? this.tokenIds.length - 1 : this.tokenIds.length;
      const pieces: string[] = [];
      for (let i = 0; i < shown; i++) pieces.push(this.decoder.push(this.tokenIds[i]!));
      this.text = pieces.join("");
    }
    // A stop string has cut the text: what decoder and search still hold back lies behind it.
    if (typeof finish.stopReason === "string" && finish.reason === "stop") return finish;
    const ended = this.show(this.decoder.flush(), finish)!;
    if (ended === finish && this.stopStrings !== null) this.text += this.stopStrings.flush();
    return ended;
  }

  /** Whether `interval` tokens have gathered, or the first one. */
  isDue(interval: number): boolean {
    const gathered = this.tokenIds.length;
    return gathered >= interval || gathered === this.sequence.outputs;
  }

  /** What has gathered since the last call. */
  take(finish: Finish | null): TokensEvent {
    const { params } = this;
    const event: TokensEvent = {
      type: "tokens",
      index: this.sequence.index,
      text: this.text,
      tokenIds: this.tokenIds,
      logprobs: params.logprobs === null ? null : this.logprobs,
      temperatureLogprobs: this.hasTemperatureLogprobs ? this.temperatureLogprobs : null,
      top: params.logprobs === null ? null : this.top,
      finish,
    };
    this.text = "";
    this.tokenIds = [];
    if (params.logprobs !== null) {
      this.logprobs = [];
      this.temperatureLogprobs = [];
      this.top = [];
    }
    return event;
  }

  /** Adds text; a stop string in it overrides any other end. */
  private show(piece: string, finish: Finish | null): Finish | null {
    if (this.stopStrings === null) {
      this.text += piece;
      return finish;
    }
    const shown: string | StopMatch = this.stopStrings.push(piece, this.sequence.outputs > this.params.minTokens);
    if (typeof shown === "string") {
      this.text += shown;
      return finish;
    }
    this.text += shown.text;
    return { reason: "stop", stopReason: shown.stop };
  }
}
