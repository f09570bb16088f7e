// Words of any length in Hugging Face's library, which takes minutes for a word of megabytes.

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

/** Lets the library's model of byte pairs encode long words as quickly as short ones. The tokens are the same. */
export function speedUpLongWords(model: object | null): void {
  if (model !== null && "bpe" in model) mergeHere(model as BytePairModel);
}

function mergeHere(model: BytePairModel): void {
  if (model.merges.length === 0 || model.continuing_subword_suffix || model.end_of_word_suffix) return;
  const merges = new PairMerges(model.merges);
  const bpe = model.bpe.bind(model);
  model.bpe = (word) => (word.length <= MAX_SHORT_WORD ? bpe(word) : merges.merge(word));
}
