// Texts, and pairs of texts, to the ids that encoders take: WordPiece too, which decoders do not have.

import { join } from "node:path";
import type { Tokenizer as HuggingFaceTokenizer } from "@huggingface/tokenizers";
import { TokenizerError } from "./errors.js";
import { libraryTokenizer } from "./libraryTokenizer.js";
import { readTokenizerFolder, type TokenizerFolder } from "./tokenizerFolder.js";
import { checkAddedTokens, checkEncodingLayout } from "./tokenizerLayout.js";

/** One text, or two that are told apart. */
export type EncoderText = string | readonly [string, string];

export interface EncodedText {
  ids: Int32Array;
  /** 0 of the first text, 1 of the second. */
  types: Int32Array;
  /** Tokens before it was cut. */
  whole: number;
}

/** What a text of so many tokens may have in UTF-16 units: what is beyond is cut before it costs time. */
const MAX_UNITS_PER_TOKEN = 64;

export class EncoderTokenizer {
  private constructor(
    private readonly library: HuggingFaceTokenizer,
    private readonly specialIds: ReadonlySet<number>,
  ) {}

  /** @throws TokenizerError when the folder has none, or one that would give other ids than Hugging Face's own library. */
  static async load(path: string): Promise<EncoderTokenizer> {
    const folder = await readTokenizerFolder(path);
    const file = join(path, "tokenizer.json");
    checkLayout(folder, file);
    const library = libraryTokenizer(folder, file);
    const special = folder.addedTokens.filter((token) => token.special).map((token) => token.id);
    return new EncoderTokenizer(library, new Set(special));
  }

  /** With what the tokenizer adds. A text of more tokens loses its end, of a pair the second one does. */
  encode(text: EncoderText, maxTokens: number): EncodedText {
    const [first, second] = (typeof text === "string" ? [text] : text).map((part) =>
      part.slice(0, maxTokens * MAX_UNITS_PER_TOKEN),
    );
    const options = { text_pair: second ?? null, add_special_tokens: true, return_token_type_ids: true } as const;
    const { ids, token_type_ids: types } = this.library.encode(first!, options);
    let added = 0;
    while (added < ids.length && this.specialIds.has(ids[ids.length - 1 - added]!)) added++;
    const cut = (values: readonly number[]) =>
      values.length <= maxTokens
        ? Int32Array.from(values)
        : Int32Array.from([...values.slice(0, maxTokens - added), ...values.slice(values.length - added)]);
    return { ids: cut(ids), types: cut(types ?? ids.map(() => 0)), whole: ids.length };
  }
}

function checkLayout(folder: TokenizerFolder, file: string): void {
  if (folder.model.type !== "WordPiece") {
    checkEncodingLayout(folder, file);
    return;
  }
  checkAddedTokens(folder, file);
  for (const [name, known] of [
    ["normalizer", "BertNormalizer"],
    ["pre_tokenizer", "BertPreTokenizer"],
  ] as const) {
    const part = folder.tokenizer[name] as { type?: string } | null | undefined;
    if (part?.type !== known)
      throw new TokenizerError(`WordPiece with the ${name} ${part?.type} is not supported`, file);
  }
}
