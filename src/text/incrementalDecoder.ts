// Ids to text, one at a time: what `decode` gives for the whole, cut wherever a character ends.

import { type DecoderLayout, fallbackByte, openBytes, plainText } from "./tokenBytes.js";

export interface DecodeOptions {
  /** Leave special tokens out of the text. Default true. */
  skipSpecialTokens?: boolean;
  /**
   * Whether two neighbouring added tokens have a space between them. Default true. Seen only with tokenizers that
   * join tokens by spaces.
   */
  spacesBetweenSpecialTokens?: boolean;
  /** Stands before the text of each special token, so that it is told from the same text in other tokens. Default "". */
  specialTokenSign?: string;
}

/** Text out of ids, in pieces; all pieces and the flush together are `decode` of all ids. */
export interface IncrementalDecoder {
  /** The text that is certain after one more id; "" while a character is incomplete. */
  push(id: number): string;
  /** The rest; an incomplete character becomes U+FFFD. The decoder is then spent. */
  flush(): string;
  /** A decoder that goes on from here by itself. */
  fork(): IncrementalDecoder;
}

/** What a decoder must know of its vocabulary. */
export interface DecodingVocabulary {
  layout: DecoderLayout;
  token(id: number): string | undefined;
  bytes(id: number): Uint8Array;
  /** The text of a token whose bytes are UTF-8 by themselves; null for others. */
  wholeText(id: number): string | null;
  isSpecial(id: number): boolean;
  isAdded(id: number): boolean;
  cleanUpSpaces: boolean;
}

export function createDecoder(vocabulary: DecodingVocabulary, options: DecodeOptions): IncrementalDecoder {
  const skip = options.skipSpecialTokens ?? true;
  const joiner = createJoiner(vocabulary, options.spacesBetweenSpecialTokens ?? true);
  const cleaner = vocabulary.cleanUpSpaces ? new SpaceCleaner() : null;
  return new Decoder(vocabulary, skip, options.specialTokenSign ?? "", joiner, cleaner);
}

class Decoder implements IncrementalDecoder {
  constructor(
    private readonly vocabulary: DecodingVocabulary,
    private readonly skipSpecial: boolean,
    private readonly sign: string,
    private readonly joiner: Joiner,
    private readonly cleaner: SpaceCleaner | null,
  ) {}

  push(id: number): string {
    const token = this.vocabulary.token(id);
    if (token === undefined || (this.skipSpecial && this.vocabulary.isSpecial(id))) return "";
    // What a character lacks does not come after a special token.
    const before = this.sign !== "" && this.vocabulary.isSpecial(id) ? this.joiner.flush() + this.sign : "";
    const text = before + this.joiner.push(id, token);
    return this.cleaner === null ? text : this.cleaner.push(text);
  }

  flush(): string {
    const text = this.joiner.flush();
    return this.cleaner === null ? text : this.cleaner.push(text) + this.cleaner.flush();
  }

  fork(): Decoder {
    return new Decoder(this.vocabulary, this.skipSpecial, this.sign, this.joiner.fork(), this.cleaner?.fork() ?? null);
  }
}

interface Joiner {
  push(id: number, token: string): string;
  flush(): string;
  fork(): Joiner;
}

function createJoiner(vocabulary: DecodingVocabulary, spacesBetweenAdded: boolean): Joiner {
  switch (vocabulary.layout.joining) {
    case "byteLevel":
      return new ByteLevelJoiner(vocabulary);
    case "byteFallback":
    case "joined":
      return new TextJoiner(vocabulary.layout);
    case "spaced":
      return new SpacedJoiner(vocabulary, spacesBetweenAdded);
  }
}

const NO_BYTES = new Uint8Array(0);

class ByteLevelJoiner implements Joiner {
  constructor(
    private readonly vocabulary: DecodingVocabulary,
    /** Of a character that the tokens so far have begun. */
    private open: Uint8Array = NO_BYTES,
  ) {}

  push(id: number): string {
    const whole = this.open.length === 0 ? this.vocabulary.wholeText(id) : null;
    if (whole !== null) return whole;
    const own = this.vocabulary.bytes(id);
    const bytes = new Uint8Array(this.open.length + own.length);
    bytes.set(this.open);
    bytes.set(own, this.open.length);
    const closed = bytes.length - openBytes(bytes);
    this.open = bytes.subarray(closed);
    return textOf(bytes.subarray(0, closed));
  }

  flush(): string {
    const rest = textOf(this.open);
    this.open = NO_BYTES;
    return rest;
  }

