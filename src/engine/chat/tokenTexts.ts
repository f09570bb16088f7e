// The texts and bytes of single tokens, as logprobs show them.

import type { Tokenizer } from "../../text/index.js";

const textOfWholeTokens = new WeakMap<Tokenizer, Map<number, string | null>>();

/** The text of a token that is UTF-8 by itself; null when it begins or ends inside a character. */
function wholeText(tokenizer: Tokenizer, id: number): string | null {
  let texts = textOfWholeTokens.get(tokenizer);
  if (texts === undefined) {
    texts = new Map();
    textOfWholeTokens.set(tokenizer, texts);
  }
  let text = texts.get(id);
  if (text === undefined) {
    try {
      text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(tokenizer.tokenBytes(id));
    } catch {
      text = null;
    }
    texts.set(id, text);
  }
  return text;
}

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
    const whole = this.open.length === 0 ? wholeText(this.tokenizer, id) : null;
    if (whole !== null) return whole;
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.withOpen(id), { stream: true });
  }

  /** Goes on behind the token. */
  advance(id: number): void {
    if (this.open.length === 0 && wholeText(this.tokenizer, id) !== null) return;
    const bytes = this.withOpen(id);
    this.open = bytes.slice(bytes.length - incompleteTail(bytes));
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

/** How many bytes at the end are the beginning of a character. */
function incompleteTail(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back]!;
    if (byte < 0x80) return 0;
    if (byte < 0xc0) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return back < length ? back : 0;
  }
  return 0;
}
