// The text of one beam so far, as far as stop strings need it.

import type { IncrementalDecoder, Tokenizer } from "../text/index.js";
import type { SamplingSettings } from "./request.js";
import { StopStrings } from "./stopStrings.js";

/** Never changes: what follows a token is another text. */
export class BeamText {
  private constructor(
    private readonly decoder: IncrementalDecoder,
    private readonly stops: StopStrings,
    private readonly outputs: number,
    private readonly minTokens: number,
  ) {}

  static empty(params: SamplingSettings, tokenizer: Tokenizer): BeamText {
    const stops = new StopStrings(params.stop, params.includeStop);
    return new BeamText(tokenizer.stream(params), stops, 0, params.minTokens);
  }

  /** The stop string that `token` would complete, or null. */
  stopAfter(token: number): string | null {
    const shown = this.stops.fork().push(this.decoder.fork().push(token), this.outputs + 1 > this.minTokens);
    return typeof shown === "string" ? null : shown.stop;
  }

  after(token: number): BeamText {
    const next = new BeamText(this.decoder.fork(), this.stops.fork(), this.outputs + 1, this.minTokens);
    next.stops.push(next.decoder.push(token), next.outputs > this.minTokens);
    return next;
  }
}
