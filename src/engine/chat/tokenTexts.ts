// The texts and bytes of single tokens, as logprobs show them.

import { openBytes, type Tokenizer } from "../../text/index.js";

/**
 * Texts of the tokens of one sequence, in order. A token that ends inside a character is shown without that character;
 * the token that completes it carries it.
 */
export class TokenTexts {
  /** Bytes of a character that the tokens so far have begun. */
  private open: Uint8Array = new Uint8Array();

  constructor(private readonly tokenizer: Tokenizer) {}

  /** The token's text in this place. */
  text(id: number): string {
    const whole = this.open.length === 0 ? this.tokenizer.wholeText(id) : null;
    if (whole !== null) return whole;
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.withOpen(id), { stream: true });
  }

  /** Goes on behind the token. */
  advance(id: number): void {
    if (this.open.length === 0 && this.tokenizer.wholeText(id) !== null) return;
    const bytes = this.withOpen(id);
    this.open = bytes.slice(bytes.length - openBytes(bytes));
  }

  /** UTF-8 of the token's own text, whatever stands before it. */
  bytes(id: number): number[] {
    return Array.from(this.tokenizer.tokenBytes(id));
  }

  private withOpen(id: number): Uint8Array {
    const own = this.tokenizer.tokenBytes(id);
    const bytes = new Uint8Array(this.open.length + own.length);
    bytes.set(this.open);
    bytes.set(own, this.open.length);
    return bytes;
  }
}
