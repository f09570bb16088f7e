// Of the logprobs of a reply's tokens, those of the tokens that its text is made of: not of thoughts, marks and calls.

import { HARMONY_HEADER } from "../../text/index.js";
import type { ChoiceLogprobs } from "../../types/chat.js";
import type { ResponseLogprob } from "../../types/responses.js";

interface Entry {
  /** Where the token's text begins and ends in the reply's. */
  from: number;
  to: number;
  shown: ResponseLogprob;
}

export class TextLogprobs {
  /** The text of all tokens so far, marks included, but for what names a message's channel: that may be the text's first word. */
  private text = "";
  private isInHeader = false;
  private readonly waiting: Entry[] = [];
  /** Where what has been told ends. */
  private end = 0;

  add(logprobs: ChoiceLogprobs | null): void {
    for (const { token, logprob, bytes, top_logprobs } of logprobs?.content ?? []) {
      if (token === HARMONY_HEADER.open) this.isInHeader = true;
      if (this.isInHeader) {
        this.isInHeader = token !== HARMONY_HEADER.close;
        continue;
      }
      const from = this.text.length;
      this.text += token;
      this.waiting.push({ from, to: this.text.length, shown: { token, logprob, bytes, top_logprobs } });
    }
  }

  /** The tokens of a piece of text, or of thoughts, that the reply goes on with; none twice. */
  of(piece: string): ResponseLogprob[] {
    if (piece === "" || this.waiting.length === 0) return [];
    const at = this.placeOf(piece);
    // Between several messages of a reply stands an empty line, which is no token's.
    if (at < 0) return piece.includes("\n\n") ? piece.split("\n\n").flatMap((part) => this.of(part)) : [];
    this.end = at + piece.length;
    const found: ResponseLogprob[] = [];
    while (this.waiting.length > 0 && this.waiting[0]!.from < this.end) {
      const { to, shown } = this.waiting.shift()!;
      if (to > at) found.push(shown);
    }
    return found;
  }

  /** Where a token begins rather than in the midst of one: marks and headers before a text may hold its first word. */
  private placeOf(piece: string): number {
    const begins = new Set(this.waiting.map(({ from }) => from));
    const first = this.text.indexOf(piece, this.end);
    let at = first;
    while (at >= 0 && !begins.has(at)) at = this.text.indexOf(piece, at + 1);
    return at < 0 ? first : at;
  }
}
