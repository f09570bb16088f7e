// Words of any length in Hugging Face's library, which takes minutes for a word of megabytes, or more stack than there is.

import { type Merges, PairMerges } from "./pairMerges.js";

/** In UTF-16 units: shorter words are quick in the library as well, which remembers them. */
const MAX_SHORT_WORD = 32;

/** What the library's model of byte pairs has, as far as it is used here. */
interface BytePairModel {
  merges: Merges;
  /** The tokens of a word. */
  bpe(word: string): string[];
  continuing_subword_suffix?: string | null;
  end_of_word_suffix?: string | null;
}

/** Its model of words with scores. */
interface UnigramModel {
  /** The tokens of a word. */
  tokenize(word: string): string[];
  /** The tokens of words. */
  encode(words: string[]): string[];
}

/** Lets a model of the library encode long words as quickly as short ones. The tokens are the same. */
export function speedUpLongWords(model: object | null): void {
  if (model === null) return;
  if ("bpe" in model) mergeHere(model as BytePairModel);
  else if ("tokenize" in model) joinHere(model as UnigramModel);
}

function mergeHere(model: BytePairModel): void {
  if (model.merges.length === 0 || model.continuing_subword_suffix || model.end_of_word_suffix) return;
  const merges = new PairMerges(model.merges);
  const bpe = model.bpe.bind(model);
  model.bpe = (word) => (word.length <= MAX_SHORT_WORD ? bpe(word) : merges.merge(word));
}

/** The library passes the tokens of a word as arguments of a call, which is too many for the stack. */
function joinHere(model: UnigramModel): void {
  model.encode = (words) => words.flatMap((word) => model.tokenize(word));
}
