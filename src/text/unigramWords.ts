// Words by the scores of a Unigram model, as Hugging Face's Rust library finds them; its JavaScript library rounds otherwise,
// which decides between equal sums, takes unknown characters together across words, and knows no bytes.

import type { JsonObject } from "./tokenizerFolder.js";

/** What the library's model has, as far as it is used here. */
interface UnigramModel {
  trie: { common_prefix_search(characters: string[], from: number): Iterable<string> };
  tokens_to_ids: ReadonlyMap<string, number>;
  scores: readonly number[];
  /** Of a character without a token. */
  unk_score: number;
  /** Whether neighbouring unknown tokens become one. */
  fuse_unk: boolean;
  /** The tokens of words; what is unknown stands for itself. */
  encode(words: string[]): string[];
}

/** Replaces how the model encodes; `settings` are its own in tokenizer.json. */
export function encodeByScores(library: object | null, settings: JsonObject): void {
  if (library === null || !("trie" in library)) return;
  const model = library as UnigramModel;
  const toBytes = settings.byte_fallback === true;
  model.fuse_unk = false;
  model.encode = (words) => {
    const tokens: string[] = [];
    for (const word of words) for (const token of tokensOf(word, model, toBytes)) tokens.push(token);
    return tokens;
  };
}

/** The tokens whose scores have the largest sum; of equal sums the one whose last token is longest. */
function tokensOf(word: string, model: UnigramModel, toBytes: boolean): string[] {
  const characters = Array.from(word);
  const count = characters.length;
  const sums = new Float64Array(count + 1);
  /** Where the last token of the best way to a place begins; -1 where there is none. */
  const starts = new Int32Array(count + 1).fill(-1);
  const known = new Uint8Array(count + 1);
  const offer = (start: number, end: number, score: number, isKnown: boolean) => {
    const sum = sums[start]! + score;
    if (starts[end] !== -1 && sum <= sums[end]!) return;
    sums[end] = sum;
    starts[end] = start;
    known[end] = isKnown ? 1 : 0;
  };
  for (let start = 0; start < count; start++) {
    let alone = false;
    for (const token of model.trie.common_prefix_search(characters, start)) {
      const length = charactersIn(token);
      offer(start, start + length, model.scores[model.tokens_to_ids.get(token)!]!, true);
      if (length === 1) alone = true;
    }
    if (!alone) offer(start, start + 1, model.unk_score, false);
  }
  const tokens: string[] = [];
  for (let end = count; end > 0; ) {
    let start = starts[end]!;
    if (known[end] === 1) {
      tokens.push(characters.slice(start, end).join(""));
    } else {
      while (start > 0 && known[start] === 0) start = starts[start]!;
      const unknown = characters.slice(start, end).join("");
      tokens.push(...((toBytes ? bytesOf(unknown, model) : null) ?? [unknown]));
    }
    end = start;
  }
  return tokens.reverse();
}

function charactersIn(token: string): number {
  let count = 0;
  for (const _ of token) count++;
  return count;
}

/** The tokens of a text's bytes, last one first; null where a byte has none. */
function bytesOf(text: string, model: UnigramModel): string[] | null {
  const bytes = Array.from(Buffer.from(text), (byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
  return bytes.every((byte) => model.tokens_to_ids.has(byte)) ? bytes.reverse() : null;
}
