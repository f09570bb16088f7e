// Ids to text, one at a time: what `decode` gives for the whole, cut wherever a character ends.

import { SpaceCleaner } from "./spaceCleaner.js";
import { type DecoderLayout, fallbackByte, plainText } from "./tokenBytes.js";

export interface DecodeOptions {
  /** Leave special tokens out of the text. Default true. */
  skipSpecialTokens?: boolean;
  /**
   * Whether two neighbouring added tokens have a space between them. Default true. Seen only with tokenizers that
   * join tokens by spaces.
   */
  spacesBetweenSpecialTokens?: boolean;
}

/** Text out of ids, in pieces; all pieces and the flush together are `decode` of all ids. */
export interface IncrementalDecoder {
  /** The text that is certain after one more id; "" while a character is incomplete. */
  push(id: number): string;
  /** The rest; an incomplete character becomes U+FFFD. The decoder is then spent. */
  flush(): string;
}

/** What a decoder must know of its vocabulary. */
export interface DecodingVocabulary {
  layout: DecoderLayout;
  token(id: number): string | undefined;
  bytes(id: number): Uint8Array;
  isSpecial(id: number): boolean;
  isAdded(id: number): boolean;
  cleanUpSpaces: boolean;
}

export function createDecoder(vocabulary: DecodingVocabulary, options: DecodeOptions): IncrementalDecoder {
  const skip = options.skipSpecialTokens ?? true;
  const joiner = createJoiner(vocabulary, options.spacesBetweenSpecialTokens ?? true);
  const cleaner = vocabulary.cleanUpSpaces ? new SpaceCleaner() : null;
  return {
    push(id) {
      const token = vocabulary.token(id);
      if (token === undefined || (skip && vocabulary.isSpecial(id))) return "";
      const text = joiner.push(id, token);
      return cleaner === null ? text : cleaner.push(text);
    },
    flush() {
      const text = joiner.flush();
      return cleaner === null ? text : cleaner.push(text) + cleaner.flush();
    },
  };
}

interface Joiner {
  push(id: number, token: string): string;
  flush(): string;
}

function createJoiner(vocabulary: DecodingVocabulary, spacesBetweenAdded: boolean): Joiner {
  switch (vocabulary.layout.joining) {
    case "byteLevel":
      return new ByteLevelJoiner(vocabulary);
    case "byteFallback":
      return new ByteFallbackJoiner(vocabulary.layout);
    case "spaced":
      return new SpacedJoiner(vocabulary, spacesBetweenAdded);
  }
}

class ByteLevelJoiner implements Joiner {
  // A byte order mark is text like any other here.
  private readonly utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

  constructor(private readonly vocabulary: DecodingVocabulary) {}

  push(id: number): string {
    return this.utf8.decode(this.vocabulary.bytes(id), { stream: true });
  }

  flush(): string {
    return this.utf8.decode();
  }
}

/**
 * A run of byte tokens is text only when all of it is UTF-8; otherwise each of its bytes becomes U+FFFD. So a run is
 * held until it ends.
 */
class ByteFallbackJoiner implements Joiner {
  private run: number[] = [];
  private started = false;
  private spacesToDrop: number;

  constructor(private readonly layout: DecoderLayout) {
    this.spacesToDrop = layout.leadingSpaces;
  }

  push(_id: number, token: string): string {
    const byte = fallbackByte(token);
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
}
