import { readFileSync } from "node:fs";
import { join } from "node:path";
import { drawConversation } from "./conversation.js";
import { Draw } from "./draw.js";
import { render, specials } from "./rendering.js";
import { categories, cities, names, words } from "./words.js";

/**
 * The pieces text is cut into before it meets the vocabulary: a word with the space before it, one digit, a run of other signs
 * with the space before it, white space. Special tokens are cut out earlier.
 */
export const piecePattern = " ?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/** Pieces that stand in every conversation or tool list without a space before them. */
const headings = [
  "user",
  "assistant",
  "system",
  "function",
  "arguments",
  "description",
  "parameters",
  "properties",
  "required",
  "object",
  "string",
];

/** Byte -> the printable character that stands for it in byte-level vocabularies (the GPT-2 table). */
export const byteCharacters: readonly string[] = (() => {
  const printable = (byte: number): boolean =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(printable(byte) ? byte : next++));
})();

/** Words of one or two letters that are words in the questions, not letters or syllables asked about. */
const shortWords = new Set("a i am an as at be by do in is it me my no of ok or so to hi".split(" "));

const byteForm = (text: string): string => [...Buffer.from(text, "utf8")].map((byte) => byteCharacters[byte]).join("");

/**
 * The vocabulary: special tokens, bytes, and the most frequent whole pieces of sample conversations. A piece outside the
 * vocabulary is spelled byte by byte. Words people ask about (in quotes, names, members of lists) are kept out, so that the
 * model always sees their letters.
 */
export function buildVocabulary(size: number, conversations: number): string[] {
  const draw = new Draw(7, false);
  const counts = new Map<string, number>();
  const special = new RegExp(specials.map((token) => token.replace(/[|]/g, "\\|")).join("|"));
  const pieces = new RegExp(piecePattern, "gu");
  for (let i = 0; i < conversations; i++) {
    const text = render(drawConversation(draw))
      .map((stretch) => stretch.text)
      .join("");
    for (const part of text.split(special))
      for (const [piece] of part.matchAll(pieces)) counts.set(piece, (counts.get(piece) ?? 0) + 1);
  }
  const spelled = new Set([...Object.values(categories).flat(), ...names, ...cities].map((word) => word.toLowerCase()));
  // An ordinary word may be part of the questions themselves (" letter", " word"): those stand far above its share as an item.
  const asItem = 3 * ((counts.get(" planet") ?? 0) + 10);
  const ordinary = new Set(words);
  const wanted = [...counts]
    .filter(([piece, count]) => {
      if ([...piece].length < 2 || count < conversations / 4000) return false;
      const word = piece.trim().toLowerCase();
      if (!/\p{L}/u.test(piece)) return true;
      if (word.length < 3 && !shortWords.has(word)) return false;
      if (spelled.has(word)) return false;
      if (ordinary.has(word) && count < asItem) return false;
      return piece.startsWith(" ") || /^[A-Z][a-z]+$/.test(piece);
    })
    .sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))
    .map(([piece]) => piece);
  const vocabulary = [...specials, ...byteCharacters, ...headings];
  const seen = new Set(vocabulary);
  for (const piece of wanted.map(byteForm)) {
    if (vocabulary.length === size) break;
    if (!seen.has(piece)) vocabulary.push(piece);
    seen.add(piece);
  }
  if (vocabulary.length !== size)
    throw new RangeError(`only ${vocabulary.length} pieces are frequent enough for a vocabulary of ${size}`);
  return vocabulary;
}

/** tokenizer.json in the Hugging Face layout: byte-level BPE whose whole-piece entries are taken before any merge. */
export function tokenizerFile(vocabulary: readonly string[]): object {
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: specials.map((content, id) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: !/think|tool_call/.test(content),
    })),
    normalizer: null,
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        { type: "Split", pattern: { Regex: piecePattern }, behavior: "Isolated", invert: false },
        { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
      ],
    },
    post_processor: null,
    decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: true,
      vocab: Object.fromEntries(vocabulary.map((token, id) => [token, id])),
      merges: [],
    },
  };
}

/** The vocabulary of a written folder, by id. (Not the order of keys: JavaScript puts "0" to "9" first.) */
export function readVocabulary(folder: string): string[] {
  const file = JSON.parse(readFileSync(join(folder, "tokenizer.json"), "utf8")) as {
    model: { vocab: Record<string, number> };
  };
  const vocabulary: string[] = [];
  for (const [token, id] of Object.entries(file.model.vocab)) vocabulary[id] = token;
  return vocabulary;
}

/** Encodes many short stretches quickly; equal to the library's encoding of tokenizer.json (a test compares them). */
export class Encoder {
  readonly #ids = new Map<string, readonly number[]>();
  readonly #special: RegExp;
  readonly #pieces = new RegExp(piecePattern, "gu");
  readonly #vocabulary: ReadonlyMap<string, number>;
  readonly #bytes: readonly Buffer[];

  constructor(vocabulary: readonly string[]) {
    const byteOf = new Map(byteCharacters.map((character, byte) => [character, byte]));
    this.#bytes = vocabulary.map((token, id) =>
      id < specials.length ? Buffer.from(token) : Buffer.from([...token].map((character) => byteOf.get(character)!)),
    );
    this.#vocabulary = new Map(vocabulary.map((token, id) => [token, id]));
    this.#special = new RegExp(`(${specials.map((token) => token.replace(/[|]/g, "\\|")).join("|")})`);
  }

  id(token: string): number {
    const id = this.#vocabulary.get(token);
    if (id === undefined) throw new RangeError(`"${token}" is not in the vocabulary`);
    return id;
  }

  encode(text: string): number[] {
    const out: number[] = [];
    text.split(this.#special).forEach((part, i) => {
      if (i % 2 === 1) out.push(this.id(part));
      else for (const [piece] of part.matchAll(this.#pieces)) out.push(...this.#piece(piece));
    });
    return out;
  }

  /** Special tokens are printed; an incomplete character becomes U+FFFD. */
  decode(ids: readonly number[]): string {
    return Buffer.concat(ids.map((id) => this.#bytes[id]!)).toString("utf8");
  }

  #piece(piece: string): readonly number[] {
    let ids = this.#ids.get(piece);
    if (!ids) {
      const form = byteForm(piece);
      const whole = this.#vocabulary.get(form);
      ids = whole === undefined ? [...form].map((character) => this.id(character)) : [whole];
      if (this.#ids.size < 100_000) this.#ids.set(piece, ids);
    }
    return ids;
  }
}
