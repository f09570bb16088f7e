// Hugging Face's library for one tokenizer, with what it does otherwise than the Rust library set right.

import { Tokenizer as HuggingFaceTokenizer } from "@huggingface/tokenizers";
import { TokenizerError } from "./errors.js";
import { withExplicitSteps } from "./explicitSteps.js";
import { speedUpLongWords } from "./longWords.js";
import { useCompiledTables } from "./precompiledNormalizer.js";
import type { TokenizerFolder } from "./tokenizerFolder.js";
import { encodeByScores } from "./unigramWords.js";

/** Throws TokenizerError naming `file`, the folder's tokenizer.json. */
export function libraryTokenizer(folder: TokenizerFolder, file: string): HuggingFaceTokenizer {
  try {
    // Of tokenizer_config.json the library would take steps that tokenizer.json does not have.
    const library = new HuggingFaceTokenizer(withExplicitSteps(folder.tokenizer), {});
    useCompiledTables(library.normalizer);
    stripBesideTokens(library);
    speedUpLongWords(library.model);
    fuseWithinWords(library.model);
    encodeByScores(library.model, folder.model);
    return library;
  } catch (error) {
    throw new TokenizerError(`cannot be loaded (${(error as Error).message})`, file, { cause: error });
  }
}

/** What the library has of added tokens, as far as it is used here. */
interface AddedTokens {
  splitter_unnormalized: Splitter;
  splitter_normalized: Splitter;
  /** By their texts, before the normalizer and after it. */
  added_tokens_map: ReadonlyMap<string, { normalized: boolean; lstrip: boolean; rstrip: boolean }>;
}

interface Splitter {
  /** Added tokens, and what stands between them. */
  split(text: string): string[];
}

/**
 * Added tokens may take the white space beside them: in the library also that of other added tokens, which then are none, and by
 * JavaScript's `trim`, which takes U+FEFF for white space and U+0085 not.
 */
function stripBesideTokens(library: HuggingFaceTokenizer): void {
  const { splitter_unnormalized, splitter_normalized, added_tokens_map } = library as unknown as AddedTokens;
  const tokens = [...added_tokens_map].map(([text, token]) => ({ text, ...token }));
  if (!tokens.some(({ lstrip, rstrip }) => lstrip || rstrip)) return;
  for (const token of added_tokens_map.values()) {
    token.lstrip = false;
    token.rstrip = false;
  }
  for (const splitter of [splitter_unnormalized, splitter_normalized]) {
    const own = new Map(
      tokens
        .filter(({ normalized }) => normalized === (splitter === splitter_normalized))
        .map((token) => [token.text, token]),
    );
    const split = splitter.split.bind(splitter);
    splitter.split = (text) => {
      const sections = split(text);
      return sections.map((section, index) => {
        if (own.has(section)) return section;
        const start = own.get(sections[index - 1] ?? "")?.rstrip ? leadingSpaces(section) : 0;
        const rest = section.slice(start);
        return own.get(sections[index + 1] ?? "")?.lstrip ? rest.slice(0, rest.length - trailingSpaces(rest)) : rest;
      });
    };
  }
}

const SPACE = /\p{White_Space}/u;

function leadingSpaces(text: string): number {
  let count = 0;
  while (count < text.length && SPACE.test(text[count]!)) count++;
  return count;
}

function trailingSpaces(text: string): number {
  let count = 0;
  while (count < text.length && SPACE.test(text[text.length - 1 - count]!)) count++;
  return count;
}

/** What the library's model of byte pairs has, as far as it is used here. */
interface BytePairModel {
  unk_token?: string;
  fuse_unk: boolean;
  encode(words: string[]): string[];
}

/** Neighbouring unknown tokens become one, across words in the library, within a word in Rust. */
function fuseWithinWords(library: object | null): void {
  if (library === null || !("bpe" in library)) return;
  const model = library as unknown as BytePairModel;
  if (!model.fuse_unk) return;
  model.fuse_unk = false;
  const encode = model.encode.bind(model);
  const repeats = (token: string, index: number, tokens: string[]) =>
    token === model.unk_token && tokens[index - 1] === token;
  model.encode = (words) =>
    words.flatMap((word) => encode([word]).filter((token, index, tokens) => !repeats(token, index, tokens)));
}