  fork(): ByteLevelJoiner {
    return new ByteLevelJoiner(this.vocabulary, this.open);
  }
}

/** A byte order mark is text like any other here. */
function textOf(bytes: Uint8Array): string {
  return bytes.length === 0 ? "" : new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

/**
 * A run of byte tokens, where there are such, is text only when all of it is UTF-8; otherwise each of its bytes becomes
 * U+FFFD. So a run is held until it ends.
 */
class TextJoiner implements Joiner {
  private run: number[] = [];
  private started = false;
  private spacesToDrop: number;

  constructor(private readonly layout: DecoderLayout) {
    this.spacesToDrop = layout.leadingSpaces;
  }

  push(_id: number, token: string): string {
    const byte = this.layout.joining === "byteFallback" ? fallbackByte(token) : null;
    if (byte !== null) {
      this.started = true;
      this.run.push(byte);
      return "";
    }
    const unmarked = this.started ? null : this.layout.firstTokenUnmarked;
    this.started = true;
    const text = plainText(unmarked === null ? token : token.replaceAll(unmarked, ""), this.layout);
    return this.withoutLeadingSpaces(this.endRun() + text);
  }

  flush(): string {
    return this.withoutLeadingSpaces(this.endRun());
  }

  fork(): TextJoiner {
    const fork = new TextJoiner(this.layout);
    fork.run = [...this.run];
    fork.started = this.started;
    fork.spacesToDrop = this.spacesToDrop;
    return fork;
  }

  private endRun(): string {
    if (this.run.length === 0) return "";
    const bytes = Uint8Array.from(this.run);
    this.run = [];
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      return "\ufffd".repeat(bytes.length);
    }
  }

  private withoutLeadingSpaces(text: string): string {
    let start = 0;
    while (this.spacesToDrop > 0 && start < text.length) {
      if (text[start] === " ") {
        start++;
        this.spacesToDrop--;
      } else {
        this.spacesToDrop = 0;
      }
    }
    return text.slice(start);
  }
}

class SpacedJoiner implements Joiner {
  private last: "none" | "added" | "word" = "none";

  constructor(
    private readonly vocabulary: DecodingVocabulary,
    private readonly spacesBetweenAdded: boolean,
  ) {}

  push(id: number, token: string): string {
    const kind = this.vocabulary.isAdded(id) ? "added" : "word";
    const joined = this.last === "none" || (kind === "added" && this.last === "added" && !this.spacesBetweenAdded);
    this.last = kind;
    return joined ? token : ` ${token}`;
  }

  flush(): string {
    return "";
  }

  fork(): SpacedJoiner {
    const fork = new SpacedJoiner(this.vocabulary, this.spacesBetweenAdded);
    fork.last = this.last;
    return fork;
  }
}

// The spaces that `clean_up_tokenization_spaces` takes out of decoded text, on a stream.

/** In this order, each over the whole text. */
const REPLACEMENTS: readonly [from: string, to: string][] = [
  [" .", "."],
  [" ?", "?"],
  [" !", "!"],
  [" ,", ","],
  [" ' ", "'"],
  [" n't", "n't"],
  [" 'm", "'m"],
  [" 's", "'s"],
  [" 've", "'ve"],
  [" 're", "'re"],
];

const LONGEST = Math.max(...REPLACEMENTS.map(([from]) => from.length));

/**
 * Pieces in, cleaned pieces out; their join is the cleaned whole. Every replaced text begins with a space, so what
 * follows the last space is held until it is too long to match; and since " ' " also ends with one, a cut never falls
 * right after " '".
 */
export class SpaceCleaner {
  private held = "";

  push(text: string): string {
    this.held += text;
    const cut = this.safeCut();
    const ready = this.held.slice(0, cut);
    this.held = this.held.slice(cut);
    return clean(ready);
  }

  flush(): string {
    const rest = this.held;
    this.held = "";
    return clean(rest);
  }

  fork(): SpaceCleaner {
    const fork = new SpaceCleaner();
    fork.held = this.held;
    return fork;
  }

  private safeCut(): number {
    let cut = this.held.lastIndexOf(" ");
    if (cut < 0 || this.held.length - cut >= LONGEST) return this.held.length;
    while (cut >= 2 && this.held[cut - 1] === "'" && this.held[cut - 2] === " ") cut -= 2;
    return cut;
  }
}

function clean(text: string): string {
  if (!text.includes(" ")) return text;
  return REPLACEMENTS.reduce((cleaned, [from, to]) => cleaned.replaceAll(from, to), text);
}
