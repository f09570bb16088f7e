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
    speedUpLongWords(library.model);
    fuseWithinWords(library.model);
    encodeByScores(library.model, folder.model);
    return library;
  } catch (error) {
    throw new TokenizerError(`cannot be loaded (${(error as Error).message})`, file, { cause: error });
  }
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
